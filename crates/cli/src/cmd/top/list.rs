//! My processes, to choose one from.

use std::collections::HashMap;

use nilometer_analysis::live::{Candidate, Lately};
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::limits::{effective_uid, page_bytes, ticks_per_s};
use nilometer_kernel::sys::process::own_pid;

use crate::cmd::overview::{command_line, is_python, read_uptime};

/// What does not change of a process, and its size lately.
#[derive(Debug)]
struct Known {
    start_ticks: u64,
    candidate: Candidate,
    lately: Lately,
}

#[derive(Debug, Default)]
pub struct List {
    proc: Proc,
    known: HashMap<i32, Option<Known>>,
    buffer: Vec<u8>,
    pub candidates: Vec<Candidate>,
}

impl List {
    /// Looks at every process; those that come and go meanwhile are left out.
    pub fn look(&mut self) {
        let (now_ns, uptime_s) = (monotonic_ns(), read_uptime(&self.proc));
        let pids = self.proc.list_pids().unwrap_or_default();
        self.known.retain(|pid, _| pids.contains(pid));
        self.candidates.clear();
        for pid in pids.into_iter().filter(|pid| *pid != own_pid()) {
            let candidate = self.look_at(pid, now_ns, uptime_s);
            self.candidates.extend(candidate);
        }
    }

    fn look_at(&mut self, pid: i32, now_ns: u64, uptime_s: Option<f64>) -> Option<Candidate> {
        let stat = self.proc.read_stat(pid, &mut self.buffer).ok()?;
        let is_same =
            |known: &Option<Known>| known.as_ref().is_none_or(|known| known.start_ticks == stat.starttime);
        if !self.known.get(&pid).is_some_and(is_same) {
            let known = self.meet(pid, stat.starttime);
            self.known.insert(pid, known);
        }
        let known = self.known.get_mut(&pid)?.as_mut()?;
        let rss_bytes = stat.rss_pages * page_bytes();
        known.lately.push(now_ns, rss_bytes);
        let started_s = stat.starttime as f64 / ticks_per_s() as f64;
        Some(Candidate {
            rss_bytes,
            rate: known.lately.rate(),
            lived_s: uptime_s.map(|now_s| (now_s - started_s).max(0.0)),
            ..known.candidate.clone()
        })
    }

    /// None for the kernel's own threads, and for what is somebody else's.
    fn meet(&mut self, pid: i32, start_ticks: u64) -> Option<Known> {
        let arguments = self.proc.read_arguments(pid).ok().filter(|arguments| !arguments.is_empty())?;
        let status = self.proc.read_status(pid, &mut self.buffer).ok()?;
        if status.euid != effective_uid() {
            return None;
        }
        let program = self.proc.read_exe(pid).map(|exe| exe.display().to_string()).unwrap_or_default();
        let python = is_python(&program) || arguments.first().is_some_and(|first| is_python(first));
        let command = command_line(&arguments);
        let candidate = Candidate { pid, mine: true, python, command, ..Candidate::default() };
        Some(Known { start_ticks, candidate, lately: Lately::default() })
    }
}
