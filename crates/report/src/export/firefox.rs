//! A profile for the Firefox Profiler: memory of the processes as counters, steps and events as markers, and allocations as
//! a table with stacks.
//!
//! The table is a history, and a recording has sums: each stack has an entry for what passed, one for what was only at the
//! peak, one for what stayed. So "retained memory" of the whole is what was live at the end, "allocated" all that was handed
//! out, and of the time up to the peak what is retained is the peak.

use std::collections::BTreeMap;
use std::io::{self, Write};

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerLocations, MarkerTiming, ProcessHandle, Profile as Document, ReferenceTimestamp,
    SamplingInterval, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};
use nilometer_analysis::allocs::model::{Amounts, FrameKind};
use nilometer_analysis::allocs::profile::{Part, Profile, Times};
use nilometer_analysis::model::Series;

use super::{LeftOut, Subject, TOOL};
use crate::allocs::folded;

/// Distance of the addresses that stand for the blocks of one stack.
const FATES: u64 = 4;

/// Written as a whole: its size is bounded by the number of stacks and by that of the curve.
pub fn write(
    subject: &Subject<'_>,
    profile: Option<&Profile<'_>>,
    out: &mut dyn Write,
) -> io::Result<LeftOut> {
    let mut book = Book::new(subject);
    book.processes();
    book.curves();
    book.marks();
    if let Some(profile) = profile {
        for part in profile.parts() {
            book.allocations(profile, &part);
        }
    }
    serde_json::to_writer(&mut *out, &book.document)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(left_out(subject, profile))
}

fn left_out(subject: &Subject<'_>, profile: Option<&Profile<'_>>) -> LeftOut {
    let (drawn, seen) = (subject.run.curve.processes.len() as u64, subject.run.processes_seen);
    let mut left = vec![match drawn {
        0 => "no curves: no sample fell into the run (nilo run --interval 10ms)".to_owned(),
        _ if drawn < seen => {
            format!("curves of the {drawn} largest of {seen} processes, the highest of each stretch of time")
        }
        _ => "curves are the highest of each stretch of time, as in the report".to_owned(),
    }];
    if profile.is_some() {
        left.push(
            "a recording has no order of allocations: stacks are at the start, the peak and the end"
                .to_owned(),
        );
    }
    left
}

struct Mark {
    name: StringHandle,
    details: StringHandle,
    category: CategoryHandle,
}

impl StaticSchemaMarker for Mark {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Text";
    const LOCATIONS: MarkerLocations = MarkerLocations::MARKER_CHART
        .union(MarkerLocations::MARKER_TABLE)
        .union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.name}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.name}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[StaticSchemaMarkerField {
        key: "name",
        label: "Details",
        format: MarkerFieldFormat::String,
        flags: MarkerFieldFlags::SEARCHABLE,
    }];

    fn name(&self, _: &mut Document) -> StringHandle {
        self.name
    }

    fn category(&self, _: &mut Document) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, _: u32) -> StringHandle {
        self.details
    }

    fn number_field_value(&self, _: u32) -> f64 {
        0.0
    }
}

struct Book<'a> {
    subject: &'a Subject<'a>,
    document: Document,
    by_pid: BTreeMap<i32, (ProcessHandle, ThreadHandle)>,
    main: Option<ThreadHandle>,
    python: CategoryHandle,
    native: CategoryHandle,
    marks: CategoryHandle,
    next_address: u64,
}

impl<'a> Book<'a> {
    fn new(subject: &'a Subject<'a>) -> Self {
        let origin = subject.origin;
        let start_ms = origin.unix_s(origin.at_ns(-subject.run.before_s)) * 1e3;
        let interval_ms = subject.run.interval_ms.asked.max(1.0) as u64;
        let mut document = Document::new(
            &format!("{TOOL}: {}", subject.name),
            ReferenceTimestamp::from_millis_since_unix_epoch(start_ms.max(0.0)),
            SamplingInterval::from_millis(interval_ms),
        );
        document.set_symbolicated(true);
        document.set_os_name(&subject.run.about.kernel);
        let python = document.add_category("Python", CategoryColor::Yellow);
        let native = document.add_category("Native", CategoryColor::Blue);
        let marks = document.add_category("Run", CategoryColor::Green);
        Self {
            subject,
            document,
            by_pid: BTreeMap::new(),
            main: None,
            python,
            native,
            marks,
            next_address: FATES,
        }
    }

    /// The look before the start is at the beginning of the profile.
    fn at(&self, at_s: f64) -> Timestamp {
        Timestamp::from_nanos_since_reference(
            ((at_s + self.subject.run.before_s).max(0.0) * 1e9).round() as u64
        )
    }

    fn processes(&mut self) {
        for process in &self.subject.run.processes {
            let (start, end) = (self.at(process.start_s), process.end_s.map(|end_s| self.at(end_s)));
            let (handle, thread) = self.add(process.pid, &process.role, start);
            if let Some(end) = end {
                self.document.set_process_end_time(handle, end);
                self.document.set_thread_end_time(thread, end);
            }
        }
        if self.by_pid.is_empty() {
            let start = self.at(0.0);
            self.add(0, self.subject.name, start);
        }
    }

    /// A process has one thread here: who of its threads allocated is not recorded.
    fn add(&mut self, pid: i32, name: &str, start: Timestamp) -> (ProcessHandle, ThreadHandle) {
        if let Some(known) = self.by_pid.get(&pid) {
            return *known;
        }
        let number = u32::try_from(pid).unwrap_or(0);
        let process = self.document.add_process(name, number, start);
        let thread = self.document.add_thread(process, number, start, true);
        self.document.set_thread_name(thread, name);
        self.document.add_initial_visible_thread(thread);
        if self.main.is_none() {
            self.main = Some(thread);
            self.document.add_initial_selected_thread(thread);
        }
        self.by_pid.insert(pid, (process, thread));
        (process, thread)
    }

