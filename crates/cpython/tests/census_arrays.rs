//! Buffers: who owns them, how large they are, and that they need not be copied.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "census/look.rs"]
mod look;
#[path = "census/truth.rs"]
mod truth;

mod target;

use std::path::{Path, PathBuf};
use std::process::Command;

use look::{Look, copy, of_minor, program};
use nilometer_cpython::{CensusOptions, census, locate, prescan, uncovered};
use nilometer_image::live::{CaptureOptions, Peek, capture};
use nilometer_trace::heap::{Backing, Graph, Nature, Part, Payload, Special};
use target::Target;

/// An environment with packages, or why there is none.
fn environment(python: &Path, packages: &[&str]) -> Option<PathBuf> {
    let python = python.display().to_string();
    let words = [&["with", &python], packages].concat();
    nilometer_lab::environment(&words).map(PathBuf::from)
}

/// One environment for each minor version that can have one.
fn environments() -> Vec<PathBuf> {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let installed = |python: &PathBuf| python.starts_with(home.join(".pyenv"));
    let pythons = (8..=13).filter_map(|minor| of_minor(minor).into_iter().find(installed));
    let mut found: Vec<PathBuf> = pythons.filter_map(|python| environment(&python, &["numpy"])).collect();
    // The last release before the element types changed.
    let old =
        of_minor(11).into_iter().find(installed).and_then(|python| environment(&python, &["numpy==1.26.4"]));
    found.extend(old);
    found
}

fn payload(graph: &Graph, address: u64) -> Option<&Payload> {
    let owner = graph.at(address)?;
    graph.payloads.iter().find(|payload| payload.owner == owner)
}

/// Follows views to what they are views of.
fn owner(graph: &Graph, address: u64) -> u32 {
    let mut object = graph.at(address).unwrap();
    loop {
        let mut edges = graph.edges.range(object);
        let base = edges.find(|edge| graph.edges.label[*edge].part() == Some(Part::Special(Special::Base)));
        match base {
            Some(edge) => object = graph.edges.to[edge],
            None => return object,
        }
    }
}

#[test]
fn arrays_have_the_buffers_that_numpy_says() {
    for python in environments() {
        let mut look = Look::of(&python, &["small", "numpy"]);
        let truth = look.truth();
        let answer = look.target.ask("arrays");
        let (graph, version) = (&look.graph, look.python.version);
        assert_eq!(truth.absent(graph), [""; 0], "{version}: absent");
        assert_eq!(truth.wrong_referents(graph), [""; 0], "{version}: referents");
        look.adds_up(0.98);
        let arrays = answer["arrays"].as_array().unwrap();
        assert!(arrays.len() > 2000);
        for array in arrays {
            let [address, data, bytes, elements] = [0, 1, 2, 4].map(|index| array[index].as_u64().unwrap());
            let found = payload(graph, address);
            assert_eq!(graph.kind_of(graph.at(address).unwrap()).nature, Nature::Array, "{version}: {array}");
            if !array[3].as_bool().unwrap() || bytes == 0 {
                assert_eq!(found, None, "{version}: {array}");
                continue;
            }
            let found = found.unwrap_or_else(|| panic!("{version}: no payload: {array}"));
            assert_eq!(
                (found.address, found.bytes, found.elements),
                (data, bytes, Some(elements)),
                "{version}: {array}"
            );
            assert!(found.resident_bytes.unwrap() <= bytes + 4096, "{version}: {array}: {found:?}");
            let name = found.element.map(|name| graph.names[name as usize].as_str()).unwrap();
            assert!(same_type(name, array[5].as_str().unwrap()), "{version}: {array}: {name}");
        }
    }
}

/// numpy names texts by bits and records `void`.
fn same_type(ours: &str, numpys: &str) -> bool {
    let other = ["datetime64", "timedelta64", "str", "bytes", "void", "longdouble", "clongdouble"];
    ours == numpys || other.iter().any(|other| numpys.starts_with(other))
}

