//! Code of our own that was needed once: options, messages, the start of a command. Half of what a recorder has resident
//! would be that until its end.

use std::io;

use super::check;
use crate::parse::maps::{Mapping, parse_header};
use crate::parse::scan::lines;

/// Gives back all pages of this program's code and of the constants before it; those that are used come again, from the
/// page cache.
pub fn give_back() -> io::Result<()> {
    let text = std::fs::read("/proc/self/maps")?;
    let here = (give_back as fn() -> io::Result<()>) as usize as u64;
    let mappings = || lines(&text).filter_map(parse_header);
    let code = mappings().find(|mapping| (mapping.start..mapping.end).contains(&here));
    let Some(code) = code else { return Err(io::ErrorKind::NotFound.into()) };
    mappings().filter(|mapping| is_as_in_file(mapping, &code)).try_for_each(|mapping| forget(&mapping))
}

/// Data behind the code is relocated, then made read-only: it has pages of its own, which would be lost.
fn is_as_in_file(mapping: &Mapping<'_>, code: &Mapping<'_>) -> bool {
    let of_program = (mapping.dev, mapping.inode) == (code.dev, code.inode) && mapping.inode != 0;
    of_program && mapping.start <= code.start && !mapping.is_write() && !mapping.is_shared()
}

fn forget(mapping: &Mapping<'_>) -> io::Result<()> {
    let start = std::ptr::with_exposed_provenance_mut(mapping.start as usize);
    // SAFETY: pages of a private mapping of a file that nothing may write to and in which nothing was relocated: what is
    // read of them next is what was there before.
    check(unsafe { libc::madvise(start, mapping.bytes() as usize, libc::MADV_DONTNEED) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resident_pages_of_files() -> u64 {
        let text = std::fs::read("/proc/self/statm").unwrap();
        crate::parse::statm::parse(&text).unwrap().shared
    }

    #[test]
    fn pages_of_code_are_given_back_and_come_again() {
        let before = resident_pages_of_files();
        give_back().unwrap();
        let after = resident_pages_of_files();
        assert!(after < before, "{before} pages before, {after} after");
        assert_eq!(format!("{:.3}", 2.5_f64.sqrt()), "1.581", "code that is not resident runs");
    }
}
