//! The notes of a core: its threads, its command, and which files were mapped where.
//!
//! Layouts are those of 64-bit x86 (`include/linux/elfcore.h`, `arch/x86/include/asm/user_64.h`). A note that is cut or
//! malformed is left out.

use std::path::PathBuf;

use crate::mapping::parse_name;

// include/uapi/linux/elf.h
const NT_PRSTATUS: u32 = 1;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_FILE: u32 = 0x4649_4c45;

/// What the notes tell.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub threads: Vec<Thread>,
    pub pid: i32,
    pub command: String,
    pub arguments: String,
    pub auxiliary: Vec<(u64, u64)>,
    pub files: Vec<MappedFile>,
}

/// A thread of a core, the one that ended it first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    pub id: i32,
    pub registers: Registers,
}

/// Those that lead somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Registers {
    pub rip: u64,
    pub rsp: u64,
    pub rbp: u64,
    /// Where the thread's own variables are.
    pub fs_base: u64,
}

/// An entry of `NT_FILE`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MappedFile {
    pub start: u64,
    pub end: u64,
    pub offset: u64,
    pub path: PathBuf,
    pub deleted: bool,
}

impl Notes {
    /// Takes one note of the owner `CORE`.
    pub fn take(&mut self, kind: u32, content: &[u8]) {
        match kind {
            NT_PRSTATUS => self.threads.extend(parse_thread(content)),
            NT_PRPSINFO => self.take_process(content).unwrap_or_default(),
            NT_AUXV => self.auxiliary = parse_auxiliary(content),
            NT_FILE => self.files = parse_files(content).unwrap_or_default(),
            _ => {}
        }
    }

    /// `struct elf_prpsinfo`.
    fn take_process(&mut self, content: &[u8]) -> Option<()> {
        self.pid = number(content, 24)? as i32;
        self.command = text(content.get(40..56)?);
        self.arguments = text(content.get(56..136)?);
        Some(())
    }
}

/// `struct elf_prstatus`: the registers begin at 112, in the order of `struct user_regs_struct`.
fn parse_thread(content: &[u8]) -> Option<Thread> {
    let register = |index: usize| word(content, 112 + 8 * index);
    let registers =
        Registers { rbp: register(4)?, rip: register(16)?, rsp: register(19)?, fs_base: register(21)? };
    Some(Thread { id: number(content, 32)? as i32, registers })
}

fn parse_auxiliary(content: &[u8]) -> Vec<(u64, u64)> {
    let pairs = content.chunks_exact(16).filter_map(|pair| Some((word(pair, 0)?, word(pair, 8)?)));
    pairs.take_while(|(kind, _)| *kind != 0).collect()
}

/// Count, page size, that many times start, end and offset in pages, then the names, each with a NUL
/// (`fill_files_note`, `fs/binfmt_elf.c`).
fn parse_files(content: &[u8]) -> Option<Vec<MappedFile>> {
    let count = usize::try_from(word(content, 0)?).ok()?;
    let page_bytes = word(content, 8)?;
    let names_at = count.checked_mul(24)?.checked_add(16)?;
    let mut names = content.get(names_at..)?.split(|byte| *byte == 0);
    let entries = content.get(16..names_at)?.chunks_exact(24);
    let files = entries.map_while(|entry| {
        let (path, deleted) = parse_name(names.next()?);
        let offset = word(entry, 16)?.checked_mul(page_bytes)?;
        Some(MappedFile { start: word(entry, 0)?, end: word(entry, 8)?, offset, path, deleted })
    });
    Some(files.filter(|file| file.start < file.end).collect())
}

fn word(content: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(content.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

fn number(content: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(content.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

fn text(content: &[u8]) -> String {
    let end = content.iter().position(|byte| *byte == 0).unwrap_or(content.len());
    String::from_utf8_lossy(&content[..end]).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn files_are_parsed_as_far_as_their_names_go() {
        let mut content = words(&[2, 4096, 0x1000, 0x2000, 0, 0x5000, 0x6000, 3]);
        content.extend(b"/lib/a.so\0/tmp/b (deleted)\0");
        let files = parse_files(&content).unwrap();
        assert_eq!(files.len(), 2);
        assert_eq!(
            (files[1].offset, files[1].deleted, files[1].path.to_str()),
            (0x3000, true, Some("/tmp/b"))
        );
        for cut in 0..content.len() {
            assert!(parse_files(&content[..cut]).is_none_or(|files| files.len() <= 2));
        }
        assert_eq!(parse_files(&words(&[u64::MAX, 4096])), None);
        assert_eq!(parse_files(&words(&[u64::MAX / 24, 4096])), None);
    }

    #[test]
    fn auxiliary_values_end_at_null() {
        assert_eq!(parse_auxiliary(&words(&[9, 1, 3, 2, 0, 0, 7, 7])), [(9, 1), (3, 2)]);
        assert_eq!(parse_auxiliary(b"short"), []);
    }
}
