//! CPU time and memory of a process, from `/proc`.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::machine;

/// `USER_HZ`: the unit of times in `/proc/PID/stat`, 100 on every Linux architecture we know.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of all live threads, to the nanosecond (`sum_exec_runtime` of `/proc/PID/task/TID/schedstat`).
pub fn read_cpu(pid: u32) -> Result<Duration> {
    let tasks = PathBuf::from(format!("/proc/{pid}/task"));
    let mut total = Duration::ZERO;
    for entry in fs::read_dir(&tasks).with_context(|| format!("cannot list {}", tasks.display()))? {
        // A thread may end between listing and reading.
        let Ok(text) = fs::read_to_string(entry?.path().join("schedstat")) else { continue };
        total += parse_schedstat(&text).context("schedstat is not three numbers")?;
    }
    Ok(total)
}

fn parse_schedstat(text: &str) -> Option<Duration> {
    text.split_whitespace().next()?.parse().ok().map(Duration::from_nanos)
}

/// utime + stime of `/proc/PID/stat`: all threads that ever were, in steps of 10 ms.
pub fn read_cpu_coarse_s(pid: u32) -> Result<f64> {
    Ok(read_stat(&pid.to_string(), [13, 14])? / TICKS_PER_SECOND)
}

/// CPU time of our own children that were waited for, with theirs.
pub fn read_children_cpu_s() -> Result<f64> {
    Ok(read_stat("self", [15, 16])? / TICKS_PER_SECOND)
}

fn read_stat(pid: &str, fields: [usize; 2]) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))
        .with_context(|| format!("cannot read stat of {pid}"))?;
    parse_stat(&text, fields).with_context(|| format!("stat of {pid} is not as expected"))
}

/// The sum of two fields, counted from 0; the name in brackets may hold spaces and brackets.
fn parse_stat(text: &str, fields: [usize; 2]) -> Option<f64> {
    let (_, rest) = text.rsplit_once(") ")?;
    let values: Vec<&str> = rest.split_whitespace().collect();
    fields.iter().map(|field| values.get(field - 2)?.parse::<f64>().ok()).sum()
}

/// `VmHWM`: the most that was ever resident.
pub fn read_peak_bytes(pid: u32) -> Result<u64> {
    Ok(machine::read_kib(format!("/proc/{pid}/status"), "VmHWM")? * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_survives_a_strange_name() {
        let text = "7 (a) b (c) S 1 7 7 0 -1 4194560 1 2 3 4 150 25 30 5 20 0 1 0 99 1 1";
        assert_eq!(parse_stat(text, [13, 14]), Some(175.0));
        assert_eq!(parse_stat(text, [15, 16]), Some(35.0));
        assert_eq!(parse_stat("7 (x) S 1", [13, 14]), None);
    }

    #[test]
    fn schedstat_is_nanoseconds() {
        assert_eq!(parse_schedstat("351602079 277657 35\n"), Some(Duration::from_nanos(351_602_079)));
    }

    #[test]
    fn our_own_figures_can_be_read() {
        let pid = std::process::id();
        assert!(read_cpu(pid).unwrap() > Duration::ZERO);
        assert!(read_peak_bytes(pid).unwrap() > 0);
        assert!(read_cpu_coarse_s(pid).unwrap() >= 0.0);
    }
}
