//! Logs that were cut, damaged, or made by somebody else.

use std::fs;

use nilometer_trace::{
    Ending, Error, LogWriter, Reader, Record,
    frame::{self, Kind},
    reader::Why,
};
use proptest::{collection::vec, prelude::*};

use crate::story;

/// `trace.nlog` of the finished story.
fn log() -> Vec<u8> {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(dir.path()).unwrap();
    story::play(&story::records(), &mut writer);
    writer.finish(story::end()).unwrap();
    fs::read(dir.path().join("trace.nlog")).unwrap()
}

fn read(bytes: &[u8]) -> (Vec<Record>, Ending) {
    let mut reader = Reader::from_bytes(bytes, &[]);
    let records = reader.by_ref().map(Result::unwrap).collect();
    (records, reader.ending())
}

fn frame_of(kind: Kind, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::encode(&mut out, kind, |out| {
        out.extend_from_slice(payload);
        Ok(())
    })
    .unwrap();
    out
}

/// Where frames start, and the end.
fn borders(log: &[u8]) -> Vec<usize> {
    let mut borders = vec![0];
    while let Some(frame) = frame::Frame::decode(&log[borders[borders.len() - 1]..]) {
        borders.push(borders[borders.len() - 1] + frame::HEADER_BYTES + frame.payload.len());
    }
    borders
}

#[test]
fn a_clean_run_holds_what_was_given() {
    let mut given = story::records();
    given.push(Record::End(story::end()));
    let (mut stored, ending) = read(&log());
    assert_eq!((stored.len(), ending), (given.len(), Ending::Clean));
    // Marks, shares and kinds are ordered by time stamp only.
    let key = |record: &Record| format!("{record:?}");
    given.sort_by_key(key);
    stored.sort_by_key(key);
    assert_eq!(stored, given);
}

#[test]
fn every_prefix_gives_a_prefix_and_says_where_it_ends() {
    let log = log();
    let (all, ending) = read(&log);
    assert_eq!(ending, Ending::Clean);
    let borders = borders(&log);
    for cut in 0..log.len() {
        let (records, ending) = read(&log[..cut]);
        assert!(all.starts_with(&records));
        let whole = *borders.iter().rfind(|&&border| border <= cut).unwrap();
        let Ending::Cut { offset, at_ns, why } = ending else { panic!("{cut}: {ending:?}") };
        let expected = match (cut, cut - whole) {
            (0, _) => Why::Empty,
            (_, 0) => Why::NoEnd,
            (_, bytes) => Why::Torn { bytes: bytes as u64 },
        };
        assert_eq!((offset, why), (whole as u64, expected));
        assert_eq!(at_ns, records.iter().filter_map(Record::at_ns).max());
    }
}

#[test]
fn damage_inside_is_skipped_and_counted() {
    let log = log();
    let borders = borders(&log);
    let (all, _) = read(&log);
    for pair in borders.windows(2).skip(1).rev().skip(1) {
        let mut bad = log.clone();
        bad[pair[0] + 6] ^= 0x80;
        let (records, ending) = read(&bad);
        assert!(records.len() < all.len());
        let why = Why::Damaged { bytes: (pair[1] - pair[0]) as u64, ended: true };
        assert!(matches!(ending, Ending::Cut { offset, why: w, .. } if offset == pair[0] as u64 && w == why));
    }
}

