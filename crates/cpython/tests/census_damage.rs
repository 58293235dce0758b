//! Images that are not what they seem: no damage makes the census panic, or run for ever.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "census/look.rs"]
mod look;
#[path = "census/truth.rs"]
mod truth;

mod target;

use std::path::Path;
use std::time::{Duration, Instant};

use look::{copy, of_minor};
use nilometer_cpython::{CensusOptions, Python, census};
use nilometer_image::{Image, Memory as _, Segment};
use nilometer_trace::heap::Graph;
use target::Target;

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

/// The bytes of an image, to be changed.
struct Parts {
    bytes: Vec<u8>,
    segments: Vec<Segment>,
}

impl Parts {
    fn of(image: &Image) -> Self {
        let (mut bytes, mut segments) = (Vec::new(), Vec::new());
        let mut add = |start: u64, part: &[u8]| {
            segments.push(Segment::new(start, start + part.len() as u64, bytes.len()));
            bytes.extend_from_slice(part);
        };
        image.segments().for_each(|(start, part)| add(start, part));
        // Names of types are constants: in the library's file, not in what was copied. So is what was never changed.
        let is_library = |path: &Path| path.to_string_lossy().contains("python");
        for mapping in image.mappings().iter().filter(|mapping| is_library(&mapping.path)) {
            let copied = |at: u64| {
                image.segments().any(|(start, part)| (start..start + part.len() as u64).contains(&at))
            };
            for at in mapping.range().step_by(4096).filter(|at| !copied(*at)) {
                let mut page = [0; 4096];
                if image.read(at, &mut page).is_some() {
                    add(at, &page);
                }
            }
        }
        Self { bytes, segments }
    }

    fn image(&self, bytes: &[u8], mappings: &Image) -> Image {
        Image::new(bytes.into(), self.segments.clone(), mappings.mappings().to_vec())
    }
}

/// Every index of a graph is one.
fn is_sound(graph: &Graph) {
    let objects = graph.len();
    assert_eq!(graph.edges.start.len(), objects + 1);
    assert!(graph.edges.start.is_sorted() && graph.objects.address.is_sorted());
    assert_eq!(graph.edges.start.last().copied(), Some(graph.edges.to.len() as u32));
    assert!(graph.edges.to.iter().all(|to| (*to as usize) < objects));
    assert_eq!(graph.edges.label.len(), graph.edges.to.len());
    assert!(graph.objects.kind.iter().all(|kind| (*kind as usize) < graph.kinds.len()));
    assert!(graph.payloads.iter().all(|payload| (payload.owner as usize) < objects));
    assert!(graph.roots.iter().all(|root| (root.object as usize) < objects));
    assert_eq!((graph.objects.bytes.len(), graph.objects.refcount.len()), (objects, objects));
}

/// How many objects are left.
fn survives(python: &Python, image: &Image, what: &str) -> usize {
    let began = Instant::now();
    let graph = census(python, image, &CensusOptions::default());
    is_sound(&graph);
    assert!(began.elapsed() < Duration::from_secs(20), "{}: {what}: {:?}", python.version, began.elapsed());
    graph.len()
}

fn damaged(minor: u8, rounds: u64) {
    let Some(program) = of_minor(minor).pop() else { return };
    let target = Target::start(&program, "wait.py");
    let (python, image) = copy(target.pid());
    let parts = Parts::of(&image);
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 + u64::from(minor));
    let words = (parts.bytes.len() / 8) as u64;
    let whole = survives(&python, &parts.image(&parts.bytes, &image), "whole");
    assert!(whole > 10_000, "{}: {whole}", python.version);
    for round in 0..rounds {
        let mut bytes = parts.bytes.clone();
        for _ in 0..words / [2000, 200, 50][round as usize % 3] {
            let at = (numbers.next() % words) as usize * 8;
            // Another word of the image, a small number, all ones, or anything.
            let word = match numbers.next() % 4 {
                0 => {
                    let from = (numbers.next() % words) as usize * 8;
                    u64::from_le_bytes(parts.bytes[from..from + 8].try_into().unwrap())
                }
                1 => numbers.next() % 1000,
                2 => u64::MAX >> (numbers.next() % 40),
                _ => numbers.next(),
            };
            bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let left = survives(&python, &parts.image(&bytes, &image), &format!("round {round}"));
        assert!(left > whole / 4, "{}: {left} of {whole}", python.version);
    }
    let cut = &parts.bytes[..parts.bytes.len() / 2];
    survives(&python, &parts.image(cut, &image), "half of it");
    survives(&python, &Image::new([].as_slice().into(), Vec::new(), Vec::new()), "nothing");
}

#[test]
fn damage_to_3_8_is_survived() {
    damaged(8, 60);
}

#[test]
fn damage_to_3_11_is_survived() {
    damaged(11, 60);
}

#[test]
fn damage_to_3_13_is_survived() {
    damaged(13, 60);
}

#[test]
fn damage_to_3_14_is_survived() {
    damaged(14, 60);
}
