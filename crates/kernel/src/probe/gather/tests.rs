//! Machines that are not this one, as trees of files.

use std::os::unix::fs::symlink;

use super::*;
use crate::probe::{Cap, Level, Relation, judge_all, ptrace_access};
use crate::read::cgroup::{Room, Version};

/// A tree of files with a process 42 that looks at itself.
struct Machine(tempfile::TempDir);

/// Docker's default set for root, which lacks `CAP_SYS_PTRACE` and `CAP_SYS_ADMIN`.
const DOCKER_CAPS: &str = "00000000a80425fb";
const NO_CAPS: &str = "0000000000000000";
const ALL_CAPS: &str = "000001ffffffffff";

impl Machine {
    fn new(uid: u32, caps: &str, seccomp: u8) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        machine.put(
            "proc/self/status",
            &format!(
                "Name:\tnilo\nTgid:\t42\nPid:\t42\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t42\nCapEff:\t{caps}\n\
                 NoNewPrivs:\t0\nSeccomp:\t{seccomp}\nSeccomp_filters:\t{seccomp}\n"
            ),
        );
        machine.put("proc/meminfo", "MemTotal: 16384 kB\nSwapTotal: 0 kB\n");
        machine.put("proc/self/smaps_rollup", "Rss: 1 kB\n");
        machine.put("proc/self/task/42/children", "\n");
        machine.put("proc/self/pagemap", "12345678");
        machine
    }

    fn put(&self, path: &str, text: &str) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        self
    }

    fn link(&self, path: &str, to: &str) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(to, path).unwrap();
        self
    }

    fn facts(&self) -> Facts {
        Facts::read(self.0.path(), OsStr::new("/usr/bin"))
    }
}

fn level(facts: &Facts, name: &str) -> Level {
    judge_all(facts).into_iter().find(|capability| capability.name == name).unwrap().level
}

fn command(facts: &Facts, name: &str) -> String {
    let capability = judge_all(facts).into_iter().find(|capability| capability.name == name).unwrap();
    capability.command.unwrap_or_default()
}

fn ubuntu(scope: &str) -> Machine {
    let machine = Machine::new(1000, NO_CAPS, 0);
    machine
        .put("proc/sys/kernel/yama/ptrace_scope", scope)
        .put("proc/sys/kernel/osrelease", "6.8.0-45-generic\n")
        .put("proc/sys/kernel/perf_event_paranoid", "4\n")
        .put("proc/sys/vm/unprivileged_userfaultfd", "0\n")
        .put("proc/sys/kernel/core_pattern", "|/usr/share/apport/apport -p%p\n")
        .put("sys/kernel/security/lsm", "lockdown,capability,landlock,yama,apparmor\n")
        .put("proc/self/mountinfo", include_str!("../../../fixtures/v2-host.mountinfo"))
        .link("proc/self/ns/user", "user:[4026531837]")
        .link("proc/self/ns/pid", "pid:[4026531836]");
    machine
}

#[test]
fn ubuntu_lets_ancestors_read() {
    let facts = ubuntu("1\n").facts();
    assert_eq!((facts.yama_scope, facts.euid, facts.seccomp), (Some(1), 1000, 0));
    assert!(!facts.in_user_namespace && !facts.in_pid_namespace && !facts.in_container());
    assert_eq!(facts.core_pattern, "|/usr/share/apport/apport -p%p");
    assert!(ptrace_access(&facts, Relation::OwnChild).works);
    assert_eq!(command(&facts, "read-memory-same-uid"), "sudo sysctl kernel.yama.ptrace_scope=0");
    assert_eq!(command(&facts, "read-memory-other-uid"), "sudo nilo …");
    assert_eq!(level(&facts, "attach-same-uid"), Level::Works);
    assert_eq!(level(&facts, "attach-other-uid"), Level::Limited);
    assert_eq!(command(&facts, "perf-faults"), "sudo sysctl kernel.perf_event_paranoid=2");
}

