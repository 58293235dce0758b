//! A core file: a process that has ended, as the kernel or a debugger wrote it down.
//!
//! The file is mapped, not read: what is asked for is paged in. A core leaves out what the files of the process hold;
//! these are looked for below a root and used only if they are the same, by build id. Nothing in the core is trusted.

mod note;

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nilometer_kernel::sys::mapped::Mapped;
use object::LittleEndian;
use object::elf::{self, FileHeader64, ProgramHeader64};
use object::read::elf::{FileHeader, ProgramHeader};

use crate::files::{Files, Match, Place};
use crate::image::Segment;
use crate::mapping::Mapping;
use crate::{Error, Image, Modules};
use note::{MappedFile, Notes};
pub use note::{Registers, Thread};

const LE: LittleEndian = LittleEndian;
const PAGE_BYTES: usize = 4096;

/// A process as a core file shows it.
#[derive(Debug)]
pub struct Core {
    pub image: Image,
    pub modules: Modules,
    /// The one that ended the process first.
    pub threads: Vec<Thread>,
    pub pid: i32,
    /// The short name of the program.
    pub command: String,
    /// Its command line, cut at 80 bytes by the kernel.
    pub arguments: String,
    /// The auxiliary vector: kinds and values of `getauxval`.
    pub auxiliary: Vec<(u64, u64)>,
    /// Programs and libraries of the process that are not here as they were.
    pub missing: Vec<MissingFile>,
    /// Why it is not whole, in sentences.
    pub partial: Vec<String>,
}

/// A program or library whose content the core lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingFile {
    pub path: PathBuf,
    /// What to look for; `None` where the core does not hold it.
    pub build_id: Option<Vec<u8>>,
    pub reason: Missing,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Missing {
    NotFound,
    /// Another one has its name, with this build id.
    Other(Option<Vec<u8>>),
    /// It is used, but the core does not tell whether it is the same.
    Unverified,
}

/// How compressed files begin, and what undoes it.
const COMPRESSED: [(&[u8], &str, &str); 5] = [
    (b"\x28\xb5\x2f\xfd", "zstd", "zstd -d"),
    (b"\x1f\x8b", "gzip", "gunzip"),
    (b"\xfd7zXZ\0", "xz", "unxz"),
    (b"\x04\x22\x4d\x18", "lz4", "lz4 -d"),
    (b"BZh", "bzip2", "bunzip2"),
];

/// Opens a core of a 64-bit x86 process. The files that were mapped are looked for below `sysroot`, `/` if `None`.
pub fn open(path: &Path, sysroot: Option<&Path>) -> Result<Core, Error> {
    let unreadable = |source| Error::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(Error::NotACore { path: path.to_owned() });
    }
    let bytes = Mapped::file(&file).map_err(unreadable)?;
    let core = Contents::parse(path, &bytes)?;
    let root = sysroot.unwrap_or(Path::new("/"));
    let place = Arc::new(Place::Sysroot(root.to_owned()));
    let mappings = core.mappings();
    let heads = core.heads(&bytes, &mappings);
    let files = Files::with_heads(&mappings, &place, |path| heads.get(path).cloned());
    let missing = missing(&mappings, &files);
    let modules = Modules::new(&mappings, &files);
    let Notes { threads, pid, command, arguments, auxiliary, .. } = core.notes;
    let image = Image::new(bytes, core.segments, mappings).with(files, core.cut_off);
    Ok(Core { image, modules, threads, pid, command, arguments, auxiliary, missing, partial: core.partial })
}

/// What the core's own headers tell.
#[derive(Debug, Default)]
struct Contents {
    segments: Vec<Segment>,
    /// One for each loaded range, with what is allowed in it.
    loads: Vec<Mapping>,
    notes: Notes,
    /// What should be in the core and is behind its end.
    cut_off: Vec<Range<u64>>,
    partial: Vec<String>,
}

impl Contents {
    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, Error> {
        let header = parse_header(path, bytes)?;
        let damaged = |_| Error::Damaged { path: path.to_owned(), what: "its table of segments is cut off" };
        let segments = header.program_headers(LE, bytes).map_err(damaged)?;
        let mut contents = Self::default();
        let mut missing_bytes: u64 = 0;
        for segment in segments {
            match segment.p_type(LE) {
                elf::PT_LOAD => {
                    let missing = contents.take_load(segment, bytes.len() as u64);
                    missing_bytes = missing_bytes.saturating_add(missing);
                }
                elf::PT_NOTE => contents.take_notes(segment, bytes),
                _ => {}
            }
        }
        if missing_bytes > 0 {
            contents
                .partial
                .push(format!("the core is cut off: {missing_bytes} bytes of its memory are missing"));
        }
        contents.sort();
        Ok(contents)
    }

    /// In order of address, without what overlaps: a core that does so is not honest.
    fn sort(&mut self) {
        self.segments.retain(|segment| segment.start < segment.end);
        self.segments.sort_by_key(|segment| segment.start);
        self.segments.dedup_by(|next, last| next.start < last.end);
        self.loads.retain(|mapping| mapping.start < mapping.end);
        self.loads.sort_by_key(|mapping| mapping.start);
        self.loads.dedup_by(|next, last| next.start < last.end);
        self.notes.files.sort_by_key(|file| file.start);
        self.notes.files.dedup_by(|next, last| next.start < last.end);
    }

