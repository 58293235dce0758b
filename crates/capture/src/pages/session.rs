//! Rounds of a mark and its looks, until there is nothing more to look at.

use std::collections::BTreeMap;
use std::time::Duration;

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::{monotonic_ns, thread_cpu_ns};
use nilometer_trace::pages::{About, End, Line, Look, Process};

use super::allowance::Allowance;
use super::backend::Backend;
use super::births::Births;
use super::choose::{BIRTHS, Choice};
use super::guards::Shared;
use super::table::Table;
use super::wait::{Event, Waiter};
use super::written::Written;
use super::{Error, PageOptions, owner};
use crate::standstill::Standstill;

/// A window of steps is no longer than this.
const LONGEST_STEP: Duration = Duration::from_secs(600);
/// A standstill takes no longer to come about.
const LONGEST_STOP_NS: u64 = 250_000_000;
/// Processes of a tree that are looked at.
const MOST_PROCESSES: usize = 256;
/// So often in a row a process may be found to have become another program.
const MOST_RENEWALS: u32 = 1000;
/// A window that lasted this much longer than asked is told.
const STRETCHED: f64 = 1.1;
/// Owners are asked for again when the resident memory has changed by this.
const CHANGED: f64 = 0.25;

type Sink<'a> = dyn FnMut(&Line) -> std::io::Result<()> + 'a;

/// Why there are no more looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Duration,
    Target,
    Interrupted,
}

/// One recording.
pub struct Session<'a> {
    pid: i32,
    options: &'a PageOptions,
    choice: &'a Choice,
    waiter: &'a mut Waiter,
    sink: &'a mut Sink<'a>,
    table: Table,
    members: BTreeMap<i32, Member>,
    began_ns: u64,
    began_cpu_ns: u64,
    stretched: u64,
    looks: u64,
    notes: Vec<String>,
    /// Resident memory when owners were asked for.
    named_at: u64,
    standstill: Option<(Standstill, u64)>,
    stopped_ns: u64,
    allowance: Allowance,
    births: Option<Births>,
}

struct Member {
    backend: Box<dyn Backend>,
    written: Option<Written>,
    guards: Shared,
}

impl std::fmt::Debug for Session<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("pid", &self.pid).finish_non_exhaustive()
    }
}

impl<'a> Session<'a> {
    pub fn new(
        pid: i32,
        options: &'a PageOptions,
        choice: &'a Choice,
        waiter: &'a mut Waiter,
        sink: &'a mut Sink<'a>,
    ) -> Self {
        Self {
            pid,
            options,
            choice,
            waiter,
            sink,
            table: Table::default(),
            members: BTreeMap::new(),
            began_ns: monotonic_ns(),
            began_cpu_ns: thread_cpu_ns(),
            stretched: 0,
            looks: 0,
            notes: Vec::new(),
            named_at: 0,
            standstill: None,
            stopped_ns: 0,
            allowance: Allowance::new(options.written_always),
            births: None,
        }
    }

    /// Looks until the target or the time ends. At least one look is stored, or it fails.
    pub fn run(&mut self, about: About) -> Result<Ended, Error> {
        (self.sink)(&Line::About(Box::new(about)))?;
        self.hear_births()?;
        let ended = self.rounds();
        for member in self.members.values_mut() {
            member.backend.finish();
            member.guards.borrow_mut().close();
        }
        self.collect();
        let ended = ended?;
        if self.looks == 0 {
            return Err(Error::TooShort { pid: self.pid });
        }
        if self.stretched > 0 {
            let share = format!("{} of {} windows", self.stretched, self.looks);
            self.notes.push(format!("{share} lasted longer than asked: the sweep itself takes that long"));
        }
        self.notes.extend(self.allowance.note().filter(|_| self.choice.how().is_some()));
        Ok(ended)
    }

    fn hear_births(&mut self) -> Result<(), Error> {
        if !self.options.births {
            return Ok(());
        }
        let births = Births::open(&self.pids()).map_err(|why| Error::NotAvailable { way: BIRTHS, why })?;
        if !births.sees_system_calls() {
            let told = "page faults inside of system calls (read into fresh memory) are not seen: \
                        kernel.perf_event_paranoid allows those of user code only";
            self.notes.push(told.to_owned());
        }
        self.births = Some(births);
        Ok(())
    }

    /// The last line; the exit code is the command's.
    pub fn close(&mut self, ended: Ended, exit_code: Option<i32>) -> Result<(), Error> {
        let why = match ended {
            Ended::Duration => "the time was over",
            Ended::Target => "the process ended",
            Ended::Interrupted => "interrupted",
        };
        let end = End {
            duration_ns: monotonic_ns() - self.began_ns,
            cpu_ns: thread_cpu_ns().saturating_sub(self.began_cpu_ns),
            why: why.into(),
            notes: std::mem::take(&mut self.notes),
            exit_code,
        };
        Ok((self.sink)(&Line::End(end))?)
    }

