//! torch's storages against what torch says of them, in several releases.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests; skips are told")]

mod process;

use std::collections::BTreeMap;
use std::process::Command;

use nilometer_image::live::{Capture, CaptureOptions, Mode, Peek, capture};
use nilometer_image::{Image, Modules, Segment};
use nilometer_kernel::sys::mapped::Mapped;
use nilometer_native::glibc::Malloc;
use nilometer_native::torch::{Attached, Classes, Element, Torch, attach, prescan, storages};
use nilometer_trace::heap::{Backing, Graph, GraphBuilder, Holder, Nature, ObjectId, Part, Special};
use process::{Ready, programs};

/// A torch process at READY, and what was found in it.
struct Subject {
    ready: Ready,
    image: Image,
    torch: Torch,
}

/// None where torch cannot be had.
fn subject(release: &str, what: &[&str]) -> Option<Subject> {
    let python = nilometer_lab::environment(&[&format!("torch-{release}")])?;
    let ready = Ready::start(Command::new(python).arg(programs().join("torch_truth.py")).args(what));
    let (capture, modules) = ready.capture();
    let torch = read(&capture, &modules);
    assert_eq!(torch.doubts, []);
    Some(Subject { ready, image: capture.image, torch })
}

fn read(capture: &Capture, modules: &Modules) -> Torch {
    let malloc = Malloc::read(&capture.image, modules).unwrap();
    assert_eq!(malloc.doubts, []);
    storages(&capture.image, modules, Some(&malloc)).unwrap()
}

impl Subject {
    /// The lines that begin so, without that word.
    fn lines(&self, kind: &str) -> Vec<Vec<&str>> {
        let lines = self.ready.lines.iter().map(|line| line.split_whitespace().collect::<Vec<&str>>());
        lines.filter(|words| words.first() == Some(&kind)).map(|words| words[1..].to_vec()).collect()
    }

    /// Data and bytes of what Python has.
    fn visible(&self) -> BTreeMap<u64, u64> {
        self.lines("visible")
            .iter()
            .map(|words| (words[0].parse().unwrap(), words[1].parse().unwrap()))
            .collect()
    }

    /// Data and bytes of everything on the host that was found.
    fn found(&self) -> BTreeMap<u64, u64> {
        let on_host = self.torch.storages.iter().filter(|storage| storage.device.is_host());
        on_host.map(|storage| (storage.data, storage.bytes)).collect()
    }

    fn check_visible(&self) {
        let (visible, found) = (self.visible(), self.found());
        assert!(!visible.is_empty());
        for (data, bytes) in &visible {
            assert_eq!(found.get(data), Some(bytes), "{data:#x}");
        }
    }

    /// A census by hand: the Python objects that the program tells of, with our storages added.
    fn graph(&self) -> (Graph, Attached) {
        let mut builder = GraphBuilder::default();
        let kind = builder.kind("torch.Tensor", "torch", Nature::Tensor);
        for words in self.lines("tensor").into_iter().chain(self.lines("sparse")) {
            builder.object(words[0].parse().unwrap(), kind, 80);
        }
        let kind = builder.kind("torch.storage.UntypedStorage", "torch.storage", Nature::Instance);
        for words in self.lines("untyped") {
            builder.object(words[0].parse().unwrap(), kind, 80);
        }
        let kind = builder.kind("numpy.ndarray", "numpy", Nature::Array);
        for words in self.lines("array") {
            let array = builder.object(words[0].parse().unwrap(), kind, 112);
            builder.payload(array, words[1].parse().unwrap(), words[2].parse().unwrap());
        }
        let mut graph = builder.finish();
        let attached = attach(&mut graph, &self.torch, &self.image);
        assert_eq!(graph.check(), Ok(()));
        (graph, attached)
    }

    fn made(&self, name: &str) -> Vec<(u64, u64)> {
        let made = self.lines("made").into_iter().filter(|words| words[0] == name);
        made.map(|words| (words[1].parse().unwrap(), words[2].parse().unwrap())).collect()
    }
}

