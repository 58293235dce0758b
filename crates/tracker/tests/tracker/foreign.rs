//! Programs and settings that are not made for preloading: left alone, and without noise.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

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
    let text = says(&session.command(program, "mode=all").output().unwrap());
    assert!(text.starts_with("ran 1"));
    assert!(session.finish().processes.is_empty());
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
    let text = says(&session.command(built, "mode=all").output().unwrap());
    assert!(text.starts_with("ran 1"), "{text}");
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
    assert_eq!(told.unknown_frees() as usize, 100 - made_there, "foreign frees are told as they are");
}

#[test]
fn an_inert_library_is_silent_under_every_hook() {
    let session = Session::new();
    let mut command = session.command(program("exact.c"), "mode=all");
    let output = command.env_remove("NILO_TRACKER").output().unwrap();
    assert!(says(&output).contains("pvalloc"));
    assert!(session.finish().processes.is_empty());
}
