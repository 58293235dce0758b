//! Snapshots come back as they were, or are refused.

use std::{env, fs, path::PathBuf};

use proptest::prelude::*;

use super::super::{
    Backing, Frame, GraphBuilder, Holder, IMMORTAL, Kind, Nature, Part, PauseMode, Source, Special,
    ThreadStack,
};
use super::*;
use crate::columns::tests::{frames, unpacked};
use crate::frame;

/// One of everything.
fn story() -> Graph {
    let mut it = GraphBuilder::default();
    let dict = it.kind("dict", "builtins", Nature::Dict);
    let list = it.kind("list", "builtins", Nature::List);
    let array = it.kind("numpy.ndarray", "numpy", Nature::Array);
    let tensor = it.kind("torch.Tensor", "torch", Nature::Tensor);
    let storage = it.kind("c10::StorageImpl", "", Nature::Storage);
    let modules = it.object(0x7f00_0000_1000, dict, 4_696);
    let values = it.object(0x7f00_0000_2000, list, 120);
    let numbers = it.object(0x7f00_0000_3040, array, 112);
    let view = it.object(0x5500_0000_0010, array, 112);
    let weight = it.object(0x7f00_0000_4000, tensor, 80);
    let buffer = it.object(0x5500_0000_0400, storage, 104);
    it.refcount(modules, IMMORTAL);
    it.key(modules, values, "größe");
    it.edge(modules, modules, Part::Position(3));
    it.edge(modules, weight, Part::Member);
    for place in 0..3 {
        it.edge(values, numbers, Part::Index(place));
    }
    it.attribute(values, view, "cache");
    it.edge(view, numbers, Part::Special(Special::Base));
    it.edge(weight, buffer, Part::Special(Special::Storage));
    it.edge(weight, values, Part::Unnamed);
    it.payload(numbers, 0x7e00_0000_0000, 8_000_000);
    it.payload(buffer, 0x7d00_0000_0000, 4096);
    it.extent(numbers, "float64", &[1_000, 1_000]);
    it.extent(view, "float64", &[]);
    it.root(modules, Holder::Modules, "sys.modules");
    it.root(values, Holder::Frame, "train.py:33 step() values");
    it.root(buffer, Holder::Native, "torch storage");
    about(it.rest());
    let mut graph = it.finish();
    graph.payloads[0].resident_bytes = None;
    graph.payloads[0].backing = Backing::Device;
    graph.payloads[1].resident_bytes = Some(4_096_000);
    graph.payloads[1].elements = Some(1_000_000);
    graph.payloads[1].element = Some(0);
    graph.extents[0].element = None;
    graph
}

fn about(graph: &mut Graph) {
    graph.origin.source = Source::Core;
    graph.origin.pid = Some(4711);
    graph.origin.command = "python3 train.py".into();
    graph.origin.python = "3.11.7".into();
    graph.origin.pause.mode = PauseMode::Dead;
    graph.origin.partial.push("the deadline came first".into());
    graph.quality.refcount_checked = 6;
    graph.quality.refcount_exact = 5;
    graph.threads.push(ThreadStack {
        native_id: Some(4712),
        name: Some("MainThread".into()),
        holds_gil: Some(true),
        frames: vec![Frame { file: "train.py".into(), function: "step".into(), line: Some(33) }],
        cut: None,
    });
}

#[test]
fn a_snapshot_comes_back() {
    let graph = story();
    graph.check().unwrap();
    let bytes = encode(&graph);
    assert!(is_heap(&bytes) && is_heap(&bytes[..3]) && !is_heap(&bytes[..2]) && !is_heap(b"\x7fELF"));
    assert_eq!(decode(&bytes).unwrap(), graph);
    let header = read_header(&bytes[..]).unwrap();
    assert_eq!((header.objects, header.edges, header.origin.pid), (6, 10, Some(4711)));
}

#[test]
fn an_empty_graph_and_one_without_labels_come_back() {
    let mut empty = Graph::default();
    empty.edges.start.push(0);
    assert_eq!(decode(&encode(&empty)).unwrap(), empty);
    let mut counts = story();
    counts.edges.label.clear();
    assert_eq!(decode(&encode(&counts)).unwrap(), counts);
}