/// Every byte that a live graph keeps, and nothing else.
fn check_graph(release: &str) {
    let Some(subject) = subject(release, &["graph"]) else { return };
    check_prescan(&subject);
    subject.check_visible();
    let alive: u64 = subject.lines("alive")[0][0].parse().unwrap();
    let visible: u64 = subject.visible().values().sum();
    let found: u64 = subject.found().values().sum();
    println!("torch {release}: {visible} bytes in Python, {} in C++ only, {alive} in truth", found - visible);
    assert_eq!(found, alive);
    let (graph, attached) = subject.graph();
    let storages =
        |payload: &&nilometer_trace::heap::Payload| graph.kind_of(payload.owner).nature == Nature::Storage;
    assert_eq!(graph.payloads.iter().filter(storages).map(|payload| payload.bytes).sum::<u64>(), alive);
    assert_eq!(attached.native_only_bytes, alive - visible);
    assert_eq!((attached.tensors as usize, attached.tensors_missed), (subject.lines("tensor").len(), 0));
    let native = graph.roots.iter().filter(|root| root.holder == Holder::Native);
    assert_eq!(native.count() as u64, attached.native_only);
    check_holders(&subject, &graph);
}

/// Every tensor leads to the storage that it says, and spans no more than it.
fn check_holders(subject: &Subject, graph: &Graph) {
    for words in subject.lines("tensor") {
        let object = graph.at(words[0].parse().unwrap()).unwrap();
        let data: u64 = words[1].parse().unwrap();
        let storage = labelled(graph, object, Part::Special(Special::Storage)).unwrap();
        let payload = graph.payloads.iter().find(|payload| payload.owner == storage);
        assert_eq!(payload.map_or(0, |payload| payload.address), data);
        let extent = graph.extents.iter().find(|extent| extent.object == object).unwrap();
        assert!(extent.elements == extent.shape.iter().product::<u64>());
    }
}

fn labelled(graph: &Graph, object: ObjectId, part: Part) -> Option<ObjectId> {
    let mut edges = graph.edges.range(object);
    edges.find(|edge| graph.edges.label[*edge].part() == Some(part)).map(|edge| graph.edges.to[edge])
}

fn check_everything(release: &str) {
    let Some(subject) = subject(release, &["kinds", "train", "loader"]) else { return };
    subject.check_visible();
    check_kinds(&subject);
    check_training(&subject);
    check_device(&subject);
    check_damage(&subject);
}