    fn curves(&mut self) {
        let run = self.subject.run;
        if let Some(&(main, _)) = run.processes.first().and_then(|first| self.by_pid.get(&first.pid)) {
            self.counter(
                main,
                "tree",
                "memory of all processes, each page once, at most",
                &run.curve.tree_high,
            );
        }
        for series in &run.curve.processes {
            if let Some(&(process, _)) = self.by_pid.get(&series.pid) {
                self.counter(process, "RSS", "resident memory of the process", &series.rss);
            }
        }
    }

    /// Counters are told as changes.
    fn counter(&mut self, process: ProcessHandle, name: &str, what: &str, series: &Series) {
        let counter = self.document.add_counter(process, name, "Memory", what);
        let mut before = 0.0;
        for point in &series.points {
            let value = point.max as f64;
            let at = self.at(point.at_s);
            self.document.add_counter_sample(counter, at, value - before, 1);
            before = value;
        }
    }

    fn marks(&mut self) {
        let run = self.subject.run;
        for step in &run.steps {
            self.mark("step", &format!("step {}", step.step), step.start_s, Some(step.duration_s));
        }
        for phase in &run.phases {
            self.mark("phase", &phase.name, phase.start_s, Some(phase.duration_s));
        }
        for note in &run.notes {
            self.mark("note", &note.text, note.at_s, None);
        }
        for event in &run.events {
            self.mark(event.kind, &event.text, event.at_s, None);
        }
        if let Some(peak) = &run.peak {
            self.mark("peak", &format!("{} bytes", peak.bytes), peak.at_s, None);
        }
    }

    fn mark(&mut self, name: &str, text: &str, at_s: f64, duration_s: Option<f64>) {
        let Some(thread) = self.main else { return };
        let at = self.at(at_s);
        let timing = match duration_s {
            Some(duration_s) => MarkerTiming::Interval(at, self.at(at_s + duration_s)),
            None => MarkerTiming::Instant(at),
        };
        let (name, details) = (self.document.intern_string(name), self.document.intern_string(text));
        let marker = Mark { name, details, category: self.marks };
        self.document.add_marker(thread, timing, marker);
    }

    fn allocations(&mut self, profile: &Profile<'_>, part: &Part) {
        let seconds = |at_ns: u64| self.subject.origin.seconds(at_ns);
        let Times { started_ns, peak_ns, ended_ns } = profile.times;
        let [start, peak, end] = [started_ns, peak_ns, ended_ns].map(|at_ns| self.at(seconds(at_ns)));
        let began = self.at(seconds(part.started_ns));
        let (_, thread) = self.add(part.pid, &part.name, began);
        profile.each(Some(part.number), |site| {
            let frames: Vec<FrameInfo> = site.stack.iter().rev().map(|frame| self.frame(frame)).collect();
            let stack = self.document.intern_stack_frames(thread, frames.into_iter());
            for (fate, at, bytes) in fates(&site.amounts, [start, peak, end]) {
                self.document.add_allocation_sample(thread, at, stack, self.next_address + fate, bytes);
            }
            self.next_address += FATES;
        });
    }

    fn frame(&mut self, frame: &nilometer_analysis::allocs::model::Frame) -> FrameInfo {
        let label = self.document.intern_string(&folded::frame(frame));
        let category = match frame.kind {
            FrameKind::Python => self.python,
            FrameKind::Native => self.native,
            FrameKind::Note => CategoryHandle::OTHER,
        };
        FrameInfo {
            frame: Frame::Label(label),
            category_pair: CategoryPairHandle::from(category),
            flags: FrameFlags::empty(),
        }
    }
}

/// Which blocks, when, and how many bytes more or fewer.
fn fates(it: &Amounts, [start, peak, end]: [Timestamp; 3]) -> impl Iterator<Item = (u64, Timestamp, i64)> {
    let signed = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
    let kept = it.peak_bytes.min(it.live_end_bytes);
    let (risen, late) = (it.peak_bytes - kept, it.live_end_bytes - kept);
    let passed = it.cumulative_bytes.saturating_sub(it.peak_bytes).saturating_sub(late);
    let all = [
        (0, start, signed(passed)),
        (0, start, -signed(passed)),
        (1, peak, signed(kept)),
        (2, peak, signed(risen)),
        (2, end, -signed(risen)),
        (3, end, signed(late)),
    ];
    all.into_iter().filter(|(_, _, bytes)| *bytes != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_the_table_are_those_of_the_stack() {
        let it =
            Amounts { peak_bytes: 100, live_end_bytes: 130, cumulative_bytes: 1000, ..Amounts::default() };
        let times = [0, 5, 9].map(Timestamp::from_nanos_since_reference);
        let table: Vec<_> = fates(&it, times).collect();
        let sum = |keep: &dyn Fn(&(u64, Timestamp, i64)) -> bool| -> i64 {
            table.iter().filter(|entry| keep(entry)).map(|(_, _, bytes)| bytes).sum()
        };
        assert_eq!(sum(&|_| true), 130);
        assert_eq!(sum(&|(_, at, _)| *at <= times[1]), 100);
        assert_eq!(sum(&|(_, _, bytes)| *bytes > 0), 1000);
    }
}
