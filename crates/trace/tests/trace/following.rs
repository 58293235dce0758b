//! A log that is read while it is written.

use std::fs::{self, OpenOptions};
use std::io::Write as _;

use nilometer_trace::{Follower, LogWriter, Reader, Record};

use crate::story;

fn look(follower: &mut Follower) -> Vec<Record> {
    let mut seen = Vec::new();
    follower.look(|record| seen.push(record.clone())).unwrap();
    seen
}

fn sorted(mut records: Vec<Record>) -> Vec<Record> {
    records.sort_by_key(|record| format!("{record:?}"));
    records
}

#[test]
fn every_record_is_given_once_and_ticks_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(dir.path()).unwrap();
    let mut follower = Follower::open(dir.path()).unwrap();
    let mut seen = Vec::new();
    for record in story::records() {
        story::play(std::slice::from_ref(&record), &mut writer);
        let new = look(&mut follower);
        if matches!(record, Record::Tick(_)) {
            assert_eq!(new.last(), Some(&record), "it waits for nothing");
        }
        seen.extend(new);
    }
    assert!(look(&mut follower).is_empty() && !follower.has_ended());
    writer.finish(story::end()).unwrap();
    seen.extend(look(&mut follower));
    assert!(follower.has_ended() && follower.damaged_bytes() == 0);
    assert_eq!(seen.last(), Some(&Record::End(story::end())));
    let stored: Vec<Record> = Reader::open(dir.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(sorted(seen), sorted(stored));
    assert!(look(&mut follower).is_empty());
}

#[test]
fn a_finished_run_is_given_in_one_look_as_the_reader_gives_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(dir.path()).unwrap();
    story::play(&story::records(), &mut writer);
    writer.finish(story::end()).unwrap();
    let stored: Vec<Record> = Reader::open(dir.path()).unwrap().map(Result::unwrap).collect();
    assert_eq!(look(&mut Follower::open(dir.path()).unwrap()), stored);
}

#[test]
fn half_a_frame_is_waited_for_and_what_is_none_is_skipped() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(dir.path()).unwrap();
    story::play(&story::records(), &mut writer);
    writer.finish(story::end()).unwrap();
    let path = dir.path().join("trace.nlog");
    let log = fs::read(&path).unwrap();
    for cut in [1, 13, log.len() / 2, log.len() - 1] {
        fs::write(&path, &log[..cut]).unwrap();
        let mut follower = Follower::open(dir.path()).unwrap();
        let mut seen = look(&mut follower);
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&log[cut..]).unwrap();
        seen.extend(look(&mut follower));
        let stored: Vec<Record> = Reader::from_bytes(log.clone(), &[]).map(Result::unwrap).collect();
        assert_eq!(sorted(seen), sorted(stored), "cut at {cut}");
    }
    let damaged = [b"rubbish".as_slice(), &log].concat();
    fs::write(&path, &damaged).unwrap();
    let mut follower = Follower::open(dir.path()).unwrap();
    assert!(!look(&mut follower).is_empty() && follower.has_ended());
    assert_eq!(follower.damaged_bytes(), 7);
}
