//! Images of broken processes: every number that is read may be any number.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests; skips are told")]

mod process;

use nilometer_image::{Image, Modules, Segment};
use nilometer_kernel::sys::mapped::Mapped;
use nilometer_native::glibc::Malloc;
use process::{Ready, compile};
use std::process::Command;

/// A small generator, so that a failure can be had again.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// The segments of an image, to be damaged.
struct Parts {
    segments: Vec<(u64, Vec<u8>)>,
    image: Image,
}

impl Parts {
    fn of(image: Image) -> Self {
        Self { segments: image.segments().map(|(start, bytes)| (start, bytes.to_vec())).collect(), image }
    }

    fn image(&self, segments: &[(u64, Vec<u8>)]) -> Image {
        let mut bytes = Vec::new();
        let places = segments.iter().map(|(start, content)| {
            let segment = Segment::new(*start, start.saturating_add(content.len() as u64), bytes.len());
            bytes.extend_from_slice(content);
            segment
        });
        let places = places.collect();
        Image::new(Mapped::from(&bytes[..]), places, self.image.mappings().to_vec())
    }

    /// Overwrites some words with others that stand somewhere, or with noise.
    fn damaged(&self, chance: &mut Chance, words: usize) -> Vec<(u64, Vec<u8>)> {
        let mut segments = self.segments.clone();
        for _ in 0..words {
            let values = [u64::MAX, 0, 1 << 63, 0x10, chance.0, u64::MAX - 7, segments[0].0, 1 << 56];
            let value = values[chance.below(values.len())];
            let index = chance.below(segments.len());
            let segment = &mut segments[index].1;
            let at = chance.below(segment.len() / 8) * 8;
            segment[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        segments
    }
}

fn parts(shape: &str) -> Parts {
    let program = compile(&format!("damage-{shape}"), "shapes.c", &["-lpthread"]);
    let ready = Ready::start(Command::new(program).arg(shape));
    Parts::of(ready.capture().0.image)
}

/// Whatever comes out, the parts of an arena never exceed what was walked.
fn check(image: &Image) {
    let Ok(malloc) = Malloc::read(image, &Modules::default()) else { return };
    let total = malloc.total();
    let copied = image.copied_bytes();
    assert!(total.in_use_chunks <= copied / 16);
    for (_, range) in malloc.ranges() {
        assert!(range.start < range.end);
        let _ = (malloc.chunk_at(range.start), malloc.is_in_use(range.end));
    }
}

#[test]
fn overwritten_words_never_panic() {
    for shape in ["cached", "pieces"] {
        let parts = parts(shape);
        let mut chance = Chance(7);
        for round in 0..400 {
            let segments = parts.damaged(&mut chance, 1 + round % 50);
            check(&parts.image(&segments));
        }
    }
}

#[test]
fn missing_parts_never_panic() {
    let parts = parts("mapped");
    for left_out in 0..parts.segments.len() {
        let mut segments = parts.segments.clone();
        segments.remove(left_out);
        check(&parts.image(&segments));
        let mut segments = parts.segments.clone();
        let half = segments[left_out].1.len() / 2;
        segments[left_out].1.truncate(half);
        check(&parts.image(&segments));
    }
}

/// The arena itself: every word of it, by every kind of nonsense.
#[test]
fn every_word_of_the_main_arena_may_be_wrong() {
    let parts = parts("cached");
    let arena = Malloc::read(&parts.image, &Modules::default()).unwrap().arenas[0].address;
    let index = parts
        .segments
        .iter()
        .position(|(start, bytes)| (*start..start + bytes.len() as u64).contains(&arena))
        .unwrap();
    let at = (arena - parts.segments[index].0) as usize;
    for word in 0..280 {
        for value in [u64::MAX, 0, arena, 1 << 63, 0xfff0, arena + 96] {
            let mut segments = parts.segments.clone();
            segments[index].1[at + 8 * word..at + 8 * word + 8].copy_from_slice(&value.to_le_bytes());
            check(&parts.image(&segments));
        }
    }
}
