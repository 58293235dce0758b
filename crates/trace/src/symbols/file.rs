//! Names as a file: a header, chunks of names, chunks of addresses, an end. `FORMAT.md` has the bytes.

use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{Library, Place, State, Symbols};
use crate::frame::{self, Frame, Parsed};
use crate::varint::{Cursor, put, put_signed};

/// Its name in a run directory.
pub const SYMBOLS_FILE: &str = "symbols";
const VERSION: u32 = 1;

const HEADER: u8 = 1;
const NAMES: u8 = 2;
const ADDRESSES: u8 = 3;
const END: u8 = 4;

/// What a chunk holds before compression, about.
const CHUNK_BYTES: usize = 1 << 20;
/// What a damaged file may make us reserve for one chunk.
const MOST_CHUNK_BYTES: usize = 8 << 20;
/// What a file may be in all.
const MOST_FILE_BYTES: u64 = 256 << 20;
const LEVEL: i32 = 1;

/// Why names cannot be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the names are damaged or cut at byte {offset}")]
    Damaged { offset: usize },
    #[error("the names are of version {found}; this nilo reads up to {VERSION}")]
    Newer { found: u32 },
    #[error(transparent)]
    Encode(#[from] crate::Error),
}

#[derive(Serialize, Deserialize)]
struct Header {
    symbols_version: u32,
    names: u64,
    libraries: Vec<LibraryHeader>,
}

#[derive(Serialize, Deserialize)]
struct LibraryHeader {
    path: String,
    build_id: String,
    state: State,
    addresses: u64,
}

/// The names of a run directory; `None` if there are none yet.
pub fn read(directory: &Path) -> Result<Option<Symbols>, Error> {
    let file = match File::open(directory.join(SYMBOLS_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    let mut bytes = Vec::new();
    file.take(MOST_FILE_BYTES).read_to_end(&mut bytes)?;
    decode(&bytes).map(Some)
}

/// Writes them into a run directory, whole or not at all.
pub fn write(directory: &Path, symbols: &Symbols) -> Result<(), Error> {
    let temporary = directory.join(format!(".{SYMBOLS_FILE}.{}", std::process::id()));
    let mut bytes = Vec::new();
    encode(symbols, &mut bytes)?;
    let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&temporary)?;
    let written = file.write_all(&bytes).and_then(|()| fs::rename(&temporary, directory.join(SYMBOLS_FILE)));
    if written.is_err() {
        let _ = fs::remove_file(&temporary); // of no use, and perhaps the disk is full
    }
    Ok(written?)
}

pub fn encode(symbols: &Symbols, out: &mut Vec<u8>) -> Result<(), Error> {
    let header = Header {
        symbols_version: VERSION,
        names: symbols.names() as u64,
        libraries: symbols.libraries.iter().map(library_header).collect(),
    };
    let mut sink = Sink { out, raw: Vec::with_capacity(CHUNK_BYTES + 4096), frame: Vec::new() };
    sink.plain(HEADER, &serde_json::to_vec(&header).map_err(crate::Error::from)?)?;
    for id in 1..=symbols.names() {
        let name = symbols.name(id as u32).as_bytes();
        put(&mut sink.raw, name.len() as u64);
        sink.raw.extend_from_slice(name);
        sink.flush(NAMES, CHUNK_BYTES)?;
    }
    sink.flush(NAMES, 1)?;
    for library in &symbols.libraries {
        put_library(&mut sink, library)?;
    }
    sink.flush(ADDRESSES, 1)?;
    sink.plain(END, b"{}")
}

fn library_header(library: &Library) -> LibraryHeader {
    let build_id = library.build_id.iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}"); // a String takes everything
        hex
    });
    LibraryHeader {
        path: library.path.clone(),
        build_id,
        state: library.state.clone(),
        addresses: library.addresses.len() as u64,
    }
}

fn put_library(sink: &mut Sink<'_>, library: &Library) -> Result<(), Error> {
    let (mut before, mut start, mut line) = (0, 0, 0);
    for (address, &end) in library.addresses.iter().zip(&library.ends) {
        put(&mut sink.raw, address.wrapping_sub(before));
        before = *address;
        let places = library.places.get(start..end as usize).unwrap_or_default();
        start = end as usize;
        put(&mut sink.raw, places.len() as u64);
        for place in places {
            put(&mut sink.raw, u64::from(place.function) << 1 | u64::from(place.inlined));
            put(&mut sink.raw, u64::from(place.file));
            put_signed(&mut sink.raw, i64::from(place.line) - line);
            line = i64::from(place.line);
        }
        sink.flush(ADDRESSES, CHUNK_BYTES)?;
    }
    Ok(())
}

struct Sink<'a> {
    out: &'a mut Vec<u8>,
    raw: Vec<u8>,
    frame: Vec<u8>,
}

impl Sink<'_> {
    fn plain(&mut self, kind: u8, payload: &[u8]) -> Result<(), Error> {
        frame::encode_numbered(&mut self.frame, kind, |out| {
            out.extend_from_slice(payload);
            Ok(())
        })?;
        self.out.extend_from_slice(&self.frame);
        Ok(())
    }

    /// Writes the chunk if it is at least this long.
    fn flush(&mut self, kind: u8, least: usize) -> Result<(), Error> {
        if self.raw.len() < least {
            return Ok(());
        }
        let mut payload = Vec::new();
        put(&mut payload, self.raw.len() as u64);
        payload.extend_from_slice(&zstd::bulk::compress(&self.raw, LEVEL)?);
        self.raw.clear();
        self.plain(kind, &payload)
    }
}

