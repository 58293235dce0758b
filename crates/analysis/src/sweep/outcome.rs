//! How a point of a sweep ended, and what it did not show.

use serde::Serialize;

use crate::model::{Cause, Run};

/// Every outcome is a result; only `ok` and `enough` have sizes that a law may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It ran to its end.
    Ok,
    /// It was ended early because enough was seen (`--stop-after`).
    Enough,
    /// It failed, not for want of memory as far as can be told.
    Failed,
    /// The watchdog ended it, or the scheduler of a cluster did: its time was over, others came first.
    Stopped,
    /// The kernel killed it for want of memory, or it said itself that it got none.
    Oom,
}

impl Outcome {
    /// `said` is the end of what the command printed.
    pub fn of(run: &Run, said: &str) -> Self {
        match run.exit.cause {
            Cause::Watchdog => Self::Stopped,
            Cause::Enough => Self::Enough,
            Cause::CgroupOom | Cause::SystemOom => Self::Oom,
            Cause::Exited if run.exit.code == Some(0) => Self::Ok,
            _ if says_out_of_memory(said) => Self::Oom,
            _ => Self::Failed,
        }
    }

    /// Nothing was recorded; a scheduler says how it ended.
    pub fn unrecorded(how: &str) -> Self {
        Self::Failed.and_scheduler(how)
    }

    /// Its scheduler ended it, in these words. What the recording itself knows better stays: our watchdog, the kernel.
    #[must_use]
    pub fn and_scheduler(self, how: &str) -> Self {
        match self {
            Self::Failed | Self::Ok if says_out_of_memory(how) => Self::Oom,
            Self::Failed | Self::Ok if is_stopped(how) => Self::Stopped,
            known => known,
        }
    }

    pub fn ran(self) -> bool {
        matches!(self, Self::Ok | Self::Enough)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Enough => "enough",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
            Self::Oom => "oom",
        }
    }
}

/// Words of an allocation that failed: Python, C++, torch and CUDA, the C library.
const OUT_OF_MEMORY: [&str; 6] = [
    "MemoryError",
    "std::bad_alloc",
    "out of memory",
    "OutOfMemoryError",
    "can't allocate memory",
    "Cannot allocate memory",
];

/// Words of schedulers that end a task for no fault of its own.
const STOPPED: [&str; 5] = ["TIMEOUT", "DEADLINE", "PREEMPTED", "CANCELLED", "TaskCancelledError"];

pub(super) fn is_stopped(how: &str) -> bool {
    STOPPED.iter().any(|word| how.contains(word))
}

fn says_out_of_memory(said: &str) -> bool {
    OUT_OF_MEMORY.iter().any(|words| said.contains(words))
}

/// Phases by which a training is known to evaluate or to save.
const EVALUATION: [&str; 4] = ["eval", "valid", "test", "infer"];
const CHECKPOINT: [&str; 3] = ["checkpoint", "save", "snapshot"];

/// What a run that was ended early did not show.
pub fn not_covered(run: &Run) -> Vec<&'static str> {
    let names: Vec<String> = run.phases.iter().map(|phase| phase.name.to_lowercase()).collect();
    let notes: Vec<String> = run.notes.iter().map(|note| note.text.to_lowercase()).collect();
    let seen =
        |words: &[&str]| names.iter().chain(&notes).any(|name| words.iter().any(|word| name.contains(word)));
    let missing = [("evaluation", seen(&EVALUATION)), ("checkpoint", seen(&CHECKPOINT))];
    missing.into_iter().filter(|(_, seen)| !seen).map(|(what, _)| what).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_scheduler_ended_has_an_outcome_of_its_own() {
        assert_eq!(Outcome::Failed.and_scheduler("TIMEOUT"), Outcome::Stopped);
        assert_eq!(Outcome::unrecorded("CANCELLED"), Outcome::Stopped);
        assert_eq!(Outcome::unrecorded("OUT_OF_MEMORY (out of memory)"), Outcome::Oom);
        assert_eq!(Outcome::Failed.and_scheduler("FAILED by signal 9"), Outcome::Failed);
        assert_eq!(Outcome::unrecorded("NODE_FAIL"), Outcome::Failed);
        for known in [Outcome::Oom, Outcome::Stopped, Outcome::Enough] {
            assert_eq!(known.and_scheduler("TIMEOUT"), known, "the recording knows better");
        }
    }
}
