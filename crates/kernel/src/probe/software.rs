//! Python interpreters, allocators and the C library, found by their names: nothing is executed.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};

use super::facts::{Allocator, Python};
use crate::parse::maps;
use crate::parse::scan::lines;
use crate::read::proc::Proc;

#[derive(Debug, Default)]
pub(super) struct Software {
    pub(super) pythons: Vec<Python>,
    pub(super) allocators: Vec<Allocator>,
    pub(super) glibc: Option<String>,
}

/// Interpreters along the path first, in its order; then those that only run. `root` is `/` except in tests.
pub(super) fn read(root: &Path, search_path: &OsStr, euid: u32) -> Software {
    let mut found = Software { glibc: read_glibc(root), ..Software::default() };
    for directory in std::env::split_paths(search_path) {
        for path in interpreters_in(&below(root, &directory)) {
            add_python(&mut found.pythons, path, None);
        }
    }
    let proc = Proc::new(root.join("proc"));
    let mut libraries: BTreeMap<PathBuf, Vec<i32>> = BTreeMap::new();
    for pid in own_processes(&proc, euid) {
        let Some(path) = proc.read_exe(pid).ok().filter(|exe| is_python(exe.file_name())) else { continue };
        add_python(&mut found.pythons, path, Some(pid));
        for library in allocator_libraries(&proc, pid) {
            libraries.entry(library).or_default().push(pid);
        }
    }
    let allocator = |(library, pids): (PathBuf, Vec<i32>)| {
        Some(Allocator { name: allocator_name(&library)?, library, pids })
    };
    found.allocators = libraries.into_iter().filter_map(allocator).collect();
    found
}

fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

fn add_python(pythons: &mut Vec<Python>, path: PathBuf, pid: Option<i32>) {
    match pythons.iter_mut().find(|python| python.path == path) {
        Some(known) => known.pids.extend(pid),
        None => pythons.push(Python { version: version(&path), path, pids: pid.into_iter().collect() }),
    }
}

/// Programs named `python`, `python3`, `python3.12`, each once whatever its links. A version manager's
/// scripts stand for the versions beside them (`shims/` and `versions/*/bin/`).
fn interpreters_in(directory: &Path) -> Vec<PathBuf> {
    let mut found = programs_in(directory);
    if directory.ends_with("shims") {
        let versions =
            std::fs::read_dir(directory.with_file_name("versions")).into_iter().flatten().flatten();
        found.extend(versions.flat_map(|version| programs_in(&version.path().join("bin"))));
    }
    found.sort();
    found.dedup();
    found
}

fn programs_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter(|entry| is_python(Some(&entry.file_name())))
        .filter_map(|entry| entry.path().canonicalize().ok())
        .filter(|path| is_elf(path))
        .collect()
}

fn is_elf(path: &Path) -> bool {
    let mut start = [0; 4];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok() && start == *b"\x7fELF"
}

/// `python`, `python3`, `python3.12`, `python3.13t`, `pypy3`; not `python3-config`.
fn is_python(name: Option<&OsStr>) -> bool {
    name.and_then(OsStr::to_str).and_then(version_in_name).is_some()
}

fn version_in_name(name: &str) -> Option<&str> {
    let name = name.strip_suffix(" (deleted)").unwrap_or(name);
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"))?;
    let is_version = rest.trim_end_matches(['t', 'd']).bytes().all(|b| b.is_ascii_digit() || b == b'.');
    is_version.then_some(rest)
}

/// The program's name tells two numbers; a directory above it may tell three (`versions/3.12.1/bin`).
fn version(path: &Path) -> String {
    let short = path.file_name().and_then(OsStr::to_str).and_then(version_in_name).unwrap_or("");
    let is_longer = |part: &&str| {
        part.starts_with(short)
            && part.matches('.').count() == 2
            && part.bytes().all(|b| b.is_ascii_digit() || b == b'.')
    };
    let parts = path.iter().filter_map(OsStr::to_str);
    parts.map(|part| part.trim_start_matches("python-")).find(is_longer).unwrap_or(short).to_owned()
}

/// Root sees everybody's.
fn own_processes(proc: &Proc, euid: u32) -> Vec<i32> {
    let mut buffer = Vec::new();
    let mut pids = proc.list_pids().unwrap_or_default();
    pids.retain(|pid| {
        euid == 0 || proc.read_status(*pid, &mut buffer).is_ok_and(|status| status.euid == euid)
    });
    pids.sort_unstable();
    pids
}

