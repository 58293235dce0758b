//! Chains of control groups in made-up trees of each layout, and a real group where we may make one.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers of tests are outside `#[test]` functions

mod holder;

use std::path::{Path, PathBuf};

use nilometer_kernel::read::cgroup::{Binding, Chain, Level, OwnGroup, Version, binding};
use tempfile::TempDir;

const GIB: u64 = 1 << 30;

/// A root with `/proc` and mounted groups, for process 42.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new(mountinfo: &str, cgroup: &str) -> Self {
        let machine = Self { root: tempfile::tempdir().unwrap() };
        machine.put("proc/self/mountinfo", mountinfo);
        machine.put("proc/42/cgroup", cgroup);
        machine
    }

    fn path(&self) -> &Path {
        self.root.path()
    }

    fn put(&self, path: &str, text: &str) {
        let path = self.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn put_group(&self, group: &str, files: &[(&str, &str)]) {
        for (file, text) in files {
            self.put(&format!("{group}/{file}"), text);
        }
    }

    fn chain(&self) -> Option<Chain> {
        Chain::of(&self.path().join("proc"), self.path(), 42)
    }
}

fn paths(chain: &Chain) -> Vec<&str> {
    (0..chain.levels()).map(|i| chain.path(i)).collect()
}

const V2_FILES: [(&str, &str); 9] = [
    ("cgroup.controllers", "cpuset cpu io memory hugetlb pids rdma misc\n"),
    ("memory.current", "4294967296\n"),
    ("memory.max", "8589934592\n"),
    ("memory.high", "max\n"),
    ("memory.stat", include_str!("../fixtures/v2.memory.stat")),
    ("memory.swap.current", "4096\n"),
    ("memory.swap.max", "0\n"),
    ("memory.peak", "6442450944\n"),
    ("memory.events", "low 0\nhigh 5\nmax 17\noom 2\noom_kill 3\noom_group_kill 1\n"),
];

#[test]
fn a_v2_container_sees_its_own_group_as_the_root() {
    let machine = Machine::new(
        include_str!("../fixtures/v2-container.mountinfo"),
        include_str!("../fixtures/v2-container.cgroup"),
    );
    machine.put_group("sys/fs/cgroup", &V2_FILES);
    let mut chain = machine.chain().unwrap();
    assert_eq!((chain.version(), paths(&chain)), (Version::V2, vec!["/"]));
    let expected = Level {
        usage: 4 * GIB,
        limit: 8 * GIB,
        high: u64::MAX,
        reclaimable: 671_088_640,
        shmem: 268_435_456,
        swap: 4096,
        swap_limit: 0,
        peak: Some(6 * GIB),
        oom_kills: 3,
        oom_events: 2,
        max_events: 17,
    };
    let mut buffer = Vec::new();
    assert_eq!(chain.read(0, &mut buffer), expected);
    assert_eq!(expected.headroom(), 4 * GIB + 671_088_640);

    machine.put("sys/fs/cgroup/memory.current", "5368709120\n");
    machine.put("sys/fs/cgroup/memory.high", "7516192768\n");
    assert_eq!(chain.read(0, &mut buffer), Level { usage: 5 * GIB, high: 7 * GIB, ..expected });
    assert_eq!(chain.read(1, &mut buffer), Level::default());
    assert_eq!(chain.path(1), "");
}

#[test]
fn a_v2_chain_leaves_out_groups_without_memory_accounting() {
    let machine = Machine::new(
        include_str!("../fixtures/v2-host.mountinfo"),
        include_str!("../fixtures/v2-host.cgroup"),
    );
    // The real root has no memory.current; this user's service hands no memory controller to the scope.
    machine.put_group(
        "sys/fs/cgroup",
        &[("cgroup.controllers", "cpu memory pids\n"), ("memory.stat", "anon 1\n")],
    );
    let user = "sys/fs/cgroup/user.slice/user-1000.slice";
    machine.put_group("sys/fs/cgroup/user.slice", &[("memory.current", "900\n"), ("memory.max", "max\n")]);
    machine.put_group(user, &[("memory.current", "800\n"), ("memory.max", "1000\n")]);
    machine.put_group(&format!("{user}/user@1000.service"), &[("memory.current", "700\n")]);
    machine
        .put_group(&format!("{user}/user@1000.service/app.slice/run-r1f.scope"), &[("cgroup.procs", "42\n")]);
    let mut chain = machine.chain().unwrap();
    assert_eq!(
        paths(&chain),
        ["/user.slice/user-1000.slice/user@1000.service", "/user.slice/user-1000.slice", "/user.slice"]
    );
    let mut buffer = Vec::new();
    let levels: Vec<Level> = (0..chain.levels()).map(|i| chain.read(i, &mut buffer)).collect();
    assert_eq!(levels[0], Level { usage: 700, ..Level::default() });
    assert_eq!(levels[1], Level { usage: 800, limit: 1000, ..Level::default() });
    assert_eq!(levels[2], Level { usage: 900, ..Level::default() });
}

