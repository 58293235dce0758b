//! The ranks of a job in a few files: `samples` (one row per rank and tick) and `ranks` (one row per recording).
//!
//! A thousand small files cost an engine ten times as long as one. Which of run, node and rank are directories is chosen;
//! the others are columns, by the same names, so that one query reads either.
//!
//! Clocks: all ranks of a node have one monotonic clock, so they get one anchor, that of the rank that began first there; a
//! step of the wall clock between two starts does not part them. Nodes agree as far as their wall clocks do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use nilometer_analysis::rank::Ranked;
use nilometer_analysis::stats::median;
use nilometer_trace::job;
use nilometer_trace::record::{MarkKind, Phase, ProcessSample, Record, Tick};
use nilometer_trace::{Manifest, Reader};

use super::sheet::{Cell, Field, Sheet, TIME, Unfinished, float, int, maybe, text};
use crate::{Error, Identity};

/// Steps of a rank whose times are compared with another's.
const MOST_STEPS: usize = 4_096;
const SAMPLES: &str = "samples.parquet";
const RANKS: &str = "ranks.parquet";

/// One recording of a rank.
#[derive(Debug, Clone)]
pub struct Part {
    pub path: PathBuf,
    pub row: Ranked,
}

/// What becomes a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    Run,
    Node,
    Rank,
}

#[derive(Debug, Clone, Copy)]
pub struct MergeOptions {
    pub by: By,
    /// Of each so long stretch only the highest sample; all where absent.
    pub interval_ns: Option<u64>,
    pub replace: bool,
}

/// What was made, and how far clocks can be trusted.
#[derive(Debug, Clone, PartialEq)]
pub struct Merged {
    pub directory: PathBuf,
    pub files: usize,
    pub rows: u64,
    /// How far the wall clock moved between the starts of two ranks of one node, at most.
    pub clock_step_s: f64,
    /// How much later than the first rank's a rank's steps began, at most (median over its steps); absent without steps.
    pub step_skew_s: Option<f64>,
}

/// Writes the tables below `base`; `name` is that of the job.
pub fn write_merged(
    name: &str,
    parts: &[Part],
    base: &Path,
    options: &MergeOptions,
) -> Result<Merged, Error> {
    let directory = base.join(format!("run={}", job::escape(name)));
    if directory.exists() && !options.replace {
        return Err(Error::Exists { path: directory });
    }
    let clocks = Clocks::read(parts)?;
    let mut writer =
        Writer { name, directory: &directory, options, clocks: &clocks, open: None, files: Vec::new() };
    let mut told = Vec::new();
    let mut rows = 0;
    for part in parts {
        let told_of = writer.samples(part)?;
        rows += told_of.rows;
        told.push(told_of);
    }
    let mut files = writer.finish()?;
    let skews = skews(&told);
    files.push(ranks(name, &directory, parts, &told, &skews)?);
    // The old ones first: a partition of another kind beside the new one would count everything twice.
    drop(remove_old(&directory));
    let count = files.len();
    files.into_iter().try_for_each(Unfinished::rename)?;
    let step_skew_s = skews
        .iter()
        .flatten()
        .map(|skew| skew.abs())
        .fold(None, |most: Option<f64>, skew| Some(most.map_or(skew, |most| most.max(skew))));
    Ok(Merged { directory, files: count, rows, clock_step_s: clocks.worst_step_s, step_skew_s })
}