    pub fn waiter(&mut self) -> &mut Waiter {
        self.waiter
    }

    fn rounds(&mut self) -> Result<Ended, Error> {
        let until_ns = self.options.duration.map(|duration| self.began_ns + duration.as_nanos() as u64);
        let mut renewals = 0;
        for round in 0.. {
            match self.round(round) {
                Ok(None) => renewals = 0,
                Ok(Some(ended)) => return Ok(ended),
                // It became another program meanwhile: what was read of the first is gone, and the round begins anew.
                Err(Error::Gone { pid })
                    if pid == self.pid && renewals < MOST_RENEWALS && self.resident() > 0 =>
                {
                    renewals += 1;
                    self.members.clear();
                    continue;
                }
                // It ended between two looks.
                Err(Error::Gone { pid }) if pid == self.pid => return Ok(Ended::Target),
                Err(error) => return Err(error),
            }
            let longest = self.options.windows.last().map_or(0, |window| window.as_nanos() as u64);
            if until_ns.is_some_and(|until_ns| monotonic_ns() + longest / 2 >= until_ns) {
                return Ok(Ended::Duration);
            }
            if round == 0 || self.has_changed() {
                self.name_owners();
            }
            if let Some(ended) = self.rest() {
                return Ok(ended);
            }
        }
        Ok(Ended::Duration)
    }

    /// A long recording is not looked at all the time.
    fn rest(&mut self) -> Option<Ended> {
        let now_ns = monotonic_ns();
        let pause_ns = now_ns.saturating_sub(self.began_ns) / u64::from(self.options.spread?.max(1));
        match self.waiter.wait_until(now_ns + pause_ns, None) {
            Event::Ended => Some(Ended::Target),
            Event::Interrupted => Some(Ended::Interrupted),
            Event::Time | Event::Step => None,
        }
    }

    /// One mark and its looks.
    fn round(&mut self, round: u32) -> Result<Option<Ended>, Error> {
        let cpu_ns = thread_cpu_ns();
        let before_ns = monotonic_ns();
        let is_allowed = self.allowance.decide(before_ns.saturating_sub(self.began_ns));
        self.find_members()?;
        self.each(|member| {
            member.backend.mark()?;
            let Some(written) = &mut member.written else { return Ok(()) };
            if is_allowed {
                return written.mark();
            }
            written.rest();
            Ok(())
        })?;
        if let Some(births) = &self.births {
            births.mark();
        }
        self.let_go();
        let mark_ns = before_ns.midpoint(monotonic_ns());
        let mut cpu_ns = thread_cpu_ns().saturating_sub(cpu_ns);
        let (steps_before, windows) = (self.waiter.steps, self.windows());
        for (number, asked) in windows.iter().enumerate() {
            let event = self.wait(mark_ns, *asked, steps_before);
            if event == Event::Ended {
                return Ok(Some(Ended::Target));
            }
            let mut look = Look { round, last: number + 1 == windows.len(), ..Look::default() };
            look.asked_ns = asked.as_nanos() as u64;
            look.steps = self.options.per_steps.map(|_| self.waiter.steps - steps_before);
            if event == Event::Interrupted && self.looks > 0 {
                return Ok(Some(Ended::Interrupted));
            }
            self.look(look, mark_ns, &mut cpu_ns)?;
            if event == Event::Interrupted {
                return Ok(Some(Ended::Interrupted));
            }
        }
        self.allowance
            .spend(self.members.values().filter_map(|member| Some(member.written.as_ref()?.cost())));
        Ok(None)
    }

    fn windows(&self) -> Vec<Duration> {
        if self.options.per_steps.is_some() { vec![LONGEST_STEP] } else { self.options.windows.clone() }
    }

    fn wait(&mut self, mark_ns: u64, asked: Duration, steps_before: u64) -> Event {
        let steps = self.options.per_steps.map(|steps| steps_before + steps);
        self.waiter.wait_until(mark_ns + asked.as_nanos() as u64, steps)
    }

    fn look(&mut self, mut look: Look, mark_ns: u64, cpu_ns: &mut u64) -> Result<(), Error> {
        let (before_ns, before_cpu_ns) = (monotonic_ns(), thread_cpu_ns());
        if self.options.pause {
            self.stop();
        }
        look.processes = self.look_at_all()?;
        look.mark_ns = mark_ns.saturating_sub(self.began_ns);
        look.effective_ns = before_ns.midpoint(monotonic_ns()).saturating_sub(mark_ns);
        if self.options.per_steps.is_some() {
            look.asked_ns = look.effective_ns;
        }
        if !look.last {
            self.let_go();
        }
        let hearing_ns = self.births.as_ref().map_or(0, Births::take_cpu_ns);
        look.cpu_ns = *cpu_ns + thread_cpu_ns().saturating_sub(before_cpu_ns) + hearing_ns;
        *cpu_ns = 0;
        self.collect();
        look.stopped_ns = std::mem::take(&mut self.stopped_ns);
        self.stretched += u64::from(look.effective_ns as f64 > look.asked_ns as f64 * STRETCHED);
        for line in self.table.news.drain(..) {
            (self.sink)(&line)?;
        }
        self.looks += 1;
        self.allowance.count_look();
        Ok((self.sink)(&Line::Look(look))?)
    }

