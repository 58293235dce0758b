//! Symbols are found in every kind of program, wherever its file is.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)] // helpers of tests are outside `#[test]` functions
#![allow(clippy::print_stderr)] // skips are told

mod lab;

use std::path::Path;
use std::process::Command;

use lab::{Target, c_program, install, skip};
use nilometer_image::Memory;
use nilometer_image::live::{CaptureOptions, Peek, capture};

/// Addresses that the program told against those of its symbols.
fn assert_symbols(target: &Target) {
    let peek = Peek::open(target.pid()).unwrap();
    let modules = peek.modules();
    let module = modules.at(target.address("rodata")).expect("the program is mapped");
    let names = ["main", "rodata", "relro", "nothing_of_that_name"];
    let told = |name: &str| target.areas.get(name).map(|area| area.0);
    assert_eq!(module.symbols(&names), names.map(told), "{}", module.path().display());
    assert_eq!(module.build_id().map(|id| id.len()), Some(20));
    assert!(module.data_range().unwrap().contains(&target.address("data")));
    assert!(module.bss_range().unwrap().contains(&target.address("bss")));
    assert!(module.section(".rodata").unwrap().contains(&target.address("rodata")));
}

#[test]
fn programs_of_every_kind_tell_their_symbols() {
    for flags in [&[][..], &["-no-pie"], &["-static"], &["-static-pie"], &["-rdynamic"]] {
        assert_symbols(&Target::start(&mut Command::new(c_program("patterns.c", flags))));
    }
}

#[test]
fn a_stripped_program_tells_what_it_exports() {
    let target = Target::start(&mut Command::new(c_program("patterns.c", &["-rdynamic", "-s"])));
    assert_symbols(&target);
    let target = Target::start(&mut Command::new(c_program("patterns.c", &["-s"])));
    let modules = Peek::open(target.pid()).unwrap().modules();
    let module = modules.at(target.address("rodata")).unwrap();
    assert_eq!(module.symbols(&["rodata"]), [None]);
    assert!(module.bias().is_some() && module.data_range().is_some());
}

#[test]
fn a_library_is_found_by_its_name_and_its_hash_table() {
    let target = Target::patterns();
    let peek = Peek::open(target.pid()).unwrap();
    let modules = peek.modules();
    let library =
        modules.find(|name| name.starts_with("libc.so") || name.starts_with("libc-")).expect("libc");
    let symbols = library.symbols(&["malloc", "free", "errno"]);
    assert!(library.range().contains(&symbols[0].unwrap()) && library.range().contains(&symbols[1].unwrap()));
    assert_eq!(symbols[2], None, "one for each thread");
    assert_eq!(peek.u32(library.range().start), Some(u32::from_le_bytes(*b"\x7fELF")));
    assert!(modules.find(|name| name == "libnothing.so").is_none());
}

#[test]
fn a_deleted_program_is_still_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("patterns");
    install(&c_program("patterns.c", &[]), &path);
    let target = Target::start(&mut Command::new(&path));
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, b"another file of that name").unwrap();
    assert_symbols(&target);
    let copy = capture(&Peek::open(target.pid()).unwrap(), &CaptureOptions::default(), &[]).unwrap();
    assert_eq!(copy.image.name(target.address("rodata")).as_deref(), Some("a constant that no copy holds"));
}

/// In a mount and a pid namespace of its own, with a program that only it can see.
#[test]
fn a_program_of_another_namespace_is_read_through_its_root() {
    let program = c_program("patterns.c", &[]);
    let inside = "/mnt/nilo-only-inside";
    let script = format!("mount -t tmpfs none /mnt && cp '{}' {inside} && exec {inside}", program.display());
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "--kill-child", "sh", "-c", &script]);
    let allowed = Command::new("unshare").args(["--mount", "--pid", "--fork", "true"]).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        return skip("namespaces", "unshare --mount --pid is refused here");
    }
    let outer = Target::start(&mut command);
    let children = format!("/proc/{0}/task/{0}/children", outer.pid());
    let pid: i32 = std::fs::read_to_string(children).unwrap().trim().parse().unwrap();
    assert!(!Path::new(inside).exists());
    let peek = Peek::open(pid).unwrap();
    assert_eq!((peek.pid(), peek.inner_pid()), (pid, Some(1)));
    let modules = peek.modules();
    let module = modules.find(|name| name == "nilo-only-inside").unwrap();
    assert_eq!(module.symbols(&["rodata"]), [Some(outer.address("rodata"))]);
    let copy = capture(&peek, &CaptureOptions::default(), &[]).unwrap();
    assert_eq!(copy.image.name(outer.address("rodata")).as_deref(), Some("a constant that no copy holds"));
}
