//! From sums to what is stored: stacks resolved, the rest folded where there is too much, written whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use nilometer_trace::allocs::{
    self, ALLOCS_FILE, Amount, Folded, Kept, KeptSize, Node, Recording, Series, Site, special,
};
use rustc_hash::FxHashMap;

use super::site::{Own, Site as Counted};
use super::snapshot::Snapshot;
use super::stacks::Stacks;
use super::weight::Sum;

/// The file's ceiling.
const MOST_BYTES: u64 = 64 << 20;
/// Sites that are stored at most; fewer when the file would become too long.
const MOST_SITES: usize = 400_000;
const MOST_SERIES: usize = 8192;
/// A series that moves counts like one so many times as large: growth is small at first.
const MOVED: u64 = 16;
const MOST_KEPT: usize = 4096;
const TEMPORARY_FILE: &str = "allocs.nal.new";

/// The stored numbers of a site's stacks: native, Python.
pub type Resolved = (u32, u32);

/// Stores a snapshot, and gives what was stored. What is there already stays when this fails.
pub fn write(
    snapshot: &Snapshot,
    stacks: &Stacks,
    resolved: &[Resolved],
    directory: &Path,
) -> io::Result<Recording> {
    let mut most_sites = MOST_SITES;
    loop {
        let recording = build(snapshot, stacks, resolved, most_sites);
        if write_file(&recording, directory)? <= MOST_BYTES || most_sites < 64 {
            fs::rename(directory.join(TEMPORARY_FILE), directory.join(ALLOCS_FILE))?;
            return Ok(recording);
        }
        most_sites = most_sites.min(recording.sites.len()) / 2;
    }
}

fn write_file(recording: &Recording, directory: &Path) -> io::Result<u64> {
    let path = directory.join(TEMPORARY_FILE);
    let _ = fs::remove_file(&path);
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    let written = write_frames(recording, &file);
    if written.is_err() {
        // What could not be written whole is worth nothing, and the disk may be full.
        let _ = fs::remove_file(&path);
    }
    written
}

fn write_frames(recording: &Recording, file: &File) -> io::Result<u64> {
    let mut out = BufWriter::with_capacity(1 << 20, file);
    allocs::write(recording, &mut out).map_err(io::Error::other)?;
    out.flush()?;
    file.metadata().map(|facts| facts.len())
}

/// The recording with at most so many sites that have stacks.
pub fn build(snapshot: &Snapshot, stacks: &Stacks, resolved: &[Resolved], most_sites: usize) -> Recording {
    let mut recording = Recording {
        about: snapshot.about.clone(),
        processes: snapshot.rows.iter().map(|row| row.process.clone()).collect(),
        modules: stacks.modules.clone(),
        ..Recording::default()
    };
    let kept = choose(snapshot, most_sites);
    add_sites(&mut recording, snapshot, resolved, &kept);
    renumber(&mut recording, stacks);
    recording
}

/// Which sites are kept with their stacks: those with the largest part in anything.
fn choose(snapshot: &Snapshot, most: usize) -> Vec<bool> {
    let sites = &snapshot.sites.all;
    let mut kept: Vec<bool> = sites.iter().map(|site| site.total.count > 0).collect();
    let busy = kept.iter().filter(|kept| **kept).count();
    if busy > most {
        let mut ranks: Vec<(u64, usize)> =
            sites.iter().enumerate().map(|(index, site)| (weight(site), index)).collect();
        ranks.select_nth_unstable_by(most, |a, b| b.cmp(a));
        for (_, index) in ranks.into_iter().skip(most) {
            kept[index] = false;
        }
    }
    kept
}

/// Bytes that lived count more than bytes that passed.
fn weight(site: &Counted) -> u64 {
    site.highest_bytes.max(site.live.bytes).max(site.total.bytes / 256)
}

fn add_sites(recording: &mut Recording, snapshot: &Snapshot, resolved: &[Resolved], kept: &[bool]) {
    let nobody = Own::default();
    let mut rows = FxHashMap::default();
    let mut series = Vec::new();
    let (mut kept_at, mut row_of) = (FxHashMap::default(), FxHashMap::default());
    let mut folded = Folded { sites: snapshot.sites.folded, ..recording.about.folded };
    for (index, counted) in snapshot.sites.all.iter().enumerate().filter(|(_, site)| site.total.count > 0) {
        let own = snapshot.rows.get(counted.process as usize).map_or(&nobody, |row| &row.own);
        let is_kept = kept.get(index).copied().unwrap_or(false);
        let unresolved = (special::DROPPED, special::NONE);
        let (native, python) =
            if is_kept { resolved.get(index).copied().unwrap_or(unresolved) } else { FOLDED };
        let site = stored(snapshot, counted, own, native, python);
        if !is_kept || (native, python) == FOLDED {
            folded.sites += u64::from(!is_kept);
            folded.peak_bytes = folded.peak_bytes.wrapping_add(site.peak.bytes);
            folded.total_bytes = folded.total_bytes.wrapping_add(site.total.bytes);
        }
        // Two numbers of a book, or two instructions of a line, may be one stack.
        let key = (site.process, native, python, site.source);
        let row = *rows.entry(key).or_insert(recording.sites.len());
        row_of.insert(index as u32, row as u32);
        match recording.sites.get_mut(row) {
            Some(same) => merge(same, &site),
            None => recording.sites.push(site),
        }
        if counted.kept.bytes > 0 {
            add_kept(&mut kept_at, row, &counted.kept);
        }
        if let Some(values) = snapshot.sites.steps.values(counted) {
            series.push((row as u32, values, counted.kept.bytes));
        }
    }
    add_series(recording, series, &mut folded);
    folded.series += snapshot.sites.steps.folded;
    recording.about.folded = folded;
    recording.about.kept = largest(kept_at);
    let sized =
        |&(site, bytes, count): &(u32, u64, u64)| Some(KeptSize { site: *row_of.get(&site)?, bytes, count });
    recording.about.kept_sizes = snapshot.sites.turns.sizes.iter().filter_map(sized).collect();
}

