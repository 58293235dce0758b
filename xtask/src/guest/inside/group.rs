//! Control groups of version 2: the tree's exact peak, the limit that binds, and who was killed by it.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Cases;
use super::place::{
    ENDED, HOG, MIB, NILO, User, describe, evidence, in_group, output_of, report, run_directory,
};

const TOP: &str = "/sys/fs/cgroup";
const KILL: i32 = 9;
/// Of this many joint deaths all must be understood.
const ROUNDS: u32 = 5;

/// How a hog comes to its end.
struct Pace {
    name: &'static str,
    hog: [&'static str; 2],
    interval: &'static str,
    /// How full the limit is in the last sample, at least.
    filled_percent: u32,
}

/// A few MiB between two samples.
const SLOW: Pace = Pace { name: "slow", hog: ["40", "400"], interval: "20ms", filled_percent: 90 };
/// From nothing to its death within some samples. At the default of 100 ms one of 20 deaths was not told (`not-seen`),
/// probably because the group was full before the second sample: of that nothing can be inferred.
const FAST: Pace = Pace { name: "fast", hog: ["300", "0"], interval: "30ms", filled_percent: 40 };

pub fn run(cases: &mut Cases) {
    let enabled = write(Path::new(TOP), "cgroup.subtree_control", "+memory");
    cases.run("cgroup-2-has-memory", || enabled);
    cases.run("cgroup-own-group-root", || own_group(&Group::new("own-root")?, User::Root));
    cases.run("cgroup-own-group-at-the-top", || own_group(&Group { directory: TOP.into() }, User::Root));
    cases.run("cgroup-own-group-delegated", || {
        let group = Group::new("own-user")?;
        group.delegate(User::Ordinary)?;
        own_group(&group, User::Ordinary)
    });
    cases.run("cgroup-limit-of-an-ancestor", limit_of_an_ancestor);
    cases.run("cgroup-oom-own-limit", || oom(&Group::limited("own-limit", 64)?, Vec::new(), "own-limit"));
    cases.run("cgroup-oom-limit-of-an-ancestor", || {
        let outer = Group::limited("outer", 64)?;
        oom(&outer.child("inner")?, Vec::new(), "outer")
    });
    cases.run("cgroup-oom-in-an-own-group", || {
        oom(&Group::limited("around", 64)?, vec!["--cgroup"], "around")
    });
    cases.run("cgroup-no-oom-of-others", somebody_else);
    cases.run("cgroup-swap-is-seen", swap_is_seen);
    cases.run("cgroup-max-swap", max_swap);
    for round in 1..=ROUNDS {
        for pace in [SLOW, FAST] {
            let name = format!("cgroup-joint-death-{}-{round}-of-{ROUNDS}", pace.name);
            cases.run(&name, || joint_death(&pace, round));
        }
    }
}

/// A group of the case's own, removed at its end.
struct Group {
    directory: PathBuf,
}

impl Group {
    fn new(name: &str) -> Result<Self> {
        Self::below(Path::new(TOP), name)
    }

    fn below(parent: &Path, name: &str) -> Result<Self> {
        let directory = parent.join(name);
        fs::create_dir(&directory).with_context(|| format!("mkdir {}", directory.display()))?;
        Ok(Self { directory })
    }

    fn limited(name: &str, limit_mib: u64) -> Result<Self> {
        let group = Self::new(name)?;
        write(&group.directory, "memory.max", &(limit_mib * MIB).to_string())?;
        Ok(group)
    }

    /// A group in it without a limit of its own.
    fn child(&self, name: &str) -> Result<Self> {
        write(&self.directory, "cgroup.subtree_control", "+memory")?;
        Self::below(&self.directory, name)
    }

    /// As systemd delegates a scope: the directory and what is needed to make groups in it.
    fn delegate(&self, user: User) -> Result<()> {
        for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
            chown(self.directory.join(file), Some(user.uid()), Some(user.uid()))?;
        }
        Ok(())
    }

