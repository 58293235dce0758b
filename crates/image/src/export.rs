//! The exported variables of a library (a class's virtual table is one) by the beginning of their names.
//!
//! A training job's libraries have megabytes of names, of which a handful is wanted. They are gone through from the first
//! byte to the last, names before symbols, and who asks is told what has been passed: it need not stay in memory.

use std::collections::HashMap;
use std::ops::Range;

use memchr::memmem::Finder;
use object::LittleEndian;
use object::elf::{self, Sym64};
use object::read::elf::Sym as _;

use crate::elf::{LE, address};

/// So much is read before it is said to be passed.
const PIECE_BYTES: usize = 256 << 10;

/// Names and symbols of the dynamic linker, and where in the file they stand.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exports<'a> {
    pub names: &'a [u8],
    pub names_at: usize,
    pub symbols: &'a [Sym64<LittleEndian>],
    pub symbols_at: usize,
}

impl<'a> Exports<'a> {
    /// Variables whose names begin like this and are accepted. `passed` gets parts of the file.
    pub fn variables(
        &self,
        prefix: &str,
        accepts: impl Fn(&str) -> bool,
        passed: impl Fn(&Range<usize>),
    ) -> Vec<(String, u64)> {
        let accepted = self.accepted(prefix, accepts, &passed);
        let mut variables = Vec::new();
        let mut at = self.symbols_at;
        for piece in self.symbols.chunks(PIECE_BYTES / size_of::<Sym64<LittleEndian>>()) {
            for symbol in piece.iter().filter(|symbol| symbol.st_type() == elf::STT_OBJECT) {
                let name = accepted.get(&(symbol.st_name(LE) as usize));
                variables
                    .extend(name.zip(address(symbol)).map(|(name, address)| ((*name).to_owned(), address)));
            }
            let end = at + size_of_val(piece);
            passed(&(at..end));
            at = end;
        }
        variables
    }

    /// By where they begin: also a name that is the end of another's, which the linker stores once.
    fn accepted(
        &self,
        prefix: &str,
        accepts: impl Fn(&str) -> bool,
        passed: impl Fn(&Range<usize>),
    ) -> HashMap<usize, &'a str> {
        let finder = Finder::new(prefix);
        let mut accepted = HashMap::new();
        for start in (0..self.names.len()).step_by(PIECE_BYTES) {
            let end = (start + PIECE_BYTES).min(self.names.len());
            // One that begins in this piece may end in the next.
            let piece = &self.names[start..(end + prefix.len().saturating_sub(1)).min(self.names.len())];
            for at in finder.find_iter(piece).map(|at| start + at) {
                accepted.extend(self.name(at).filter(|name| accepts(name)).map(|name| (at, name)));
            }
            passed(&(self.names_at + start..self.names_at + end));
        }
        accepted
    }

    fn name(&self, at: usize) -> Option<&'a str> {
        let name = self.names.get(at..)?.split(|byte| *byte == 0).next()?;
        std::str::from_utf8(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::fmt::Write as _;
    use std::process::Command;

    use super::*;
    use crate::elf::Elf;

    /// A library of so many variables that names and symbols are several pieces.
    fn library() -> Vec<u8> {
        const LONG: &str =
            "a_name_of_some_length_so_that_all_names_together_are_longer_than_a_piece_of_them_is";
        let folder = tempfile::tempdir().unwrap();
        let (source, library) = (folder.path().join("many.s"), folder.path().join("libmany.so"));
        let mut text = String::from(".data\n");
        for number in 0..50_000 {
            let name =
                if number % 1000 == 7 { format!("_ZTVN4many{number}E") } else { format!("{LONG}{number}") };
            writeln!(text, ".globl {name}\n.type {name}, @object\n.size {name}, 8\n{name}: .quad {number}")
                .unwrap();
        }
        text.push_str(".text\n.globl _ZTVN4many8E\n.type _ZTVN4many8E, @function\n_ZTVN4many8E: ret\n");
        std::fs::write(&source, text).unwrap();
        let built =
            Command::new("cc").args(["-shared", "-nostdlib", "-o"]).arg(&library).arg(&source).status();
        assert!(built.unwrap().success());
        std::fs::read(&library).unwrap()
    }

    #[test]
    fn all_variables_that_begin_so_are_found_and_all_pieces_passed_once() {
        let bytes = library();
        let elf = Elf::parse(&bytes).unwrap();
        let exports = elf.exports().unwrap();
        assert!(exports.names.len() > 3 * PIECE_BYTES && size_of_val(exports.symbols) > PIECE_BYTES);
        let passed = RefCell::new(Vec::new());
        let accepts = |name: &str| !name.ends_with("3007E");
        let found = exports.variables("_ZTVN", accepts, |part| passed.borrow_mut().push(part.clone()));
        let mut expected: Vec<String> =
            (0..50).map(|number| format!("_ZTVN4many{}E", number * 1000 + 7)).collect();
        expected.retain(|name| accepts(name));
        let addresses = elf.symbols(&expected.iter().map(String::as_str).collect::<Vec<_>>());
        let mut expected: Vec<(String, u64)> =
            expected.into_iter().zip(addresses.into_iter().map(Option::unwrap)).collect();
        expected.sort();
        let mut sorted = found.clone();
        sorted.sort();
        assert_eq!(sorted, expected);
        let whole = [
            exports.names_at..exports.names_at + exports.names.len(),
            exports.symbols_at..exports.symbols_at + size_of_val(exports.symbols),
        ];
        let passed = passed.into_inner();
        for whole in whole {
            let mut at = whole.start;
            for part in passed.iter().filter(|part| whole.contains(&part.start)) {
                assert_eq!(part.start, at);
                at = part.end;
            }
            assert_eq!(at, whole.end);
        }
        assert_eq!(&bytes[exports.symbols_at..][..24], [0; 24], "the first symbol is none");
        assert_eq!(&bytes[exports.names_at..][..1], [0]);
    }

    /// Wherever a piece ends, and also inside another name.
    #[test]
    fn a_name_is_found_wherever_it_begins() {
        let name = b"_ZTVN1aE\0";
        for at in [0, PIECE_BYTES - 9, PIECE_BYTES - 4, PIECE_BYTES - 1, PIECE_BYTES, 2 * PIECE_BYTES - 9] {
            let mut names = vec![b'x'; 2 * PIECE_BYTES];
            names[at..at + name.len()].copy_from_slice(name);
            let exports = Exports { names: &names, names_at: 0, symbols: &[], symbols_at: 0 };
            let accepted = exports.accepted("_ZTVN", |_| true, |_| ());
            assert_eq!(accepted, HashMap::from([(at, "_ZTVN1aE")]));
        }
    }
}
