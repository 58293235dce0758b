//! What a run's manifest says of a recording that another tool made.

use std::path::Path;

use jiff::Timestamp;
use nilometer_import::{Format, Outline};
use nilometer_kernel::sys::process::own_pid;
use nilometer_trace::manifest::{Host, ManifestEnd, Options};
use nilometer_trace::record::Cost;
use nilometer_trace::{FORMAT_VERSION, Manifest};

use crate::talk::Failure;

/// What is imported.
#[derive(Debug, Clone, Copy)]
pub struct Described<'a> {
    pub file: &'a Path,
    pub name: &'a str,
    pub format: Format,
}

impl Described<'_> {
    pub fn manifest(&self, outline: &Outline, cost: Cost) -> Result<Manifest, Failure> {
        let started = Timestamp::from_nanosecond(outline.realtime_ns.into())?;
        let file = std::path::absolute(self.file).unwrap_or_else(|_| self.file.to_owned());
        let mut notes = vec![format!("{} {}, read by nilo import", self.format, self.file.display())];
        notes.extend(outline.notes.iter().cloned());
        Ok(Manifest {
            format_version: FORMAT_VERSION,
            nilo_version: env!("CARGO_PKG_VERSION").to_owned(),
            verb: "import".to_owned(),
            command: vec![self.file.display().to_string()],
            name: self.name.to_owned(),
            directory: file.parent().unwrap_or(&file).display().to_string(),
            started: started.strftime("%Y-%m-%dT%H:%M:%S+00:00").to_string(),
            pid: own_pid(),
            target_pid: 0,
            environment: Vec::new(),
            host: Host {
                memory_bytes: outline.memory_kib.saturating_mul(1024),
                swap_bytes: outline.swap_kib.saturating_mul(1024),
                ..Host::default()
            },
            limit: None,
            options: options(),
            notes,
            marks_file: None,
            control_socket: None,
            repeat: None,
            allocs: None,
            rank: None,
            end: Some(end(outline, cost)),
        })
    }
}

/// What was asked of the other tool is not known.
fn options() -> Options {
    Options {
        interval_ms: 0.0,
        budget_percent: 0.0,
        single: false,
        exact_step_peaks: false,
        cgroup: false,
        before_s: 0.0,
        settle_s: 0.0,
        max_log_bytes: 0,
    }
}

fn end(outline: &Outline, cost: Cost) -> ManifestEnd {
    let distances = outline.ticks.saturating_sub(1).max(1) as f64;
    ManifestEnd {
        duration_s: outline.duration_s(),
        exit: None,
        cost,
        interval_achieved_ms: outline.duration_s() * 1e3 / distances,
        ticks: outline.ticks,
        missed_ticks: 0,
    }
}