    fn event(&self, name: &str) -> Result<u64> {
        let text = fs::read_to_string(self.directory.join("memory.events"))?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.with_context(|| format!("{name} in {text}"))?.parse()?)
    }

    fn nilo(&self, user: User, options: &[&str], run: &Path, hog: &[&str]) -> Result<Output> {
        let mut nilo = in_group(&self.directory, user, NILO);
        nilo.args(["run", "-o"]).arg(run).args(options);
        Ok(nilo.args(["--", HOG]).args(hog).output()?)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for entry in fs::read_dir(&self.directory).into_iter().flatten().flatten() {
            fs::remove_dir(entry.path()).ok(); // what nilo left, if it was killed; files refuse
        }
        fs::remove_dir(&self.directory).ok(); // the guest ends anyway
    }
}

fn write(group: &Path, file: &str, value: &str) -> Result<()> {
    fs::write(group.join(file), value).with_context(|| format!("{value} to {}/{file}", group.display()))
}

fn own_group(group: &Group, user: User) -> Result<()> {
    let run = run_directory(user, "own-group");
    let output = group.nilo(user, &["-q", "--force", "--cgroup"], &run, &["100", "0"])?;
    ensure!(output.status.code() == Some(0), "{}", describe(&output));
    let report = report(user, &run)?;
    let peak = &report["peak"];
    ensure!(peak["method"] == "cgroup memory.peak" && peak["exact"] == true, "{peak}");
    let bytes = peak["bytes"].as_u64().context("a peak")?;
    ensure!((100 * MIB..108 * MIB).contains(&bytes), "100 MiB and little more: {peak}");
    let left: Vec<_> =
        fs::read_dir(&group.directory)?.flatten().filter(|entry| entry.path().is_dir()).collect();
    ensure!(left.is_empty(), "groups are left behind: {left:?}");
    Ok(())
}

fn limit_of_an_ancestor() -> Result<()> {
    let outer = Group::limited("above", 200)?;
    let inner = outer.child("below")?;
    let run = run_directory(User::Root, "ancestor");
    let output = inner.nilo(User::Root, &["-q"], &run, &["60", "0"])?;
    ensure!(output.status.code() == Some(0), "{}", describe(&output));
    let limit = &report(User::Root, &run)?["limit"];
    ensure!(limit["bytes"] == 200 * MIB, "{limit}");
    let source = limit["source"].as_str().context("a source")?;
    ensure!(source.contains("/above") && !source.contains("/below"), "{limit}");
    Ok(())
}

/// The hog is killed; nilo, in the same group, is not.
fn oom(group: &Group, mut options: Vec<&str>, limiting: &str) -> Result<()> {
    options.push("--summary=screen");
    let run = run_directory(User::Root, &format!("oom-{limiting}"));
    let output = group.nilo(User::Root, &options, &run, &["200", "0"])?;
    ensure!(output.status.code() == Some(128 + KILL), "{}", describe(&output));
    let kills = group.event("oom_kill")?;
    ensure!(kills == 1, "the kernel killed {kills}");
    let report = report(User::Root, &run)?;
    check_cause(&report, false)?;
    let said = evidence(&report);
    let counter = format!("/{limiting} rose by {kills}");
    ensure!(said.first().is_some_and(|word| word.contains(&counter)), "{counter:?} in {said:?}");
    ensure!(said.contains(&"its limit: 64.0 MiB"), "{said:?}");
    let screen = String::from_utf8_lossy(&output.stderr);
    ensure!(screen.contains("out of memory (cgroup limit)"), "{screen}");
    Ok(())
}

fn check_cause(report: &Value, inferred: bool) -> Result<()> {
    let exit = &report["exit"];
    ensure!(exit["cause"] == "cgroup-oom" && exit["inferred"] == inferred, "{exit}");
    Ok(())
}

/// A kill in a group beside ours moves the machine's counter and that of the group above both.
fn somebody_else() -> Result<()> {
    let both = Group::limited("both", 256)?;
    let (ours, theirs) = (both.child("ours")?, both.child("theirs")?);
    write(&theirs.directory, "memory.max", &(32 * MIB).to_string())?;
    let run = run_directory(User::Root, "somebody-else");
    let mut nilo = in_group(&ours.directory, User::Root, NILO);
    nilo.args(["run", "-q", "-o"]).arg(&run).args(["--", "/bin/enter"]).arg(&theirs.directory);
    nilo.args(["0", "/bin/sh", "-c", "/bin/hog 100 0; exec /bin/enter \"$0\" 0 /bin/sh -c 'kill -KILL $$'"]);
    let output = nilo.arg(&ours.directory).output()?;
    ensure!(output.status.code() == Some(128 + KILL), "{}", describe(&output));
    ensure!((theirs.event("oom_kill")?, ours.event("oom_kill")?) == (1, 0), "who was killed");
    let report = report(User::Root, &run)?;
    ensure!(report["exit"]["cause"] == "unknown-killer", "{}", report["exit"]);
    Ok(())
}