#[test]
fn every_cut_says_where_and_still_tells_its_header() {
    let bytes = encode(&story());
    let header_end = frame::HEADER_BYTES + read_length(&bytes);
    for cut in 0..bytes.len() {
        match decode(&bytes[..cut]) {
            Err(Error::NotHeap) => assert!(cut < 3, "{cut}"),
            Err(Error::Cut { offset, header }) => {
                assert_eq!(offset, cut as u64);
                assert_eq!(header.is_some(), cut >= header_end, "{cut}");
            }
            other => panic!("{cut}: {other:?}"),
        }
    }
}

fn read_length(frame: &[u8]) -> usize {
    u32::from_le_bytes([frame[4], frame[5], frame[6], frame[7]]) as usize
}

#[test]
fn every_flipped_bit_is_refused() {
    let bytes = encode(&story());
    for bit in 0..bytes.len() * 8 {
        let mut bad = bytes.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(decode(&bad).is_err(), "bit {bit}");
    }
}

/// Frames whose checksums are right and whose contents are anything: the decoder must doubt them itself.
#[test]
fn every_changed_byte_behind_a_right_checksum_is_refused_or_sound() {
    let whole = frames(&encode(&story()));
    for at in 1..whole.len() {
        let raw = unpacked(&whole[at].1);
        for place in 0..raw.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff, raw[place].wrapping_add(1)] {
                let mut changed = raw.clone();
                changed[place] = value;
                let mut bad = whole.clone();
                bad[at].1 = packed(&changed);
                if let Ok(graph) = decode(&joined(&bad)) {
                    graph.check().unwrap();
                }
            }
        }
    }
}

fn joined(frames: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (kind, payload) in frames {
        let mut out = Vec::new();
        frame::encode_numbered(&mut out, *kind, |out| {
            out.extend_from_slice(payload);
            Ok(())
        })
        .unwrap();
        file.extend(out);
    }
    file
}

fn packed(raw: &[u8]) -> Vec<u8> {
    if raw.first() == Some(&b'{') || raw.len() < 2 {
        return raw.to_vec();
    }
    let mut payload = vec![raw[0]];
    crate::varint::put(&mut payload, raw[1].into());
    crate::varint::put(&mut payload, raw.len() as u64 - 2);
    payload.extend(zstd::bulk::compress(&raw[2..], 1).unwrap());
    payload
}

#[test]
fn a_newer_format_is_refused_by_name() {
    let mut whole = frames(&encode(&story()));
    let text = String::from_utf8(whole[0].1.clone()).unwrap();
    whole[0].1 = text.replace("\"heap_version\":1", "\"heap_version\":2").into_bytes();
    assert!(matches!(decode(&joined(&whole)), Err(Error::Newer { found: 2, supported: 1 })));
}

#[test]
fn a_bomb_is_refused() {
    let header = Header { kinds: 9_000_000_000, ..Header::of(&story()) };
    let mut payload = vec![Column::Kinds as u8];
    crate::varint::put(&mut payload, crate::columns::MOST_CHUNK_BYTES as u64);
    crate::varint::put(&mut payload, crate::columns::MOST_CHUNK_BYTES as u64);
    payload.extend(zstd::bulk::compress(&vec![0; crate::columns::MOST_CHUNK_BYTES], 1).unwrap());
    assert!(payload.len() < 1000);
    let bomb = joined(&[(SORT.header, serde_json::to_vec(&header).unwrap()), (SORT.chunk, payload)]);
    let found = decode(&bomb);
    assert!(matches!(found, Err(Error::Damaged { what: "it would become too large", .. })), "{found:?}");
}

#[test]
fn columns_may_have_many_chunks() {
    let mut it = GraphBuilder::default();
    let kind = it.kind("str", "builtins", Nature::Str);
    for place in 0..700_000u64 {
        it.object(0x10_0000 + place * 48 + (place % 700) * (1 << 40), kind, 1 << (place % 40));
    }
    it.name(&"long ".repeat(100_000));
    let graph = it.finish();
    let bytes = encode(&graph);
    assert!(
        frames(&bytes).iter().filter(|frame| frame.1.first() == Some(&(Column::Bytes as u8))).count() > 1
    );
    assert_eq!(decode(&bytes).unwrap(), graph);
}

