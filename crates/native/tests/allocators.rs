//! Other allocators: named, and never mistaken for glibc's.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests; skips are told")]

mod process;

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use nilometer_native::allocator::{Allocator, names};
use nilometer_native::glibc::{Error, Malloc};
use process::{Ready, compile, programs};

/// A library out of a Debian package, or the reason why it cannot be had.
fn library(package: &str, name: &str) -> Result<PathBuf, String> {
    let fetch =
        Command::new("sh").arg(programs().join("fetch_debian.sh")).args(["bookworm", package]).output();
    let fetch = fetch.map_err(|error| error.to_string())?;
    if !fetch.status.success() {
        return Err(String::from_utf8_lossy(&fetch.stderr).into_owned());
    }
    let root = PathBuf::from(String::from_utf8_lossy(&fetch.stdout).trim());
    Ok(root.join("usr/lib/x86_64-linux-gnu").join(name))
}

fn shapes() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compile("allocators", "shapes.c", &["-lpthread"]))
}

fn check(package: &str, file: &str, name: &str) {
    let library = match library(package, file) {
        Ok(library) => library,
        Err(reason) => {
            nilometer_lab::skip("apt-get", &reason);
            return;
        }
    };
    let ready = Ready::start(Command::new(shapes()).arg("single").env("LD_PRELOAD", &library));
    let (capture, modules) = ready.capture();
    let expected = Allocator { name: "", module: library.canonicalize().unwrap(), inside: false };
    let found = names(&modules);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!((found[0].name, &found[0].module), (name, &expected.module));
    // glibc's own malloc may have served the dynamic linker, and nobody after that.
    let in_use = Malloc::read(&capture.image, &modules).map(|malloc| malloc.total().in_use_bytes);
    assert!(matches!(in_use, Err(Error::NoArena) | Ok(0..100_000)), "{in_use:?}");
}

#[test]
fn jemalloc_is_named() {
    check("libjemalloc2", "libjemalloc.so.2", "jemalloc");
}

#[test]
fn tcmalloc_is_named() {
    check("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4", "tcmalloc");
}

#[test]
fn mimalloc_is_named() {
    check("libmimalloc2.0", "libmimalloc.so.2.0", "mimalloc");
}

#[test]
fn a_plain_program_has_none() {
    let ready = Ready::start(Command::new(shapes()).arg("single"));
    assert_eq!(names(&ready.capture().1), []);
}

#[test]
fn one_inside_the_program_is_named_by_its_symbols() {
    let target = compile("inside", "own_allocator.c", &["-rdynamic"]);
    let ready = Ready::start(&mut Command::new(&target));
    let found = names(&ready.capture().1);
    assert_eq!(found, [Allocator { name: "mimalloc", module: target.canonicalize().unwrap(), inside: true }]);
}
