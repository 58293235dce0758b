//! Runs of a sweep as they are kept: read back into points, whoever made them.

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use nilometer_analysis::allocs::Options;
use nilometer_analysis::allocs::model::{By, What};
use nilometer_analysis::sweep::model::{At, PointRun};
use nilometer_analysis::sweep::space::{Point, Value};
use nilometer_analysis::{metric, sweep};
use nilometer_capture::rundir::SUFFIX;
use nilometer_trace::Manifest;
use serde::{Deserialize, Serialize};

use super::place::write_private;
use crate::cmd::{allocs, leak, living, load, pages};
use crate::talk::Failure;

const POINT_FILE: &str = "point.json";
/// The end of a command's output that is searched for words of an allocation that failed.
const TAIL_BYTES: u64 = 16 << 10;

/// Of allocations only what they are for is wanted.
const BY_CATEGORY: Options = Options {
    what: What::Peak,
    by: By::Category,
    top: Some(0),
    internals: false,
    tree: None,
    moments_since_ns: None,
};

/// What a run directory cannot know: which parameter set it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Label {
    params: Vec<(String, String)>,
    repeat: u32,
    /// The scheduler of a cluster ended it: it counts though its recording has no end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ended: Option<String>,
}

/// One run that is there.
#[derive(Debug, Clone)]
pub struct Kept {
    pub directory: PathBuf,
    pub params: Point,
    pub repeat: u32,
    /// Nothing was recorded: it was ended before it began.
    pub unrecorded: bool,
    /// How a scheduler ended it.
    pub ended_by: Option<String>,
}

/// Where the command's output went.
pub fn output_of(run: &Path) -> PathBuf {
    run.with_extension("out")
}

/// Labels a run that has ended; only then it counts.
pub fn label(run: &Path, params: &Point, repeat: u32, ended: Option<&str>) -> std::io::Result<()> {
    let params = params.iter().map(|(name, value)| (name.clone(), value.text.clone())).collect();
    let text = serde_json::to_vec_pretty(&Label { params, repeat, ended: ended.map(str::to_owned) })?;
    write_private(&run.join(POINT_FILE), &text)
}

/// All whole runs of a sweep, in their order.
pub fn list(directory: &Path) -> Vec<Kept> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut runs: Vec<PathBuf> = entries.filter(|path| path.to_string_lossy().ends_with(SUFFIX)).collect();
    runs.sort();
    runs.into_iter().filter_map(read_label).collect()
}

fn read_label(directory: PathBuf) -> Option<Kept> {
    let label: Label = serde_json::from_slice(&std::fs::read(directory.join(POINT_FILE)).ok()?).ok()?;
    let manifest = Manifest::read(&directory).ok();
    let unrecorded = manifest.is_none();
    let ended = manifest.is_some_and(|manifest| manifest.end.is_some()) || label.ended.is_some();
    let params = label.params.iter().map(|(name, text)| (name.clone(), Value::new(text))).collect();
    ended.then_some(Kept { directory, params, repeat: label.repeat, unrecorded, ended_by: label.ended })
}

/// A run that somebody else is still recording: its process lives.
pub fn still_running(directory: &Path) -> Option<i32> {
    let mut entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.find_map(|entry| living::recorder(&entry.path()))
}

/// A point as far as its progress and a search need it: allocations and pages take a while to read.
pub fn outline(kept: &Kept, metric: &str) -> Result<PointRun, Failure> {
    let is_deep = metric == "wss" || metric.starts_with("category.") || metric.starts_with("allocs.");
    read_point(kept, &[], is_deep)
}

pub fn point(kept: &Kept, at: &[At]) -> Result<PointRun, Failure> {
    read_point(kept, at, true)
}

fn read_point(kept: &Kept, at: &[At], is_deep: bool) -> Result<PointRun, Failure> {
    if let Some(how) = kept.ended_by.as_ref().filter(|_| kept.unrecorded) {
        let saved = load::short_path(&kept.directory);
        return Ok(sweep::unrecorded(kept.params.clone(), kept.repeat, how, saved, at));
    }
    let (run, leak) = leak::rate_of_run(&kept.directory)?;
    let said = read_tail(&output_of(&kept.directory));
    let mut point = sweep::point(kept.params.clone(), kept.repeat, &run, &said, at);
    if let Some(how) = &kept.ended_by {
        point.outcome = point.outcome.and_scheduler(how);
        point.evidence.push(format!("its scheduler ended it: {how}"));
    }
    point.metrics.extend(metric::of_leak(&leak));
    if !is_deep {
        return Ok(point);
    }
    let allocs = allocs::categorised(&kept.directory, &BY_CATEGORY)?;
    point.metrics.extend(allocs.iter().flat_map(metric::of_allocs));
    point.metrics.extend(pages::of_run(&kept.directory)?.and_then(|pages| metric::of_pages(&pages, &run)));
    Ok(point)
}

pub fn read_tail(path: &Path) -> String {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let length = file.metadata()?.len();
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut tail = Vec::new();
        file.take(TAIL_BYTES).read_to_end(&mut tail)?;
        Ok(tail)
    };
    String::from_utf8_lossy(&read().unwrap_or_default()).into_owned()
}