    /// What was written is read first: it is then part of what was accessed.
    fn look_at_all(&mut self) -> Result<Vec<Process>, Error> {
        let mut processes = Vec::with_capacity(self.members.len());
        let mut gone = Vec::new();
        self.table.begin_look();
        let pids: Vec<i32> = self.members.keys().copied().collect();
        if let Some(births) = &self.births {
            births.look();
        }
        for (pid, member) in &mut self.members {
            let written = member.written.as_mut().and_then(Written::look);
            let births = self.births.as_ref().map(|births| births.of(*pid, &pids));
            match member.backend.look(&mut self.table) {
                Ok(process) => processes.push(Process { written, births, ..process }),
                Err(error) if *pid == self.pid => return Err(error),
                Err(_) => gone.push(*pid),
            }
        }
        for pid in gone {
            self.members.remove(&pid);
        }
        Ok(processes)
    }

    /// The process and, unless it was asked for alone, its tree.
    fn pids(&self) -> Vec<i32> {
        if self.options.single { vec![self.pid] } else { tree(self.pid) }
    }

    /// The tree as it is now; a member that ended is dropped.
    fn find_members(&mut self) -> Result<(), Error> {
        let pids = self.pids();
        self.members.retain(|pid, _| pids.contains(pid));
        for pid in pids.into_iter().take(MOST_PROCESSES) {
            if self.members.contains_key(&pid) {
                continue;
            }
            let guards = self.choice.guards(pid, self.options);
            match self.choice.open(pid, self.options, &guards) {
                Ok(backend) => {
                    let open = |how| Written::open(pid, how, &self.options.filters, guards.clone());
                    let written = self.choice.how().and_then(open);
                    self.members.insert(pid, Member { backend, written, guards });
                }
                Err(error) if pid == self.pid => return Err(error),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// A process other than the first may end at any moment.
    fn each(&mut self, mut work: impl FnMut(&mut Member) -> Result<(), Error>) -> Result<(), Error> {
        let mut gone = Vec::new();
        for (pid, member) in &mut self.members {
            match work(member) {
                Err(error) if *pid == self.pid => return Err(error),
                Err(_) => gone.push(*pid),
                Ok(()) => {}
            }
        }
        for pid in gone {
            self.members.remove(&pid);
        }
        Ok(())
    }

    fn stop(&mut self) {
        let began_ns = monotonic_ns();
        let pids = self.members.keys().copied().collect();
        self.standstill = Some((Standstill::begin(pids, began_ns + LONGEST_STOP_NS), began_ns));
    }

    fn let_go(&mut self) {
        if let Some((standstill, began_ns)) = self.standstill.take() {
            drop(standstill);
            self.stopped_ns += monotonic_ns() - began_ns;
        }
    }

    /// Stops and notes of all members.
    fn collect(&mut self) {
        for member in self.members.values_mut() {
            self.stopped_ns +=
                member.backend.take_stopped_ns() + member.guards.borrow_mut().take_stopped_ns();
            let mut notes = member.backend.notes();
            if let Some(written) = &mut member.written {
                notes.append(&mut written.take_notes());
            }
            for note in notes {
                if !self.notes.contains(&note) {
                    self.notes.push(note);
                }
            }
        }
    }

    fn resident(&self) -> u64 {
        let status = Proc::default().read_status(self.pid, &mut Vec::new()).ok();
        status.and_then(|status| status.vm_rss_kib).unwrap_or(0)
    }

    fn has_changed(&self) -> bool {
        let now = self.resident() as f64;
        (now - self.named_at as f64).abs() > self.named_at as f64 * CHANGED
    }

    /// Between two rounds: reading memory touches it.
    fn name_owners(&mut self) {
        self.named_at = self.resident();
        if !self.options.names {
            return;
        }
        for pid in self.members.keys() {
            for owner in owner::read(*pid) {
                // A full disk is told by the next look.
                let _ = (self.sink)(&Line::Owner(owner));
            }
        }
    }
}

/// A process and all that it started, directly or not.
fn tree(pid: i32) -> Vec<i32> {
    let (proc, mut found) = (Proc::default(), vec![pid]);
    let pids = proc.list_pids().unwrap_or_default();
    let parent = |pid: &i32| Some((*pid, proc.read_stat(*pid, &mut Vec::new()).ok()?.ppid));
    let parents: Vec<(i32, i32)> = pids.iter().filter_map(parent).collect();
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = parents.iter().filter(|(_, its)| *its == parent).map(|(child, _)| *child);
        let new: Vec<i32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(new);
        next += 1;
    }
    found
}
