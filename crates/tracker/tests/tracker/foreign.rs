//! Programs and settings that are not made for preloading: left alone, and without noise.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_embed::{Obstacle, read_obstacle};
use nilometer_ring::Event;

use super::allocators::fetch;
use super::hazards::number_after;
use super::session::{Session, build, describe, program};

fn says(output: &std::process::Output) -> String {
    assert!(output.status.success(), "{}", describe(output));
    assert!(output.stderr.is_empty(), "{}", describe(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_static_program_runs_untouched() {
    let session = Session::new();
    let program = build("plain.c", &["-O1", "-static"]);
    let text = says(&session.command(&program, "mode=all").output().unwrap());
    assert!(text.starts_with("ran 1"));
    assert!(session.finish().processes.is_empty());
    assert_eq!(read_obstacle(&program).unwrap(), Some(Obstacle::Static));
}

/// A program for 32 bits, linked with the distribution's library for them.
fn program_of_32_bits(folder: &Path) -> Option<PathBuf> {
    let library = fetch("libc6-i386", "libc.so.6")?;
    let linker = library.with_file_name("ld-linux.so.2");
    let built = folder.join("tiny");
    let output = Command::new("gcc")
        .args(["-m32", "-fno-pie", "-no-pie", "-nostdlib", "-fno-builtin", "-o"])
        .arg(&built)
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/tiny.c"))
        .arg(&library)
        .arg(format!("-Wl,--dynamic-linker={}", linker.display()))
        .arg(format!("-Wl,-rpath,{}", linker.parent()?.display()))
        .output()
        .ok()?;
    if !output.status.success() || Command::new(&built).status().is_err() {
        nilometer_lab::skip("32-bit programs", &describe(&output));
        return None;
    }
    Some(built)
}

#[test]
fn a_program_of_32_bits_runs_silently() {
    let session = Session::new();
    let Some(tiny) = program_of_32_bits(session.folder.path()) else { return };
    assert_eq!(read_obstacle(&tiny).unwrap(), Some(Obstacle::OtherMachine));
    assert_eq!(says(&session.command(&tiny, "mode=all").output().unwrap()), "ran 1\n");
    let mut shell = session.command("/bin/sh", "mode=all");
    assert_eq!(
        says(&shell.arg("-c").arg(format!("{0}; {0}", tiny.display())).output().unwrap()),
        "ran 1\nran 1\n"
    );
    // Without the stand-in the linker complains: the silence above is ours.
    let mut direct = session.command(&tiny, "mode=all");
    let output = direct.env("LD_PRELOAD", session.file()).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("wrong ELF class"), "{}", describe(&output));
    assert!(session.finish().processes.iter().all(|told| told.allocations > 0), "the shells are tracked");
}

#[test]
fn a_sanitized_program_is_known_before_it_refuses_us() {
    let program = build("plain.c", &["-O1", "-fsanitize=address"]);
    let found = read_obstacle(&program).unwrap();
    assert!(matches!(&found, Some(Obstacle::Sanitizer(name)) if name.starts_with("libasan")), "{found:?}");
    let session = Session::new();
    let output = session.command(&program, "mode=all").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(text.contains("does not come first"), "{}", describe(&output));
    // Whoever tells the sanitizer to let it be gets both.
    let mut command = session.command(&program, "mode=all");
    let output = command.env("ASAN_OPTIONS", "verify_asan_link_order=0").output().unwrap();
    assert!(says(&output).starts_with("ran 1"));
    let heard = session.finish();
    let told = heard.processes.last().unwrap();
    assert!(told.events.iter().any(|(_, _, e)| matches!(e, Event::Alloc { bytes: 35_000, .. })));
    assert_eq!(told.live_of(35_000), 0);
}

/// A folder where nothing can be loaded from: one that is there, or one that root mounts.
struct Noexec {
    folder: PathBuf,
    mounted: bool,
}

impl Noexec {
    fn find(own: &Path) -> Option<Self> {
        let folder = own.join("noexec");
        std::fs::create_dir(&folder).unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "noexec,mode=700,size=8m", "none"]).arg(&folder);
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self { folder, mounted: true });
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
        let places = mounts.lines().filter_map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            words.get(3)?.split(',').any(|option| option == "noexec").then(|| PathBuf::from(words[1]))
        });
        let mut made = places.map(|place| place.join(format!("nilo-test-{}", std::process::id())));
        made.find(|folder| std::fs::create_dir(folder).is_ok()).map(|folder| Self { folder, mounted: false })
    }
}

impl Drop for Noexec {
    fn drop(&mut self) {
        if self.mounted {
            let _ = Command::new("umount").arg(&self.folder).status();
        } else {
            let _ = std::fs::remove_dir_all(&self.folder);
        }
    }
}

