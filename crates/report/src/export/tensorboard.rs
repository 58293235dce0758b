//! TensorBoard's event file: scalars by step, each record framed with its length and masked checksums.
//!
//! A point stands for a step, or without steps for a stretch of the curve. The one invariant: a tag's points come in the
//! order of their steps.

use std::collections::BTreeMap;
use std::io::{self, Write};

use nilometer_analysis::Run;
use nilometer_analysis::allocs::model::Allocs;
use nilometer_analysis::allocs::profile::Profile;
use nilometer_analysis::timeline::{Item, Moment, Shared};
use nilometer_wire::Message as _;
use nilometer_wire::tensorboard::{Event, Summary, Value};

use super::{LeftOut, Subject};

const FILE_VERSION: &str = "brain.Event:2";
/// Checksums are rotated and moved, as the format wants it.
const MASK: u32 = 0xa282_ead8;

/// A stretch of time that becomes one point.
#[derive(Debug, Clone, PartialEq)]
struct Window {
    /// On the axis.
    number: i64,
    start_s: f64,
    end_s: f64,
    /// What the model says of the tree.
    tree: Vec<(&'static str, i64)>,
}

/// Feed the items of the run, then [`finish`](Self::finish).
#[allow(missing_debug_implementations)] // a writer has none
pub struct Writer<'a> {
    out: &'a mut dyn Write,
    subject: Subject<'a>,
    windows: Vec<Window>,
    at: usize,
    rss: BTreeMap<i32, u64>,
    pss: BTreeMap<i32, u64>,
    names: Names,
    written: io::Result<()>,
    left_out: LeftOut,
}

impl<'a> Writer<'a> {
    pub fn new(subject: Subject<'a>, out: &'a mut dyn Write) -> Self {
        let mut left_out =
            vec!["scalars are 32-bit numbers: bytes are exact up to 16 MiB, then to seven digits".to_owned()];
        let windows = windows(subject.run, &mut left_out);
        let mut writer = Self {
            out,
            subject,
            windows,
            at: 0,
            rss: BTreeMap::new(),
            pss: BTreeMap::new(),
            names: Names::default(),
            written: Ok(()),
            left_out,
        };
        let wall_time = subject.origin.unix_s(subject.origin.at_ns(0.0));
        writer.put(&Event { wall_time, file_version: Some(FILE_VERSION.to_owned()), ..Event::default() });
        writer
    }

    pub fn see(&mut self, item: &Item<'_>) {
        match item {
            Item::Process { pid, name, .. } => self.names.told(*pid, name),
            Item::Moment(moment) => self.moment(moment),
            Item::Shares { at_ns, shares } => self.shares(*at_ns, shares),
            _ => {}
        }
    }

    fn moment(&mut self, moment: &Moment<'_>) {
        if self.reach(moment.at_ns) {
            for process in moment.processes {
                let highest = self.rss.entry(process.pid).or_default();
                *highest = (*highest).max(process.rss_kib().saturating_mul(1024));
            }
        }
    }

    fn shares(&mut self, at_ns: u64, shares: &Shared) {
        if self.reach(at_ns) {
            self.pss.insert(shares.pid, shares.pss_kib.saturating_mul(1024));
        }
    }

    /// Writes the windows that ended before this moment; true if it lies in the one that is open now.
    fn reach(&mut self, at_ns: u64) -> bool {
        let at_s = self.subject.origin.seconds(at_ns);
        while self.windows.get(self.at).is_some_and(|window| window.end_s <= at_s) {
            self.close();
        }
        self.windows.get(self.at).is_some_and(|window| window.start_s <= at_s)
    }

    fn close(&mut self) {
        let Some(window) = self.windows.get(self.at).cloned() else { return };
        self.at += 1;
        let mut values: Vec<Value> =
            window.tree.iter().map(|(tag, bytes)| scalar(tag, *bytes as f64)).collect();
        for (kind, bytes) in [("rss", std::mem::take(&mut self.rss)), ("pss", std::mem::take(&mut self.pss))]
        {
            for (pid, bytes) in bytes {
                values.push(scalar(&format!("{kind}/{}", self.names.of(pid)), bytes as f64));
            }
        }
        self.point(&window, values);
    }

    fn point(&mut self, window: &Window, value: Vec<Value>) {
        let origin = self.subject.origin;
        let wall_time = origin.unix_s(origin.at_ns(window.end_s));
        let summary = Some(Summary { value });
        self.put(&Event { wall_time, step: window.number, file_version: None, summary });
    }

    fn put(&mut self, event: &Event) {
        if self.written.is_ok() {
            self.written = write_record(&event.encode_to_vec(), self.out);
        }
    }

    /// What was recorded of the allocations goes to the points at which it was.
    pub fn finish(mut self, profile: Option<&Profile<'_>>, allocs: Option<&Allocs>) -> io::Result<LeftOut> {
        while self.at < self.windows.len() {
            self.close();
        }
        if let Some(ledgers) = &self.subject.run.ledgers {
            for moment in &ledgers.curve {
                let name = self.names.of(moment.pid);
                let parts = moment
                    .parts
                    .iter()
                    .map(|part| scalar(&format!("ledger/{name}/{}", spelt(&part.name)), part.bytes as f64));
                let residual = scalar(&format!("ledger/{name}/residual"), moment.residual_bytes as f64);
                let values = parts.chain([residual]).collect();
                self.point_at(moment.at_s, values);
            }
        }
        if let Some(profile) = profile {
            self.allocations(profile, allocs);
        }
        self.written?;
        self.out.flush()?;
        Ok(self.left_out)
    }

