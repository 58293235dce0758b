//! Ranks of one job: told by hand and by Open MPI; one of them leaks, and it is named.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::harness::{Lab, finish, finish_child, nilo_binary, py_program, skip, text};
use crate::schema::validate;

const MIB: f64 = 1_048_576.0;

/// An interpreter without wrappers: pyenv's are shell scripts, whose processes would be counted.
pub fn python() -> &'static str {
    "/usr/bin/python3"
}

/// `COMMAND` in the lab, as a user of a cluster would type it.
pub fn launcher(lab: &Lab, program: impl AsRef<Path>) -> Command {
    let mut command = Command::new(program.as_ref());
    command.current_dir(lab.path("")).env("XDG_STATE_HOME", lab.path("state")).stdin(Stdio::null());
    for variable in ["NILO_DIR", "NILO_RUN", "NILO_RANK", "RANK", "WORLD_SIZE"] {
        command.env_remove(variable);
    }
    command
}

/// The one job in a directory.
pub fn job_in(directory: &Path) -> PathBuf {
    let entries = std::fs::read_dir(directory).expect("the lab").flatten().map(|entry| entry.path());
    let jobs: Vec<PathBuf> = entries.filter(|path| path.join("job.json").exists()).collect();
    assert_eq!(jobs.len(), 1, "all ranks write one directory: {jobs:?}");
    jobs.into_iter().next().unwrap()
}

