//! From stored lines to the model.

use std::collections::BTreeMap;

use nilometer_trace::pages::{About, Distances, End, Line, Look, Process, Span, Unit, VERSION};

use super::births::Newborn;
use super::curve::Histogram;
use super::heat::{Cell, Heat};
use super::mapping::{ANONYMOUS, Names};
use super::model::{Bound, ByWindow, Cold, How, Named, Owner, Pages, Reuse, Window};
use super::picture;
use super::reuse::Bounds;

/// Windows for which cold bytes are told.
const COLD_WINDOWS: [u32; 3] = [1, 10, 100];
/// Pages and regions are shown in stretches of this size.
const BLOCK_BYTES: u64 = 256 << 10;
/// Owners that are named for cold bytes.
const MOST_NAMED: usize = 8;
/// Windows are needed to tell a distance.
const FEWEST_WINDOWS: usize = 2;

/// Takes lines in their order.
#[derive(Debug, Default)]
pub struct Builder {
    about: About,
    end: Option<End>,
    names: Names,
    windows: Vec<Window>,
    heat: Heat,
    times_s: Vec<f64>,
    bounds: Bounds,
    distances: Option<Distances>,
    /// Bytes over all looks.
    sums: Sums,
    touched: BTreeMap<(i32, u64), u64>,
    newborn: Newborn,
}

#[derive(Debug, Default)]
struct Sums {
    rss: u64,
    unseen: u64,
    touched: u64,
    huge: u64,
}

impl Builder {
    /// Takes all lines of a recording; how many could not be understood.
    pub fn read(from: &mut impl std::io::BufRead, into: &mut Self) -> std::io::Result<u64> {
        nilometer_trace::pages::read_lines(from, |line| into.push(line))
    }

    pub fn push(&mut self, line: Line) {
        match line {
            Line::About(about) => self.about = *about,
            Line::Mapping(mapping) => self.names.add(&mapping),
            Line::Look(look) => self.look(&look),
            Line::Distances(distances) => self.distances = Some(*distances),
            Line::Owner(owner) => self.names.own(owner),
            Line::End(end) => self.end = Some(end),
        }
    }

    fn page_bytes(&self) -> u64 {
        if self.about.page_bytes == 0 { 4096 } else { self.about.page_bytes }
    }

    fn look(&mut self, look: &Look) {
        self.windows.push(self.window(look));
        for process in &look.processes {
            self.sums.rss += process.rss_bytes;
            self.sums.unseen += process.skipped_bytes + process.untracked_bytes;
            self.sums.touched += process.touched_pages() * self.page_bytes();
            self.sums.huge += process.huge_bytes;
        }
        if look.last {
            self.round(look);
        }
    }

    fn window(&self, look: &Look) -> Window {
        let touched = |process: &Process| process.touched_pages() * self.page_bytes();
        let shared = |process: &Process| process.shared_bytes.min(touched(process));
        let alone = look.processes.iter().map(|process| touched(process) - shared(process)).sum::<u64>();
        let most_shared = look.processes.iter().map(shared).max().unwrap_or(0);
        // By their frames pages that several processes have are counted once; without, they are between once and once each.
        let again = sum_of(look.processes.iter().map(|process| process.again_bytes));
        let all: u64 = look.processes.iter().map(touched).sum();
        let once = again.map(|again| all.saturating_sub(again));
        let around: u64 = look.processes.iter().map(|p| p.around_bytes.min(touched(p))).sum();
        let written = sum_of(look.processes.iter().map(Process::written_pages));
        let written = written.filter(|_| self.about.written.is_some());
        let born = sum_of(look.processes.iter().map(Process::born_pages));
        let born = born.filter(|_| self.about.births.is_some());
        let faults = sum_of(look.processes.iter().map(|process| Some(process.births.as_ref()?.faults)));
        Window {
            round: look.round,
            at_s: seconds(look.mark_ns),
            asked_s: seconds(look.asked_ns),
            effective_s: seconds(look.effective_ns),
            wss_bytes: once.unwrap_or(all),
            wss_low_bytes: once.unwrap_or(alone + most_shared).saturating_sub(around),
            around_bytes: around,
            rss_bytes: look.processes.iter().map(|process| process.rss_bytes).sum(),
            written_bytes: written.map(|pages| pages.saturating_mul(self.page_bytes())),
            faults: faults.filter(|_| born.is_some()),
            born_bytes: born.map(|pages| pages.saturating_mul(self.page_bytes())),
            steps: look.steps,
            stopped_s: seconds(look.stopped_ns),
            cpu_s: seconds(look.cpu_ns),
            processes: look.processes.len() as u64,
        }
    }