const V1_FILES: [(&str, &str); 7] = [
    ("memory.usage_in_bytes", "225607680\n"),
    ("memory.limit_in_bytes", "536870912\n"),
    ("memory.stat", include_str!("../fixtures/v1.memory.stat")),
    ("memory.memsw.limit_in_bytes", "805306368\n"),
    ("memory.max_usage_in_bytes", "587759616\n"),
    ("memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 4\n"),
    ("memory.failcnt", "29\n"),
];

fn v1_level() -> Level {
    Level {
        usage: 225_607_680,
        limit: 512 << 20,
        high: u64::MAX,
        reclaimable: 85_393_408,
        shmem: 8 << 20,
        swap: 4096,
        swap_limit: 256 << 20,
        peak: Some(587_759_616),
        oom_kills: 4,
        oom_events: 0,
        max_events: 29,
    }
}

#[test]
fn a_v1_container_sees_a_subtree() {
    let machine = Machine::new(
        include_str!("../fixtures/v1-docker.mountinfo"),
        include_str!("../fixtures/v1-docker.cgroup"),
    );
    machine.put_group("sys/fs/cgroup/memory", &V1_FILES);
    let unlimited = [("memory.usage_in_bytes", "5\n"), ("memory.limit_in_bytes", "9223372036854771712\n")];
    machine.put_group("sys/fs/cgroup/memory/worker", &unlimited);
    let mut chain = machine.chain().unwrap();
    assert_eq!((chain.version(), paths(&chain)), (Version::V1, vec!["/docker/9f2c/worker", "/docker/9f2c"]));
    let mut buffer = Vec::new();
    assert_eq!(chain.read(0, &mut buffer), Level { usage: 5, ..Level::default() });
    assert_eq!(chain.read(1, &mut buffer), v1_level());
}

#[test]
fn a_hybrid_machine_uses_the_hierarchy_that_has_memory() {
    let machine =
        Machine::new(include_str!("../fixtures/hybrid.mountinfo"), include_str!("../fixtures/hybrid.cgroup"));
    machine.put("sys/fs/cgroup/unified/cgroup.controllers", "hugetlb\n");
    machine.put_group("sys/fs/cgroup/memory", &V1_FILES);
    machine.put_group("sys/fs/cgroup/memory/jobs", &V1_FILES);
    machine.put_group("sys/fs/cgroup/memory/jobs/5b4e8d43", &V1_FILES);
    let mut chain = machine.chain().unwrap();
    assert_eq!((chain.version(), paths(&chain)), (Version::V1, vec!["/jobs/5b4e8d43", "/jobs", "/"]));
    assert_eq!(chain.read(2, &mut Vec::new()), v1_level());
}

#[test]
fn a_group_that_is_not_mounted_here_has_no_chain() {
    for (root, path) in
        [("/docker/a", "/docker/ab"), ("/docker/a", "/"), ("/", "/../b"), ("/..", "/"), ("/a", "")]
    {
        let machine = Machine::new(
            &format!("35 24 0:30 {root} /cg rw - cgroup2 cgroup2 rw\n"),
            &format!("0::{path}\n"),
        );
        machine.put_group("cg", &V2_FILES);
        assert!(machine.chain().is_none(), "{root} {path}");
    }
    // Of two mounts the one that shows the group.
    let machine = Machine::new(
        "1 1 0:30 /x /one rw - cgroup2 c rw\n2 1 0:30 /y /two\\040parts rw - cgroup2 c rw\n",
        "0::/y/z\n",
    );
    machine.put_group("one", &V2_FILES);
    machine.put_group("two parts", &V2_FILES);
    assert_eq!(paths(&machine.chain().unwrap()), ["/y"]);
    assert!(Chain::of(Path::new("/nonexistent"), Path::new("/"), 1).is_none());
}

#[test]
fn the_least_headroom_binds() {
    let level = |limit, usage, reclaimable| Level { limit, usage, reclaimable, ..Level::default() };
    let levels = [level(100, 90, 50), level(u64::MAX, 500, 0), level(1000, 960, 0), level(2000, 1960, 0)];
    assert_eq!(binding(&levels, 5000, 41), Binding { level: Some(2), limit: 1000, headroom: 40 });
    assert_eq!(binding(&levels, 5000, 39), Binding { level: None, limit: 5000, headroom: 39 });
    assert_eq!(binding(&levels[..2], 5000, 61), Binding { level: Some(0), limit: 100, headroom: 60 });
    assert_eq!(binding(&[], 5000, 77), Binding { level: None, limit: 5000, headroom: 77 });
    assert_eq!(binding(&[level(10, 50, 0)], 5000, 77).headroom, 0);
}