fn check_kinds(subject: &Subject) {
    let backing = |name: &str| {
        let (data, bytes) = subject.made(name)[0];
        let storage = subject
            .torch
            .storages
            .iter()
            .find(|storage| storage.data == data && storage.bytes == bytes)
            .unwrap();
        (storage.backing, storage.element.and_then(Element::name), storage.resident)
    };
    assert_eq!(backing("base"), (Backing::Memory, Some("float64"), Some(2_400_000)));
    assert_eq!(backing("parameter"), (Backing::Memory, Some("float32"), Some(1628)));
    assert_eq!(backing("borrowed"), (Backing::Memory, Some("int32"), Some(1_600_000)));
    assert_eq!(backing("lent"), (Backing::Memory, Some("int16"), Some(246_912)));
    assert_eq!(backing("shared"), (Backing::Shared, Some("float32"), Some(2_000_000)));
    assert_eq!(backing("file").0, Backing::File);
    assert_eq!(backing("quantized"), (Backing::Memory, Some("qint8"), Some(7000)));
    assert_eq!(backing("half"), (Backing::Memory, Some("bfloat16"), Some(120_960)));
    let meta: Vec<u64> =
        subject.torch.storages.iter().filter(|s| s.device.is_meta()).map(|s| s.bytes).collect();
    assert!(meta.iter().all(|bytes| *bytes == 0));
    let (graph, _) = subject.graph();
    let owner = |name: &str| {
        let (data, bytes) = subject.made(name)[0];
        let payloads: Vec<_> = graph.payloads.iter().filter(|payload| payload.address == data).collect();
        assert_eq!((payloads.len(), payloads[0].bytes), (1, bytes), "{name}");
        payloads[0].owner
    };
    // The array owns what the tensor borrowed; the tensor's storage owns what the array was lent.
    assert_eq!(graph.kind_of(owner("borrowed")).nature, Nature::Array);
    assert_eq!(graph.kind_of(owner("lent")).nature, Nature::Storage);
    // A sparse tensor leads to its values.
    for words in subject.lines("sparse") {
        let sparse = graph.at(words[0].parse().unwrap()).unwrap();
        let data: u64 = words[1].parse().unwrap();
        let values = graph.payloads.iter().find(|payload| payload.address == data).unwrap().owner;
        assert!(graph.referents(sparse).contains(&values));
    }
    // And that array's base is the tensor, so that a census finds the owner.
    let base = graph.at(subject.lines("base")[0][0].parse().unwrap()).unwrap();
    assert_eq!(labelled(&graph, base, Part::Special(Special::Storage)), Some(owner("lent")));
    let untyped: ObjectId = graph.at(subject.lines("untyped")[0][0].parse().unwrap()).unwrap();
    assert_eq!(labelled(&graph, untyped, Part::Special(Special::Storage)), Some(owner("untyped")));
    let borrowed =
        subject.torch.storages.iter().find(|storage| storage.data == subject.made("borrowed")[0].0).unwrap();
    let base = labelled(&graph, graph.at(borrowed.address).unwrap(), Part::Special(Special::Base));
    assert_eq!(base, Some(owner("borrowed")));
    // Ten views and the tensor itself share one storage.
    let (data, _) = subject.made("base")[0];
    let index = subject.torch.storages.iter().position(|storage| storage.data == data).unwrap() as u32;
    assert_eq!(subject.torch.tensors.iter().filter(|tensor| tensor.storage == Some(index)).count(), 11);
}

fn check_training(subject: &Subject) {
    for (data, bytes) in subject.made("shared") {
        let storage = subject.torch.storages.iter().find(|storage| storage.data == data).unwrap();
        assert_eq!((storage.bytes, storage.backing), (bytes, Backing::Shared));
    }
    // Each weight leads to its gradient.
    let pairs = subject.made("weight").into_iter().zip(subject.made("gradient"));
    for ((weight, _), (gradient, _)) in pairs {
        let data = |address: u64| {
            let tensor = subject.torch.tensor_at(address).unwrap();
            subject.torch.storages[tensor.storage.unwrap() as usize].data
        };
        let of_weight = |tensor: &&nilometer_native::torch::TensorImpl| data(tensor.address) == weight;
        let with_storage = subject.torch.tensors.iter().filter(|tensor| tensor.storage.is_some());
        let leads: Vec<u64> =
            with_storage.filter(of_weight).filter_map(|tensor| tensor.gradient).map(data).collect();
        assert_eq!(leads, [gradient]);
    }
    let (graph, _) = subject.graph();
    let grad = graph.names.iter().position(|name| name == "grad").unwrap() as u32;
    for words in subject.lines("pair") {
        let [parameter, gradient] = [0, 1].map(|i| graph.at(words[i].parse().unwrap()).unwrap());
        assert_eq!(labelled(&graph, parameter, Part::Attribute(grad)), Some(gradient));
    }
}

/// What the quick look at the running process finds is left out of the copy, and nothing else is lost by it.
fn check_prescan(subject: &Subject) {
    let peek = Peek::open(subject.ready.pid()).unwrap();
    let modules = peek.modules();
    let large = prescan(&peek, &modules);
    let on_host =
        subject.torch.storages.iter().filter(|storage| storage.device.is_host() && storage.bytes >= 1 << 20);
    let mut expected: Vec<_> = on_host.map(|storage| storage.data..storage.data + storage.bytes).collect();
    expected.sort_by_key(|range| range.start);
    let missed: Vec<_> = expected.iter().filter(|range| !large.contains(range)).collect();
    let extra: Vec<_> = large.iter().filter(|range| !expected.contains(range)).collect();
    assert!(missed.is_empty() && extra.is_empty(), "missed {missed:x?}, extra {extra:x?}");
    let options = CaptureOptions { mode: Mode::Off, ..CaptureOptions::default() };
    let copy = capture(&peek, &options, &large).unwrap();
    assert!(copy.excluded_bytes > 64 << 20, "{}", copy.excluded_bytes);
    let again = read(&copy, &modules);
    assert_eq!((&again.storages, &again.tensors), (&subject.torch.storages, &subject.torch.tensors));
}

