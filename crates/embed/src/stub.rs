//! An empty shared library for 32-bit programs.
//!
//! The dynamic linker complains on the program's stderr about a preload that it cannot load. So that a 32-bit child
//! of a tracked command stays silent, its linker finds this instead of the tracker: a library with one writable
//! segment (the linker notes addresses in it), no symbol that could be found, and no wish for an executable stack.

const HEADER: u32 = 52;
const SEGMENT: u32 = 32;
const SEGMENTS: u32 = 3;
/// The one symbol that every table begins with.
const SYMBOLS: u32 = HEADER + SEGMENTS * SEGMENT;
const STRINGS: u32 = SYMBOLS + 16;
const HASHES: u32 = STRINGS + 4;
const DYNAMIC: u32 = HASHES + 16;
const ENTRIES: [[u32; 2]; 6] = [[4, HASHES], [5, STRINGS], [6, SYMBOLS], [10, 1], [11, 16], [0, 0]]; // HASH STRTAB SYMTAB STRSZ SYMENT NULL
const SIZE: u32 = DYNAMIC + 8 * ENTRIES.len() as u32;

const PAGE: u32 = 4096;
const READ_WRITE: u32 = 6;

/// The library's bytes: ELF, 32 bits, i386.
pub fn render_stub() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(SIZE as usize);
    bytes.extend(b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0");
    short(&mut bytes, &[3, 3]); // ET_DYN, EM_386
    long(&mut bytes, &[1, 0, HEADER, 0, 0]); // version, entry, segments at, sections at, flags
    short(&mut bytes, &[HEADER as u16, SEGMENT as u16, SEGMENTS as u16, 40, 0, 0]);
    let load = [1, 0, 0, 0, SIZE, SIZE, READ_WRITE, PAGE];
    let dynamic = [2, DYNAMIC, DYNAMIC, DYNAMIC, SIZE - DYNAMIC, SIZE - DYNAMIC, READ_WRITE, 4];
    let stack = [0x6474_e551, 0, 0, 0, 0, 0, READ_WRITE, 16]; // PT_GNU_STACK
    for segment in [load, dynamic, stack] {
        long(&mut bytes, &segment);
    }
    long(&mut bytes, &[0; 4]); // the symbol
    long(&mut bytes, &[0]); // the empty string, and filling
    long(&mut bytes, &[1, 1, 0, 0]); // one bucket, one chain, both empty
    for entry in ENTRIES {
        long(&mut bytes, &entry);
    }
    bytes
}

fn short(bytes: &mut Vec<u8>, numbers: &[u16]) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

fn long(bytes: &mut Vec<u8>, numbers: &[u32]) {
    bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stub_is_as_long_as_it_says() {
        let bytes = render_stub();
        assert_eq!(bytes.len(), SIZE as usize);
        assert_eq!(&bytes[DYNAMIC as usize..][..8], [4, 0, 0, 0, HASHES as u8, 0, 0, 0]);
    }
}