    /// The last look of a round is what distances and the picture are made of.
    fn round(&mut self, look: &Look) {
        let page = self.page_bytes();
        let cells: Vec<Cell> =
            look.processes.iter().flat_map(|process| cells(process, self.about.unit, page)).collect();
        for cell in &cells {
            *self.touched.entry((cell.pid, cell.start)).or_default() += cell.touched_bytes;
        }
        self.heat.push(cells);
        self.newborn.push(&look.processes);
        self.times_s.push(seconds(look.mark_ns));
        if matches!(self.about.unit, Unit::Page | Unit::Chunk) {
            let unit = self.about.unit;
            self.bounds.push(look.processes.iter().flat_map(|process| units(process, unit)));
        }
    }

    pub fn finish(self) -> Pages {
        let mut pages = Pages::default();
        self.describe(&mut pages);
        pages.wss_by_window_s = by_window(&self.windows);
        pages.asked_windows = self.about.asked_s.len();
        pages.notes.extend(self.unseen(&pages));
        pages.trace = self.distances.as_ref().map(|distances| distances.accesses);
        pages.reuse = self.distances.as_ref().map(traced).or_else(|| self.reuse());
        pages.reuse_why_not = pages.reuse.is_none().then(|| self.reuse_why_not());
        pages.owners = self.owners();
        let all: u64 = pages.owners.iter().map(|owner| owner.resident_bytes).sum();
        let unnamed = pages.owners.iter().filter(|owner| owner.name == ANONYMOUS);
        let unnamed: u64 = unnamed.map(|owner| owner.resident_bytes).sum();
        pages.named_share = share(all - unnamed, all);
        pages.cold = self.cold(all);
        pages.picture = picture::picture(&self.heat, &self.names, &self.times_s, pages.duration_s);
        pages.windows = self.windows;
        pages
    }

    fn describe(&self, pages: &mut Pages) {
        let (about, end) = (self.about.clone(), self.end.clone().unwrap_or_default());
        let stopped: f64 = self.windows.iter().map(|window| window.stopped_s).sum();
        pages.duration_s = seconds(end.duration_ns)
            .max(self.windows.last().map_or(0.0, |window| window.at_s + window.effective_s));
        pages.pause_share = if pages.duration_s > 0.0 { stopped / pages.duration_s } else { 0.0 };
        pages.coverage = 1.0 - share(self.sums.unseen.min(self.sums.rss), self.sums.rss);
        pages.huge_share = share(self.sums.huge.min(self.sums.touched), self.sums.touched);
        let looking: f64 = self.windows.iter().map(|window| window.cpu_s).sum();
        pages.cpu_s = seconds(end.cpu_ns).max(looking);
        pages.cpu_s_per_gib =
            (self.sums.rss > 0).then(|| looking / (self.sums.rss as f64 / f64::from(1 << 30)));
        pages.unit_bytes = (about.unit_bytes > 0).then_some(about.unit_bytes);
        pages.notes = about.notes;
        pages.notes.extend(end.notes);
        if about.version > VERSION {
            pages.notes.push("recorded by a newer nilo: parts of it may be missing here".into());
        }
        pages.ended = if self.end.is_none() { "the recording was cut".into() } else { end.why };
        pages.exit_code = end.exit_code;
        pages.after_start_s = about.after_start_ns.map(seconds);
        (pages.command, pages.pid, pages.kernel) = (about.command, about.pid, about.kernel);
        (pages.backend, pages.why) = (about.backend, about.why);
        (pages.sees, pages.unit, pages.exact) = (about.sees, about.unit, about.exact);
        (pages.written, pages.written_why_not) = (about.written, about.written_why_not);
        pages.births = about.births.map(|how| self.newborn.finish(how, self.page_bytes()));
        (pages.disturbs, pages.injects, pages.filters) = (about.disturbs, about.injects, about.filters);
    }