    /// How many bytes of it lie behind the end of the file.
    fn take_load(&mut self, segment: &ProgramHeader64<LittleEndian>, file_bytes: u64) -> u64 {
        let (start, memory_bytes) = (segment.p_vaddr(LE), segment.p_memsz(LE));
        let (offset, promised_bytes) = segment.file_range(LE);
        let (Some(end), Some(promised_end)) =
            (start.checked_add(memory_bytes), start.checked_add(promised_bytes))
        else {
            return 0;
        };
        let here = promised_bytes.min(file_bytes.saturating_sub(offset));
        let flags = segment.p_flags(LE);
        self.segments.push(Segment::new(start, start + here, offset as usize));
        self.loads.push(Mapping {
            start,
            end: end.max(promised_end),
            read: flags.contains(elf::PF_R),
            write: flags.contains(elf::PF_W),
            execute: flags.contains(elf::PF_X),
            ..Mapping::default()
        });
        self.cut_off.push(start + here..promised_end);
        promised_bytes - here
    }

    fn take_notes(&mut self, segment: &ProgramHeader64<LittleEndian>, bytes: &[u8]) {
        let (offset, length) = segment.file_range(LE);
        // As much of the notes as is there: a cut core may still have its threads.
        let Some(rest) = usize::try_from(offset).ok().and_then(|offset| bytes.get(offset..)) else { return };
        let notes = &rest[..rest.len().min(usize::try_from(length).unwrap_or(usize::MAX))];
        let Ok(mut notes) = object::read::elf::NoteIterator::<FileHeader64<LittleEndian>>::new(LE, 4, notes)
        else {
            return;
        };
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"CORE" {
                self.notes.take(note.n_type(LE).0, note.desc());
            }
        }
    }

    /// The loaded ranges with their files, and the files that no loaded range speaks of.
    fn mappings(&self) -> Vec<Mapping> {
        let mut mappings = self.loads.clone();
        for mapping in &mut mappings {
            let before = self.notes.files.partition_point(|file| file.start <= mapping.start);
            let file = before.checked_sub(1).and_then(|index| self.notes.files.get(index));
            if let Some(file) = file.filter(|file| mapping.start < file.end) {
                name(mapping, file);
            }
        }
        let is_new = |file: &&MappedFile| {
            let next = mappings.partition_point(|mapping| mapping.end <= file.start);
            mappings.get(next).is_none_or(|mapping| file.end <= mapping.start)
        };
        let unspoken: Vec<_> = self.notes.files.iter().filter(is_new).map(unspoken).collect();
        mappings.extend(unspoken);
        mappings.sort_by_key(|mapping| mapping.start);
        mappings
    }

    /// The first page of each file, as far as the core has it: build ids stand there.
    fn heads(&self, bytes: &[u8], mappings: &[Mapping]) -> HashMap<PathBuf, Vec<u8>> {
        let first_pages = mappings.iter().filter(|mapping| mapping.is_file() && mapping.offset == 0);
        let head = |mapping: &Mapping| {
            let index = self.segments.binary_search_by_key(&mapping.start, |segment| segment.start).ok()?;
            let page = self.segments.get(index)?.bytes(bytes)?.get(..PAGE_BYTES)?;
            page.starts_with(b"\x7fELF").then(|| (mapping.path.clone(), page.to_vec()))
        };
        first_pages.filter_map(head).collect()
    }
}

fn parse_header<'a>(path: &Path, bytes: &'a [u8]) -> Result<&'a FileHeader64<LittleEndian>, Error> {
    let compressed = COMPRESSED.iter().find(|(magic, ..)| bytes.starts_with(magic));
    if let Some((_, format, command)) = compressed {
        return Err(Error::Compressed { path: path.to_owned(), format, command });
    }
    let not_a_core = || Error::NotACore { path: path.to_owned() };
    let other = |what: &str| Error::OtherMachine { path: path.to_owned(), what: what.to_owned() };
    match bytes {
        [0x7f, b'E', b'L', b'F', 1, ..] => return Err(other("32-bit")),
        [0x7f, b'E', b'L', b'F', _, 2, ..] => return Err(other("big-endian")),
        _ => {}
    }
    let header = FileHeader64::<LittleEndian>::parse(bytes).map_err(|_| not_a_core())?;
    if header.e_type(LE) != elf::ET_CORE {
        return Err(not_a_core());
    }
    match header.e_machine(LE) {
        elf::EM_X86_64 => Ok(header),
        machine => Err(other(&format!("machine {}", machine.0))),
    }
}

fn name(mapping: &mut Mapping, file: &MappedFile) {
    mapping.path.clone_from(&file.path);
    mapping.deleted = file.deleted;
    mapping.offset = file.offset.saturating_add(mapping.start - file.start);
}

/// A debugger leaves read-only mappings of files out altogether.
fn unspoken(file: &MappedFile) -> Mapping {
    let mut mapping = Mapping { start: file.start, end: file.end, read: true, ..Mapping::default() };
    name(&mut mapping, file);
    mapping
}

/// Programs and libraries of which the core itself, or their own name, tells that they are some.
fn missing(mappings: &[Mapping], files: &Files) -> Vec<MissingFile> {
    let (mut list, mut known) = (Vec::new(), HashSet::new());
    for (index, _) in
        mappings.iter().enumerate().filter(|(_, mapping)| mapping.execute || mapping.offset == 0)
    {
        let Some(file) = files.of(index).filter(|file| !known.contains(file.path())) else { continue };
        let build_id = file.expected_build_id().map(<[u8]>::to_vec);
        let reason = match file.is_match() {
            Match::Same => continue,
            Match::Missing if build_id.is_none() && !mappings[index].execute => continue, // no program
            Match::Missing => Missing::NotFound,
            Match::Unverified => Missing::Unverified,
            Match::Other(found) => Missing::Other(found.clone()),
        };
        known.insert(file.path());
        list.push(MissingFile { path: file.path().to_owned(), build_id, reason });
    }
    list
}

#[cfg(test)]
mod tests;