fn allocator_libraries(proc: &Proc, pid: i32) -> Vec<PathBuf> {
    let text = std::fs::read(proc.root().join(format!("{pid}/maps"))).unwrap_or_default();
    let path = |line: &[u8]| {
        let name = maps::parse_header(line)?.name;
        Some(PathBuf::from(std::str::from_utf8(name).ok()?)).filter(|path| allocator_name(path).is_some())
    };
    let mut found: Vec<PathBuf> = lines(&text).filter_map(path).collect();
    found.dedup();
    found
}

fn allocator_name(library: &Path) -> Option<&'static str> {
    const NAMES: [&str; 4] = ["jemalloc", "tcmalloc", "mimalloc", "snmalloc"];
    let name = library.file_name()?.to_str()?.strip_prefix("lib")?;
    NAMES.into_iter().find(|known| name.starts_with(known))
}

/// The library carries its own name: `GNU C Library (…) stable release version 2.36.`
fn read_glibc(root: &Path) -> Option<String> {
    const PLACES: [&str; 4] =
        ["lib/x86_64-linux-gnu/libc.so.6", "lib64/libc.so.6", "usr/lib64/libc.so.6", "usr/lib/libc.so.6"];
    const MARK: &[u8] = b" release version ";
    let bytes = PLACES.iter().find_map(|place| std::fs::read(root.join(place)).ok())?;
    let name = find(&bytes, b"GNU C Library")?;
    let after = &name[find_at(&name[..name.len().min(300)], MARK)? + MARK.len()..];
    let end = after.iter().position(|b| !b.is_ascii_digit() && *b != b'.')?;
    Some(std::str::from_utf8(&after[..end]).ok()?.trim_end_matches('.').to_owned())
}

fn find<'t>(text: &'t [u8], what: &[u8]) -> Option<&'t [u8]> {
    find_at(text, what).map(|at| &text[at..])
}

fn find_at(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|part| part == what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_interpreters() {
        for (name, version) in [
            ("python", Some("")),
            ("python3", Some("3")),
            ("python3.12", Some("3.12")),
            ("python3.13t", Some("3.13t")),
            ("python3.11 (deleted)", Some("3.11")),
            ("pypy3.10", Some("3.10")),
            ("python3-config", None),
            ("pythonw", None),
            ("ipython3", None),
        ] {
            assert_eq!(version_in_name(name), version, "{name}");
        }
    }

    #[test]
    fn a_directory_tells_the_third_number() {
        assert_eq!(version(Path::new("/root/.pyenv/versions/3.12.1/bin/python3.12")), "3.12.1");
        assert_eq!(version(Path::new("/opt/python-3.9.18/bin/python3.9")), "3.9.18");
        assert_eq!(version(Path::new("/opt/10.2.3/bin/python3.9")), "3.9");
        assert_eq!(version(Path::new("/usr/bin/python3.11")), "3.11");
    }

    #[test]
    fn interpreters_on_the_path_and_in_processes() {
        let root = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &[u8]| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        put("usr/bin/python3.11", b"\x7fELF...");
        put("usr/bin/python3-config", b"\x7fELF...");
        std::os::unix::fs::symlink("python3.11", root.path().join("usr/bin/python3")).unwrap();
        put("home/shims/python3", b"#!/usr/bin/env bash\n");
        put("home/versions/3.8.18/bin/python3.8", b"\x7fELF...");
        put(
            "lib64/libc.so.6",
            b"\x7fELF...GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright",
        );
        for (pid, uid, exe) in
            [(7, 1000, "/opt/conda/bin/python3.10"), (8, 0, "/usr/bin/python3"), (9, 1000, "/bin/sh")]
        {
            put(
                &format!("proc/{pid}/status"),
                format!("Pid:\t{pid}\nTgid:\t{pid}\nUid:\t{uid}\t{uid}\n").as_bytes(),
            );
            std::os::unix::fs::symlink(exe, root.path().join(format!("proc/{pid}/exe"))).unwrap();
            put(&format!("proc/{pid}/maps"), b"1000-2000 r--p 0 fe:00 7 /usr/lib/libjemalloc.so.2\n2000-3000 r-xp 0 fe:00 7 /usr/lib/libjemalloc.so.2\n");
        }
        let found = read(root.path(), OsStr::new("/home/shims:/usr/bin:/missing"), 1000);
        let pythons: Vec<_> =
            found.pythons.iter().map(|p| (p.path.file_name().unwrap(), &*p.version, &*p.pids)).collect();
        let name = OsStr::new;
        assert_eq!(
            pythons,
            [
                (name("python3.8"), "3.8.18", &[][..]),
                (name("python3.11"), "3.11", &[]),
                (name("python3.10"), "3.10", &[7]),
            ]
        );
        let expected =
            Allocator { name: "jemalloc", library: "/usr/lib/libjemalloc.so.2".into(), pids: vec![7] };
        assert_eq!((found.allocators, found.glibc.as_deref()), (vec![expected], Some("2.36")));
    }
}
