//! Through what objects are held, and what is not told.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "census/look.rs"]
mod look;
#[path = "census/truth.rs"]
mod truth;

mod target;

use std::process::Command;

use look::{copy, newest_of_each, program};
use nilometer_cpython::{CensusOptions, Detail, census};
use nilometer_trace::heap::{Fold, Graph, Holder, Part, ShownKinds};
use target::Target;

/// How objects hold the one that a program calls so: the kind of the holder, and the label.
fn ways(graph: &Graph, target: &Target, name: &str) -> Vec<String> {
    let object = graph.at(target.truth["addresses"][name].as_u64().unwrap()).unwrap();
    let mut ways = Vec::new();
    for holder in 0..graph.len() as u32 {
        for edge in graph.edges.range(holder).filter(|edge| graph.edges.to[*edge] == object) {
            let name = |name: u32| &graph.names[name as usize];
            let label = match graph.edges.label[edge].part().unwrap() {
                Part::Attribute(id) => format!(".{}", name(id)),
                Part::Key(id) => format!("['{}']", name(id)),
                Part::Local(id) => format!("local {}", name(id)),
                other => format!("{other:?}"),
            };
            ways.push(format!("{} {label}", graph.kind_of(holder).name));
        }
    }
    ways
}

/// Since 3.11 instances have no dict, and values of their own.
fn has(ways: &[String], expected: &[&str]) -> bool {
    ways.iter().any(|way| expected.contains(&way.as_str()))
}

#[test]
fn every_way_of_holding_has_its_label() {
    for python in newest_of_each() {
        let mut command = Command::new(&python);
        let target = Target::run(command.env("PYTHONDONTWRITEBYTECODE", "1").arg(program("census_names.py")));
        let (python, image) = copy(target.pid());
        let graph = census(&python, &image, &CensusOptions::default());
        for (name, expected) in [
            ("attribute", &["dict .leaf", "__main__.Tree .leaf"][..]),
            ("slot", &["__main__.Slotted .first"]),
            ("index", &["dict Index(17)"]),
            ("negative", &["dict Position(1)"]),
            ("secret", &["dict Position(0)"]),
            ("tuple", &["dict Position(1)"]),
            ("named", &["dict ['plain']"]),
            ("planted", &["dict .planted"]),
            ("cell", &["tuple local held"]),
            ("generator", &["generator local batch", "frame local batch"]),
        ] {
            let ways = ways(&graph, &target, name);
            assert!(has(&ways, expected), "{}: {name}: {ways:?}", python.version);
        }
        let told: Vec<_> = graph.names.iter().filter(|name| name.contains("pass word")).collect();
        assert!(told.is_empty(), "{}: {told:?}", python.version);
        let batch = graph.at(target.truth["addresses"]["local"].as_u64().unwrap()).unwrap();
        let root = graph.roots.iter().find(|root| root.object == batch && root.holder == Holder::Frame);
        let name = root.map(|root| root.name.as_str()).unwrap_or_default();
        let fits = name.starts_with("census_names.py:") && name.ends_with(" run() batch");
        assert!(fits, "{}: {name:?}", python.version);
    }
}

#[test]
fn keys_are_told_when_they_are_asked_for() {
    for python in newest_of_each() {
        let mut command = Command::new(&python);
        let target = Target::run(command.env("PYTHONDONTWRITEBYTECODE", "1").arg(program("census_names.py")));
        let (python, image) = copy(target.pid());
        let options = CensusOptions { detail: Detail::Graph, with_values: true };
        let graph = census(&python, &image, &options);
        let ways = ways(&graph, &target, "secret");
        assert!(has(&ways, &["dict ['pass word 1']"]), "{}: {ways:?}", python.version);
    }
}

#[test]
fn counts_have_the_same_objects_without_names() {
    for python in newest_of_each() {
        let mut command = Command::new(&python);
        let target = Target::run(command.env("PYTHONDONTWRITEBYTECODE", "1").arg(program("census_names.py")));
        let (python, image) = copy(target.pid());
        let whole = census(&python, &image, &CensusOptions::default());
        let counts =
            census(&python, &image, &CensusOptions { detail: Detail::Counts, ..CensusOptions::default() });
        assert!(counts.edges.label.is_empty());
        assert!(!counts.dict_owners.is_empty() && whole.dict_owners.is_empty());
        assert_eq!(shown_kinds(&counts), shown_kinds(&whole), "{}", python.version);
        assert_eq!(counts.objects, whole.objects, "{}", python.version);
        assert_eq!(
            (counts.edges.start, counts.edges.to),
            (whole.edges.start, whole.edges.to),
            "{}",
            python.version
        );
    }
}

/// Dicts with their owners, as tables show them.
fn shown_kinds(graph: &Graph) -> Vec<String> {
    let kinds = ShownKinds::of(graph, &Fold::of(graph));
    (0..graph.len() as u32).map(|object| kinds.name(object).to_owned()).collect()
}