pub fn document(lab: &Lab, job: &Path) -> Value {
    let output = finish(&mut lab.nilo(["report".as_ref(), job.as_os_str(), "--json".as_ref()]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = serde_json::from_slice(&output.stdout).expect("JSON");
    validate(nilometer_report::rank::SCHEMA, &document);
    document
}

/// Every rank is there, the planted one is named with its rate, and the others are not.
pub fn assert_leak_is_named(document: &Value, ranks: usize, leaky: u64, mib: f64) {
    let rows = document["ranks"].as_array().expect("ranks");
    let numbers: Vec<u64> = rows.iter().filter_map(|row| row["rank"].as_u64()).collect();
    assert_eq!(numbers, (0..ranks as u64).collect::<Vec<_>>(), "{document:#}");
    assert_eq!(document["comparison"]["outliers"], serde_json::json!([leaky]), "{document:#}");
    let rate = rows[leaky as usize]["growth"]["bytes"].as_f64().expect("a rate") / MIB;
    assert!((rate / mib - 1.0).abs() < 0.1, "rank {leaky} grows {mib} MiB a step, told {rate}");
    let sentence = document["sentence"].as_str().expect("a sentence");
    assert!(sentence.starts_with(&format!("rank {leaky} grows {mib:.1} MiB/step")), "{sentence}");
    let others = document["comparison"]["others"][1].as_f64().expect("others");
    assert!(others < 0.1 * MIB, "{sentence}");
}

/// How often a rank looked at the machine.
pub fn system_ticks(lab: &Lab, job: &Path, rank: u64) -> u64 {
    let job = job.display().to_string();
    let output = finish(&mut lab.nilo(["export", &job, "--rank", &rank.to_string(), "--format", "csv"]));
    text(&output.stdout).lines().filter(|line| line.contains(",during,")).count() as u64
}

/// Ranks 0 and 1 on `alpha`, 2 and 3 on `beta`; rank 3 leaks 2 MiB a step; one rank of each node samples it, and speaks.
pub fn assert_two_nodes(lab: &Lab, said: &str) {
    let job = job_in(&lab.path(""));
    let found = document(lab, &job);
    assert_leak_is_named(&found, 4, 3, 2.0);
    let rows = found["ranks"].as_array().expect("ranks");
    let nodes: Vec<&str> = rows.iter().filter_map(|row| row["node"].as_str()).collect();
    assert_eq!(nodes, ["alpha", "alpha", "beta", "beta"], "{found:#}");
    for (rank, node) in nodes.iter().enumerate() {
        let place = job.join(format!("node={node}/rank={rank}/restart=0"));
        assert!(place.is_dir(), "{}", place.display());
    }
    let sampled: Vec<u64> = (0..4).map(|rank| system_ticks(lab, &job, rank)).collect();
    for ranks in sampled.chunks(2) {
        // Who does not sample looks once, at the end.
        let (less, more) = (ranks.iter().min().unwrap(), ranks.iter().max().unwrap());
        assert!(*less <= 1 && *more > 1, "one rank of each node samples it: {sampled:?}");
    }
    assert_eq!(said.matches("2 ranks on 1 node").count(), 2, "one rank of each node speaks: {said}");
}

/// Ranks by hand: a launcher that we do not know.
fn by_hand(lab: &Lab, ranks: u64, options: &[&str], program: &[&str]) -> Vec<Output> {
    let start = |rank: u64| {
        let mut nilo = launcher(lab, nilo_binary());
        nilo.arg("run").args(options).arg("--").args(program);
        nilo.env("NILO_RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string()).env("NILO_RUN", "mine");
        nilo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn")
    };
    let children: Vec<_> = (0..ranks).map(start).collect();
    children.into_iter().map(finish_child).collect()
}

#[test]
fn ranks_by_hand_share_a_directory_and_one_of_them_speaks() {
    let lab = Lab::new();
    let program = py_program("rank_steps.py");
    let spool = lab.path("fast").display().to_string();
    let options = ["--interval", "20ms", "--spool", &spool];
    let outputs = by_hand(&lab, 3, &options, &[python(), &program, "2", "2", "16"]);
    for (rank, output) in outputs.iter().enumerate() {
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(output.stderr.is_empty(), rank != 0, "rank {rank}: {}", text(&output.stderr));
    }
    assert!(text(&outputs[0].stderr).contains("3 ranks on 1 node"), "{}", text(&outputs[0].stderr));
    assert_eq!(std::fs::read_dir(&spool).expect("the spool").count(), 0, "all came home");
    let job = job_in(&lab.path(""));
    assert_eq!(job, lab.path("mine.nilo"));
    assert_leak_is_named(&document(&lab, &job), 3, 2, 2.0);
    verbs_accept_it(&lab);
}

/// Every reading verb, on the job of three ranks in `mine.nilo`.
fn verbs_accept_it(lab: &Lab) {
    let said = |arguments: &[&str]| {
        let output = finish(&mut lab.nilo(arguments));
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    let (code, out, err) = said(&["leak", "mine.nilo", "--json"]);
    let verdict: Value = serde_json::from_str(&out).expect("JSON");
    let rate = verdict["rate_bytes_per_step"].as_f64().expect("a rate") / MIB;
    // The rate is checked by the table; here, that it is that rank's.
    assert!(code == Some(1) && verdict["class"] == "grows" && (1.5..2.5).contains(&rate), "{rate} {err}");
    assert!(err.contains("using rank 2 of mine.nilo, which grows most; there are ranks 0–2"), "{err}");
    let (code, _, err) = said(&["leak", "mine.nilo", "--rank", "1", "-q"]);
    assert!(matches!(code, Some(0 | 3)) && err.is_empty(), "{code:?} {err}");
    let (code, _, err) = said(&["report", "mine.nilo", "--rank", "7"]);
    assert!(code == Some(2) && err.contains("has no rank 7; it has ranks 0–2"), "{err}");
    let (code, out, _) = said(&["report", "mine.nilo", "--rank", "1"]);
    assert!(code == Some(0) && out.contains("Memory of the tree"), "{out}");
    let (code, out, _) = said(&["list"]);
    assert!(code == Some(0) && out.contains("3 ranks") && out.contains("mine.nilo"), "{out}");
    assert_eq!(said(&["plot", "mine.nilo", "-o", "all.svg"]).0, Some(0));
    let picture = std::fs::read_to_string(lab.path("all.svg")).expect("a picture");
    assert!(picture.contains("rank 2"), "all ranks on one chart");
    assert_eq!(said(&["plot", "mine.nilo", "--view", "ranks", "-o", "strip.svg"]).0, Some(0));
    let picture = std::fs::read_to_string(lab.path("strip.svg")).expect("a picture");
    assert!(["rank 0", "rank 1", "rank 2"].iter().all(|rank| picture.contains(rank)), "a row for each");
    let (code, out, _) = said(&["export", "mine.nilo", "--format", "csv"]);
    assert!(code == Some(0) && out.starts_with("seconds,"));
    let (code, _, err) = said(&["export", "mine.nilo", "--format", "parquet", "-o", "tables"]);
    assert!(code == Some(0) && lab.path("tables/run=mine").exists(), "{err}");
    let (code, out, err) = said(&["compare", "mine.nilo", "mine.nilo"]);
    assert!(code == Some(0) && out.contains("3 runs") && !out.contains("$NILO_RANK"), "{out}{err}");
    let (code, _, err) = said(&["where", "mine.nilo", "--rank", "0"]);
    assert!(code == Some(5) && err.contains("has no ledger"), "{code:?} {err}");
    let (code, _, err) = said(&["report", "mine.nilo/node=x"]);
    assert!(code == Some(125) && err.contains("does not exist"), "{err}");
    let (code, out, err) = said(&["merge", "mine.nilo", "--json"]);
    let merged: Value = serde_json::from_str(&out).expect("JSON");
    assert!(code == Some(0) && merged["ranks"] == 3 && merged["files"] == 2, "{out}{err}");
    assert!(merged["step_skew_s"].as_f64().is_some_and(|skew| skew < 30.0), "{out}");
    let (code, _, err) = said(&["merge", "mine.nilo"]);
    assert!(code == Some(125) && err.contains("--force"), "{err}");
}

#[test]
fn a_command_that_cannot_start_leaves_no_job_behind() {
    let lab = Lab::new();
    let outputs = by_hand(&lab, 1, &[], &["/nonexistent/program"]);
    assert_eq!(outputs[0].status.code(), Some(127));
    assert!(!lab.path("mine.nilo").exists());
}

#[test]
fn a_rank_of_a_sweep_is_none() {
    let lab = Lab::new();
    let mut nilo = launcher(&lab, nilo_binary());
    nilo.args(["sweep", "-q", "--set", "n=1,2", "-o", "s.sweep", "--", "sh", "-c", "exit $((0*{n}))"]);
    nilo.envs([("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "h")]);
    let output = finish(&mut nilo);
    assert!(text(&output.stdout).contains("2 runs"), "{}{}", text(&output.stdout), text(&output.stderr));
    let found = std::fs::read_dir(lab.path("s.sweep")).expect("the sweep").flatten();
    assert_eq!(found.filter(|entry| entry.path().join("job.json").exists()).count(), 0);
}

fn has_mpi() -> bool {
    let found = Command::new("mpirun").arg("--version").stdin(Stdio::null()).output();
    let there = found.is_ok_and(|output| text(&output.stdout).contains("Open MPI"));
    if !there {
        skip("mpirun", "Open MPI is not installed (Debian: apt-get install openmpi-bin)");
    }
    there
}

fn mpirun(lab: &Lab, ranks: u32) -> Command {
    let mut mpirun = launcher(lab, "mpirun");
    mpirun.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string()]);
    mpirun
}

/// Stands in for ssh: whoever is started with it believes to be on a host of that name.
const AGENT: &str = "#!/bin/sh
host=$1
shift
exec unshare --uts sh -c 'echo \"$0\" >/proc/sys/kernel/hostname; exec sh -c \"$1\"' \"$host\" \"$*\"
";

#[test]
fn two_nodes_of_open_mpi_are_told_apart_and_each_is_sampled_once() {
    use std::os::unix::fs::PermissionsExt as _;
    if !has_mpi() {
        return;
    }
    if nilometer_kernel::sys::limits::effective_uid() != 0 {
        skip("root", "a host name of its own needs a UTS namespace");
        return;
    }
    let lab = Lab::new();
    let agent = lab.path("agent.sh");
    std::fs::write(&agent, AGENT).expect("a script");
    std::fs::set_permissions(&agent, std::fs::Permissions::from_mode(0o700)).expect("chmod");
    let mut ranks = mpirun(&lab, 4);
    ranks.args(["--host", "alpha:2,beta:2", "--mca", "plm_rsh_agent"]).arg(&agent);
    ranks.args(["--mca", "btl_tcp_if_include", "lo", "--mca", "oob_tcp_if_include", "lo"]);
    ranks.args([nilo_binary(), "run", "--interval", "20ms", "--", python()]);
    let output = finish(ranks.args([&py_program("rank_steps.py"), "3", "2", "60"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_two_nodes(&lab, &text(&output.stderr));
}

#[test]
fn open_mpi_tells_ranks_inside_and_outside() {
    if !has_mpi() {
        return;
    }
    let lab = Lab::new();
    let program = py_program("rank_steps.py");
    let mut inner = mpirun(&lab, 3);
    inner.args([nilo_binary(), "run", "--interval", "20ms", "--", python(), &program, "1", "2", "16"]);
    let output = finish(&mut inner);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let job = job_in(&lab.path(""));
    let found = document(&lab, &job);
    assert_leak_is_named(&found, 3, 1, 2.0);
    assert_eq!((found["launcher"].as_str(), found["world_size"].as_u64()), (Some("openmpi"), Some(3)));
    assert!(text(&output.stderr).contains("rank 1 grows 2.0 MiB/step"), "{}", text(&output.stderr));

    let words =
        ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "3", python(), &program, "1", "2", "16"];
    let outer = lab.run(&["--interval", "20ms"], &words);
    assert_eq!(outer.code(), Some(0), "{}", outer.stderr());
    let rows = outer.report["ranks"].as_array().expect("ranks");
    assert_eq!(rows.iter().filter_map(|row| row["rank"].as_u64()).collect::<Vec<_>>(), [0, 1, 2]);
    let rate = rows[1]["growth"]["bytes"].as_f64().expect("a rate") / MIB;
    assert!((rate / 2.0 - 1.0).abs() < 0.1, "{rate}");
    assert!(outer.stderr().contains("rank 1 grows 2.0 MiB/step"), "the same sentence: {}", outer.stderr());
}