#[test]
fn hardened_machines() {
    let facts = ubuntu("2\n").facts();
    assert_eq!(level(&facts, "run"), Level::Works, "recording reads /proc only");
    assert_eq!(command(&facts, "stop-own-child"), "sudo sysctl kernel.yama.ptrace_scope=1");
    let facts = ubuntu("3\n").facts();
    assert_eq!(level(&facts, "run"), Level::Works);
    for name in ["read-memory-own-child", "read-memory-same-uid", "read-memory-other-uid", "stop-own-child"] {
        assert_eq!(level(&facts, name), Level::Cannot);
        assert!(command(&facts, name).ends_with("&& sudo reboot"), "{name}");
    }
}

fn docker() -> Machine {
    let machine = Machine::new(0, DOCKER_CAPS, 2);
    machine
        .put(".dockerenv", "")
        .put("proc/sys/kernel/yama/ptrace_scope", "1\n")
        .put("proc/self/cgroup", include_str!("../../../fixtures/v2-container.cgroup"))
        .put("proc/42/cgroup", include_str!("../../../fixtures/v2-container.cgroup"))
        .put("proc/self/mountinfo", include_str!("../../../fixtures/v2-container.mountinfo"))
        .put("sys/fs/cgroup/cgroup.controllers", "cpu memory pids\n")
        .put("sys/fs/cgroup/memory.current", "1\n")
        .put("sys/fs/cgroup/cgroup.subtree_control", "\n")
        .put("sys/fs/cgroup/cgroup.type", "domain\n")
        .put("sys/fs/cgroup/cgroup.procs", "1\n42\n")
        .link("proc/self/ns/user", "user:[4026531837]")
        .link("proc/self/ns/pid", "pid:[4026532201]");
    machine
}

#[test]
fn a_docker_container_with_its_default_filter() {
    let mut facts = docker().facts();
    assert!(facts.is_root() && facts.in_pid_namespace && !facts.has(Cap::SysPtrace) && facts.seccomp == 2);
    let cgroup = facts.cgroup.clone().unwrap();
    assert_eq!((cgroup.version, cgroup.room), (Version::V2, Room::Inhabited));
    // What the default profile of Docker 19.03 and newer does on kernels from 4.8 on.
    facts.trials.read_child = Some(Ok(()));
    facts.trials.read_sibling = Some(Err(libc::EPERM));
    facts.trials.read_other_user = Some(Err(libc::EPERM));
    facts.trials.stop_child = Some(Ok(()));
    facts.trials.mount = Some(Err(libc::EPERM));
    facts.trials.swapon = Some(Err(libc::EPERM));
    facts.trials.userfaultfd = Some(Err(libc::EPERM));
    facts.trials.perf = Some(Err(libc::EPERM));
    assert_eq!(level(&facts, "read-memory-own-child"), Level::Works);
    assert_eq!(command(&facts, "read-memory-same-uid"), "docker run --cap-add SYS_PTRACE …");
    assert_eq!(command(&facts, "read-memory-other-uid"), "docker run --cap-add SYS_PTRACE …");
    assert_eq!(command(&facts, "mount"), "docker run --cap-add SYS_ADMIN …");
    assert_eq!(command(&facts, "swap-file"), "docker run --cap-add SYS_ADMIN …");
    assert_eq!(command(&facts, "perf-faults"), "docker run --cap-add PERFMON …");
    assert_eq!(level(&facts, "userfaultfd"), Level::Cannot);
    assert_eq!(level(&facts, "cgroup-write"), Level::Cannot);
}

#[test]
fn a_rootless_container_is_root_of_its_own_users_only() {
    let machine = Machine::new(0, ALL_CAPS, 0);
    machine.put("run/.containerenv", "").put("proc/self/uid_map", "         0       1000          1\n");
    let facts = machine.facts();
    assert!(facts.in_user_namespace && facts.host.container.as_deref() == Some("podman"));
    assert_eq!(level(&facts, "swap-file"), Level::Cannot);
    assert_eq!(level(&facts, "pagemap-pfn"), Level::Cannot);
    assert!(ptrace_access(&facts, Relation::OtherUser).sentence.ends_with("of this container only"));
    machine.put("proc/self/uid_map", "         0          0 4294967295\n");
    assert!(!machine.facts().in_user_namespace);
}