#[test]
fn a_frame_after_garbage_longer_than_the_buffer_is_found() {
    let mut bytes = frame_of(Kind::Mark, br#"{"at_ns":1,"what":{"step":1}}"#);
    let whole = bytes.clone();
    // Every one of these looks like the start of a frame of many bytes.
    bytes.extend(b"NL\x06\x00\x00\x00\x10\x00".repeat(100_000));
    bytes.extend(whole);
    let (records, ending) = read(&bytes);
    assert_eq!(records.len(), 2);
    assert!(matches!(ending, Ending::Cut { why: Why::Damaged { bytes: 800_000, ended: false }, .. }));
}

#[test]
fn hostile_garbage_ends_in_time() {
    // A megabyte of starts of frames of eight megabytes each.
    let mut bytes = b"NL\x06\x00\x00\x00\x7f\x00".repeat(130_000);
    bytes.resize(20 << 20, 0);
    assert!(matches!(read(&bytes), (records, Ending::Cut { offset: 0, .. }) if records.is_empty()));
}

#[test]
fn unknown_frames_and_fields_are_tolerated() {
    let mut bytes = frame_of(Kind::Mark, br#"{"at_ns":1,"what":{"step":1},"colour":"new"}"#);
    let mut strange = frame_of(Kind::Mark, b"whatever");
    strange[2] = 200;
    let crc = crc32c::crc32c_append(crc32c::crc32c(&strange[2..8]), &strange[12..]);
    strange[8..12].copy_from_slice(&crc.to_le_bytes());
    bytes.extend(strange);
    bytes.extend(frame_of(Kind::Event, br#"{"at_ns":2,"what":{"event":"not_invented_yet"}}"#));
    bytes.extend(frame_of(Kind::Event, br#"{"at_ns":3,"what":{"event":"exited"}}"#));
    let mut reader = Reader::from_bytes(bytes, &[]);
    assert_eq!(reader.by_ref().map(|record| record.unwrap().at_ns()).collect::<Vec<_>>(), [Some(1), Some(3)]);
    assert_eq!(reader.tally().unknown, 2);
    assert!(matches!(reader.ending(), Ending::Cut { why: Why::NoEnd, .. }));
}

#[test]
fn a_newer_format_is_refused_with_a_hint() {
    let bytes = frame_of(Kind::Header, br#"{"format_version":2,"everything":"else"}"#);
    let mut reader = Reader::from_bytes(bytes, &[]);
    let error = reader.next().unwrap().unwrap_err();
    assert!(matches!(error, Error::Newer { found: 2, .. }));
    assert!(error.to_string().contains("newer nilo") && error.hint().unwrap().contains("upgrade"));
    assert!(reader.next().is_none());
}

#[test]
fn a_block_with_a_right_checksum_and_wrong_contents_counts_as_damage() {
    let bytes = frame_of(Kind::Ticks, &[1, 0, 0, 1, 0, 0, 0xff]);
    let length = bytes.len() as u64;
    let (records, ending) = read(&bytes);
    assert_eq!(records.len(), 1);
    assert!(matches!(ending, Ending::Cut { why: Why::Damaged { bytes, .. }, .. } if bytes == length));
}

#[test]
fn missing_blocks_are_seen_by_their_numbers() {
    let mut bytes = frame_of(Kind::Ticks, &[1, 0, 0, 1, 0]);
    bytes.extend(frame_of(Kind::Ticks, &[4, 0, 0, 1, 0]));
    let open = frame_of(Kind::Ticks, &[6, 0, 0, 1, 0]);
    let mut reader = Reader::from_bytes(bytes, &open);
    assert_eq!(reader.by_ref().count(), 3);
    assert_eq!(reader.tally().missing_blocks, 3);

    // The highest number there is, twice: no sum may overflow.
    let last = frame_of(Kind::Ticks, &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0, 0, 1, 0]);
    let mut reader = Reader::from_bytes(last.repeat(2), &[]);
    assert_eq!((reader.by_ref().count(), reader.tally().missing_blocks), (2, u64::MAX - 1));
}

#[test]
fn a_directory_without_log_is_an_error_with_its_path() {
    let dir = tempfile::tempdir().unwrap();
    let error = Reader::open(dir.path()).unwrap_err();
    assert!(error.to_string().contains("trace.nlog"));
}

/// Is `part` what remains of `all` after leaving some out?
fn is_subsequence(part: &[Record], all: &[Record]) -> bool {
    let mut rest = all.iter();
    part.iter().all(|record| rest.any(|other| other == record))
}

proptest! {
    #[test]
    fn damage_never_panics_and_never_gives_a_wrong_record(
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in proptest::option::of(any::<prop::sample::Index>()),
    ) {
        let log = log();
        let (all, _) = read(&log);
        let mut bad = log;
        for (at, byte) in changes {
            let at = at.index(bad.len());
            bad[at] = byte;
        }
        if let Some(cut) = cut {
            bad.truncate(cut.index(bad.len()));
        }
        prop_assert!(is_subsequence(&read(&bad).0, &all));
    }

    #[test]
    fn a_lost_or_doubled_stretch_never_gives_a_wrong_record(
        from in any::<prop::sample::Index>(), length in 1_usize..600, noise in vec(any::<u8>(), 0..300),
    ) {
        let log = log();
        let (all, _) = read(&log);
        let from = from.index(log.len());
        let mut bad = log.clone();
        bad.splice(from..(from + length).min(log.len()), noise);
        prop_assert!(is_subsequence(&read(&bad).0, &all));
    }

    #[test]
    fn any_bytes_can_be_read(log in vec(any::<u8>(), 0..500), open in vec(any::<u8>(), 0..100)) {
        prop_assert!(Reader::from_bytes(log, &open).all(|record| record.is_ok()));
    }
}
