//! Where a target can be led through system calls so that it finds its way back without us.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use super::super::memory::read_bytes;
use crate::parse::maps::Mapping;
use crate::read::proc::Proc;

/// `syscall; ret`
const CALL: &[u8] = &[0x0f, 0x05, 0xc3];
/// `mov $15, %rax; syscall`: `rt_sigreturn`, as every C library has it for its own handlers.
const BACK: &[u8] = &[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05];
/// So much of a mapping is searched.
const SEARCHED_BYTES: u64 = 8 << 20;

/// Code and stacks of a process.
#[derive(Debug, Clone, Default)]
pub struct Footing {
    /// Where it has `syscall; ret`.
    pub call: u64,
    /// Where it has a way to `rt_sigreturn`.
    pub back: u64,
    pub(super) stacks: Vec<Stack>,
}

/// Memory that can be written; mappings side by side are one.
#[derive(Debug, Clone)]
pub(super) struct Stack {
    range: Range<u64>,
    /// That of the first thread, as the kernel names it.
    is_first: bool,
}

/// Readable code.
struct Code {
    range: Range<u64>,
    offset: u64,
    name: Vec<u8>,
}

impl Footing {
    /// Reads code from files where it can: reading it in the target would make it resident there.
    pub fn find(pid: i32) -> io::Result<Self> {
        let (mut codes, mut stacks) = (Vec::new(), Vec::new());
        let read = Proc::default().read_maps(pid, |mapping| {
            codes.extend(code_of(mapping));
            extend(&mut stacks, mapping);
        });
        read.map_err(|error| io::Error::other(error.to_string()))?;
        // It is in the C library, if there is one; the kernel's own code is in every process.
        codes.sort_by_key(|code| !code.name.starts_with(b"[v") && !code.is_of_c_library());
        let (mut call, mut back) = (None, None);
        for code in &codes {
            if call.is_some() && back.is_some() {
                break;
            }
            let bytes = code.read(pid);
            call = call.or_else(|| code.find(&bytes, CALL));
            back = back.or_else(|| code.find(&bytes, BACK));
        }
        let missing = |what| io::Error::other(format!("no {what} was found in its code"));
        Ok(Self {
            call: call.ok_or_else(|| missing("system call instruction that returns"))?,
            back: back.ok_or_else(|| missing("way back from a signal"))?,
            stacks,
        })
    }

    /// The code is there, in the target itself.
    pub(super) fn is_there(&self, thread: i32) -> bool {
        [(self.call, CALL), (self.back, BACK)].into_iter().all(|(address, code)| {
            let mut bytes = vec![0; code.len()];
            read_bytes(thread, address, &mut bytes).is_ok_and(|read| read == code.len()) && bytes == code
        })
    }

    /// Whether `range`, below the stack pointer, is the thread's to use: on the stack of the first thread, or on one with the
    /// thread's own block at its upper end. Elsewhere (a coroutine's, one inside a heap) something else may lie below.
    pub(super) fn has_room(&self, range: &Range<u64>, stack_pointer: u64, thread_pointer: u64) -> bool {
        self.stacks.iter().any(|stack| {
            let is_own = stack.range.contains(&thread_pointer) && thread_pointer > stack_pointer;
            let is_on = stack.range.start <= range.start && stack_pointer <= stack.range.end;
            is_on && (stack.is_first || is_own)
        })
    }
}

impl Code {
    fn is_of_c_library(&self) -> bool {
        let file = Path::new(std::ffi::OsStr::from_bytes(&self.name)).file_name().unwrap_or_default();
        let file = file.as_bytes();
        file.starts_with(b"libc.") || file.starts_with(b"libc-") || file.starts_with(b"ld-musl")
    }

    fn read(&self, pid: i32) -> Vec<u8> {
        let mut bytes = vec![0; (self.range.end - self.range.start).min(SEARCHED_BYTES) as usize];
        let read = self.read_file(pid, &mut bytes).or_else(|_| read_bytes(pid, self.range.start, &mut bytes));
        bytes.truncate(read.unwrap_or(0));
        bytes
    }

    fn read_file(&self, pid: i32, bytes: &mut [u8]) -> io::Result<usize> {
        let path = self.name.strip_prefix(b"/").ok_or(io::ErrorKind::NotFound)?;
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        File::open(root.join(std::ffi::OsStr::from_bytes(path)))?.read_at(bytes, self.offset)
    }

    fn find(&self, bytes: &[u8], wanted: &[u8]) -> Option<u64> {
        let position = bytes.windows(wanted.len()).position(|window| window == wanted)?;
        Some(self.range.start + position as u64)
    }
}

fn code_of(mapping: &Mapping<'_>) -> Option<Code> {
    let is_code = mapping.is_exec() && mapping.perms[0] == b'r';
    let (range, offset, name) = (mapping.start..mapping.end, mapping.offset, mapping.name.to_vec());
    is_code.then_some(Code { range, offset, name })
}

fn extend(stacks: &mut Vec<Stack>, mapping: &Mapping<'_>) {
    if !mapping.is_write() || mapping.is_shared() {
        return;
    }
    let is_first = mapping.name == b"[stack]";
    match stacks.last_mut() {
        Some(last) if last.range.end == mapping.start && last.is_first == is_first => {
            last.range.end = mapping.end;
        }
        _ => stacks.push(Stack { range: mapping.start..mapping.end, is_first }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::maps::parse_header;

    #[test]
    fn a_thread_has_room_on_its_own_stack_only() {
        let mut footing = Footing::default();
        let maps = [
            "10000-20000 rw-p 0 00:00 0 [heap]",
            "30000-31000 ---p 0 00:00 0 ",
            "31000-38000 rw-p 0 00:00 0 ",
            "38000-40000 rw-p 0 00:00 0 ",
            "70000-80000 rw-p 0 00:00 0 [stack]",
        ];
        for line in maps {
            extend(&mut footing.stacks, &parse_header(line.as_bytes()).unwrap());
        }
        let has_room = |start, stack_pointer, thread_pointer| {
            footing.has_room(&(start..stack_pointer - 128), stack_pointer, thread_pointer)
        };
        assert!(has_room(0x72000, 0x73000, 0x15000), "the first thread's");
        assert!(has_room(0x36000, 0x37000, 0x3f800), "a thread's, in two pieces");
        assert!(!has_room(0x30f00, 0x32000, 0x3f800), "below is its guard");
        assert!(!has_room(0x12000, 0x13000, 0x3f800), "a coroutine's in the heap");
        assert!(!has_room(0x3f900, 0x3ffff, 0x3f800), "above the thread's own block");
    }

    #[test]
    fn this_process_has_both_pieces_of_code() {
        let own = std::process::id() as i32;
        let footing = Footing::find(own).unwrap();
        assert!(footing.is_there(own));
        assert!(!Footing { call: footing.back, ..footing.clone() }.is_there(own));
        assert!(!Footing { back: 0, ..footing }.is_there(own));
    }
}
