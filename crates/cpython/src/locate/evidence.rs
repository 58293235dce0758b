//! Where `_PyRuntime` is and which release it belongs to.

use std::ops::Range;

use nilometer_image::{Memory, Module};

use crate::{Error, Version};

/// The debug offsets begin with it, and they are what `_PyRuntime` begins with (3.13 on).
const COOKIE: [u8; 8] = *b"xdebugpy";
/// Where the offsets have version and build.
const VERSION: u64 = 8;
const FREE_THREADED: u64 = 16;

/// The text of `sys.version` is looked for in so much of a module's variables.
const MAX_SEARCH: u64 = 64 << 20;
const PAGE: u64 = 4096;
/// The version at the beginning of that text.
const LONGEST_VERSION: usize = 24;

/// What a module says about the interpreter in it.
#[derive(Debug, PartialEq, Eq)]
pub struct Evidence {
    pub runtime: u64,
    pub version: Version,
    pub has_debug_offsets: bool,
    pub free_threaded: bool,
}

impl Evidence {
    pub fn collect<M: Memory + ?Sized>(memory: &M, module: &Module) -> Result<Self, Error> {
        let symbols = module.symbols(&["_PyRuntime", "Py_Version", "PyType_Type"]);
        let [runtime, constant, type_] = symbols[..] else { return Err(Error::NotPython) };
        let Some(runtime) = runtime.or_else(|| Some(module.section(".PyRuntime")?.start)) else {
            return Err(refuse_without_runtime(memory, module, type_.is_some()));
        };
        if let Some(found) = read_debug_offsets(memory, runtime) {
            return Ok(found);
        }
        let by_constant = || Version::from_hex(memory.u64(constant?)?);
        let by_text = || search_text(memory, module);
        let by_name = || parse_name(&module.file_name());
        let version = by_constant().or_else(by_text).or_else(by_name);
        let version = version.ok_or_else(|| Error::UnknownVersion { path: module.path().to_path_buf() })?;
        Ok(Self { runtime, version, has_debug_offsets: false, free_threaded: false })
    }
}

/// CPython before 3.7 has no `_PyRuntime`.
fn refuse_without_runtime<M: Memory + ?Sized>(memory: &M, module: &Module, has_types: bool) -> Error {
    let version = if has_types {
        search_text(memory, module).or_else(|| parse_name(&module.file_name()))
    } else {
        None
    };
    match version {
        Some(version) => Error::Unsupported { version },
        None if module.file_name().starts_with("libpython") => {
            Error::NoSymbols { path: module.path().to_path_buf() }
        }
        None => Error::NotPython,
    }
}

fn read_debug_offsets<M: Memory + ?Sized>(memory: &M, runtime: u64) -> Option<Evidence> {
    let mut cookie = [0; 8];
    memory.read(runtime, &mut cookie)?;
    let version = Version::from_hex(memory.u64(runtime.checked_add(VERSION)?)?)?;
    let free_threaded = memory.u64(runtime.checked_add(FREE_THREADED)?)? != 0;
    (cookie == COOKIE).then_some(Evidence { runtime, version, has_debug_offsets: true, free_threaded })
}

/// `Py_GetVersion` keeps its text among the module's variables.
fn search_text<M: Memory + ?Sized>(memory: &M, module: &Module) -> Option<Version> {
    let ranges = [module.bss_range(), module.data_range()];
    ranges.into_iter().flatten().find_map(|range| search_range(memory, &range))
}

/// Page by page: those never touched may not be there.
fn search_range<M: Memory + ?Sized>(memory: &M, range: &Range<u64>) -> Option<Version> {
    let mut page = vec![0; PAGE as usize + LONGEST_VERSION];
    let mut at = range.start - range.start % PAGE;
    let end = range.end.min(range.start.saturating_add(MAX_SEARCH));
    while at < end {
        // A text may go on in the next page.
        let lengths = [page.len(), PAGE as usize];
        let read = lengths.into_iter().find(|length| memory.read(at, &mut page[..*length]).is_some());
        if let Some(version) = read.and_then(|length| find_text(&page[..length])) {
            return Some(version);
        }
        at = at.checked_add(PAGE)?;
    }
    None
}

/// `3.8.18 (default, …`: nothing but `sys.version` is written so.
fn find_text(bytes: &[u8]) -> Option<Version> {
    let starts = bytes.windows(2).enumerate().filter(|(_, pair)| **pair == *b"2." || **pair == *b"3.");
    starts.map(|(at, _)| &bytes[at..bytes.len().min(at + LONGEST_VERSION)]).find_map(|text| {
        let end = text.windows(2).position(|pair| pair == b" (")?;
        Version::parse(std::str::from_utf8(&text[..end]).ok()?)
    })
}

/// `libpython3.8.so.1.0`, `python3.9`, `libpython3.6m.so`: the micro number is not known.
fn parse_name(name: &str) -> Option<Version> {
    let rest = name.strip_prefix("lib").unwrap_or(name).strip_prefix("python")?;
    let (major, rest) = rest.split_once('.')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, minor) = (major.parse().ok()?, rest[..digits].parse().ok()?);
    matches!(major, 2 | 3).then_some(Version::new(major, minor, 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_tells_the_minor_version() {
        assert_eq!(parse_name("libpython3.8.so.1.0"), Some(Version::new(3, 8, 0)));
        assert_eq!(parse_name("libpython2.7.so.1.0"), Some(Version::new(2, 7, 0)));
        assert_eq!(parse_name("libpython3.6m.so.1.0"), Some(Version::new(3, 6, 0)));
        assert_eq!(parse_name("python3.12"), Some(Version::new(3, 12, 0)));
        assert_eq!(parse_name("python3"), None);
        assert_eq!(parse_name("libpython3.so"), None);
        assert_eq!(parse_name("pythonista4.2"), None);
    }

    #[test]
    fn the_text_of_sys_version_is_found() {
        let text = b"\0\x003.1.2\0 23.4 (\0\0x3.8.18 (default, Dec 1";
        assert_eq!(find_text(text), Some(Version::new(3, 8, 18)));
        assert_eq!(find_text(b"3.8.18"), None);
        assert_eq!(find_text(b""), None);
    }
}
