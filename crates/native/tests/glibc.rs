//! glibc's malloc against what the programs say of themselves, with this machine's libc and with others.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests; skips are told")]

mod libc;
mod process;
mod shape;

use std::process::Command;

use libc::Libc;
use nilometer_image::live::{Mode, Peek};
use nilometer_native::glibc::{Doubt, Malloc, State, Visitor, survey};
use process::{Ready, compile};
use shape::Shape;

macro_rules! shapes {
    ($($name:ident)*) => {
        /// Totals, arenas and each named block, to the byte.
        mod here {
            $(#[test]
            fn $name() {
                super::Shape::new(stringify!($name)).check();
            })*
        }

        const SHAPES: &[&str] = &[$(stringify!($name)),*];
    };
}

shapes!(single cached fastbins threads few_arenas heaps ended held trimmed mapped threshold aligned pieces foreign);

fn check_all(libc: Result<Libc, String>) {
    let libc = match libc {
        Ok(libc) => libc,
        Err(reason) => {
            nilometer_lab::skip("apt-get", &reason);
            return;
        }
    };
    let program = libc.build();
    for name in SHAPES {
        println!("{} {name}", libc.version());
        let shape = Shape::start(Command::new(&program).arg(name));
        shape.check();
        assert_eq!(shape.read().version, Some(libc.version()));
    }
}

#[test]
fn debian_bullseye() {
    check_all(Libc::of_debian("bullseye"));
}

#[test]
fn debian_trixie() {
    check_all(Libc::of_debian("trixie"));
}

#[test]
fn debian_unstable() {
    check_all(Libc::of_debian("sid"));
}

/// Its libc is inside: no library to look for.
#[test]
fn a_static_program() {
    let program = compile("static", "shapes.c", &["-static", "-lpthread"]);
    for shape in ["single", "threads", "mapped", "pieces"] {
        Shape::start(Command::new(&program).arg(shape)).check();
    }
}

#[test]
fn longer_thread_caches_by_tunable() {
    let tunables = "glibc.malloc.tcache_count=1000:glibc.malloc.tcache_max=1032";
    let shape = Shape::start(Command::new(shape::program()).arg("fastbins").env("GLIBC_TUNABLES", tunables));
    shape.check();
    assert!(shape.read().total().tcache_bytes > 3 * 1000 * 48);
}

#[test]
fn no_thread_cache_by_tunable() {
    let tunables = "glibc.malloc.tcache_count=0";
    let shape = Shape::start(Command::new(shape::program()).arg("fastbins").env("GLIBC_TUNABLES", tunables));
    shape.check();
    let total = shape.read().total();
    assert_eq!(total.tcache_bytes, 0);
    assert!(total.fastbin_bytes >= 4000 * 48);
}

/// What is freed and held is resident, and what was trimmed is not.
#[test]
fn held_memory_is_resident_until_trimmed() {
    let resident = |name: &str| {
        let shape = Shape::new(name);
        let (capture, modules) = shape.ready.capture();
        let malloc = Malloc::read(&capture.image, &modules).unwrap();
        let held: u64 = malloc.free_ranges().map(|(_, range)| capture.image.resident(range).unwrap()).sum();
        let trimmable: u64 = malloc.trimmable_ranges().map(|range| range.end - range.start).sum();
        assert_eq!(trimmable, malloc.total().trimmable_bytes);
        (held >> 20, trimmable >> 20)
    };
    assert_eq!(resident("held"), (200, 200));
    assert_eq!(resident("trimmed"), (0, 200));
}

/// An overwritten header costs the chunks up to the next one that makes sense, and is said.
#[test]
fn an_overwritten_header_is_a_doubt() {
    let shape = Shape::new("corrupt");
    let malloc = shape.read();
    assert!(
        malloc.doubts.iter().any(|doubt| matches!(doubt, Doubt::Broken { places: 1, .. })),
        "{:?}",
        malloc.doubts
    );
    let total = malloc.total();
    assert!((1..4000).contains(&total.unknown_bytes), "{total:?}");
    let found = shape.truth.blocks.iter().filter(|(_, address, _)| malloc.is_in_use(*address)).count();
    assert!(shape.truth.blocks.len() - found <= 24, "{found} of {}", shape.truth.blocks.len());
}

/// Threads stand anywhere in malloc when they are stopped.
#[test]
fn threads_stopped_inside_malloc() {
    let shape = Shape::new("busy");
    for _ in 0..40 {
        let (capture, modules) = shape.ready.capture_by(Mode::Copy);
        let malloc = Malloc::read(&capture.image, &modules).unwrap();
        let total = malloc.total();
        let unknown = total.unknown_bytes * 100;
        assert!(unknown <= total.system_bytes, "{:?} {total:?}", malloc.doubts);
    }
}

/// A core has no names for its mappings, and no residency.
#[test]
fn a_core_says_the_same() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["single", "threads", "mapped", "pieces", "held"] {
        let shape = Shape::new(name);
        let core = folder.path().join(name);
        let gcore = Command::new("gcore").arg("-o").arg(&core).arg(shape.ready.pid().to_string()).output();
        let Ok(output) = gcore else {
            nilometer_lab::skip("gcore", "apt-get install gdb");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let path = core.with_extension(shape.ready.pid().to_string());
        let core = nilometer_image::core::open(&path, None).unwrap();
        let malloc = Malloc::read(&core.image, &core.modules).unwrap();
        assert_eq!(malloc.doubts, [], "{name}");
        shape.check_totals(&malloc);
        shape.check_arenas(&malloc);
        shape.check_blocks(&malloc);
        std::fs::remove_file(path).unwrap();
    }
}

struct Nobody;

impl Visitor for Nobody {
    fn stretch(&mut self, _: State, _: std::ops::Range<u64>) {}
    fn trimmable(&mut self, _: std::ops::Range<u64>) {}
}

/// A bin and the chunks in it are read one after the other, and malloc goes on meanwhile.
#[test]
fn the_arena_of_a_program_that_never_rests_is_found_at_each_look() {
    let program = compile("restless", "restless.c", &["-lpthread"]);
    let ready = Ready::start(&mut Command::new(program));
    for _ in 0..40 {
        let told = survey(&Peek::open(ready.pid()).unwrap(), &[], &mut Nobody).unwrap();
        assert!(told.arenas == 1 && told.in_use_bytes > 1 << 20, "{told:?}");
        let (capture, modules) = ready.capture_by(Mode::Off);
        assert!(Malloc::read(&capture.image, &modules).is_ok());
    }
}
