//! Definitions: what a number in an event or a frame stands for. Written once, before its first use.

use crate::book::publish;

/// What is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum Kind {
    /// A Python code object; see [`Code`].
    Code = 1,
    /// A loaded library; see [`Module`].
    Module = 2,
}

const MAGIC: u64 = 0xd1f0;
/// The word with kind and length, and the word with the number.
pub const HEADER: usize = 16;

/// Bytes that a definition of these parts takes.
pub fn length(parts: &[&[u8]]) -> usize {
    let mut total = HEADER;
    for part in parts {
        total += 4 + part.len();
    }
    total.next_multiple_of(8)
}

/// Writes a definition; its first word comes last, so that a cut one is not seen.
///
/// # Safety
/// `at` is a multiple of eight and points to [`length`] writable bytes that belong to the caller.
pub unsafe fn write(at: *mut u8, kind: Kind, id: u32, parts: &[&[u8]]) {
    // SAFETY: `length` counts the header and each part with its length; the caller gave that many bytes.
    unsafe {
        at.add(8).cast::<u64>().write(u64::from(id));
        let mut next = at.add(HEADER);
        for part in parts {
            next.cast::<u32>().write_unaligned(part.len() as u32);
            next.add(4).copy_from_nonoverlapping(part.as_ptr(), part.len());
            next = next.add(4 + part.len());
        }
    }
    publish(at, MAGIC | ((kind as u64) << 16) | ((length(parts) as u64) << 32));
}

/// A definition as found in a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Raw<'a> {
    pub kind: u16,
    pub id: u32,
    body: &'a [u8],
}

impl<'a> Raw<'a> {
    /// The part of this index.
    pub fn part(&self, index: usize) -> Option<&'a [u8]> {
        let mut rest = self.body;
        for _ in 0..index {
            rest = split_part(rest)?.1;
        }
        split_part(rest).map(|(part, _)| part)
    }

    fn long(&self, index: usize) -> Option<u64> {
        self.part(index)?.try_into().ok().map(u64::from_le_bytes)
    }
}

fn split_part(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize)
}

/// The definitions of one segment. Zeros between them (never finished, or the rest of a segment) are passed.
pub fn all(segment: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    let mut rest = segment;
    core::iter::from_fn(move || {
        while let Some((word, _)) = rest.split_first_chunk::<8>() {
            let word = u64::from_le_bytes(*word);
            let length = (word >> 32) as usize;
            let plausible = word & 0xffff == MAGIC && length >= HEADER && length.is_multiple_of(8);
            if let (true, Some((found, after))) = (plausible, rest.split_at_checked(length)) {
                rest = after;
                let id = u32::from_le_bytes(found.get(8..12)?.try_into().ok()?);
                return Some(Raw { kind: (word >> 16) as u16, id, body: &found[HEADER..] });
            }
            rest = &rest[8..];
        }
        None
    })
}

/// A Python code object. Strings are UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Code<'a> {
    pub file: &'a [u8],
    /// The qualified name where the interpreter has it (3.11 and later), else the name.
    pub name: &'a [u8],
    pub first_line: u32,
    /// `PY_VERSION_HEX >> 16`: how `lines` is to be read.
    pub python: u32,
    /// `co_linetable`, before 3.10 `co_lnotab`; empty if it was too long to keep.
    pub lines: &'a [u8],
}

impl<'a> Code<'a> {
    pub fn from_raw(raw: &Raw<'a>) -> Option<Self> {
        (raw.kind == Kind::Code as u16).then_some(())?;
        let numbers = raw.long(2)?;
        Some(Self {
            file: raw.part(0)?,
            name: raw.part(1)?,
            first_line: numbers as u32,
            python: (numbers >> 32) as u32,
            lines: raw.part(3)?,
        })
    }
}

/// A library in memory. `end` is the end of its last segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Module<'a> {
    pub path: &'a [u8],
    /// The GNU build id; empty if there is none.
    pub build_id: &'a [u8],
    pub start: u64,
    pub end: u64,
    /// What is added to the file's addresses.
    pub bias: u64,
    /// The epoch of frames in it; see [`crate::book::Frame::Native`].
    pub epoch: u16,
}

impl<'a> Module<'a> {
    pub fn from_raw(raw: &Raw<'a>) -> Option<Self> {
        (raw.kind == Kind::Module as u16).then_some(())?;
        Some(Self {
            path: raw.part(0)?,
            build_id: raw.part(1)?,
            start: raw.long(2)?,
            end: raw.long(3)?,
            bias: raw.long(4)?,
            epoch: raw.long(5)? as u16,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(definitions: &[(Kind, u32, &[&[u8]])]) -> Vec<u64> {
        let mut words = vec![0_u64; 64];
        let mut at = 0;
        for (kind, id, parts) in definitions {
            // SAFETY: the test's definitions are far shorter than the 512 bytes.
            unsafe { write(words.as_mut_ptr().cast::<u8>().add(at), *kind, *id, parts) };
            at += length(parts);
        }
        words
    }

    fn bytes(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn a_code_object_comes_back() {
        let numbers = (0x030c_0000_u64 << 32 | 0x11).to_le_bytes();
        let words = written(&[
            (Kind::Module, 1, &[b"/lib/x.so", b"", &[0; 8], &[0; 8], &[0; 8], &[0; 8]]),
            (Kind::Code, 2, &[b"/a.py", b"f", &numbers, b"\x01\x02"]),
        ]);
        let segment = bytes(&words);
        let found: Vec<_> = all(&segment).collect();
        assert_eq!(found.len(), 2);
        assert_eq!(Module::from_raw(&found[0]).unwrap().path, b"/lib/x.so");
        let code = Code::from_raw(&found[1]).unwrap();
        assert_eq!((code.file, code.name, code.first_line), (&b"/a.py"[..], &b"f"[..], 17));
        assert_eq!((code.python, code.lines), (0x030c_0000, &b"\x01\x02"[..]));
        assert_eq!(Code::from_raw(&found[0]), None);
    }

    #[test]
    fn an_unfinished_definition_hides_only_itself() {
        let mut words = written(&[(Kind::Code, 1, &[b"abc"]), (Kind::Code, 2, &[b"def"])]);
        words[0] = 0;
        let segment = bytes(&words);
        let ids: Vec<u32> = all(&segment).map(|raw| raw.id).collect();
        assert_eq!(ids, [2]);
    }
}
