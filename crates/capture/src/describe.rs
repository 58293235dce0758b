//! The manifest of a run: who, what, where, with which limits.

use std::ffi::OsStr;
use std::path::Path;

use jiff::Zoned;
use nilometer_kernel::read::host;
use nilometer_kernel::sys::limits::page_bytes;
use nilometer_kernel::sys::process::own_pid;
use nilometer_trace::manifest::{Allocs, Host, Limit, Manifest, Options as StoredOptions};

use crate::allocs::{AllocOptions, EXACT_BYTES};
use crate::options::{Options, Target};
use crate::{privacy, rundir};

/// `NAME.DATE.PID.nilo`, in local time.
pub fn directory_name(name: &str, now: &Zoned) -> String {
    format!("{name}.{}.{}{}", now.strftime("%m%d-%H%M"), own_pid(), rundir::SUFFIX)
}

pub fn text_arguments(arguments: &[impl AsRef<OsStr>]) -> Vec<String> {
    arguments.iter().map(|a| a.as_ref().to_string_lossy().into_owned()).collect()
}

/// Everything that is known before the start.
pub fn manifest(
    verb: &str,
    directory: &Path,
    target: &Target,
    target_pid: i32,
    limit: Limit,
    options: &Options,
    now: &Zoned,
) -> Manifest {
    let arguments = text_arguments(&target.argv);
    Manifest {
        format_version: nilometer_trace::FORMAT_VERSION,
        nilo_version: env!("CARGO_PKG_VERSION").to_owned(),
        verb: verb.to_owned(),
        name: rundir::command_name(&arguments),
        command: privacy::mask_arguments(&arguments),
        directory: directory.display().to_string(),
        started: now.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        pid: own_pid(),
        target_pid,
        environment: kept_environment(target),
        host: host(),
        limit: Some(limit),
        options: stored(options),
        notes: Vec::new(),
        marks_file: None,
        control_socket: None,
        repeat: None,
        allocs: None,
        rank: None,
        end: None,
    }
}

/// How allocations are recorded, or why not.
pub fn allocs(options: &AllocOptions, why_not: Option<String>) -> Allocs {
    Allocs {
        mode: options.mode.name().to_owned(),
        mean_bytes: options.mean_bytes,
        exact_bytes: EXACT_BYTES,
        depth: options.depth,
        events: options.events,
        injected: why_not.is_none(),
        why_not,
        lost_events: None,
    }
}

fn kept_environment(target: &Target) -> Vec<(String, String)> {
    let text = |s: &OsStr| s.to_string_lossy().into_owned();
    let mut kept: Vec<_> = target
        .environment
        .iter()
        .map(|(name, value)| (text(name), text(value)))
        .filter(|(name, _)| privacy::keeps_variable(name))
        .collect();
    kept.sort();
    kept
}

fn host() -> Host {
    let host = host::read(Path::new("/"), page_bytes());
    Host {
        name: host.name,
        kernel: host.kernel,
        cpus: u32::try_from(host.cpus).unwrap_or(u32::MAX),
        memory_bytes: host.memory_bytes,
        swap_bytes: host.swap_bytes,
        transparent_hugepages: host.transparent_hugepages,
        overcommit: host.overcommit,
        counter_slack_bytes: host.counter_slack_bytes,
        container: host.container,
        devices: Vec::new(),
    }
}

fn stored(options: &Options) -> StoredOptions {
    StoredOptions {
        interval_ms: options.interval.as_secs_f64() * 1e3,
        budget_percent: options.budget_percent,
        single: options.single,
        exact_step_peaks: options.exact_step_peaks,
        cgroup: options.cgroup,
        before_s: options.before.as_secs_f64(),
        settle_s: options.settle.as_secs_f64(),
        max_log_bytes: options.max_log_bytes,
    }
}
