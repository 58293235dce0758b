//! A core tells the same as the living process did.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)] // helpers of tests are outside `#[test]` functions
#![allow(clippy::print_stderr)] // skips are told

mod lab;

use std::path::{Path, PathBuf};
use std::process::Command;

use lab::{FILLED, Target, c_program, install, pattern, skip};
use nilometer_image::core::{self, Core, Missing};
use nilometer_image::live::{CaptureOptions, Peek, capture};
use nilometer_image::{Error, Memory};

fn gcore(pid: i32, directory: &Path) -> Option<PathBuf> {
    let prefix = directory.join("core");
    let made = Command::new("gcore").arg("-o").arg(&prefix).arg(pid.to_string()).output();
    if made.is_err() {
        skip("gdb", "gcore is not installed");
        return None;
    }
    Some(prefix.with_file_name(format!("core.{pid}"))).filter(|path| path.exists())
}

fn assert_patterns(target: &Target, core: &Core) {
    for name in FILLED {
        let (start, bytes) = target.areas[name];
        let mut found = vec![0; bytes];
        core.image.read(start, &mut found).unwrap_or_else(|| panic!("{name} is missing"));
        assert!(found[..bytes / 8 * 8] == pattern(name, bytes), "{name} differs");
    }
}

fn assert_files(target: &Target, core: &Core) {
    assert_eq!(core.image.name(target.address("rodata")).as_deref(), Some("a constant that no copy holds"));
    let module = core.modules.at(target.address("rodata")).unwrap();
    assert_eq!(module.symbols(&["main", "data"])[0], Some(target.address("main")));
}

#[test]
fn a_core_of_gdb_equals_the_living_process() {
    // Without rseq: the kernel writes the processor's number to a thread's memory whenever it goes on.
    let mut command = Command::new(c_program("patterns.c", &[]));
    let mut target = Target::start(command.env("GLIBC_TUNABLES", "glibc.pthread.rseq=0"));
    target.settle();
    let directory = tempfile::tempdir().unwrap();
    let live = capture(&Peek::open(target.pid()).unwrap(), &CaptureOptions::default(), &[]).unwrap();
    let Some(path) = gcore(target.pid(), directory.path()) else { return };
    let core = core::open(&path, None).unwrap();
    assert_patterns(&target, &core);
    assert_files(&target, &core);
    assert_eq!(
        (core.pid, core.partial.len(), core.missing.len()),
        (target.pid(), 0, 0),
        "{:?}",
        core.missing
    );
    let mut threads: Vec<i32> = core.threads.iter().map(|thread| thread.id).collect();
    threads.sort_unstable();
    assert_eq!(threads, live.threads);
    for (start, bytes) in live.image.segments() {
        let mut found = vec![0; bytes.len()];
        core.image.read(start, &mut found).unwrap_or_else(|| panic!("{start:x} is not in the core"));
        assert!(found == bytes, "{start:x} differs");
    }
}

/// `kernel.core_pattern` decides where it goes; only a plain file name leads here.
#[test]
fn a_core_of_the_kernel_is_read_with_its_files_verified() {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.contains(['|', '/', '%']) {
        return skip("a plain kernel.core_pattern", pattern.trim());
    }
    let directory = tempfile::tempdir().unwrap();
    let program = directory.path().join("program");
    install(&c_program("patterns.c", &[]), &program);
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c unlimited && exec ./program"]).current_dir(directory.path());
    let mut target = Target::start(&mut command);
    target.settle();
    let _open = target.child.stdin.take(); // its end would wake a thread
    Command::new("kill").args(["-ABRT", &target.pid().to_string()]).status().unwrap();
    target.child.wait().unwrap();
    let Some(path) = find_core(directory.path()) else { return skip("a core", "the kernel wrote none") };
    let core = core::open(&path, None).unwrap();
    assert_patterns(&target, &core);
    assert_files(&target, &core);
    assert_eq!((core.missing, core.command), (Vec::new(), "program".to_owned()));
    missing_files_are_listed(&target, &path, &program);
    a_cut_core_is_partial(&path);
}

fn find_core(directory: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.into_iter().find(|path| path.file_name().unwrap().to_str().unwrap().starts_with("core"))
}

/// The program is another one now, and below an empty root there is none.
fn missing_files_are_listed(target: &Target, path: &Path, program: &Path) {
    let is_program = |file: &&core::MissingFile| file.path == program;
    std::fs::remove_file(program).unwrap();
    install(&c_program("patterns.c", &["-O0"]), program);
    let changed = core::open(path, None).unwrap();
    let listed = changed.missing.iter().find(is_program).unwrap();
    let Missing::Other(Some(found)) = &listed.reason else { panic!("{listed:?}") };
    assert_eq!((found.len(), listed.build_id.as_ref().map(Vec::len)), (20, Some(20)));
    assert_ne!(Some(found), listed.build_id.as_ref());
    assert_eq!(changed.image.name(target.address("rodata")), None, "not from another program");
    let empty = tempfile::tempdir().unwrap();
    let nowhere = core::open(path, Some(empty.path())).unwrap();
    assert!(nowhere.missing.len() > 2 && nowhere.missing.iter().all(|file| file.reason == Missing::NotFound));
    assert!(nowhere.missing.iter().all(|file| file.build_id.is_some()), "{:?}", nowhere.missing);
}

fn a_cut_core_is_partial(path: &Path) {
    let bytes = std::fs::read(path).unwrap();
    let cut = path.with_extension("cut");
    for sixteenths in 0..16 {
        std::fs::write(&cut, &bytes[..bytes.len() * sixteenths / 16]).unwrap();
        match core::open(&cut, None) {
            Ok(core) => assert_eq!(core.partial.len(), 1, "{sixteenths}/16"),
            Err(error) => assert!(matches!(error, Error::NotACore { .. } | Error::Damaged { .. }), "{error}"),
        }
    }
}
