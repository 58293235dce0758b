//! Who the target is and whether it can be read at all.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::memory::read_bytes;

use crate::Error;
use crate::mapping::{Mapping, parse_mappings};

/// `ELFCLASS64`, the fifth byte of a 64-bit program.
const CLASS_64: u8 = 2;

/// Its mappings, or why it has none for us.
pub(super) fn read_mappings(pid: i32) -> Result<Vec<Mapping>, Error> {
    let path = format!("/proc/{pid}/maps");
    let text = std::fs::read(&path).map_err(|source| from_io(pid, Path::new(&path), source))?;
    let mappings = parse_mappings(&text);
    if mappings.is_empty() { Err(why_empty(pid)) } else { Ok(mappings) }
}

/// Only those that ended and those that belong to the kernel have no memory.
fn why_empty(pid: i32) -> Error {
    match Proc::default().read_status(pid, &mut Vec::new()) {
        Err(_) => Error::Gone { pid },
        Ok(status) if status.is_zombie() => Error::Zombie { pid },
        Ok(_) => Error::KernelThread { pid },
    }
}

pub(super) fn from_io(pid: i32, path: &Path, source: io::Error) -> Error {
    match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => Error::Gone { pid },
        Some(libc::EPERM | libc::EACCES) => Error::NotPermitted { pid },
        _ => Error::Unreadable { path: path.to_owned(), source },
    }
}

/// Checks that its memory can be read: the list of mappings needs less than their content.
pub(super) fn check_access(pid: i32, mappings: &[Mapping]) -> Result<(), Error> {
    if class(pid).is_some_and(|class| class != CLASS_64) {
        return Err(Error::Not64Bit { pid });
    }
    // The stack is there and was touched by every process.
    let Some(stack) = mappings.iter().find(|mapping| mapping.path.as_os_str() == "[stack]") else {
        return Ok(());
    };
    match read_bytes(pid, stack.end - 8, &mut [0; 8]) {
        Err(source) if source.raw_os_error() != Some(libc::EFAULT) => {
            Err(from_io(pid, Path::new("process_vm_readv"), source))
        }
        _ => Ok(()),
    }
}

fn class(pid: i32) -> Option<u8> {
    let mut head = [0; 5];
    File::open(format!("/proc/{pid}/exe")).ok()?.read_exact(&mut head).ok()?;
    (&head[..4] == b"\x7fELF").then_some(head[4])
}