#[test]
fn where_nothing_may_be_executed_the_library_comes_from_memory() {
    let session = Session::new();
    let Some(noexec) = Noexec::find(session.folder.path()) else {
        return nilometer_lab::skip("root", "to mount a file system without programs");
    };
    let unpacked = nilometer_embed::unpack_somewhere(&[&noexec.folder]).unwrap();
    assert!(unpacked.held.is_some() && unpacked.preload.starts_with("/proc"), "{unpacked:?}");
    let mut command = session.command(program("plain.c"), "mode=all");
    let output = command.env("LD_PRELOAD", &unpacked.preload).output().unwrap();
    assert!(says(&output).starts_with("ran 1"));
    // The next folder is tried before.
    let elsewhere = session.folder.path().join("elsewhere");
    let unpacked = nilometer_embed::unpack_somewhere(&[&noexec.folder, &elsewhere]).unwrap();
    assert!(unpacked.held.is_none() && unpacked.preload.starts_with(&elsewhere), "{unpacked:?}");
    let heard = session.finish();
    assert!(heard.only().events.iter().any(|(_, _, e)| matches!(e, Event::Alloc { bytes: 35_000, .. })));
}

#[test]
fn a_musl_program_runs_untouched() {
    let Some(linker) = fetch("musl", "ld-musl-x86_64.so.1") else { return };
    let Some(headers) = fetch("musl-dev", "Scrt1.o") else { return };
    let library = headers.parent().unwrap();
    let program = Session::deaf();
    let built = program.folder.path().join("plain");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/programs/plain.c");
    let status = Command::new("gcc")
        .args(["-nostdinc", "-isystem"])
        .arg(library.parent().unwrap().parent().unwrap().join("include/x86_64-linux-musl"))
        .args(["-nostdlib", "-o"])
        .arg(&built)
        .args([library.join("Scrt1.o"), library.join("crti.o")])
        .arg(source)
        .arg(&linker) // which is musl's libc as well
        .arg(library.join("crtn.o"))
        .arg(format!("-Wl,--dynamic-linker={}", linker.display()))
        .output()
        .unwrap();
    if !status.status.success() {
        nilometer_lab::skip("musl", &describe(&status));
        return;
    }
    let session = Session::new();
    let text = says(&session.command(&built, "mode=all").output().unwrap());
    assert!(text.starts_with("ran 1"), "{text}");
    assert!(matches!(read_obstacle(&built).unwrap(), Some(Obstacle::OtherLinker(_))));
    // Also when it finds the library: it has names for all that the library asks for.
    let mut direct = session.command(&built, "mode=all");
    assert!(says(&direct.env("LD_PRELOAD", session.file()).output().unwrap()).starts_with("ran 1"));
    assert!(session.finish().processes.is_empty());
}

#[test]
fn a_setuid_program_runs_untouched() {
    let session = Session::new();
    let copy = session.folder.path().join("suid");
    std::fs::copy(program("plain.c"), &copy).unwrap();
    let owned = Command::new("chown").arg("nobody").arg(&copy).status().is_ok_and(|s| s.success());
    std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).unwrap();
    if !owned {
        nilometer_lab::skip("root", "to give a file to another user");
        return;
    }
    std::fs::set_permissions(session.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(read_obstacle(&copy).unwrap(), Some(Obstacle::Privileged));
    let output = session.command(&copy, "mode=all").output().unwrap();
    assert!(output.status.success(), "{}", describe(&output));
    assert!(session.finish().processes.is_empty());
}

#[test]
fn a_cleared_environment_ends_the_tracking() {
    let session = Session::new();
    let output =
        session.command("/usr/bin/env", "mode=all").arg("-i").arg(program("plain.c")).output().unwrap();
    assert_eq!(says(&output), "ran 1 none\n");
    let heard = session.finish();
    assert!(heard.only().live_of(35_000) == 0 && heard.only().allocations < 5000);
}

#[test]
fn an_older_preload_is_kept() {
    let session = Session::new();
    let plugin = build("plugin.cc", &["-O1", "-shared", "-fPIC", "-DWHICH=7"]);
    let preload = format!("{}:{}", session.library.display(), plugin.display());
    let output =
        session.command(program("plain.c"), "mode=all").env("LD_PRELOAD", &preload).output().unwrap();
    assert_eq!(says(&output), format!("ran 1 {preload}\n"));
    let heard = session.finish();
    assert!(heard.only().events.iter().any(|(_, _, e)| matches!(e, Event::Alloc { bytes: 35_000, .. })));
}

#[test]
fn libraries_bound_to_themselves_do_no_harm() {
    let session = Session::new();
    let plugin = build("plugin.cc", &["-O1", "-shared", "-fPIC", "-DWHICH=8"]);
    let output = session.run("deepbind.c", "mode=all", &[plugin.to_str().unwrap(), "deep"]);
    assert_eq!(number_after(&String::from_utf8(output.stdout).unwrap(), "made"), 100);
    let heard = session.finish();
    let told = heard.only();
    assert_eq!(told.live_of(34_000), 0);
    let made_there =
        told.events.iter().filter(|(_, _, e)| matches!(e, Event::Alloc { bytes: 33_000, .. })).count();
    // Foreign frees are told as they are; a block that the library freed behind our back may hide one.
    let (unknown, foreign) = (told.unknown_frees() as usize, 100 - made_there);
    assert!(unknown <= foreign && unknown + 2 >= foreign, "{unknown} of {foreign}");
}

#[test]
fn an_inert_library_is_silent_under_every_hook() {
    let session = Session::new();
    let mut command = session.command(program("exact.c"), "mode=all");
    let output = command.env_remove("NILO_TRACKER").output().unwrap();
    assert!(says(&output).contains("pvalloc"));
    assert!(session.finish().processes.is_empty());
}