pub fn decode(bytes: &[u8]) -> Result<Symbols, Error> {
    let mut source = Source { bytes, at: 0 };
    let (kind, payload) = source.next()?;
    if kind != HEADER {
        return Err(Error::Damaged { offset: 0 });
    }
    let header: Header = serde_json::from_slice(payload).map_err(|_| Error::Damaged { offset: 0 })?;
    if header.symbols_version > VERSION {
        return Err(Error::Newer { found: header.symbols_version });
    }
    let (mut names, mut addresses) = (Vec::new(), Vec::new());
    loop {
        let at = source.at;
        match source.next()? {
            (NAMES, payload) => unpack(payload, &mut names).ok_or(Error::Damaged { offset: at })?,
            (ADDRESSES, payload) => unpack(payload, &mut addresses).ok_or(Error::Damaged { offset: at })?,
            (END, _) => break,
            _ => {}
        }
        if names.len() + addresses.len() > MOST_FILE_BYTES as usize {
            return Err(Error::Damaged { offset: at });
        }
    }
    build(&header, &names, &addresses).ok_or(Error::Damaged { offset: bytes.len() })
}

struct Source<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Source<'a> {
    fn next(&mut self) -> Result<(u8, &'a [u8]), Error> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let Parsed::Whole { total } = frame::parse(rest) else {
            return Err(Error::Damaged { offset: self.at });
        };
        self.at += total;
        let Frame { kind, payload, .. } = Frame::view(rest.get(..total).unwrap_or_default());
        Ok((kind, payload))
    }
}

fn unpack(payload: &[u8], into: &mut Vec<u8>) -> Option<()> {
    let mut cursor = Cursor::new(payload);
    let length = usize::try_from(cursor.varint()?).ok().filter(|length| *length <= MOST_CHUNK_BYTES)?;
    let packed = payload.get(payload.len() - cursor.remaining()..)?;
    let raw = zstd::bulk::decompress(packed, length).ok().filter(|raw| raw.len() == length)?;
    into.extend_from_slice(&raw);
    Some(())
}

fn build(header: &Header, names: &[u8], addresses: &[u8]) -> Option<Symbols> {
    let mut symbols = Symbols::default();
    let mut cursor = Cursor::new(names);
    for _ in 0..header.names {
        let length = usize::try_from(cursor.varint()?).ok()?;
        symbols.text.push_str(std::str::from_utf8(cursor.bytes(length)?).ok()?);
        symbols.ends.push(u32::try_from(symbols.text.len()).ok()?);
    }
    let mut cursor = Cursor::new(addresses);
    for header in &header.libraries {
        symbols.libraries.push(take_library(header, &mut cursor, symbols.ends.len())?);
    }
    Some(symbols)
}

fn take_library(header: &LibraryHeader, from: &mut Cursor<'_>, names: usize) -> Option<Library> {
    let mut library = Library {
        path: header.path.clone(),
        build_id: parse_hex(&header.build_id)?,
        state: header.state.clone(),
        ..Library::default()
    };
    let (mut address, mut line) = (0_u64, 0_i64);
    for row in 0..header.addresses {
        let step = from.varint()?;
        address = address.checked_add(step).filter(|_| step > 0 || row == 0)?;
        library.addresses.push(address);
        for _ in 0..from.varint()? {
            let function = from.varint()?;
            let file = from.varint()?;
            line = line.checked_add(from.signed()?)?;
            let known = |id: u64| u32::try_from(id).ok().filter(|id| *id as usize <= names);
            library.places.push(Place {
                function: known(function >> 1)?,
                file: known(file)?,
                line: u32::try_from(line).ok()?,
                inlined: function & 1 == 1,
            });
        }
        library.ends.push(u32::try_from(library.places.len()).ok()?);
    }
    Some(library)
}

fn parse_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::symbols::SymbolsBuilder;

    fn sample() -> Symbols {
        let mut builder = SymbolsBuilder::default();
        for number in 0..3_u8 {
            builder.library(&format!("/lib/{number}.so"), &[number, 255], State::Read);
            for row in 0..500_u64 {
                let function = builder.name(&format!("_Z{number}f{}", row % 37));
                let file = builder.name("x.cc");
                let place = Place { function, file, line: (row * 7 % 91) as u32, inlined: row % 3 == 0 };
                builder.address(row * 13, &vec![place; 1 + (row % 2) as usize]);
            }
        }
        builder.library("/gone", &[], State::Missing("no such file".into()));
        builder.finish()
    }

    #[test]
    fn names_survive_a_file() {
        let directory = tempfile::tempdir().unwrap();
        assert!(read(directory.path()).unwrap().is_none());
        write(directory.path(), &sample()).unwrap();
        assert_eq!(read(directory.path()).unwrap().unwrap(), sample());
        let files: Vec<_> = fs::read_dir(directory.path()).unwrap().collect();
        assert_eq!(files.len(), 1);
    }

    #[test]
    fn a_cut_or_damaged_file_is_refused() {
        let mut bytes = Vec::new();
        encode(&sample(), &mut bytes).unwrap();
        for cut in (0..bytes.len()).step_by(97) {
            assert!(matches!(decode(&bytes[..cut]), Err(Error::Damaged { .. })));
        }
        bytes[40] ^= 1;
        assert!(decode(&bytes).is_err());
    }

    proptest! {
        #[test]
        fn any_addresses_are_survived(names in 0_u64..5, rows in 0_u64..9, bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            let header = Header {
                symbols_version: VERSION,
                names,
                libraries: vec![LibraryHeader { path: "x".into(), build_id: "0g".into(), state: State::Read, addresses: rows }],
            };
            let _ = build(&header, &bytes, &bytes);
        }
    }
}
