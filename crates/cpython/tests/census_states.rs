//! The census of processes in other states: other allocators, in the middle of something, dead, several interpreters.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "census/look.rs"]
mod look;
#[path = "census/truth.rs"]
mod truth;

mod target;

use std::process::Command;

use look::{Look, copy, newest_of_each, program};
use nilometer_cpython::{CensusOptions, census, locate};
use nilometer_trace::heap::{Holder, Nature};
use target::Target;

/// Nothing is absent, nothing is bogus, and the counts add up.
fn holds(mut look: Look, share: f64) -> Look {
    let truth = look.truth();
    let (graph, version) = (&look.graph, look.python.version);
    assert_eq!(truth.absent(graph), [""; 0], "{version}: absent");
    assert_eq!(truth.bogus(graph), [""; 0], "{version}: bogus");
    assert_eq!(truth.wrong_referents(graph), [""; 0], "{version}: referents");
    look.adds_up(share);
    look
}

#[test]
fn without_pools_all_is_found_by_reference() {
    for python in newest_of_each() {
        let mut command = Command::new(&python);
        command.env("PYTHONMALLOC", "malloc").arg(program("census.py")).arg("small");
        let look = holds(Look::at(&mut command), 0.999);
        assert_eq!(look.graph.quality.pools, 0);
    }
}

/// The cache of attribute lookups borrows: it knows objects that are no more, and what came to their places.
#[test]
fn a_count_and_a_type_where_an_object_was_are_no_object() {
    let mut seen = 0;
    for python in newest_of_each() {
        let mut command = Command::new(&python);
        let target = Target::run(command.env("PYTHONMALLOC", "malloc").arg(program("census_stale.py")));
        let fakes: Vec<u64> = serde_json::from_value(target.truth["fakes"].clone()).unwrap();
        let (python, image) = copy(target.pid());
        let graph = census(&python, &image, &CensusOptions::default());
        seen += fakes.len();
        let taken = fakes.iter().filter(|fake| graph.at(**fake).is_some()).count();
        assert_eq!(taken, 0, "{}: of {}", python.version, fakes.len());
    }
    assert!(seen > 100, "{seen} places were taken by something else");
}

#[test]
fn the_debug_allocator_is_seen_through() {
    for python in newest_of_each() {
        let mut command = Command::new(&python);
        command.env("PYTHONMALLOC", "debug").arg(program("census.py")).arg("small");
        let look = holds(Look::at(&mut command), 0.999);
        assert!(look.graph.quality.pools > 100);
    }
}

#[test]
fn a_collection_under_way_hides_nothing() {
    for python in newest_of_each() {
        let target = Target::run(Command::new(&python).arg(program("census_collecting.py")));
        let (python, image) = copy(target.pid());
        let graph = census(&python, &image, &CensusOptions::default());
        // Each holds the next, and all are large: only the lists and references lead to them.
        for list in target.truth["lists"].as_array().unwrap() {
            let object = graph.at(list.as_u64().unwrap());
            assert_eq!(
                object.map(|object| graph.kind_of(object).nature),
                Some(Nature::Tuple),
                "{}",
                python.version
            );
        }
        let quality = &graph.quality;
        let exact = quality.refcount_exact as f64 / quality.refcount_checked as f64;
        assert!(exact > 0.99, "{}: {quality:?}", python.version);
    }
}

#[test]
fn a_busy_allocator_is_read_at_any_instant() {
    for python in newest_of_each() {
        let target = Target::run(Command::new(&python).arg(program("census_busy.py")));
        for _ in 0..5 {
            let (python, image) = copy(target.pid());
            let graph = census(&python, &image, &CensusOptions::default());
            let quality = &graph.quality;
            let exact = quality.refcount_exact as f64 / quality.refcount_checked as f64;
            // It may stand in the deletion of half of a list, whose items only C code holds then.
            assert!(exact > 0.9 && quality.dangling < 100, "{}: {quality:?}", python.version);
            let kept = target.truth["kept"].as_array().unwrap();
            assert!(kept.iter().all(|kept| graph.at(kept.as_u64().unwrap()).is_some()), "{}", python.version);
        }
    }
}

#[test]
fn objects_of_every_interpreter_are_found() {
    for python in newest_of_each() {
        let target = Target::start(&python, "subinterpreters.py");
        let (python, image) = copy(target.pid());
        let graph = census(&python, &image, &CensusOptions::default());
        let version = python.version;
        assert_eq!(graph.origin.interpreters, 3, "{version}");
        let modules = graph.roots.iter().filter(|root| root.holder == Holder::Modules);
        assert_eq!(modules.count(), 3, "{version}");
        let quality = &graph.quality;
        let exact = quality.refcount_exact as f64 / quality.refcount_checked as f64;
        println!("{version}: {} objects, {:.3} %", graph.len(), exact * 100.0);
        assert!(exact > 0.99, "{version}: {quality:?}");
        assert!(quality.unreached * 50 < graph.len() as u64, "{version}: {quality:?}");
    }
}

#[test]
fn a_core_file_has_the_same_objects() {
    if Command::new("gcore").arg("--version").output().is_err() {
        nilometer_lab::skip("gcore", "apt-get install gdb");
        return;
    }
    for python in newest_of_each() {
        let folder = tempfile::tempdir().unwrap();
        let mut look = Look::of(&python, &["small"]);
        let file = folder.path().join("core");
        let pid = look.target.pid();
        let made = Command::new("gcore").arg("-o").arg(&file).arg(pid.to_string()).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let core = nilometer_image::core::open(&folder.path().join(format!("core.{pid}")), None).unwrap();
        let found = locate(&core.image, &core.modules).unwrap();
        look.graph = census(&found, &core.image, &CensusOptions::default());
        look.image = core.image;
        holds(look, 0.999);
    }
}