/// Tables of an earlier merge; nothing else.
fn remove_old(directory: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(directory)?.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if entry.file_type()?.is_dir() && (name.starts_with("node=") || name.starts_with("rank=")) {
            remove_old(&entry.path())?;
            drop(fs::remove_dir(entry.path()));
        } else if name == SAMPLES || name == RANKS {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// From the clock of a node to the wall.
struct Clocks {
    /// Realtime minus monotonic, by node.
    offset_ns: BTreeMap<String, i128>,
    /// When the first rank began, by the wall.
    origin_ns: i128,
    worst_step_s: f64,
}

impl Clocks {
    fn read(parts: &[Part]) -> Result<Self, Error> {
        let mut first: BTreeMap<&str, (u64, i128)> = BTreeMap::new();
        let (mut origin_ns, mut worst) = (i128::MAX, 0i128);
        let mut all = Vec::new();
        for part in parts {
            let Some((mono_ns, realtime_ns)) = anchor(&part.path)? else { continue };
            let offset = i128::from(realtime_ns) - i128::from(mono_ns);
            all.push((part.row.node.as_str(), offset));
            origin_ns = origin_ns.min(i128::from(realtime_ns));
            let known = first.entry(&part.row.node).or_insert((mono_ns, offset));
            if mono_ns < known.0 {
                *known = (mono_ns, offset);
            }
        }
        for (node, offset) in all {
            worst = worst.max(first.get(node).map_or(0, |known| (known.1 - offset).abs()));
        }
        let offset_ns = first.into_iter().map(|(node, (_, offset))| (node.to_owned(), offset)).collect();
        let origin_ns = if origin_ns == i128::MAX { 0 } else { origin_ns };
        Ok(Self { offset_ns, origin_ns, worst_step_s: worst as f64 / 1e9 })
    }

    fn unix_ns(&self, node: &str, at_ns: u64) -> i64 {
        let unix_ns = i128::from(at_ns) + self.offset_ns.get(node).copied().unwrap_or(0);
        unix_ns.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64
    }

    fn seconds(&self, unix_ns: i64) -> f64 {
        (i128::from(unix_ns) - self.origin_ns) as f64 / 1e9
    }
}

/// The first record of every log.
fn anchor(path: &Path) -> Result<Option<(u64, u64)>, Error> {
    let mut reader = Reader::open(path)?;
    while let Some(record) = reader.next_record()? {
        if let Record::Header(header) = record {
            return Ok(Some((header.mono_ns, header.realtime_ns)));
        }
    }
    Ok(None)
}

/// What the log of a rank told on the way.
#[derive(Default)]
struct Told {
    rows: u64,
    first_ns: Option<i64>,
    /// When each step began, by the wall.
    steps: BTreeMap<u64, i64>,
}

impl Told {
    fn step(&mut self, number: u64, unix_ns: i64) {
        if self.steps.len() < MOST_STEPS {
            self.steps.entry(number).or_insert(unix_ns);
        }
    }
}

/// One tick of one rank.
struct Row {
    unix_ns: i64,
    high_kib: u64,
    cells: [Cell<'static>; 12],
}

/// The highest of each stretch, or all of them.
struct Thin {
    every_ns: Option<u64>,
    kept: Option<Row>,
}

impl Thin {
    /// What is known to be the highest of its stretch.
    fn push(&mut self, row: Row) -> Option<Row> {
        let Some(every_ns) = self.every_ns else { return Some(row) };
        let stretch = |row: &Row| row.unix_ns.unsigned_abs() / every_ns.max(1);
        match &mut self.kept {
            Some(kept) if stretch(kept) == stretch(&row) => {
                if row.high_kib > kept.high_kib {
                    *kept = row;
                }
                None
            }
            kept => kept.replace(row),
        }
    }
}

struct Writer<'a> {
    name: &'a str,
    directory: &'a Path,
    options: &'a MergeOptions,
    clocks: &'a Clocks,
    open: Option<(PathBuf, Sheet)>,
    files: Vec<Unfinished>,
}

impl Writer<'_> {
    fn samples(&mut self, part: &Part) -> Result<Told, Error> {
        self.turn_to(part)?;
        let (clocks, by) = (self.clocks, self.options.by);
        let Some((_, sheet)) = &mut self.open else { return Ok(Told::default()) };
        let mut told = Told::default();
        let mut step = None;
        let mut thin = Thin { every_ns: self.options.interval_ns, kept: None };
        let mut put = |row: Option<Row>| match row {
            Some(row) => sheet.row(whose(part, by).into_iter().chain(row.cells)).map(|()| 1),
            None => Ok(0),
        };
        let mut reader = Reader::open(&part.path)?;
        while let Some(record) = reader.next_record()? {
            match record {
                Record::Mark(mark) => {
                    if let MarkKind::Step(number) = mark.what {
                        step = Some(number);
                        told.step(number, clocks.unix_ns(&part.row.node, mark.at_ns));
                    }
                }
                Record::Tick(tick) if tick.phase == Phase::During && !tick.processes.is_empty() => {
                    let unix_ns = clocks.unix_ns(&part.row.node, tick.at_ns);
                    told.first_ns.get_or_insert(unix_ns);
                    told.rows += put(thin.push(row(tick, unix_ns, clocks.seconds(unix_ns), step)))?;
                }
                _ => {}
            }
        }
        told.rows += put(thin.kept)?;
        Ok(told)
    }

    /// Opens the file that this rank belongs to, and closes the one before.
    fn turn_to(&mut self, part: &Part) -> Result<(), Error> {
        let mut place = self.directory.to_owned();
        if self.options.by != By::Run {
            place.push(format!("node={}", job::escape(&part.row.node)));
        }
        if self.options.by == By::Rank {
            place.push(format!("rank={}", part.row.rank));
        }
        if self.open.as_ref().is_some_and(|(open, _)| *open == place) {
            return Ok(());
        }
        self.close()?;
        fs::create_dir_all(&place).map_err(|source| Error::Io { path: place.clone(), source })?;
        let identity =
            Identity { run: self.name.to_owned(), node: part.row.node.clone(), rank: part.row.rank };
        let sheet = Sheet::create(place.join(SAMPLES), &sample_fields(self.options.by), &identity)?;
        self.open = Some((place, sheet));
        Ok(())
    }

    fn close(&mut self) -> Result<(), Error> {
        if let Some((_, sheet)) = self.open.take() {
            self.files.push(sheet.close()?);
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Vec<Unfinished>, Error> {
        self.close()?;
        Ok(self.files)
    }
}

/// Columns for what is not in the path.
fn whose(part: &Part, by: By) -> Vec<Cell<'_>> {
    let mut cells = Vec::with_capacity(3);
    if by == By::Run {
        cells.push(Cell::from(&part.row.node));
    }
    if by != By::Rank {
        cells.push(part.row.rank.into());
    }
    cells.push(part.row.restart.into());
    cells
}

fn sample_fields(by: By) -> Vec<Field> {
    let mut fields = Vec::new();
    if by == By::Run {
        fields.push(text("node"));
    }
    if by != By::Rank {
        fields.push(int("rank"));
    }
    fields.extend([
        int("restart"),
        int(TIME),
        float("seconds"),
        maybe(int("step")),
        int("low_bytes"),
        int("high_bytes"),
        int("anon_bytes"),
        int("file_bytes"),
        int("shmem_bytes"),
        int("swap_bytes"),
        int("largest_hwm_bytes"),
        int("processes"),
        int("threads"),
    ]);
    fields
}

/// One tick of a rank. Anonymous, file and shared memory are sums over its processes, as the kernel counts them.
fn row(tick: &Tick, unix_ns: i64, seconds: f64, step: Option<u64>) -> Row {
    let kib = |value: u64| value.saturating_mul(1024);
    let sum = |of: fn(&ProcessSample) -> u64| {
        tick.processes.iter().fold(0u64, |sum, sample| sum.saturating_add(of(sample)))
    };
    let largest = tick.processes.iter().map(ProcessSample::rss_kib).max().unwrap_or(0);
    let (low, high) = tick
        .tree
        .map_or_else(|| (largest, sum(ProcessSample::rss_kib)), |tree| (tree.low_kib, tree.high_kib));
    let hwm = tick.processes.iter().map(|sample| sample.hwm_kib).max().unwrap_or(0);
    let cells = [
        unix_ns.into(),
        seconds.into(),
        step.into(),
        kib(low).into(),
        kib(high).into(),
        kib(sum(|it| it.anon_kib)).into(),
        kib(sum(|it| it.file_kib)).into(),
        kib(sum(|it| it.shmem_kib)).into(),
        kib(sum(|it| it.swap_kib)).into(),
        kib(hwm).into(),
        (tick.processes.len() as u64).into(),
        sum(|it| u64::from(it.threads)).into(),
    ];
    Row { unix_ns, high_kib: high, cells }
}

/// How much later than those of the first rank its steps began.
fn skews(told: &[Told]) -> Vec<Option<f64>> {
    const LEAST: usize = 3;
    let first = told.iter().find(|told| told.steps.len() >= LEAST).map(|told| &told.steps);
    let skew = |told: &Told| {
        let first = first?;
        let common: BTreeSet<&u64> = told.steps.keys().filter(|step| first.contains_key(step)).collect();
        let apart = |step: &&u64| Some((told.steps.get(step)? - first.get(step)?) as f64 / 1e9);
        let mut apart: Vec<f64> = common.iter().filter_map(apart).collect();
        if apart.len() < LEAST { None } else { median(&mut apart) }
    };
    told.iter().map(skew).collect()
}

fn ranks(
    name: &str,
    directory: &Path,
    parts: &[Part],
    told: &[Told],
    skews: &[Option<f64>],
) -> Result<Unfinished, Error> {
    fs::create_dir_all(directory).map_err(|source| Error::Io { path: directory.to_owned(), source })?;
    let identity = Identity { run: name.to_owned(), node: String::new(), rank: 0 };
    let mut sheet = Sheet::create(directory.join(RANKS), &rank_fields(), &identity)?;
    for ((part, told), skew) in parts.iter().zip(told).zip(skews) {
        let manifest = Manifest::read(&part.path)?;
        let exit = manifest.end.as_ref().and_then(|end| end.exit.as_ref());
        let it = &part.row;
        let class = match it.growth.class {
            nilometer_analysis::model::GrowthClass::Grows => "grows",
            nilometer_analysis::model::GrowthClass::Flat => "flat",
            nilometer_analysis::model::GrowthClass::CannotTell => "cannot tell",
        };
        let per = match it.growth.per {
            nilometer_analysis::model::GrowthUnit::Step => "step",
            nilometer_analysis::model::GrowthUnit::Minute => "min",
        };
        sheet.row([
            Cell::from(&it.node),
            it.rank.into(),
            it.restart.into(),
            told.first_ns.into(),
            it.duration_s.into(),
            it.peak_bytes.into(),
            class.into(),
            per.into(),
            it.growth.bytes.into(),
            it.growth.low_bytes.into(),
            it.growth.high_bytes.into(),
            it.steps.into(),
            exit.and_then(|exit| exit.code).into(),
            exit.and_then(|exit| exit.signal).into(),
            (*skew).into(),
            told.rows.into(),
        ])?;
    }
    sheet.close()
}

fn rank_fields() -> Vec<Field> {
    vec![
        text("node"),
        int("rank"),
        int("restart"),
        maybe(int(TIME)),
        float("duration_s"),
        maybe(int("peak_bytes")),
        text("growth_class"),
        text("growth_per"),
        maybe(float("growth_bytes")),
        maybe(float("growth_low_bytes")),
        maybe(float("growth_high_bytes")),
        int("steps"),
        maybe(int("exit_code")),
        maybe(int("exit_signal")),
        maybe(float("step_skew_s")),
        int("rows"),
    ]
}