    /// Which of several windows nobody saw, and why.
    fn unseen(&self, pages: &Pages) -> Option<String> {
        let was_seen =
            |asked_s: f64| pages.wss_by_window_s.iter().any(|by| (by.window_s - asked_s).abs() < 1e-6);
        let asked = self.about.asked_s.iter().filter(|_| pages.asked_windows > 1);
        let unseen: Vec<String> = asked.filter(|asked_s| !was_seen(**asked_s)).map(|s| words(*s)).collect();
        let after = format!("{} after {:.2} s", pages.ended, pages.duration_s);
        (!unseen.is_empty()).then(|| format!("{after}: no window of {} was seen", unseen.join(", ")))
    }

    fn reuse_why_not(&self) -> String {
        match &self.about.reuse_why_not {
            Some(why) => why.clone(),
            None => "fewer than two windows: nothing could be touched again".into(),
        }
    }

    fn reuse(&self) -> Option<Reuse> {
        if self.bounds.windows() < FEWEST_WINDOWS || self.about.reuse_why_not.is_some() {
            return None;
        }
        let (lower, upper) = (self.bounds.lower(), self.bounds.upper());
        let unit_bytes = self.about.unit_bytes.max(self.page_bytes());
        let bound = |high: super::curve::Miss| {
            let units = high.resident_bytes / unit_bytes;
            Bound::new(lower.miss_ratio(units), &high)
        };
        let at = |histogram: &Histogram| Some(histogram.quantile(0.5)?.saturating_mul(unit_bytes));
        Some(Reuse {
            how: How::Bounds,
            unit_bytes,
            windows: self.bounds.windows() as u64,
            touches: upper.touches(),
            cold_share: upper.cold_share(),
            units: self.bounds.scaled(upper.cold),
            sampled_share: self.bounds.share(),
            sampling_error: None,
            histogram: Vec::new(),
            bounds: upper.misses(unit_bytes).into_iter().map(bound).collect(),
            median_bytes: at(lower).zip(at(upper)),
            lower: lower.cdf(unit_bytes),
            upper: upper.cdf(unit_bytes),
        })
    }

    fn owners(&self) -> Vec<Owner> {
        let mut owners: BTreeMap<&str, Owner> = BTreeMap::new();
        for row in self.heat.present() {
            let name = self.names.of(row.pid, row.start, row.end, row.mapping);
            let owner = owners.entry(name).or_default();
            let touched = self.touched.get(&(row.pid, row.start)).copied().unwrap_or(0);
            owner.resident_bytes += row.resident_bytes;
            owner.touched_bytes += touched / u64::from(self.heat.windows().max(1));
        }
        for row in self.heat.cold(self.heat.windows()) {
            let name = self.names.of(row.pid, row.start, row.end, row.mapping);
            owners.entry(name).or_default().cold_bytes += row.resident_bytes;
        }
        let mut born = self.newborn.by_owner(&self.names, self.page_bytes());
        for (name, owner) in owners.iter_mut().filter(|_| self.about.births.is_some()) {
            owner.born_bytes = Some(born.remove(name).unwrap_or(0));
        }
        let mut owners: Vec<Owner> =
            owners.into_iter().map(|(name, owner)| Owner { name: name.to_owned(), ..owner }).collect();
        owners.sort_by(|a, b| b.resident_bytes.cmp(&a.resident_bytes).then_with(|| a.name.cmp(&b.name)));
        owners
    }

    fn cold(&self, all: u64) -> Vec<Cold> {
        let enough = |windows: &u32| *windows == 1 || *windows <= self.heat.windows();
        COLD_WINDOWS.into_iter().filter(enough).map(|windows| self.cold_for(windows, all)).collect()
    }

    fn cold_for(&self, windows: u32, all: u64) -> Cold {
        let mut owners: BTreeMap<&str, u64> = BTreeMap::new();
        for row in self.heat.cold(windows) {
            let name = self.names.of(row.pid, row.start, row.end, row.mapping);
            *owners.entry(name).or_default() += row.resident_bytes;
        }
        let bytes = owners.values().sum();
        let named = |(name, bytes): (&str, u64)| Named { name: name.to_owned(), bytes };
        let mut owners: Vec<Named> = owners.into_iter().map(named).collect();
        owners.sort_by_key(|named| std::cmp::Reverse(named.bytes));
        owners.truncate(MOST_NAMED);
        Cold { windows, bytes, share: share(bytes, all), owners }
    }
}

/// Known where it is known of all.
fn sum_of(mut values: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    values.try_fold(0_u64, |sum, value| Some(sum.saturating_add(value?)))
}

