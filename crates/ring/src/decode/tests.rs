//! What is encoded comes back; what was never encoded does no harm.

use proptest::prelude::*;

use super::*;
use crate::cursor::{Cursor, MAX_RECORD};
use crate::encode::Encoder;
use crate::event::Level;

/// Encodes one record at the end of `stream`.
fn put(stream: &mut Vec<u8>, encode: impl FnOnce(&mut Cursor)) {
    let start = stream.len();
    stream.resize(start + MAX_RECORD, 0xee);
    // SAFETY: MAX_RECORD bytes were just appended at `start`.
    let mut cursor = unsafe { Cursor::new(stream.as_mut_ptr().add(start)) };
    encode(&mut cursor);
    let length = cursor.position() as usize - stream.as_ptr() as usize;
    stream.truncate(length);
}

fn encode(stream: &mut Vec<u8>, encoder: &mut Encoder, event: Event) {
    put(stream, |out| match event {
        Event::Begin { tid, serial } => encoder.begin(out, tid, serial, 99),
        Event::End => encoder.end(out),
        Event::Mode { mode, mean_bytes, exact_bytes } => encoder.mode(out, mode, mean_bytes, exact_bytes),
        Event::Gap { events } => encoder.gap(out, events),
        Event::Alloc { address, bytes, source, stacks } => encoder.alloc(out, source, address, bytes, stacks),
        Event::Free { address } | Event::Unfree { address } => encoder.free(out, address),
        Event::Map { address, bytes, kind, stacks } => encoder.map(out, address, bytes, kind, stacks),
        Event::Unmap { address, bytes } => encoder.unmap(out, address, bytes),
        Event::Remap { from, from_bytes, to, to_bytes, stacks } => {
            encoder.remap(out, (from, from_bytes), (to, to_bytes), stacks);
        }
        Event::Break { address, stacks } => encoder.program_break(out, address, stacks),
        Event::Discard { address, bytes, lazily } => encoder.discard(out, address, bytes, lazily),
        Event::Fork { child } => encoder.fork(out, child),
        Event::Unload { module } => encoder.unload(out, module),
    });
}

fn decode_all(stream: &[u8]) -> Result<Vec<Event>, Error> {
    let mut decoder = Decoder::default();
    let mut bytes = Bytes::new(stream);
    let mut events = Vec::new();
    while let Some(event) = decoder.next(&mut bytes)? {
        events.push(event);
    }
    Ok(events)
}

fn some_stacks() -> impl Strategy<Value = Stacks> {
    (any::<u32>(), 0..4_u32).prop_map(|(native, python)| Stacks { native, python })
}

fn some_address() -> impl Strategy<Value = u64> {
    prop_oneof![(0..4096_u64).prop_map(|n| 0x5555_0000_0000 + n * 16), any::<u64>().prop_map(|a| a & !7)]
}

fn some_event() -> impl Strategy<Value = Event> {
    let source = prop_oneof![
        Just(Source::Malloc),
        Just(Source::Realloc),
        Just(Source::Python),
        Just(Source::PythonRealloc)
    ];
    prop_oneof![
        6 => (some_address(), any::<u64>(), source, some_stacks())
            .prop_map(|(address, bytes, source, stacks)| Event::Alloc { address, bytes, source, stacks }),
        4 => some_address().prop_map(|address| Event::Free { address }),
        1 => (any::<u32>(), any::<u32>()).prop_map(|(tid, serial)| Event::Begin { tid, serial }),
        1 => (any::<u64>(), any::<u64>(), any::<u8>(), some_stacks())
            .prop_map(|(address, bytes, kind, stacks)| Event::Map { address, bytes, kind, stacks }),
        1 => (any::<u64>(), any::<u64>(), any::<u64>(), any::<u64>(), some_stacks()).prop_map(
            |(from, from_bytes, to, to_bytes, stacks)| Event::Remap { from, from_bytes, to, to_bytes, stacks }
        ),
        1 => (any::<u64>(), some_stacks()).prop_map(|(address, stacks)| Event::Break { address, stacks }),
        1 => (any::<u64>(), any::<u64>(), any::<bool>())
            .prop_map(|(address, bytes, lazily)| Event::Discard { address, bytes, lazily }),
        1 => any::<u32>().prop_map(|child| Event::Fork { child }),
        1 => any::<u64>().prop_map(|events| Event::Gap { events }),
        1 => (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(word, mean_bytes, exact_bytes)| {
            Event::Mode { mode: Mode(word), mean_bytes, exact_bytes }
        }),
    ]
}