/// Captured from the machine that Nilometer is developed on: root without `CAP_SYS_RESOURCE`, no Yama, a
/// kdamond of its own.
fn this_host() -> Machine {
    let machine = Machine::new(0, "000001fffeffffff", 0);
    machine
        .put("proc/sys/kernel/osrelease", "6.18.44\n")
        .put("proc/sys/kernel/perf_event_paranoid", "2\n")
        .put("proc/sys/fs/suid_dumpable", "0\n")
        .put("proc/sys/vm/max_map_count", "65530\n")
        .put("proc/42/cgroup", include_str!("../../../fixtures/hybrid.cgroup"))
        .put("proc/self/mountinfo", include_str!("../../../fixtures/hybrid.mountinfo"))
        .put("sys/fs/cgroup/memory/jobs/5b4e8d43/memory.usage_in_bytes", "4096\n")
        .put("sys/fs/cgroup/memory/jobs/5b4e8d43/cgroup.procs", "42\n")
        .put("proc/pressure/memory", "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\n")
        .put("proc/kpageflags", "12345678")
        .put("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "1\n")
        .put("sys/kernel/mm/damon/admin/kdamonds/0/state", "on\n")
        .put("proc/vmstat", "nr_free_pages 1\noom_kill 3\n")
        .put(
            "dev/kmsg",
            "3,9,77000002,-;Out of memory: Killed process 9 (python) total-vm:1kB, anon-rss:7kB\n",
        )
        .put("proc/uptime", "177.00 300.00\n");
    machine
}

#[test]
fn this_kind_of_machine() {
    let facts = this_host().facts();
    assert_eq!((facts.yama_scope, facts.damon), (None, Damon::Taken { kdamonds: 1, on: 1 }));
    assert!(facts.has(Cap::SysPtrace) && !facts.has(Cap::SysResource));
    let cgroup = facts.cgroup.as_ref().unwrap();
    assert_eq!((cgroup.version, &*cgroup.path, cgroup.room), (Version::V1, "/jobs/5b4e8d43", Room::Free));
    assert_eq!((facts.oom_kills, facts.uptime_s, facts.max_map_count), (Some(3), 177, Some(65530)));
    assert_eq!(facts.recent_oom_kills.as_ref().map(|kills| &*kills[0].process), Some("python"));
    assert_eq!(level(&facts, "damon"), Level::Cannot, "never somebody else's");
    assert_eq!(level(&facts, "idle-pages"), Level::Cannot);
    assert_eq!(level(&facts, "cgroup-write"), Level::Works);
    assert_eq!(level(&facts, "read-memory-other-uid"), Level::Works);
}

#[test]
fn damon_states() {
    let machine = Machine::new(0, ALL_CAPS, 0);
    assert_eq!(machine.facts().damon, Damon::Absent);
    machine.put("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "0\n");
    assert_eq!(machine.facts().damon, Damon::Free);
    machine.put("sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds", "2\n");
    machine.put("sys/kernel/mm/damon/admin/kdamonds/1/state", "off\n");
    assert_eq!(machine.facts().damon, Damon::Taken { kdamonds: 2, on: 0 });
    assert_eq!(level(&machine.facts(), "damon"), Level::Cannot);
}

#[test]
fn processes_may_be_hidden() {
    assert_eq!(hidepid("rw,hidepid=invisible"), Some("invisible".into()));
    assert_eq!(hidepid("rw,gid=5,hidepid=2"), Some("2".into()));
    assert_eq!((hidepid("rw"), hidepid("rw,hidepid=0"), hidepid("rw,hidepid=off")), (None, None, None));
    let machine = Machine::new(1000, NO_CAPS, 0);
    machine.put("proc/self/mountinfo", "22 1 0:20 / /proc rw - proc proc rw,hidepid=2\n");
    assert_eq!(level(&machine.facts(), "attach-other-uid"), Level::Cannot);
}

#[test]
fn an_empty_tree_has_an_answer_for_everything() {
    let root = tempfile::tempdir().unwrap();
    let facts = Facts::read(root.path(), OsStr::new(""));
    let all = judge_all(&facts);
    assert_eq!(level(&facts, "run"), Level::Cannot);
    assert!(all.iter().all(|capability| capability.how.is_some() || capability.why.is_some()));
}
