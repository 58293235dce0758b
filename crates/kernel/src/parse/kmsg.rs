//! `/dev/kmsg`: the kernel's own account of OOM kills.
//!
//! A kill leaves two records (`mm/oom_kill.c`): `oom-kill:constraint=…,oom_memcg=…,task_memcg=…,task=…,pid=…`
//! (since Linux 5.0) and `Out of memory: Killed process …` or `Memory cgroup out of memory: Killed process …`.

use super::scan::{lines, number};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OomKill {
    /// Since the machine was started.
    pub at_us: u64,
    pub pid: i32,
    pub process: String,
    /// The group whose limit was hit; `None` = the machine ran out.
    pub cgroup: Option<String>,
    pub rss_bytes: Option<u64>,
}

/// Kills of one group follow each other at once.
const ONE_GROUP_US: u64 = 1_000_000;

/// All kills in the records, oldest first. The kernel leaves the record with the group out when kills come
/// too fast; the group is then empty.
pub fn parse_oom_kills(records: &[u8]) -> Vec<OomKill> {
    let mut kills: Vec<OomKill> = Vec::new();
    let mut victim: Option<(i32, String)> = None;
    let mut whole: Option<(u64, String)> = None;
    for line in lines(records) {
        let Some((at_us, message)) = message(line) else { continue };
        if let Some(named) = victim_group(message) {
            (victim, whole) = (Some(named), None);
        } else if let Some(group) = whole_group(message) {
            whole = Some((at_us, group.to_owned()));
        } else if let Some(mut kill) = kill(message) {
            kill.at_us = at_us;
            let named = victim.take_if(|(pid, _)| *pid == kill.pid).map(|(_, group)| group);
            let recent =
                whole.as_ref().filter(|(since_us, _)| at_us.saturating_sub(*since_us) < ONE_GROUP_US);
            let group = named.or_else(|| recent.map(|(_, group)| group.clone()));
            kill.cgroup = kill.cgroup.map(|unnamed| group.unwrap_or(unnamed));
            kills.push(kill);
        }
    }
    kills
}

/// With `memory.oom.group` all of a group are killed after the first.
fn whole_group(message: &str) -> Option<&str> {
    message
        .strip_prefix("Tasks in ")?
        .split_once(" are going to be killed due to memory.oom.group")
        .map(|(group, _)| group)
}

/// `priority,sequence,µs,flags;text`; lines of a dictionary begin with a blank.
fn message(line: &[u8]) -> Option<(u64, &str)> {
    let semicolon = line.iter().position(|b| *b == b';')?;
    let at_us = line[..semicolon].split(|b| *b == b',').nth(2).and_then(number)?;
    Some((at_us, std::str::from_utf8(&line[semicolon + 1..]).ok()?))
}

fn victim_group(message: &str) -> Option<(i32, String)> {
    let fields = message.strip_prefix("oom-kill:")?;
    let value = |name: &str| fields.split(',').find_map(|field| field.strip_prefix(name)?.strip_prefix('='));
    Some((value("pid")?.parse().ok()?, value("oom_memcg").unwrap_or("").to_owned()))
}

fn kill(message: &str) -> Option<OomKill> {
    // Before Linux 4.19: "Kill process"; the record of the group before the one of the kill.
    let (cause, rest) = message.split_once(": Killed process ")?;
    let is_group = cause.ends_with("emory cgroup out of memory");
    if !is_group && !cause.starts_with("Out of memory") {
        return None;
    }
    let (pid, rest) = rest.split_once(" (")?;
    let (process, rest) = rest.split_once(')')?;
    let kib = |name: &str| number(rest.split_once(name)?.1.as_bytes());
    let parts = [kib("anon-rss:"), kib("file-rss:"), kib("shmem-rss:")];
    let rss = parts
        .iter()
        .flatten()
        .fold(None, |sum: Option<u64>, part| Some(sum.unwrap_or(0).saturating_add(*part)));
    Some(OomKill {
        at_us: 0,
        pid: pid.parse().ok()?,
        process: process.to_owned(),
        cgroup: is_group.then(String::new),
        rss_bytes: rss.map(|kib| kib.saturating_mul(1024)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORDS: &[u8] = b"6,340,5000000,-;usb 1-1: new device\n SUBSYSTEM=usb\n\
        6,341,77000001,-;oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/jobs/a,task_memcg=/jobs/a/b,task=python,pid=812,uid=1000\n\
        3,342,77000002,-;Memory cgroup out of memory: Killed process 812 (python) total-vm:2048kB, anon-rss:1000kB, file-rss:20kB, shmem-rss:4kB, UID:1000 pgtables:84kB oom_score_adj:0\n\
        6,350,90000000,-;oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/user,task=a b,pid=9,uid=0\n\
        3,351,90000001,-;Out of memory: Killed process 9 (a b) total-vm:1kB, anon-rss:7kB\n";

    #[test]
    fn kills_by_a_group_and_by_the_machine() {
        let expected = [
            OomKill {
                at_us: 77_000_002,
                pid: 812,
                process: "python".into(),
                cgroup: Some("/jobs/a".into()),
                rss_bytes: Some(1024 * 1024),
            },
            OomKill { at_us: 90_000_001, pid: 9, process: "a b".into(), cgroup: None, rss_bytes: Some(7168) },
        ];
        assert_eq!(parse_oom_kills(RECORDS), expected);
    }

    #[test]
    fn all_of_a_group_are_killed_with_the_first() {
        let kills = parse_oom_kills(
            b"6,1,10,-;oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/pod,task=a,pid=8,uid=0\n\
              3,2,11,-;Memory cgroup out of memory: Killed process 8 (a) total-vm:1kB\n\
              6,3,12,-;Tasks in /pod/c are going to be killed due to memory.oom.group set\n\
              3,4,13,-;Memory cgroup out of memory: Killed process 9 (b) total-vm:1kB\n\
              3,5,9000000,-;Memory cgroup out of memory: Killed process 10 (c) total-vm:1kB\n",
        );
        let groups: Vec<_> = kills.iter().map(|kill| kill.cgroup.as_deref().unwrap()).collect();
        assert_eq!(groups, ["/pod", "/pod/c", ""]);
    }

    #[test]
    fn a_kill_without_its_group_line_is_still_the_groups() {
        let kills =
            parse_oom_kills(b"3,1,5,-;Memory cgroup out of memory: Killed process 8 (x) total-vm:1kB\n");
        assert_eq!(kills[0].cgroup.as_deref(), Some(""));
        assert_eq!(kills[0].rss_bytes, None);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            parse_oom_kills(&text);
        }

        #[test]
        fn no_message_panics(text in "(Out of memory|Memory cgroup out of memory): Killed process [ -~]{0,60}") {
            parse_oom_kills(format!("3,1,5,-;{text}\n").as_bytes());
        }
    }
}
