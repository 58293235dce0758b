//! Why there is no census, which rule forbids it, and what to do instead.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nilometer_analysis::heap;
use nilometer_capture::census::Error;
use nilometer_cpython as cpython;
use nilometer_image as image;
use nilometer_kernel::probe::{Facts, Relation, Verdict, ptrace_access};
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::limits::effective_uid;
use nilometer_report::text;

use super::kin::{self, Kin};
use crate::cmd::exit;
use crate::talk::Failure;

/// A process that cannot be read.
pub fn of_process(pid: i32, error: Error) -> Failure {
    match &error {
        Error::Image(image::Error::NotPermitted { .. }) => not_permitted(pid, error),
        Error::Image(image::Error::Gone { .. } | image::Error::Zombie { .. }) => {
            Failure::from(error).hint("see your Python processes by size:  nilo")
        }
        Error::Image(image::Error::Traced { tracer, .. }) => {
            let hint = format!(
                "end the debugger (process {tracer}), or read without a stop:  nilo heap {pid} --pause off"
            );
            unavailable(error, Some(hint))
        }
        Error::Image(image::Error::NotStopped { source, .. }) if source.kind() == ErrorKind::TimedOut => {
            let hint = format!(
                "the machine is busy, or a thread waits in the kernel; wait longer, or read without a stop:  \
                 nilo heap {pid} --max-pause 5s,  nilo heap {pid} --pause off"
            );
            unavailable(error, Some(hint))
        }
        Error::Python { source: cpython::Error::NotPython, .. } => {
            let hint = below(&kin::below(pid)).unwrap_or_else(|| instead(pid));
            unavailable(error, Some(hint))
        }
        _ => {
            let hint = instead(pid);
            unavailable(error, Some(hint))
        }
    }
}

/// A core file that cannot be read.
pub fn of_core(path: &Path, error: Error) -> Failure {
    let path = path.display();
    match &error {
        Error::Image(image::Error::NotACore { .. }) => {
            let sentence = anyhow::anyhow!("{path} is neither a core file nor a heap snapshot");
            Failure::from(sentence).hint("make a snapshot:  nilo heap PID -o F.heap")
        }
        Error::Image(image::Error::Compressed { command, .. }) => {
            let hint = format!("{command} {path}");
            Failure::from(error).hint(hint)
        }
        Error::Python { missing, .. } => {
            let hint = (!missing.is_empty()).then(|| absent(missing));
            unavailable(error, hint)
        }
        _ => error.into(),
    }
}

/// Without its programs a core tells little.
fn absent(missing: &[String]) -> String {
    const MOST: usize = 8;
    let more = missing.len().saturating_sub(MOST);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    let named = missing.iter().take(MOST).cloned().collect::<Vec<_>>().join("; ");
    format!("say where the files of its machine are with --sysroot DIR: {named}{more}")
}

/// A reading that the census does not allow.
pub fn unreadable(error: heap::Error, target: &str) -> Failure {
    let hint = match &error {
        heap::Error::NoSuchName { near, .. } if !near.is_empty() => {
            Some(format!("there is: {}", near.join(", ")))
        }
        heap::Error::NoSuchRow { .. } | heap::Error::NothingSelected => {
            Some(format!("see the rows:  nilo heap {target} --top all"))
        }
        heap::Error::NoSuchAddress { .. } => Some("an object's address is its id():  hex(id(x))".into()),
        heap::Error::BadPath { .. } => {
            Some("paths look like  train.model.layers[3]  or  train.cache['key']".into())
        }
        _ => None,
    };
    let failure = Failure::from(error);
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}

fn unavailable(error: impl Into<anyhow::Error>, hint: Option<String>) -> Failure {
    Failure { code: exit::NOT_AVAILABLE, error: error.into(), hint }
}

/// What is still to be had.
fn instead(pid: i32) -> String {
    format!("how its memory moves can be told all the same:  nilo attach {pid}")
}

/// The Pythons below a process that is none.
pub fn below(kin: &[Kin]) -> Option<String> {
    const MOST: usize = 3;
    let largest = kin.first()?;
    let size = |kin: &Kin| text::bytes(kin.rss_kib.saturating_mul(1024));
    let named: Vec<String> = kin
        .iter()
        .take(MOST)
        .map(|kin| format!("{} ({}, {})", kin.pid, size(kin), shortened(&kin.command)))
        .collect();
    let more = kin.len().saturating_sub(MOST);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Some(format!("Python runs below it: {}{more}:  nilo heap {}", named.join(", "), largest.pid))
}

fn shortened(command: &str) -> String {
    const LONGEST: usize = 40;
    if command.chars().count() <= LONGEST {
        return command.into();
    }
    command.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// Names the policy, the command that would help, and what can be told without it.
fn not_permitted(pid: i32, error: Error) -> Failure {
    let verdict = policy(pid);
    let reason =
        if verdict.works { "the kernel refuses it for this process".into() } else { verdict.sentence };
    let known = degraded(pid).map_or_else(String::new, |known| format!("; without it: {known}"));
    let hint =
        verdict.command.map_or_else(|| instead(pid), |command| format!("{command}\n      {}", instead(pid)));
    unavailable(anyhow::Error::from(error).context(format!("{reason}{known}")), Some(hint))
}

/// The rule that keeps us from the memory of a process.
pub fn policy(pid: i32) -> Verdict {
    let search_path = std::env::var_os("PATH").unwrap_or_default();
    let mut facts = Facts::read(Path::new("/"), &search_path);
    facts.try_out();
    if is_undumpable(pid) { undumpable() } else { ptrace_access(&facts, relation(pid)) }
}

fn relation(pid: i32) -> Relation {
    let status = Proc::default().read_status(pid, &mut Vec::new());
    match status {
        Ok(status) if status.euid == effective_uid() => Relation::SameUser,
        _ => Relation::OtherUser,
    }
}

/// The files of such a process belong to root, whoever runs it.
fn is_undumpable(pid: i32) -> bool {
    let status = Proc::default().read_status(pid, &mut Vec::new());
    // Not of the directory: that is always the user's (fs/proc/base.c, `task_dump_owner`).
    let owner = std::fs::metadata(format!("/proc/{pid}/status")).map(|metadata| metadata.uid());
    matches!((status, owner), (Ok(status), Ok(0)) if status.euid != 0)
}

fn undumpable() -> Verdict {
    Verdict {
        works: false,
        sentence: "the process is not dumpable (it changed its user, or asked for it by prctl)".into(),
        command: Some("sudo nilo heap …".into()),
    }
}

/// What anybody may know of a process.
fn degraded(pid: i32) -> Option<String> {
    let status = Proc::default().read_status(pid, &mut Vec::new()).ok()?;
    let size = |kib: u64| text::bytes(kib.saturating_mul(1024));
    let anonymous =
        status.rss_anon_kib.map_or_else(String::new, |kib| format!(", {} of it anonymous", size(kib)));
    Some(format!("RSS {}{anonymous}", size(status.vm_rss_kib?)))
}