fn add_kept(kept: &mut FxHashMap<u32, Kept>, row: usize, amount: &Amount) {
    let site = row as u32;
    let sum = kept.entry(site).or_insert(Kept { site, bytes: 0, count: 0 });
    sum.bytes = sum.bytes.saturating_add(amount.bytes);
    sum.count = sum.count.saturating_add(amount.count);
}

/// The header holds so many; what is left out is small.
fn largest(kept: FxHashMap<u32, Kept>) -> Vec<Kept> {
    let mut all: Vec<Kept> = kept.into_values().collect();
    all.sort_by_key(|kept| (std::cmp::Reverse(kept.bytes), kept.site));
    all.truncate(MOST_KEPT);
    all
}

const FOLDED: Resolved = (special::FOLDED, special::FOLDED);

fn stored(snapshot: &Snapshot, counted: &Counted, own: &Own, native: u32, python: u32) -> Site {
    let (peak, own_peak_bytes) = snapshot.sites.at_peak(own, counted);
    Site {
        process: counted.process,
        python,
        native,
        source: counted.source,
        live: counted.live,
        peak,
        own_peak_bytes,
        highest_bytes: counted.highest_bytes,
        total: counted.total,
        temporary_bytes: counted.temporary_bytes,
        temporary_count: counted.temporary_count,
        freed_in_step_bytes: counted.freed_in_step_bytes,
        lifetime_ns: super::tracked::nanoseconds(counted.lifetime_ticks, snapshot.tick_scale),
    }
}

fn merge(into: &mut Site, site: &Site) {
    into.live.add(&site.live);
    into.peak.add(&site.peak);
    into.total.add(&site.total);
    into.own_peak_bytes = into.own_peak_bytes.wrapping_add(site.own_peak_bytes);
    // The two may have had their most at different moments: this is an upper bound, never above what was handed out.
    into.highest_bytes = into.highest_bytes.saturating_add(site.highest_bytes).min(into.total.bytes);
    into.temporary_bytes = into.temporary_bytes.wrapping_add(site.temporary_bytes);
    into.temporary_count = into.temporary_count.wrapping_add(site.temporary_count);
    into.freed_in_step_bytes = into.freed_in_step_bytes.wrapping_add(site.freed_in_step_bytes);
    into.lifetime_ns = into.lifetime_ns.saturating_add(site.lifetime_ns);
}

/// The largest series, those that moved before those that did not, and those of what outlives its phase; those of one row
/// are added up.
fn add_series(recording: &mut Recording, series: Vec<(u32, &[u64], u64)>, folded: &mut Folded) {
    let mut by_row: FxHashMap<u32, (Vec<u64>, u64)> = FxHashMap::default();
    for (row, values, kept) in series {
        let (sum, weight) = by_row.entry(row).or_insert_with(|| (vec![0; values.len()], 0));
        sum.iter_mut().zip(values).for_each(|(sum, value)| *sum = sum.wrapping_add(*value));
        *weight = weight.saturating_add(kept);
    }
    let weight = |values: &[u64]| {
        let (most, least) = (*values.iter().max().unwrap_or(&0), *values.iter().min().unwrap_or(&0));
        most.max((most - least.min(most)).saturating_mul(MOVED))
    };
    let weighed =
        by_row.into_iter().map(|(site, (bytes, kept))| (weight(&bytes).max(kept), Series { site, bytes }));
    let mut all: Vec<(u64, Series)> = weighed.collect();
    all.sort_by_key(|(weight, series)| (std::cmp::Reverse(*weight), series.site));
    folded.series += all.len().saturating_sub(MOST_SERIES) as u64;
    all.truncate(MOST_SERIES);
    recording.series = all.into_iter().map(|(_, series)| series).collect();
}

/// Keeps the frames and codes that the sites name, in their order.
fn renumber(recording: &mut Recording, stacks: &Stacks) {
    let mut used = vec![false; stacks.nodes.len()];
    for site in &recording.sites {
        for mut number in [site.native, site.python] {
            while let Some(at) = number.checked_sub(special::FIRST).map(|at| at as usize)
                && let Some(seen) = used.get_mut(at)
                && !std::mem::replace(seen, true)
            {
                number = stacks.nodes[at].parent;
            }
        }
    }
    let mut numbers = vec![special::NONE; used.len()];
    let moved = |numbers: &[u32], number: u32| match number.checked_sub(special::FIRST) {
        None => number,
        Some(at) => numbers.get(at as usize).copied().unwrap_or(special::NONE),
    };
    let mut codes = FxHashMap::default();
    for (at, node) in stacks.nodes.iter().enumerate().filter(|(at, _)| used[*at]) {
        numbers[at] = recording.nodes.len() as u32 + special::FIRST;
        let mut node = Node { parent: moved(&numbers, node.parent), ..*node };
        if let allocs::Frame::Python { code, .. } = &mut node.frame {
            let known = &mut recording.codes;
            *code = *codes.entry(*code).or_insert_with(|| {
                known.push(stacks.codes.get(*code as usize).cloned().unwrap_or_default());
                known.len() as u32 - 1
            });
        }
        recording.nodes.push(node);
    }
    for site in &mut recording.sites {
        site.native = moved(&numbers, site.native);
        site.python = moved(&numbers, site.python);
    }
}