/// Swap in compressed memory, off again at the end.
struct Swap;

impl Swap {
    const DEVICE: &str = "/dev/zram0";

    fn on() -> Result<Self> {
        fs::write("/sys/block/zram0/reset", "1")?;
        fs::write("/sys/block/zram0/disksize", (256 * MIB).to_string())?;
        output_of(User::Root.command("/bin/mkswap").arg(Self::DEVICE))?;
        output_of(User::Root.command("/bin/swapon").arg(Self::DEVICE))?;
        Ok(Self)
    }
}

impl Drop for Swap {
    fn drop(&mut self) {
        output_of(User::Root.command("/bin/swapoff").arg(Self::DEVICE)).ok(); // the guest ends anyway
    }
}

/// 100 MiB in a group of 64: what does not fit is swapped out.
fn swap_is_seen() -> Result<()> {
    let (group, _swap) = (Group::limited("swapping", 64)?, Swap::on()?);
    let run = run_directory(User::Root, "swapping");
    let output = group.nilo(User::Root, &["-q"], &run, &["100", "100"])?;
    ensure!(output.status.code() == Some(0), "{}", describe(&output));
    let report = report(User::Root, &run)?;
    let swapped = report["processes"][0]["swap_max_bytes"].as_u64().context("swap")?;
    ensure!((36 * MIB..200 * MIB).contains(&swapped), "of 200 MiB {swapped} bytes are swapped out");
    ensure!(report["system"]["swap_used_max_bytes"].as_u64() > Some(36 * MIB), "{}", report["system"]);
    Ok(())
}

fn max_swap() -> Result<()> {
    let (group, _swap) = (Group::limited("no-swap", 64)?, Swap::on()?);
    let run = run_directory(User::Root, "max-swap");
    let output = group.nilo(User::Root, &["--max-swap", "20M"], &run, &["60", "200"])?;
    ensure!(output.status.code() == Some(ENDED), "{}", describe(&output));
    let report = report(User::Root, &run)?;
    let said = evidence(&report);
    ensure!(said.first().is_some_and(|word| word.contains("--max-swap 20.0 MiB crossed")), "{said:?}");
    Ok(())
}

/// `memory.oom.group`, as Kubernetes sets it: nilo dies with the hog, and the cut log must be enough.
fn joint_death(pace: &Pace, round: u32) -> Result<()> {
    let name = format!("pod-{}-{round}", pace.name);
    let group = Group::limited(&name, 128)?;
    write(&group.directory, "memory.oom.group", "1")?;
    let run = run_directory(User::Root, &name);
    let output = group.nilo(User::Root, &["-q", "--interval", pace.interval], &run, &pace.hog)?;
    ensure!(output.status.signal() == Some(KILL), "nilo itself is killed, not {}", describe(&output));
    ensure!(group.event("oom_group_kill")? == 1, "the group was not killed as one");
    let report = report(User::Root, &run)?;
    ensure!(report["data_end"]["clean"] == false, "{}", report["data_end"]);
    check_cause(&report, true)?;
    let said = evidence(&report);
    let first = said.first().context("no evidence")?;
    ensure!(first.starts_with("inferred: the log is cut at "), "{said:?}");
    ensure!(first.contains(&format!("/{name}, 128 MiB")), "{said:?}");
    let full = first.split_once(" with ").and_then(|(_, rest)| rest.split_once(" %")).context("a share")?.0;
    ensure!((pace.filled_percent..=100).contains(&full.parse::<u32>()?), "{said:?}");
    let grew = said.get(1).context("who grew")?;
    let hog = &report["processes"][0]["pid"];
    ensure!(grew.starts_with("grew last: ") && grew.contains(&format!("({hog})")), "{said:?}, hog {hog}");
    Ok(())
}
