//! `s`: a census of a process into a file, by a thread of its own; the recording that it belongs to is asked first.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use nilometer_capture::census::{self, CensusOptions};
use nilometer_capture::rundir::command_name;
use nilometer_kernel::read::proc::Proc;
use nilometer_report::text;

use crate::cmd::heap::{keep, recorder, refusal};

const MOST_NAMES: u32 = 10_000;

/// A census under way; one at a time.
#[derive(Debug, Default)]
pub struct Snapshot {
    out: Option<Receiver<String>>,
}

impl Snapshot {
    pub fn is_out(&self) -> bool {
        self.out.is_some()
    }

    /// What to say now.
    pub fn begin(&mut self, pid: i32) -> String {
        if self.is_out() {
            return "a snapshot is being taken already".into();
        }
        let (done, out) = channel();
        let work = move || drop(done.send(take(pid)));
        match std::thread::Builder::new().name("nilo-snapshot".into()).spawn(work) {
            Ok(_) => {
                self.out = Some(out);
                format!("taking a snapshot of {pid} …")
            }
            Err(error) => format!("no snapshot: {error}"),
        }
    }

    /// What to say when it is done.
    pub fn done(&mut self) -> Option<String> {
        let told = match self.out.as_ref()?.try_recv() {
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => "no snapshot: it broke off".into(),
            Ok(told) => told,
        };
        self.out = None;
        Some(told)
    }
}

fn take(pid: i32) -> String {
    let file = free_name(pid);
    match save(pid, &file) {
        Ok(()) => {
            let size = std::fs::metadata(&file).map_or(0, |file| file.len());
            let file = file.display();
            format!("wrote {file} ({})   → nilo heap {file}", text::bytes(size))
        }
        Err(why) => format!("no snapshot: {why}"),
    }
}

fn save(pid: i32, file: &Path) -> Result<(), String> {
    if recorder::save(pid, file) {
        return Ok(());
    }
    let failed = |error| {
        let failure = refusal::of_process(pid, error);
        let hint = failure.hint.map(|hint| format!("   → {hint}")).unwrap_or_default();
        format!("{}{hint}", failure.error)
    };
    let graph = census::take(pid, &CensusOptions::default()).map_err(failed)?;
    keep::write_whole(&graph, file).map_err(|error| format!("cannot write {}: {error}", file.display()))
}

/// `train.4711.1.heap`, or the next number that is free.
fn free_name(pid: i32) -> PathBuf {
    let name = command_name(&Proc::default().read_arguments(pid).unwrap_or_default());
    let file = |number: u32| PathBuf::from(format!("{name}.{pid}.{number}.heap"));
    (1..MOST_NAMES).map(file).find(|file| !file.exists()).unwrap_or_else(|| file(MOST_NAMES))
}
