//! The Pythons below a process: a launcher is often what a user has the pid of.

use nilometer_capture::privacy::mask_arguments;
use nilometer_kernel::read::proc::Proc;

use crate::cmd::overview::is_python;

/// A process that runs Python by the look of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kin {
    pub pid: i32,
    pub rss_kib: u64,
    pub command: String,
}

/// All Pythons that `pid` started, directly or not, largest first.
pub fn below(pid: i32) -> Vec<Kin> {
    let proc = Proc::default();
    let mut buffer = Vec::new();
    let mut found: Vec<Kin> =
        all_below(pid).iter().filter_map(|pid| look(&proc, *pid, &mut buffer)).collect();
    found.sort_by_key(|kin| (std::cmp::Reverse(kin.rss_kib), kin.pid));
    found
}

/// All processes that `pid` started, directly or not.
pub fn all_below(pid: i32) -> Vec<i32> {
    let proc = Proc::default();
    let mut buffer = Vec::new();
    let pids = proc.list_pids().unwrap_or_default();
    let parents: Vec<(i32, i32)> =
        pids.iter().filter_map(|pid| Some((*pid, proc.read_stat(*pid, &mut buffer).ok()?.ppid))).collect();
    descendants(pid, &parents)
}

/// From pairs of process and parent.
fn descendants(pid: i32, parents: &[(i32, i32)]) -> Vec<i32> {
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = parents.iter().filter(|(_, its)| *its == parent).map(|(child, _)| *child);
        let new: Vec<i32> = children.filter(|child| !found.contains(child)).collect();
        found.extend(new);
        next += 1;
    }
    found.split_off(1)
}

fn look(proc: &Proc, pid: i32, buffer: &mut Vec<u8>) -> Option<Kin> {
    let arguments = proc.read_arguments(pid).ok().filter(|arguments| !arguments.is_empty())?;
    let program = proc.read_exe(pid).map(|exe| exe.display().to_string()).unwrap_or_default();
    if !is_python(&program) && !is_python(&arguments[0]) && !has_library(pid) {
        return None;
    }
    let rss_kib = proc.read_status(pid, buffer).ok()?.vm_rss_kib?;
    Some(Kin { pid, rss_kib, command: command(&arguments) })
}

/// Secrets masked, and files without their directories: what runs is of interest.
fn command(arguments: &[String]) -> String {
    let masked = mask_arguments(arguments);
    let words: Vec<&str> = masked.iter().map(|word| word.rsplit('/').next().unwrap_or(word)).collect();
    words.join(" ")
}

/// A program with Python inside.
fn has_library(pid: i32) -> bool {
    let maps = std::fs::read(format!("/proc/{pid}/maps")).unwrap_or_default();
    let name = b"/libpython";
    maps.windows(name.len()).any(|window| window == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_generations_are_found_once() {
        let parents = [(2, 1), (3, 2), (4, 3), (5, 1), (6, 6)];
        assert_eq!(descendants(2, &parents), [3, 4]);
        assert_eq!(descendants(1, &parents), [2, 5, 3, 4]);
        assert_eq!(descendants(9, &parents), [0; 0]);
    }
}
