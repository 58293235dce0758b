use std::path::PathBuf;
use std::{env, fs};

use proptest::prelude::*;

use super::*;
use crate::allocs::{Amount, Frame, Histogram, Source, Step, special};
use crate::columns::tests::{frames, unpacked};

fn amount(bytes: u64) -> Amount {
    Amount { bytes, count: bytes / 100, variance: bytes / 7 }
}

/// One of everything.
fn recording() -> Recording {
    let native = |module, address, parent| Node { frame: Frame::Native { module, address }, parent };
    let python = |code, line, entry, parent| Node { frame: Frame::Python { code, line, entry }, parent };
    let mut sizes = Histogram::whole();
    sizes.add(100, 3, 300);
    Recording {
        about: About {
            mode: "all".to_owned(),
            peak: amount(3000),
            steps: vec![Step { number: 1, at_ns: 5, live_bytes: 9 }; 3],
            sizes: sizes.trimmed(),
            finished: true,
            ..About::default()
        },
        processes: vec![
            Process { pid: 7, ..Process::default() },
            Process { pid: 8, forked_from: Some(0), ..Process::default() },
        ],
        modules: vec![Module {
            path: "/lib/x.so".to_owned(),
            build_id: vec![1, 255],
            eval: vec![(16, 80), (4, 5)],
        }],
        codes: vec![Code { file: "a.py".to_owned(), name: "f".to_owned(), first_line: 3 }],
        nodes: vec![
            native(Some(0), 0x1234, special::NONE),
            native(None, 0x7fff_0000_1000, 4),
            python(0, 12, true, special::CUT),
            python(0, 4, false, 6),
        ],
        sites: vec![
            Site { native: 5, python: 7, live: amount(1), peak: amount(3000), ..Site::default() },
            Site { process: 1, native: 4, source: Source::Mapping, total: amount(9), ..Site::default() },
        ],
        series: vec![Series { site: 1, bytes: vec![0, 10, 5] }],
    }
}

fn packed() -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&recording(), &mut bytes).unwrap();
    bytes
}

#[test]
fn a_recording_comes_back() {
    let mut back = read(packed().as_slice()).unwrap();
    assert_eq!(back.about.allocs_version, ALLOCS_VERSION);
    assert_eq!(read_about(packed().as_slice()).unwrap(), back.about);
    back.about.allocs_version = 0;
    back.about.nilo_version = String::new();
    assert_eq!(back, recording());
    let stack: Vec<u32> = back.stack(7).map(|(number, _)| number).collect();
    assert_eq!(stack, [7, 6]);
}

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/v1/allocs").join(name)
}

/// Compressed bytes may differ from one zstd to the next; what is in them may not.
#[test]
fn allocs_format_1_is_written_and_read_as_ever() {
    let bytes = packed();
    let (file, dump) = (golden("story.nal"), golden("story.txt"));
    let told = |bytes: &[u8]| {
        let mut recording = read(bytes).unwrap();
        recording.about.nilo_version = String::new();
        format!("{recording:#?}\n")
    };
    if env::var_os("NILO_BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(golden("")).unwrap();
        fs::write(&file, &bytes).unwrap();
        fs::write(&dump, told(&bytes)).unwrap();
    }
    let kept = fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    assert_eq!(told(&kept), fs::read_to_string(&dump).unwrap());
    let raw = |bytes: &[u8]| -> Vec<_> {
        let frames = frames(bytes);
        frames.iter().map(|frame| (frame.0, unpacked(&frame.1))).collect()
    };
    // The first frame names the version of nilo.
    assert!(raw(&kept)[1..] == raw(&bytes)[1..], "a change of the format needs a new version, see FORMAT.md");
}

#[test]
fn every_cut_says_where() {
    let whole = packed();
    for cut in 0..whole.len() {
        let error = read(&whole[..cut]).unwrap_err();
        match error {
            Error::NotAllocs => assert!(cut < 12, "{cut}"),
            Error::Cut { offset } => assert_eq!(offset, cut as u64),
            other => panic!("{cut}: {other}"),
        }
    }
}

#[test]
fn every_changed_bit_is_found() {
    let whole = packed();
    for bit in 0..whole.len() * 8 {
        let mut bad = whole.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(read(bad.as_slice()).is_err(), "bit {bit}");
    }
}

#[test]
fn numbers_that_name_nothing_are_refused() {
    let refused = |change: fn(&mut Recording)| {
        let mut bad = recording();
        change(&mut bad);
        let mut bytes = Vec::new();
        write(&bad, &mut bytes).unwrap();
        assert!(matches!(read(bytes.as_slice()), Err(Error::Unsound(_))));
    };
    refused(|r| r.sites[0].native = 8);
    refused(|r| r.sites[0].process = 2);
    refused(|r| r.nodes[1].parent = 5);
    refused(|r| r.nodes[0].frame = Frame::Native { module: Some(1), address: 0 });
    refused(|r| r.nodes[0].frame = Frame::Python { code: 1, line: 0, entry: false });
    refused(|r| r.series[0].site = 2);
    refused(|r| r.series[0].bytes = vec![1]);
    refused(|r| r.processes[0].forked_from = Some(9));
}

#[test]
fn a_newer_one_is_refused() {
    let mut bytes = Vec::new();
    crate::frame::encode_numbered(&mut bytes, SORT.header, |out| {
        out.extend_from_slice(br#"{"allocs_version":2}"#);
        Ok(())
    })
    .unwrap();
    assert!(matches!(read(bytes.as_slice()), Err(Error::Newer { found: 2, supported: 1 })));
    assert!(matches!(read(&b"something else entirely"[..]), Err(Error::NotAllocs)));
}

/// A frame with a right checksum and any payload.
fn framed(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    crate::frame::encode_numbered(&mut bytes, kind, |out| {
        out.extend_from_slice(payload);
        Ok(())
    })
    .unwrap();
    bytes
}

proptest! {
    #[test]
    fn any_rows_are_survived(
        table in 0_u8..8,
        rows in 0_u64..50,
        raw in prop::collection::vec(any::<u8>(), 0..300),
    ) {
        let mut counts = [0; Table::ALL.len()];
        if let Some(count) = counts.get_mut(usize::from(table).wrapping_sub(1)) {
            *count = rows;
        }
        let header = Header { allocs_version: 1, about: About::default(), rows: counts };
        let mut file = framed(SORT.header, &serde_json::to_vec(&header).unwrap());
        let mut chunk = vec![table];
        crate::varint::put(&mut chunk, rows);
        crate::varint::put(&mut chunk, raw.len() as u64);
        chunk.extend(zstd::bulk::compress(&raw, 1).unwrap());
        file.extend(framed(SORT.chunk, &chunk));
        file.extend(framed(SORT.end, b"{}"));
        let _ = read(file.as_slice());
    }
}