#[test]
fn an_absurd_stack_is_shortened_and_says_so() {
    let mut graph = story();
    let frame = Frame { file: "x".repeat(100), function: "f".into(), line: None };
    graph.threads[0].frames = vec![frame; 50_000];
    let back = decode(&encode(&graph)).unwrap();
    assert_eq!(back.threads[0].frames.len(), 6250);
    assert_eq!(back.threads[0].cut.as_deref(), Some("a snapshot keeps 6250 of 50000 frames"));
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/v1/heap").join(name)
}

/// Compressed bytes may differ from one zstd to the next; what is in them may not.
#[test]
fn heap_format_1_is_written_and_read_as_ever() {
    let (bytes, graph) = (encode(&story()), story());
    let (file, dump) = (golden("story.heap"), golden("story.txt"));
    if env::var_os("NILO_BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(golden("")).unwrap();
        fs::write(&file, &bytes).unwrap();
        fs::write(&dump, format!("{graph:#?}\n")).unwrap();
    }
    let kept = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let read = decode(&kept).unwrap();
    assert_eq!(format!("{read:#?}\n"), fs::read_to_string(&dump).unwrap());
    let raw = |bytes: &[u8]| -> Vec<_> {
        let frames = frames(bytes);
        frames.iter().map(|frame| (frame.0, unpacked(&frame.1))).collect()
    };
    // The first frame names the version of nilo.
    assert!(raw(&kept)[1..] == raw(&bytes)[1..], "a change of the format needs a new version, see FORMAT.md");
}

fn kinds() -> impl Strategy<Value = Vec<Kind>> {
    let kind = ("[a-z]{0,5}", "[a-zß.]{0,5}").prop_map(|(name, module)| Kind {
        name,
        module,
        nature: Nature::default(),
    });
    proptest::collection::vec(kind, 1..5)
}

fn parts(names: u32) -> impl Strategy<Value = Part> {
    prop_oneof![
        Just(Part::Unnamed),
        Just(Part::Member),
        (0..names).prop_map(Part::Attribute),
        (0..names).prop_map(Part::Key),
        (0..names).prop_map(Part::Local),
        (0..1u32 << 29).prop_map(Part::Index),
        (0..1u32 << 29).prop_map(Part::Position),
        Just(Part::Special(Special::Dict)),
    ]
}

fn graphs() -> impl Strategy<Value = Graph> {
    let objects = proptest::collection::btree_set(any::<u64>(), 1..30);
    let edges = proptest::collection::vec((any::<u32>(), any::<u32>(), parts(3)), 0..60);
    let numbers =
        proptest::collection::vec((any::<u32>(), 0..1u64 << 50, proptest::option::of(0..1u64 << 50)), 0..9);
    (kinds(), objects, edges, numbers, any::<u32>()).prop_map(|(kinds, objects, edges, numbers, count)| {
        let mut it = GraphBuilder::default();
        let of_kind = kinds.len() as u64;
        it.rest().kinds = kinds;
        for name in ["a", "b", "ß"] {
            it.name(name);
        }
        let total = objects.len() as u32;
        for address in objects {
            let object = it.object(address, (address % of_kind) as u32, address >> 20);
            it.refcount(object, count ^ address as u32);
        }
        for (from, to, part) in edges {
            it.edge(from % total, to % total, part);
        }
        for (object, bytes, resident) in &numbers {
            it.payload(object % total, *bytes, *bytes);
            if let Some(last) = it.rest().payloads.last_mut() {
                last.resident_bytes = *resident;
                last.elements = *resident;
                last.element = resident.map(|it| it as u32 % 3);
            }
            it.root(object % total, Holder::StaticType, "ß");
        }
        it.finish()
    })
}

proptest! {
    #[test]
    fn what_is_sound_comes_back(graph in graphs()) {
        prop_assume!(graph.check().is_ok());
        prop_assert_eq!(decode(&encode(&graph)).unwrap(), graph);
    }

    #[test]
    fn any_bytes_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(decode(&bytes).is_err());
    }
}