    fn allocations(&mut self, profile: &Profile<'_>, allocs: Option<&Allocs>) {
        for (index, (at_ns, number, live_bytes)) in profile.steps().enumerate() {
            let mut values = vec![scalar("allocations/live", live_bytes as f64)];
            for category in allocs.map_or(&[][..], |allocs| &allocs.by_category) {
                if let Some(bytes) = category.step_bytes.get(index) {
                    values.push(scalar(&format!("category/{}", category.category), *bytes as f64));
                }
            }
            let at_s = self.subject.origin.seconds(at_ns);
            let window = Window { number: number as i64, start_s: at_s, end_s: at_s, tree: Vec::new() };
            self.point(&window, values);
        }
    }

    /// In the window that holds this time; outside of all of them there is no point.
    fn point_at(&mut self, at_s: f64, values: Vec<Value>) {
        let after = self.windows.partition_point(|window| window.start_s <= at_s);
        let window = after.checked_sub(1).and_then(|index| self.windows.get(index)).cloned();
        if let Some(window) = window.filter(|window| at_s <= window.end_s) {
            self.point(&window, values);
        }
    }
}

/// The steps of the model, or the buckets of its curve.
fn windows(run: &Run, left_out: &mut LeftOut) -> Vec<Window> {
    if run.steps.is_empty() {
        left_out.push("the run has no steps: the axis is milliseconds since its start".to_owned());
        return curve_windows(run);
    }
    if (run.steps.len() as u64) < run.steps_seen {
        left_out.push(format!("{} of {} steps are points", run.steps.len(), run.steps_seen));
    }
    let ordered = run.steps.is_sorted_by(|a, b| a.step < b.step);
    if !ordered {
        left_out.push("the numbers of steps begin again: the axis counts steps instead".to_owned());
    }
    let window = |(index, step): (usize, &nilometer_analysis::model::Step)| Window {
        number: if ordered { step.step as i64 } else { index as i64 },
        start_s: step.start_s,
        end_s: step.start_s + step.duration_s,
        tree: vec![
            ("tree/peak", step.peak_bytes as i64),
            ("tree/end", step.end_bytes as i64),
            ("tree/increment", step.increment_bytes),
        ],
    };
    run.steps.iter().enumerate().map(window).collect()
}

fn curve_windows(run: &Run) -> Vec<Window> {
    let series = &run.curve.tree_high;
    let window = |point: &nilometer_analysis::model::Point| Window {
        number: (point.at_s * 1e3).round() as i64,
        start_s: point.at_s,
        end_s: point.at_s + series.width_s,
        tree: vec![("tree/peak", point.max as i64)],
    };
    series.points.iter().map(window).collect()
}

/// `python_objects`, as in JSON.
fn spelt(name: &impl serde::Serialize) -> String {
    serde_json::to_value(name).ok().and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default()
}

fn scalar(tag: &str, value: f64) -> Value {
    Value { tag: tag.to_owned(), simple_value: Some(value as f32) }
}

/// Length, its checksum, the bytes, their checksum; all little-endian.
fn write_record(bytes: &[u8], out: &mut dyn Write) -> io::Result<()> {
    let length = (bytes.len() as u64).to_le_bytes();
    out.write_all(&length)?;
    out.write_all(&masked(&length).to_le_bytes())?;
    out.write_all(bytes)?;
    out.write_all(&masked(bytes).to_le_bytes())
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK)
}

/// Names of processes for tags: by role, with the pid where a role has several.
#[derive(Debug, Default)]
struct Names {
    roles: BTreeMap<i32, String>,
    given: BTreeMap<i32, String>,
}

impl Names {
    fn told(&mut self, pid: i32, role: &str) {
        self.roles.insert(pid, role.to_owned());
    }

    /// Once given, a name stays.
    fn of(&mut self, pid: i32) -> String {
        if let Some(name) = self.given.get(&pid) {
            return name.clone();
        }
        let role = self.roles.get(&pid).map_or("process", String::as_str);
        let taken = self.given.values().any(|name| name == role);
        let name = if taken { format!("{role} {pid}") } else { role.to_owned() };
        self.given.insert(pid, name.clone());
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_format() {
        // The length of the first record that TensorBoard itself writes: 24 bytes.
        let length = 24_u64.to_le_bytes();
        assert_eq!(masked(&length).to_le_bytes(), [0xa3, 0x7f, 0x4b, 0x22]);
    }

    #[test]
    fn a_role_names_one_process() {
        let mut names = Names::default();
        names.told(7, "main");
        names.told(8, "worker");
        names.told(9, "worker");
        assert_eq!(
            [7, 8, 9, 10, 8].map(|pid| names.of(pid)),
            ["main", "worker", "worker 9", "process", "worker"]
        );
    }
}
