//! A really full disk: a small tmpfs.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use nilometer_trace::{
    Ending, LogWriter, Reader, Record, TickRef,
    record::{Event, EventKind, ProcessSample},
};

use crate::story;

struct SmallDisk(PathBuf, #[expect(dead_code, reason = "removed after the unmount")] tempfile::TempDir);

impl SmallDisk {
    fn mount(kib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().to_owned();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kib}k"), "nilo-test"]).arg(&path);
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        if !mounted {
            nilometer_lab::skip("root", "to mount a tmpfs");
        }
        mounted.then(|| Self(path, dir))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()) || std::thread::panicking());
    }
}

/// Ticks of a changing process, ten a second; returns how many the writer complained about.
fn record(writer: &mut LogWriter, ticks: std::ops::Range<u64>) -> usize {
    let refused = ticks.filter(|&n| {
        let processes: Vec<_> = (0..20)
            .map(|index| ProcessSample {
                index,
                anon_kib: n * 7919 % 100_000,
                minor_faults: 300 * n,
                ..ProcessSample::default()
            })
            .collect();
        let at_ns = story::START_NS + n * 100_000_000;
        writer.tick(TickRef { at_ns, processes: &processes, ..TickRef::default() }).is_err()
    });
    refused.count()
}

fn read(dir: &Path) -> (Vec<Record>, Ending) {
    let mut reader = Reader::open(dir).unwrap();
    let records = reader.by_ref().map(Result::unwrap).collect();
    (records, reader.ending())
}

fn ticks(records: &[Record]) -> u64 {
    records.iter().filter(|record| matches!(record, Record::Tick(_))).count() as u64
}

fn told(records: &[Record]) -> u64 {
    let told = records.iter().map(|record| match record {
        Record::Event(Event { what: EventKind::Dropped { ticks, .. }, .. }) => *ticks,
        _ => 0,
    });
    told.sum()
}

#[test]
fn a_run_ends_in_order_on_a_full_disk() {
    let Some(disk) = SmallDisk::mount(256) else { return };
    let mut writer = LogWriter::create(&disk.0).unwrap();
    let refused = record(&mut writer, 0..10_000);
    assert!(refused > 0, "the disk is not full");
    // Killed here, all that was stored would be readable, the last second from `open.nlog` included.
    let (records, _) = read(&disk.0);
    assert_eq!(records.last().and_then(Record::at_ns), Some(story::START_NS + 9_999 * 100_000_000));

    let dropped = writer.finish(story::end()).unwrap();
    let (records, ending) = read(&disk.0);
    assert_eq!(ending, Ending::Clean);
    assert_eq!(ticks(&records) + dropped.ticks, 10_000);
    assert!(dropped.ticks > 0 && told(&records) == dropped.ticks);
}

#[test]
fn recording_goes_on_when_there_is_room_again() {
    let Some(disk) = SmallDisk::mount(512) else { return };
    let mut writer = LogWriter::create(&disk.0).unwrap();
    record(&mut writer, 0..50);
    let checkpoint = disk.0.join("checkpoint");
    assert!(fs::write(&checkpoint, vec![1; 1 << 20]).is_err(), "the target fills the disk");
    record(&mut writer, 50..5_000);
    assert!(writer.dropped().ticks > 0);
    fs::remove_file(&checkpoint).unwrap();
    assert_eq!(record(&mut writer, 5_000..5_500), 0);
    let dropped = writer.finish(story::end()).unwrap();
    let (records, ending) = read(&disk.0);
    assert_eq!((ending, told(&records)), (Ending::Clean, dropped.ticks));
    assert_eq!(ticks(&records) + dropped.ticks, 5_500);
}

#[test]
fn a_disk_without_room_for_the_reserve_is_refused_at_the_start() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let error = LogWriter::create(&disk.0).unwrap_err();
    assert!(error.hint().unwrap().contains("free some space"), "{error}");
}