/// The pages that hold torch's objects, to be changed.
struct Pages {
    classes: Classes,
    starts: Vec<u64>,
    bytes: Vec<u8>,
}

impl Pages {
    fn of(subject: &Subject) -> Self {
        let peek = Peek::open(subject.ready.pid()).unwrap();
        let classes = Classes::of(&peek.modules()).unwrap();
        let storages = subject.torch.storages.iter().map(|storage| storage.address);
        let tensors = subject.torch.tensors.iter().map(|tensor| tensor.address);
        // Of each object also the page that its end may be in.
        let starts = storages.chain(tensors).flat_map(|at| [at & !4095, (at + 256) & !4095]);
        let mut starts: Vec<u64> = starts.collect();
        starts.sort_unstable();
        starts.dedup();
        let page = |page: &u64| subject.image.slice(*page, 4096).unwrap().to_vec();
        let bytes = starts.iter().flat_map(page).collect();
        Self { classes, starts, bytes }
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let index = self.starts.binary_search(&(address & !4095)).unwrap();
        let at = index * 4096 + (address % 4096) as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn read(&self, bytes: &[u8], subject: &Subject) -> (Image, Torch) {
        let place = |(page, at): (&u64, usize)| Segment::new(*page, page + 4096, at);
        let segments = self.starts.iter().zip((0..).step_by(4096)).map(place).collect();
        let image = Image::new(Mapped::from(bytes), segments, subject.image.mappings().to_vec());
        let torch = self.classes.storages(&image, None);
        (image, torch)
    }
}

/// Objects whose words are overwritten: left out or misread, never a panic.
fn check_damage(subject: &Subject) {
    let pages = Pages::of(subject);
    let mut chance = 1u64;
    for round in 0..300 {
        let mut bytes = pages.bytes.clone();
        for _ in 0..round * 10 {
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let at = (chance >> 20) as usize % (bytes.len() / 8) * 8;
            let value = [u64::MAX, 0, 1 << 63, chance, pages.starts[0], 64][(chance >> 8) as usize % 6];
            bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        let (image, torch) = pages.read(&bytes, subject);
        let mut graph = GraphBuilder::default().finish();
        attach(&mut graph, &torch, &image);
        assert_eq!(graph.check(), Ok(()));
    }
}

/// There is no device here: a storage is told that it is on one.
fn check_device(subject: &Subject) {
    let mut pages = Pages::of(subject);
    let (data, bytes) = subject.made("base")[0];
    let storage = subject.torch.storages.iter().find(|storage| storage.data == data).unwrap();
    let is_old = subject.torch.layout.is_some_and(|layout| layout.releases == "1.13 to 2.0");
    pages.put(storage.address + if is_old { 48 } else { 40 }, &[1, 3]);
    let (_, torch) = pages.read(&pages.bytes, subject);
    let moved = torch.storages[torch.storage_at(storage.address).unwrap() as usize];
    assert_eq!((moved.device.name(), moved.device.index), ("cuda", Some(3)));
    assert_eq!((moved.backing, moved.resident, moved.bytes), (Backing::Device, None, bytes));
}

macro_rules! releases {
    ($($name:ident $release:literal)*) => {
        $(mod $name {
            #[test]
            fn graph() {
                super::check_graph($release);
            }

            #[test]
            fn everything() {
                super::check_everything($release);
            }
        })*
    };
}

releases!(oldest "1.13" older "2.0" newest "2.15");