/// The order of all touches is known: lower and upper are the same.
fn traced(told: &Distances) -> Reuse {
    let histogram = Histogram { cold: told.cold, counts: told.counts.iter().copied().collect() };
    let unit_bytes = told.unit_bytes.max(1);
    let curve = histogram.cdf(unit_bytes);
    let median = histogram.quantile(0.5).map(|units| units.saturating_mul(unit_bytes));
    Reuse {
        how: if told.share < 1.0 { How::Sampled } else { How::Exact },
        unit_bytes,
        windows: 0,
        touches: told.touches,
        cold_share: histogram.cold_share(),
        units: told.cold,
        sampled_share: told.share.clamp(0.0, 1.0),
        sampling_error: told.error,
        histogram: histogram.bins(unit_bytes),
        bounds: histogram.misses(unit_bytes).iter().map(Bound::exactly).collect(),
        median_bytes: median.zip(median),
        lower: curve.clone(),
        upper: curve,
    }
}

/// Looks of the same asked time together, shortest first.
fn words(window_s: f64) -> String {
    if window_s < 1.0 { format!("{} ms", (window_s * 1e3).round()) } else { format!("{window_s} s") }
}

fn by_window(windows: &[Window]) -> Vec<ByWindow> {
    let mut groups: BTreeMap<u64, Vec<&Window>> = BTreeMap::new();
    for window in windows {
        groups.entry((window.asked_s * 1e9).round() as u64).or_default().push(window);
    }
    groups.into_values().map(|group| sum(&group)).collect()
}

fn sum(group: &[&Window]) -> ByWindow {
    let mut sizes: Vec<u64> = group.iter().map(|window| window.wss_bytes).collect();
    sizes.sort_unstable();
    let looks = group.len().max(1) as u64;
    let mean = |of: fn(&Window) -> Option<u64>| {
        let known: Vec<u64> = group.iter().filter_map(|window| of(window)).collect();
        known.iter().copied().fold(0, u64::saturating_add).checked_div(known.len() as u64)
    };
    ByWindow {
        window_s: group.first().map_or(0.0, |window| window.asked_s),
        effective_s: group.iter().map(|window| window.effective_s).sum::<f64>() / looks as f64,
        looks,
        mean_bytes: sizes.iter().sum::<u64>() / looks,
        median_bytes: sizes.get(sizes.len() / 2).copied().unwrap_or(0),
        min_bytes: sizes.first().copied().unwrap_or(0),
        max_bytes: sizes.last().copied().unwrap_or(0),
        written_mean_bytes: mean(|window| window.written_bytes),
        born_mean_bytes: mean(|window| window.born_bytes),
    }
}

/// What a row of the picture is: chunks and mappings as they are, pages and regions in blocks.
fn cells(process: &Process, unit: Unit, page: u64) -> Vec<Cell> {
    let cell = |span: &Span| Cell {
        pid: process.pid,
        start: span.first * page,
        end: (span.first + span.pages) * page,
        mapping: span.mapping,
        resident_bytes: span.resident * page,
        touched_bytes: span.touched * page,
    };
    if matches!(unit, Unit::Chunk | Unit::Mapping) {
        return process.spans.iter().map(cell).collect();
    }
    let mut blocks: BTreeMap<u64, Cell> = BTreeMap::new();
    let block = (BLOCK_BYTES / page).max(1);
    for span in &process.spans {
        let (mut at, end) = (span.first, span.first + span.pages);
        while at < end {
            let number = at / block;
            let until = ((number + 1) * block).min(end);
            let part = |pages: u64| pages * (until - at) / span.pages * page;
            let first = Cell { resident_bytes: 0, touched_bytes: 0, ..cell(span) };
            let into = blocks.entry(number).or_insert(first);
            (into.start, into.end) = (number * block * page, (number + 1) * block * page);
            into.resident_bytes += part(span.resident);
            into.touched_bytes += part(span.touched);
            at = until;
        }
    }
    blocks.into_values().collect()
}

/// What was touched, as numbers that differ between processes.
fn units(process: &Process, unit: Unit) -> impl Iterator<Item = u64> {
    let salt = (process.pid as u64) << 52;
    let touched = process.spans.iter().filter(|span| span.touched > 0);
    touched.flat_map(move |span| {
        let count = if unit == Unit::Page { span.pages } else { 1 };
        (span.first..span.first + count).map(move |page| page ^ salt)
    })
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}
