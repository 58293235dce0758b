//! What a reader should doubt, as one enum: each says what is uncertain and, where there is one, the way out.

use std::fmt;

use crate::text::{bytes, duration};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Doubt {
    Cut { at_s: f64, why: String },
    WidePeak { low: u64, high: u64 },
    UnseenChildren { processes: Option<u64>, cpu_s: f64, faults: u64 },
    MaxrssAboveSamples { bytes: u64 },
    PeakBeforeAttach,
    Slow { asked_ms: f64, achieved_ms: f64 },
    Missed { missed: u64, ticks: u64 },
    Gaps { seconds: f64 },
    Dropped { ticks: u64 },
    Stretched,
    StepsThinned { stride: u64, seen: u64 },
    ForeignSteps { marks: u64 },
    ProcessesOmitted { seen: u64, kept: u64 },
    FarComposition { seconds: f64 },
    CompositionIncomplete { missing: usize },
    NoSamples,
    MarksOmitted { omitted: u64 },
    NoAvailable,
}

impl fmt::Display for Doubt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cut { at_s, why } => write!(f, "the data ends at {}: {why}", duration(*at_s)),
            Self::WidePeak { low, high } => write!(
                f,
                "the peak lies between {} and {}: how much the processes share was not read at that moment",
                bytes(*low),
                bytes(*high)
            ),
            Self::UnseenChildren { processes, cpu_s, faults } => {
                let which = processes.map(|count| format!("{count} or more ")).unwrap_or_default();
                write!(
                    f,
                    "{which}children that no tick saw used at least {} of CPU and {faults} page faults",
                    duration(*cpu_s)
                )
            }
            Self::MaxrssAboveSamples { bytes: size } => {
                write!(f, "wait4 tells of a process of {} that no sample showed so large", bytes(*size))
            }
            Self::PeakBeforeAttach => f.write_str(
                "the high-water mark did not move while we looked: the peak was before nilo attached",
            ),
            Self::Slow { asked_ms, achieved_ms } => {
                write!(f, "sampled every {achieved_ms:.0} ms instead of {asked_ms:.0} ms")
            }
            Self::Missed { missed, ticks } => write!(f, "{missed} ticks were missed, {ticks} taken"),
            Self::Gaps { seconds } => write!(f, "no samples for {} in all", duration(*seconds)),
            Self::Dropped { ticks } => write!(f, "{ticks} ticks could not be stored"),
            Self::Stretched => f.write_str("the sampling interval changed during the run (see events)"),
            Self::StepsThinned { stride, seen } => write!(f, "{seen} steps, every {stride}th is listed"),
            Self::ForeignSteps { marks } => {
                write!(f, "{marks} step marks of other processes: only those of the first are used")
            }
            Self::ProcessesOmitted { seen, kept } => {
                write!(f, "{seen} processes, the {kept} largest are listed")
            }
            Self::FarComposition { seconds } => {
                write!(f, "what memory was made of was read {} from the peak", duration(seconds.abs()))
            }
            Self::CompositionIncomplete { missing } => {
                write!(f, "mappings of {missing} processes alive at the peak were not read")
            }
            Self::NoSamples => f.write_str("the target ended before the first sample"),
            Self::NoAvailable => f.write_str(
                "the kernel told no MemAvailable: available is MemFree + Buffers + Cached - Shmem here",
            ),
            Self::MarksOmitted { omitted } => write!(f, "{omitted} more phases and notes are not listed"),
        }
    }
}
