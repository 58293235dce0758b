//! Looking inside the target while it is recorded: tables of its heap and ledgers, each by a thread, one at a time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::own_code;
use nilometer_trace::record::{EventKind, Record};
use serde_json::json;

use crate::allocs::Act;
use crate::heap_watch::Outcome;
use crate::ledger_watch::{Brought, Candidate};
use crate::member::Member;
use crate::session::Session;

/// How long a look may go on after the end of the target.
const PATIENCE: Duration = Duration::from_millis(700);

impl Session {
    /// The target stands still for one of our threads.
    pub fn is_held(&self) -> bool {
        self.heap.is_holding() || self.ledger.is_holding()
    }

    /// What the threads brought back, and the next look when one is due.
    pub fn look_inside(&mut self) {
        let members = self.recorder.tree.members();
        let outcome =
            self.heap.turn(!self.ledger.is_out(), || by_size(members).iter().map(|m| m.pid).collect());
        let brought = self.ledger.collect();
        if !self.heap.is_out() {
            let living = members.iter().filter(|m| m.is_alive());
            self.ledger.begin(monotonic_ns(), living.map(candidate));
        }
        if outcome.is_some() || brought.is_some() {
            let _ = own_code::give_back(); // that of looking, until the next look
        }
        self.keep(outcome);
        self.keep_ledger(brought);
        if self.owes_reap {
            self.reap(); // what ended while a thread held the target was not waited for
        }
    }

    /// A look that goes on may delay us no longer than our promise to return.
    pub fn let_go(&mut self) {
        let outcome = self.heap.finish(PATIENCE);
        self.keep(outcome);
        let brought = self.ledger.finish(PATIENCE);
        self.keep_ledger(brought);
        self.reap();
    }

    fn keep(&mut self, outcome: Option<Outcome>) {
        let Some(Outcome { table, pause_ns, failure, .. }) = outcome else { return };
        self.pause_ns += pause_ns;
        if let Some(table) = table {
            self.recorder.append(&Record::HeapTable(table));
        }
        self.note_failure(failure);
    }

    fn keep_ledger(&mut self, brought: Option<Brought>) {
        let Some(Brought { taken, pause_ns, failure, .. }) = brought else { return };
        self.pause_ns += pause_ns;
        if let Some(taken) = taken {
            self.recorder.append(&Record::Ledger(taken));
        }
        self.note_failure(failure);
    }

    /// While it ends it can be read no more: that is no finding.
    fn note_failure(&mut self, failure: Option<String>) {
        if let Some(text) = failure.filter(|_| self.exit.is_none()) {
            self.recorder.event(monotonic_ns(), EventKind::Note { text });
        }
    }

    /// For `nilo heap`: we may be allowed to read where it is not, as an ancestor.
    pub fn ask_for_heap(&mut self, pid: i32, path: PathBuf) -> serde_json::Value {
        self.refusal(pid, &path).unwrap_or_else(|| {
            self.heap.ask(pid, path);
            json!({"ok": true})
        })
    }

    /// The same for `nilo where`.
    pub fn ask_for_ledger(&mut self, pid: i32, path: PathBuf) -> serde_json::Value {
        self.refusal(pid, &path).unwrap_or_else(|| {
            self.ledger.ask(pid, path);
            json!({"ok": true})
        })
    }

    /// The process wants to know how high it rises from now on. What it had so far is stored first.
    pub fn reset_peak(&mut self, pid: i32) -> serde_json::Value {
        if !self.recorder.tree.contains(pid) {
            return json!({"error": format!("process {pid} is not of this recording")});
        }
        match self.recorder.reset_peak(pid) {
            Some(kib) => json!({"peak_bytes": kib * 1024}),
            None => json!({"error": "the kernel does not reset it"}),
        }
    }

    /// A stretch of a process's allocations.
    pub fn ask_for_window(&mut self, pid: i32, act: Act, path: PathBuf, top: usize) -> serde_json::Value {
        let Some(allocs) = &self.allocs else {
            return json!({"error": "this run does not record allocations", "hint": "nilo run --allocs=deep -- …"});
        };
        self.refusal(pid, &path).unwrap_or_else(|| {
            allocs.ask_window(pid, act, top, path);
            json!({"ok": true})
        })
    }

    fn refusal(&self, pid: i32, path: &Path) -> Option<serde_json::Value> {
        if !self.recorder.tree.contains(pid) {
            return Some(json!({"error": format!("process {pid} is not of this recording")}));
        }
        let is_new = path.is_absolute() && !path.exists();
        (!is_new).then(|| json!({"error": "a new file with its whole path is needed"}))
    }
}

/// Those that live, largest first.
fn by_size(members: &[Member]) -> Vec<&Member> {
    let mut living: Vec<&Member> = members.iter().filter(|m| m.is_alive()).collect();
    living.sort_by_key(|m| std::cmp::Reverse(m.sample.rss_kib()));
    living
}

fn candidate(member: &Member) -> Candidate {
    Candidate { index: member.index, pid: member.visible_pid(), rss_kib: member.sample.rss_kib() }
}
