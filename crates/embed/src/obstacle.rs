//! Why a program cannot be tracked by a preload, seen from its file before it is started.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::{fmt, io};

use object::elf::{DT_NEEDED, FileHeader32, FileHeader64, PT_INTERP};
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, ReadRef};

/// What stands in the way.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// Nothing is loaded into it: static executables, most Go programs.
    Static,
    /// The kernel gives it another user's rights; the dynamic linker then takes no advice from the environment.
    Privileged,
    /// Not for 64-bit x86.
    OtherMachine,
    /// Its dynamic linker is not glibc's.
    OtherLinker(String),
    /// It would refuse to start: its runtime must be loaded first.
    Sanitizer(String),
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Static => f.write_str("the program is linked statically: nothing can be loaded into it"),
            Self::Privileged => {
                f.write_str("the program runs with another user's rights: it loads nothing for us")
            }
            Self::OtherMachine => f.write_str("the program is not for 64-bit x86"),
            Self::OtherLinker(linker) => write!(f, "the program's dynamic linker is {linker}, not glibc's"),
            Self::Sanitizer(runtime) => {
                write!(
                    f,
                    "the program was built with a sanitizer ({runtime}), which must be loaded before anything else"
                )
            }
        }
    }
}

/// Looks at an executable. `None` if nothing is in the way, or it is no executable of a kind that we know (a script).
pub fn read_obstacle(program: &Path) -> io::Result<Option<Obstacle>> {
    let file = File::open(program)?;
    let privileged = file.metadata()?.mode() & 0o6000 != 0;
    let data = ReadCache::new(file);
    Ok(parse_obstacle(&data).or_else(|| privileged.then_some(Obstacle::Privileged)))
}

fn parse_obstacle<'a>(data: impl ReadRef<'a>) -> Option<Obstacle> {
    if FileHeader32::<Endianness>::parse(data).is_ok() {
        return Some(Obstacle::OtherMachine);
    }
    let header = FileHeader64::<Endianness>::parse(data).ok()?;
    let endian = header.endian().ok()?;
    if header.e_machine(endian) != object::elf::EM_X86_64 {
        return Some(Obstacle::OtherMachine);
    }
    let segments = header.program_headers(endian, data).ok()?;
    let Some(interpreter) = segments.iter().find(|segment| segment.p_type(endian) == PT_INTERP) else {
        return Some(Obstacle::Static);
    };
    let linker = interpreter.interpreter(endian, data).ok().flatten().unwrap_or_default();
    let linker = String::from_utf8_lossy(linker).into_owned();
    if !linker.contains("ld-linux") {
        return Some(Obstacle::OtherLinker(linker));
    }
    needed(header, endian, data).into_iter().find(|name| is_sanitizer(name)).map(Obstacle::Sanitizer)
}

fn is_sanitizer(library: &str) -> bool {
    ["libasan.", "libtsan.", "libhwasan.", "libclang_rt.asan", "libclang_rt.tsan"]
        .iter()
        .any(|start| library.starts_with(start))
}

/// Names of the libraries that the program asks for.
fn needed<'a, R: ReadRef<'a>>(header: &FileHeader64<Endianness>, endian: Endianness, data: R) -> Vec<String> {
    let read = || {
        let sections = header.sections(endian, data).ok()?;
        let (entries, strings) = sections.dynamic(endian, data).ok()??;
        let strings = sections.strings(endian, data, strings).ok()?;
        let names = entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
        let names = names.filter_map(|entry| entry.string(endian, strings).ok());
        Some(names.map(|name| String::from_utf8_lossy(name).into_owned()).collect())
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ordinary_programs_and_scripts_have_no_obstacle() {
        assert_eq!(read_obstacle(Path::new("/proc/self/exe")).unwrap(), None);
        assert_eq!(parse_obstacle(&b"#!/bin/sh\n"[..]), None);
        assert_eq!(parse_obstacle(&b"\x7fELF"[..]), None);
    }

    #[test]
    fn another_machine_is_told() {
        assert_eq!(parse_obstacle(&super::super::stub::render_stub()[..]), Some(Obstacle::OtherMachine));
    }
}
