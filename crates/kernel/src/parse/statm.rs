//! `/proc/PID/statm`: resident pages of one process, the cheapest reading there is.

use super::scan::{number, words};
use crate::Error;

/// What we use of it, in pages; names as in `proc_pid_statm(5)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Statm {
    /// All of the address space; 0 for what has no memory (zombies, kernel threads).
    pub size: u64,
    /// `RssAnon` + `RssFile` + `RssShmem` of `status`.
    pub resident: u64,
    /// `RssFile` + `RssShmem`.
    pub shared: u64,
    /// The program's code, which another program after an `exec` has not in the same size.
    pub text: u64,
}

impl Statm {
    pub fn anon(&self) -> u64 {
        self.resident.saturating_sub(self.shared)
    }
}

pub fn parse(line: &[u8]) -> Result<Statm, Error> {
    let mut fields = words(line).map(number);
    let mut next = |field| fields.next().flatten().ok_or(Error::Malformed { file: "statm", field });
    Ok(Statm {
        size: next("size")?,
        resident: next("resident")?,
        shared: next("shared")?,
        text: next("text")?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_read_in_the_kernels_order() {
        let statm = parse(b"2401 1500 600 5 0 1300 0\n").unwrap();
        assert_eq!(statm, Statm { size: 2401, resident: 1500, shared: 600, text: 5 });
        assert_eq!(statm.anon(), 900);
    }

    #[test]
    fn a_zombie_has_no_pages_and_a_cut_line_is_an_error() {
        assert_eq!(parse(b"0 0 0 0 0 0 0\n").unwrap(), Statm::default());
        assert!(parse(b"2401 1500").is_err());
        assert!(parse(b"").is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            let _ = parse(&text);
        }
    }
}