proptest! {
    #[test]
    fn events_come_back(events in prop::collection::vec(some_event(), 0..200)) {
        let (mut stream, mut encoder) = (Vec::new(), Encoder::default());
        for &event in &events {
            encode(&mut stream, &mut encoder, event);
        }
        prop_assert_eq!(decode_all(&stream).unwrap(), events);
    }

    #[test]
    fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        let _ = decode_all(&bytes);
    }
}

#[test]
fn an_undone_free_names_its_block() {
    let (mut stream, mut encoder) = (Vec::new(), Encoder::default());
    put(&mut stream, |out| encoder.free(out, 0x7000));
    put(&mut stream, |out| encoder.unfree(out));
    assert_eq!(
        decode_all(&stream).unwrap(),
        [Event::Free { address: 0x7000 }, Event::Unfree { address: 0x7000 }]
    );
}

#[test]
fn a_block_freed_soon_costs_two_bytes_and_a_repeated_one_three() {
    let (mut stream, mut encoder) = (Vec::new(), Encoder::default());
    let stacks = Stacks { native: 70_000, python: 80_000 };
    put(&mut stream, |out| encoder.alloc(out, Source::Malloc, 0x5555_0000_1000, 100, stacks));
    let first = stream.len();
    put(&mut stream, |out| encoder.free(out, 0x5555_0000_1000));
    assert_eq!(stream.len() - first, 2);
    put(&mut stream, |out| encoder.alloc(out, Source::Malloc, 0x5555_0000_1080, 100, stacks));
    assert_eq!(stream.len() - first, 4);
}

#[test]
fn the_example_of_the_format_is_what_is_written() {
    let (mut stream, mut encoder) = (Vec::new(), Encoder::default());
    let stacks = Stacks { native: 70_000, python: 80_000 };
    put(&mut stream, |out| encoder.alloc(out, Source::Malloc, 0x5555_0000_0000, 100, stacks));
    put(&mut stream, |out| encoder.free(out, 0x5555_0000_0000));
    put(&mut stream, |out| encoder.alloc(out, Source::Malloc, 0x5555_0000_0080, 100, stacks));
    let bytes: Vec<String> = stream.iter().map(|byte| format!("{byte:02x}")).collect();
    let format = include_str!("../../FORMAT.md");
    assert!(format.contains(&format!("`{}`", bytes[..15].join(" "))), "{bytes:?}");
    assert_eq!(bytes[15..].join(" "), "25 00 e1 20");
}

#[test]
fn ticks_move_the_clock_both_ways() {
    let (mut stream, mut encoder) = (Vec::new(), Encoder::default());
    put(&mut stream, |out| encoder.begin(out, 7, 1, 1000));
    put(&mut stream, |out| encoder.tick(out, 1500));
    put(&mut stream, |out| encoder.tick(out, 1400));
    put(&mut stream, |out| encoder.end(out));
    let mut decoder = Decoder::default();
    let mut bytes = Bytes::new(&stream);
    assert_eq!(decoder.next(&mut bytes), Ok(Some(Event::Begin { tid: 7, serial: 1 })));
    assert_eq!(decoder.next(&mut bytes), Ok(Some(Event::End)));
    assert_eq!((decoder.ticks(), decoder.tid()), (1400, 7));
}

#[test]
fn weights_undo_the_chance_of_being_drawn() {
    let (mut stream, mut encoder) = (Vec::new(), Encoder::default());
    put(&mut stream, |out| encoder.mode(out, Mode::new(Level::Sampled), 1000, 5000));
    let mut decoder = Decoder::default();
    decoder.next(&mut Bytes::new(&stream)).unwrap();
    let expected = 1000.0 / (1.0 - (-1.0_f64).exp());
    assert!((decoder.weight_bytes(1000) - expected).abs() < 1e-6);
    assert!((decoder.weight_bytes(5000) - 5000.0).abs() < f64::EPSILON);
}

#[test]
fn the_longest_record_fits() {
    let (mut stream, mut encoder) = (Vec::new(), Encoder::default());
    let stacks = Stacks { native: u32::MAX, python: u32::MAX };
    let event =
        Event::Remap { from: u64::MAX, from_bytes: u64::MAX, to: u64::MAX, to_bytes: u64::MAX, stacks };
    encode(&mut stream, &mut encoder, event);
    assert!(stream.len() <= MAX_RECORD, "{}", stream.len());
}
