//! The build id of a file, from the notes that the loader sees. Only those pages are read.

use std::fs::File;
use std::io;
use std::path::Path;

use object::LittleEndian;
use object::elf::{ELF_NOTE_GNU, FileHeader64, NT_GNU_BUILD_ID};
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader};

const LE: LittleEndian = LittleEndian;

/// Empty if the file has none.
pub fn read_build_id(path: &Path) -> io::Result<Vec<u8>> {
    let file = ReadCache::new(File::open(path)?);
    let not_elf = |_| io::Error::new(io::ErrorKind::InvalidData, "not a 64-bit ELF file");
    let header = FileHeader64::<LittleEndian>::parse(&file).map_err(not_elf)?;
    let segments = header.program_headers(LE, &file).map_err(not_elf)?;
    for segment in segments {
        let Ok(Some(mut notes)) = segment.notes(LE, &file) else { continue };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == ELF_NOTE_GNU && note.n_type(LE) == NT_GNU_BUILD_ID {
                return Ok(note.desc().to_vec());
            }
        }
    }
    Ok(Vec::new())
}