#[test]
fn a_mapped_file_is_told_as_one() {
    for python in environments().into_iter().take(2) {
        let mut look = Look::of(&python, &["numpy"]);
        let answer = look.target.ask("arrays");
        let graph = &look.graph;
        let mapped =
            answer["arrays"].as_array().unwrap().iter().filter(|array| array[2].as_u64() == Some(1 << 20));
        let owners: Vec<u32> = mapped.map(|array| owner(graph, array[0].as_u64().unwrap())).collect();
        let payload = |owner: &u32| graph.payloads.iter().find(|payload| payload.owner == *owner);
        let files: Vec<_> =
            owners.iter().filter_map(payload).filter(|it| it.backing == Backing::File).collect();
        assert!(!files.is_empty() && files.iter().all(|file| file.bytes == 1 << 20), "{owners:?}");
    }
}

#[test]
fn large_buffers_need_not_be_copied() {
    for python in environments() {
        let mut command = Command::new(&python);
        command.env("PYTHONDONTWRITEBYTECODE", "1").arg(program("census.py")).args(["numpy", "buffers"]);
        let whole = Look::at(&mut command);
        let peek = Peek::open(whole.target.pid()).unwrap();
        let python = locate(&peek, &peek.modules()).unwrap();
        let excluded = prescan(&python, &peek);
        let bytes: u64 = excluded.iter().map(|range| range.end - range.start).sum();
        let version = python.version;
        // Arrays of 4 times 2 MiB and 3 times 8 MiB, a bytearray of 5 MiB, bytes of 3 MiB, an array.array of 8 MiB.
        assert!(bytes > 40 << 20, "{version}: {bytes} in {excluded:x?}");
        let taken = capture(&peek, &CaptureOptions::default(), &excluded).unwrap();
        assert!(taken.excluded_bytes >= bytes * 9 / 10, "{version}: {} of {bytes}", taken.excluded_bytes);
        let graph = census(&python, &taken.image, &CensusOptions::default());
        assert_eq!(graph.objects, whole.graph.objects, "{version}");
        assert_eq!(graph.edges, whole.graph.edges, "{version}");
        assert_eq!(graph.payloads, whole.graph.payloads, "{version}");
        assert_eq!(uncovered(&graph, &excluded), [], "{version}");
        let gone = 0x1000_0000..0x1010_0000;
        assert_eq!(uncovered(&graph, std::slice::from_ref(&gone)), [gone], "{version}");
    }
}

#[test]
fn buffers_of_arrow_are_counted_once() {
    let home = PathBuf::from(std::env::var_os("HOME").unwrap_or_default());
    let python = of_minor(11).into_iter().find(|python| python.starts_with(home.join(".pyenv")));
    let Some(python) = python.and_then(|python| environment(&python, &["pandas", "pyarrow"])) else { return };
    let target = Target::start(&python, "census_arrow.py");
    let (python, image) = copy(target.pid());
    let graph = census(&python, &image, &CensusOptions::default());
    assert_eq!(graph.origin.limits, [""; 0]);
    let is_arrow = |owner: u32| graph.kind_of(owner).name.starts_with("pyarrow.");
    let arrow: u64 = graph.payloads.iter().filter(|it| is_arrow(it.owner)).map(|it| it.bytes).sum();
    let allocated = target.truth["arrow"].as_u64().unwrap();
    // Its pool counts what it handed out; a few buffers are of no Python object.
    assert!((allocated * 98 / 100..=allocated).contains(&arrow), "{arrow} of {allocated}");
    let numbers = target.truth["numbers"].as_u64().unwrap();
    let owners: Vec<_> = graph.payloads.iter().filter(|it| it.bytes == numbers).map(|it| it.owner).collect();
    assert_eq!(
        owners.iter().map(|owner| graph.kind_of(*owner).name.as_str()).collect::<Vec<_>>(),
        ["numpy.ndarray"]
    );
    let mut addresses: Vec<_> = graph.payloads.iter().map(|it| (it.address, it.address + it.bytes)).collect();
    addresses.sort_unstable();
    assert!(addresses.windows(2).all(|pair| pair[0].1 <= pair[1].0), "no two buffers overlap");
}
