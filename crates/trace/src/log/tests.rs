use std::{
    os::unix::fs::PermissionsExt,
    sync::{Arc, Mutex},
};

use super::*;
use crate::{
    Ending, Reader,
    reader::Why,
    record::{Cost, Mark, MarkKind, ProcessSample},
};

/// A disk with room for `limit` bytes: a write past it stores what fits and fails, as a real one does.
#[derive(Debug, Clone)]
struct SmallDisk {
    bytes: Arc<Mutex<Vec<u8>>>,
    limit: Arc<Mutex<usize>>,
    can_truncate: bool,
}

impl SmallDisk {
    fn new(limit: usize) -> Self {
        Self { bytes: Arc::default(), limit: Arc::new(Mutex::new(limit)), can_truncate: true }
    }

    fn allow(&self, limit: usize) {
        *self.limit.lock().unwrap() = limit;
    }

    fn contents(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl Disk for SmallDisk {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let (limit, mut there) = (*self.limit.lock().unwrap(), self.bytes.lock().unwrap());
        let start = offset as usize;
        let end = (start + bytes.len()).min(limit).max(start);
        if there.len() < end {
            there.resize(end, 0);
        }
        there[start..end].copy_from_slice(&bytes[..end - start]);
        if end - start < bytes.len() { Err(io::ErrorKind::StorageFull.into()) } else { Ok(()) }
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        if !self.can_truncate {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.bytes.lock().unwrap().truncate(bytes as usize);
        Ok(())
    }
}

fn writer(log: &SmallDisk, open: &SmallDisk) -> LogWriter {
    LogWriter::over(Path::new("/nonexistent"), Box::new(log.clone()), Box::new(open.clone()))
}

fn tick_at(writer: &mut LogWriter, at_ns: u64) -> Result<(), Error> {
    let processes =
        [ProcessSample { anon_kib: at_ns % 977, minor_faults: at_ns, ..ProcessSample::default() }];
    writer.tick(TickRef { at_ns, processes: &processes, ..TickRef::default() })
}

fn note(at_ns: u64, text: &str) -> Record {
    Record::Event(Event { at_ns, what: EventKind::Note { text: text.into() } })
}

fn mark(at_ns: u64) -> Record {
    Record::Mark(Mark { at_ns, error_ns: 0, pid: None, what: MarkKind::Step(at_ns) })
}

fn end(at_ns: u64) -> End {
    End { at_ns, exit: None, cost: Cost::default(), ticks: 0, missed_ticks: 0, cgroup_peak_bytes: None }
}

fn read(log: &SmallDisk, open: &SmallDisk) -> (Vec<Record>, Ending) {
    let mut reader = Reader::from_bytes(log.contents(), &open.contents());
    let records = reader.by_ref().collect::<Result<Vec<_>, _>>().unwrap();
    (records, reader.ending())
}

fn times(records: &[Record]) -> Vec<u64> {
    records.iter().map(|record| record.at_ns().unwrap()).collect()
}

const ROOMY: usize = 1 << 30;
const TENTH: u64 = BLOCK_SPAN_NS / 10;

#[test]
fn every_tick_is_readable_as_soon_as_it_is_written() {
    let (log, open) = (SmallDisk::new(ROOMY), SmallDisk::new(ROOMY));
    let mut writer = writer(&log, &open);
    for tick in 0..35 {
        tick_at(&mut writer, tick * TENTH).unwrap();
        let (records, ending) = read(&log, &open);
        assert_eq!(times(&records), (0..=tick).map(|tick| tick * TENTH).collect::<Vec<_>>());
        let offset = writer.log_bytes();
        assert_eq!(ending, Ending::Cut { offset, at_ns: Some(tick * TENTH), why: Why::NoEnd });
    }
    // Blocks of eleven ticks: the eleventh spans a second.
    assert_eq!(writer.block.seq(), 4);
}

#[test]
fn a_torn_write_of_the_open_block_loses_one_tick() {
    let (log, open) = (SmallDisk::new(ROOMY), SmallDisk::new(ROOMY));
    let mut writer = writer(&log, &open);
    for tick in 0..5 {
        tick_at(&mut writer, tick * TENTH).unwrap();
    }
    // The fifth went to the first slot.
    open.bytes.lock().unwrap()[20] ^= 1;
    assert_eq!(read(&log, &open).0.len(), 4);
}

#[test]
fn a_closed_block_that_lingers_in_the_open_file_is_not_read_twice() {
    let (log, open) = (SmallDisk::new(ROOMY), SmallDisk::new(ROOMY));
    let mut writer = writer(&log, &open);
    tick_at(&mut writer, 1).unwrap();
    writer.append(&note(2, "closes the block")).unwrap();
    assert_eq!(times(&read(&log, &open).0), [1, 2]);
}

#[test]
fn records_keep_their_place_and_marks_do_not_close_a_block() {
    let (log, open) = (SmallDisk::new(ROOMY), SmallDisk::new(ROOMY));
    let mut writer = writer(&log, &open);
    tick_at(&mut writer, 1).unwrap();
    writer.append(&mark(2)).unwrap();
    tick_at(&mut writer, 3).unwrap();
    writer.append(&note(4, "")).unwrap();
    tick_at(&mut writer, 5).unwrap();
    assert_eq!(times(&read(&log, &open).0), [1, 2, 3, 4, 5]);
}

#[test]
fn a_long_block_is_closed_at_once() {
    let (log, open) = (SmallDisk::new(ROOMY), SmallDisk::new(ROOMY));
    let mut writer = writer(&log, &open);
    let crowd: Vec<_> = (0..2000)
        .map(|index| ProcessSample { index, anon_kib: 1 << 30, ..ProcessSample::default() })
        .collect();
    writer.tick(TickRef { at_ns: 1, processes: &crowd, ..TickRef::default() }).unwrap();
    assert!(writer.log_bytes() > BLOCK_BYTES as u64 && open.contents().is_empty());
    assert_eq!(read(&log, &open).0.len(), 1);
}

#[test]
fn a_tick_that_cannot_be_stored_is_counted_and_told() {
    let (log, open) = (SmallDisk::new(ROOMY), SmallDisk::new(ROOMY));
    let mut writer = writer(&log, &open);
    tick_at(&mut writer, 1).unwrap();
    let twice = [ProcessSample::default(); 2];
    let result = writer.tick(TickRef { at_ns: 2, processes: &twice, ..TickRef::default() });
    assert!(matches!(result, Err(Error::Tick(tick::Error::Order))));
    assert!(writer.append(&Record::Tick(crate::record::Tick::default())).is_err());
    tick_at(&mut writer, 3).unwrap();
    assert_eq!(writer.dropped(), Dropped { ticks: 1, records: 1 });
    writer.append(&note(4, "")).unwrap();
    let (records, _) = read(&log, &open);
    assert!(records.iter().any(|record| matches!(
        record,
        Record::Event(Event { what: EventKind::Dropped { ticks: 1, .. }, .. })
    )));
}

#[test]
fn a_refusing_disk_delays_and_then_drops_but_never_corrupts() {
    for can_truncate in [true, false] {
        let log = SmallDisk { can_truncate, ..SmallDisk::new(1000) };
        let open = SmallDisk::new(ROOMY);
        let mut writer = writer(&log, &open);
        let mut stored = 0;
        for tick in 0..20_000 {
            stored += u64::from(tick_at(&mut writer, tick * TENTH).is_ok());
        }
        let (records, ending) = read(&log, &open);
        assert!(!records.is_empty() && stored > 0);
        assert!(!matches!(ending, Ending::Clean));
        let dropped = writer.dropped().ticks;
        assert!(dropped > 0 && writer.backlog.len() <= BACKLOG_BLOCKS_BYTES);

        // There is room again: what waited is written, and the loss is told.
        log.allow(ROOMY);
        writer.append(&note(20_000 * TENTH, "back")).unwrap();
        assert_eq!(writer.finish(end(20_001 * TENTH)).unwrap().ticks, dropped);
        let (records, ending) = read(&log, &SmallDisk::new(0));
        assert_eq!(ending, Ending::Clean);
        let ticks = records.iter().filter(|record| matches!(record, Record::Tick(_))).count() as u64;
        assert_eq!(ticks + dropped, 20_000);
        let told: u64 = records.iter().map(told_ticks).sum();
        assert_eq!(told, dropped);
        assert!(times(&records).is_sorted());
    }
}

fn told_ticks(record: &Record) -> u64 {
    match record {
        Record::Event(Event { what: EventKind::Dropped { ticks, .. }, .. }) => *ticks,
        _ => 0,
    }
}

#[test]
fn a_short_refusal_loses_nothing() {
    let (log, open) = (SmallDisk::new(300), SmallDisk::new(ROOMY));
    let mut writer = writer(&log, &open);
    for tick in 0..200 {
        if tick == 100 {
            log.allow(ROOMY);
        }
        let _ = tick_at(&mut writer, tick * TENTH);
        let _ = writer.append(&mark(tick * TENTH));
    }
    assert!(writer.finish(end(200 * TENTH)).unwrap().is_none());
    let (records, ending) = read(&log, &open);
    assert_eq!((records.len(), ending), (401, Ending::Clean));
}

#[test]
fn a_failing_open_file_loses_nothing_that_is_closed_later() {
    let (log, open) = (SmallDisk::new(ROOMY), SmallDisk::new(0));
    let mut writer = writer(&log, &open);
    assert!(tick_at(&mut writer, 1).is_err());
    assert!(tick_at(&mut writer, 2).is_err());
    writer.finish(end(3)).unwrap();
    assert_eq!(times(&read(&log, &open).0), [1, 2, 3]);
}

#[test]
fn a_dead_disk_gives_errors_only() {
    let (log, open) = (SmallDisk::new(0), SmallDisk::new(0));
    let mut writer = writer(&log, &open);
    for tick in 0..5000 {
        assert!(tick_at(&mut writer, tick * TENTH).is_err());
        assert!(writer.append(&mark(tick)).is_err());
    }
    assert!(writer.dropped().records > 0 && writer.dropped().ticks > 0);
    assert!(writer.backlog.len() <= BACKLOG_RECORDS_BYTES);
    assert!(matches!(writer.finish(end(1)), Err(Error::Io { .. })));
    assert!(matches!(read(&log, &open).1, Ending::Cut { offset: 0, why: Why::Empty, .. }));
}

#[test]
fn files_are_private_new_and_tidied() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(dir.path()).unwrap();
    for name in [LOG_FILE, OPEN_BLOCK_FILE, RESERVE_FILE] {
        let mode = fs::metadata(dir.path().join(name)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(matches!(LogWriter::create(dir.path()), Err(Error::Io { .. })));
    tick_at(&mut writer, 1).unwrap();
    assert_eq!(Reader::open(dir.path()).unwrap().count(), 1);
    let before = writer.written_bytes();
    assert!(writer.log_bytes() == 0 && before > RESERVE_BYTES as u64);
    writer.finish(end(2)).unwrap();
    let left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, [LOG_FILE]);
    let mut reader = Reader::open(dir.path()).unwrap();
    assert_eq!((reader.by_ref().count(), reader.ending()), (2, Ending::Clean));
}