#[test]
fn an_own_group_is_refused_with_a_reason() {
    let machine = Machine::new("1 1 0:30 / /cg rw - cgroup2 c rw\n", "0::/job\n");
    machine.put_group("cg", &V2_FILES);
    machine.put_group("cg/job", &[("memory.current", "1\n"), ("cgroup.controllers", "cpu\n")]);
    let chain = machine.chain().unwrap();
    for name in ["", ".", "..", "a/b", "nilo-supervisor"] {
        assert!(OwnGroup::create(&chain, name, &[]).unwrap_err().ends_with("is no name for a control group"));
    }
    let error = OwnGroup::create(&chain, "nilo-1", &[]).unwrap_err();
    let group = machine.path().join("cg/job");
    let expected =
        format!("control group {} has no memory controller to hand on; start it in", group.display());
    assert!(error.starts_with(&expected), "{error}");
    assert!(error.contains("systemd-run --user --scope -p Delegate=yes nilo run --cgroup -- "));
    assert!(!group.join("nilo-1").exists());
}

fn skip(reason: &str) {
    nilometer_lab::skip("cgroup-write", reason);
}

mod serial_real {
    use super::*;
    use crate::holder::Holder;

    const MIB: u64 = 1 << 20;

    fn real_chain(pid: i32) -> Option<Chain> {
        Chain::of(Path::new("/proc"), Path::new("/"), pid)
    }

    fn own_pid() -> i32 {
        std::process::id() as i32
    }

    /// A group below our own, with a child in it that holds nothing yet.
    fn group_with_child() -> Result<(OwnGroup, Holder), String> {
        let chain = real_chain(own_pid()).ok_or("no memory control group is visible")?;
        let group = OwnGroup::create(&chain, &format!("nilo-test-{}", own_pid()), &[own_pid()])?;
        let child = Holder::start(32 * MIB as usize);
        group.add(child.pid())?;
        Ok((group, child))
    }

    #[test]
    fn our_own_groups_are_read() {
        let Some(mut chain) = real_chain(own_pid()).filter(|chain| chain.levels() > 0) else {
            return skip("no memory control group is visible");
        };
        let mut buffer = Vec::new();
        let levels: Vec<Level> = (0..chain.levels()).map(|i| chain.read(i, &mut buffer)).collect();
        assert!(levels[0].usage > 0, "{levels:?}");
        assert!(levels.iter().all(|l| l.limit == u64::MAX || l.limit < 1 << 62), "{levels:?}");
        let membership = std::fs::read_to_string("/proc/self/cgroup").unwrap();
        assert!(
            membership.lines().any(|line| line.ends_with(&format!(":{}", chain.path(0)))),
            "{membership}"
        );
    }

    #[test]
    fn an_own_group_counts_its_processes_and_is_removed() {
        // The child is dropped first, so that a failing test leaves no group behind.
        let (mut group, mut child) = match group_with_child() {
            Ok(both) => both,
            Err(reason) => return skip(&reason),
        };
        let directory: PathBuf = group.path().to_owned();
        let mut chain = real_chain(child.pid()).unwrap();
        assert!(directory.ends_with(chain.path(0).trim_start_matches('/')));
        let mut buffer = Vec::new();
        let before = chain.read(0, &mut buffer);
        assert!(before.usage < 16 * MIB && before.limit == u64::MAX, "{before:?}");

        child.touch();
        let after = chain.read(0, &mut buffer);
        assert!((32 * MIB..64 * MIB).contains(&after.usage), "{after:?}");
        assert!(group.peak_bytes().is_none_or(|peak| peak >= after.usage));
        assert_eq!((group.oom_kills(), after.oom_kills), (0, 0));

        group.set_limit(96 * MIB).unwrap();
        let limited = chain.read(0, &mut buffer);
        assert_eq!(limited.limit, 96 * MIB);
        let machine = (1 << 50, 1 << 49);
        assert_eq!(binding(&[limited], machine.0, machine.1).level, Some(0));
        assert!(limited.headroom() <= 64 * MIB);

        let busy = group.remove().unwrap_err();
        assert!(busy.ends_with("is busy: 1 process remains in it"), "{busy}");
        assert!(directory.exists());
        child.end();
        group.remove().unwrap();
        assert!(!directory.exists());
        assert_eq!(chain.read(0, &mut buffer), Level::default(), "a removed group reads as nothing");
    }
}
