//! Slurm and Ray, started for real on this machine: ranks of a step, workers, sweeps as an array job and as tasks.

use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Lab, finish, finish_child, nilo_binary, py_program, text};
use crate::ranks::{assert_leak_is_named, assert_two_nodes, document, job_in, launcher, python};
use crate::schema::validate;
use crate::slurm::{Slurm, wait_until};

const MIB: f64 = 1_048_576.0;
fn sweep(lab: &Lab, options: &[&str], values: &str, variables: &[(&str, &str)]) -> (Output, Value) {
    let program = py_program("batch.py");
    let mut nilo = launcher(lab, nilo_binary());
    nilo.args(["sweep", "--set", values, "--json", "-o", "there.sweep"]).args(options);
    nilo.args(["--", python(), &program, "{batch}"]).envs(variables.iter().copied());
    let output = finish(&mut nilo);
    let document = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, document)
}

/// The same table as on this machine: 1 MiB for each unit of batch.
fn assert_table(output: &Output, document: &Value) {
    assert!(output.status.success(), "{}", text(&output.stderr));
    validate(nilometer_report::sweep::SCHEMA, document);
    assert_eq!(told(document), [(10.0, "ok"), (30.0, "ok"), (60.0, "ok")], "{document:#}");
    let slope = document["fit"]["coefficients"]["batch"].as_f64().expect("a slope");
    assert!((slope / MIB - 1.0).abs() < 0.05, "{slope}");
}

#[test]
fn slurm_tells_ranks_and_runs_a_sweep_as_one_array_job() {
    let lab = Lab::new();
    let Some(slurm) = Slurm::start(&lab) else { return };
    let conf = slurm.conf.display().to_string();
    let mut srun = launcher(&lab, "srun");
    srun.args(["-n", "2", nilo_binary(), "run", "--interval", "20ms", "--", python()]);
    srun.args([&py_program("rank_steps.py"), "1", "2", "16"]).env("SLURM_CONF", &conf);
    let output = finish(&mut srun);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let job = job_in(&lab.path(""));
    let name = job.file_name().unwrap().to_string_lossy().into_owned();
    assert!(name.starts_with("rank_steps.slurm-1.0."), "{name}");
    assert_leak_is_named(&document(&lab, &job), 2, 1, 2.0);

    let (output, document) = sweep(&lab, &["--on", "slurm"], "batch=10,30,60", &[("SLURM_CONF", &conf)]);
    assert_table(&output, &document);
    assert!(text(&output.stderr).contains("3 tasks on slurm"), "{}", text(&output.stderr));
    assert!(!lab.path("there.sweep/.array.sh").exists(), "the script has the command with its secrets");
    let (output, _) = sweep(
        &lab,
        &["--on", "slurm", "--submit=--partition=none", "--force"],
        "batch=1,2",
        &[("SLURM_CONF", &conf)],
    );
    assert_eq!(output.status.code(), Some(125));
    assert!(
        text(&output.stderr).contains("sbatch refused") && text(&output.stderr).contains("--submit"),
        "{}",
        text(&output.stderr)
    );
    drop(slurm);
}

#[test]
fn two_nodes_of_slurm_are_told_apart_and_each_is_sampled_once() {
    let lab = Lab::new();
    let Some(slurm) = Slurm::with_nodes(&lab, &["alpha", "beta"]) else { return };
    let mut srun = launcher(&lab, "srun");
    srun.args(["-N", "2", "-n", "4", nilo_binary(), "run", "--interval", "20ms", "--", python()]);
    srun.args([&py_program("rank_steps.py"), "3", "2", "60"]).env("SLURM_CONF", &slurm.conf);
    let output = finish(&mut srun);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_two_nodes(&lab, &text(&output.stderr));
    drop(slurm);
}

/// Holds so many MiB; then ends at once, or waits to be ended.
const HOLDS: &str = "import signal, sys; signal.alarm(100); held = bytearray(b'a') * (int(sys.argv[1]) << 20); \
                     len(held) > 20 << 20 and signal.pause()";

#[test]
fn what_slurm_kills_is_a_result() {
    let lab = Lab::new();
    let Some(slurm) = Slurm::start(&lab) else { return };
    let mut nilo = launcher(&lab, nilo_binary());
    nilo.args(["sweep", "--set", "batch=10,300", "--json", "-o", "there.sweep", "--on", "slurm"]);
    nilo.args(["--submit=--mem=150M", "--", python(), "-c", HOLDS, "{batch}"]).env("SLURM_CONF", &slurm.conf);
    let output = finish(&mut nilo);
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    validate(nilometer_report::sweep::SCHEMA, &document);
    assert_eq!(told(&document), [(10.0, "ok"), (300.0, "oom")], "{document:#}{}", text(&output.stderr));
    assert!(document["points"][1]["evidence"].to_string().contains("exceeded memory limit"), "{document:#}");
    drop(slurm);
}

#[test]
fn what_slurm_gives_no_more_time_is_stopped() {
    let lab = Lab::new();
    let Some(slurm) = Slurm::start(&lab) else { return };
    let mut nilo = launcher(&lab, nilo_binary());
    nilo.args(["sweep", "--set", "batch=10,30", "--json", "-o", "there.sweep", "--on", "slurm"]);
    // The shortest time that can be asked for is a minute: its end is moved instead. Slurm looks every half minute.
    nilo.args(["--", python(), "-c", HOLDS, "{batch}"]).env("SLURM_CONF", &slurm.conf);
    let nilo = nilo.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nilo");
    let large = lab.path("there.sweep/002.batch=30.r1.nilo");
    wait_until("the task that waits has begun", || {
        large.join(nilometer_trace::manifest::MANIFEST_FILE).exists()
    });
    let task = wait_for_task(&slurm);
    let mut update = slurm.command("scontrol");
    update.args(["update", &format!("JobId={task}"), "EndTime=now"]).stderr(Stdio::piped());
    let update = update.output().expect("scontrol");
    let output = finish_child(nilo);
    assert!(update.status.success(), "{task}: {}", text(&update.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    validate(nilometer_report::sweep::SCHEMA, &document);
    assert_eq!(told(&document), [(10.0, "ok"), (30.0, "stopped")], "{document:#}{}", text(&output.stderr));
    assert!(document["points"][1]["evidence"].to_string().contains("TIMEOUT"), "{document:#}");
    assert!(document["notes"].to_string().contains("ended by their scheduler"), "{document:#}");
    drop(slurm);
}

#[test]
fn a_search_on_slurm_submits_what_it_needs_and_verifies() {
    let lab = Lab::new();
    let Some(slurm) = Slurm::start(&lab) else { return };
    let conf = slurm.conf.display().to_string();
    let (output, document) = search(&lab, "batch=1..2000", &["--on", "slurm"], &[("SLURM_CONF", &conf)]);
    assert_search(&output, &document);
    drop(slurm);
}

/// `--find` of the largest batch of the known program under 150 MB.
fn search(lab: &Lab, values: &str, options: &[&str], variables: &[(&str, &str)]) -> (Output, Value) {
    let program = py_program("batch.py");
    let mut nilo = launcher(lab, nilo_binary());
    nilo.args(["sweep", "--find", values, "--limit", "150M", "--json", "-o", "found.sweep"]).args(options);
    nilo.args(["--", python(), &program, "{batch}"]).envs(variables.iter().copied());
    let output = finish(&mut nilo);
    let document = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
    (output, document)
}

/// Truth: what the program has beside the batch, measured at the smallest; each unit is a MiB.
fn assert_search(output: &Output, document: &Value) {
    assert!(output.status.success(), "{}", text(&output.stderr));
    validate(nilometer_report::sweep::SCHEMA, document);
    let fits = &document["fits"];
    let largest = fits["largest"].as_f64().expect("something fits");
    let base = document["points"][0]["peak_bytes"].as_f64().expect("a peak") / MIB - 1.0;
    let truth = (150.0 - base).floor();
    assert!((truth - largest).abs() <= 2.0, "{largest} of {truth}: {fits}");
    assert_eq!(fits["verified"], true, "{fits}");
    assert!(fits["runs"].as_u64().is_some_and(|runs| runs <= 6), "{fits}");
}

/// Parameter and outcome of each point.
fn told(document: &Value) -> Vec<(f64, &str)> {
    let points = document["points"].as_array().expect("points");
    points.iter().filter_map(|p| Some((p["params"]["batch"].as_f64()?, p["outcome"].as_str()?))).collect()
}

/// The number of the one task that runs.
fn wait_for_task(slurm: &Slurm) -> String {
    let running = || {
        let mut squeue = slurm.command("squeue");
        let output =
            squeue.args(["-h", "-t", "R", "-o", "%i"]).stdout(Stdio::piped()).output().expect("squeue");
        text(&output.stdout).trim().to_owned()
    };
    wait_until("one task runs", || running().lines().count() == 1);
    running()
}

/// The interpreter that has Ray.
fn ray() -> Option<String> {
    nilometer_lab::environment(&["ray"])
}

/// A cluster of its own for each test: in the lab, without tokens in anybody's home, and a small store.
fn ray_variables(lab: &Lab) -> Vec<(String, String)> {
    let pairs = [
        ("RAY_AUTH_MODE", "disabled"),
        ("RAY_TMPDIR", "/tmp"),
        ("RAY_USAGE_STATS_ENABLED", "0"),
        ("RAY_DISABLE_IMPORT_WARNING", "1"),
        ("RAY_DEFAULT_OBJECT_STORE_MAX_MEMORY_BYTES", "100000000"),
    ];
    let mut all: Vec<_> =
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    all.push(("HOME".to_owned(), lab.path("").display().to_string()));
    all
}

#[test]
fn ray_runs_a_sweep_as_tasks() {
    let Some(python) = ray() else { return };
    let lab = Lab::new();
    let variables = ray_variables(&lab);
    let pairs: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let (output, document) =
        sweep(&lab, &["--on", "ray", "--python", &python, "--limit", "300M"], "batch=10,30,60", &pairs);
    assert_table(&output, &document);
}

/// A cluster that was there before; it ends, with all that it started, when it is asked to.
struct RayCluster(Child);

impl RayCluster {
    fn start(lab: &Lab, python: &str, port: u32) -> Self {
        let mut ray = Command::new(python);
        ray.args([
            "-m",
            "ray.scripts.scripts",
            "start",
            "--head",
            "--block",
            "--num-cpus=2",
            "--include-dashboard=false",
        ]);
        ray.arg(format!("--port={port}"));
        ray.args(["--object-store-memory=100000000", "--disable-usage-stats"]).envs(ray_variables(lab));
        // Where others look for a cluster of this machine there must be none.
        ray.env("RAY_TMPDIR", lab.path(""));
        ray.current_dir(lab.path("")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let cluster = Self(ray.spawn().expect("ray"));
        wait_until("ray listens", || is_open(port));
        cluster
    }
}

fn is_open(port: u32) -> bool {
    std::net::TcpStream::connect(("127.0.0.1", port as u16)).is_ok()
}

impl Drop for RayCluster {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.0.id().to_string()]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn a_cluster_of_ray_that_is_there_runs_a_search() {
    let Some(python) = ray() else { return };
    let lab = Lab::new();
    let port = 30_000 + std::process::id() % 2_500;
    let cluster = RayCluster::start(&lab, &python, port);
    let variables = ray_variables(&lab);
    let pairs: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let on = format!("ray=127.0.0.1:{port}");
    let (output, document) = search(&lab, "batch=20,60,400", &["--on", &on, "--python", &python], &pairs);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        (&document["fits"]["largest"], &document["fits"]["verified"]),
        (&60.0.into(), &true.into()),
        "{document:#}"
    );
    assert!(is_open(port), "it goes on after the sweeps");
    drop(cluster);
}

#[test]
fn an_address_without_ray_is_refused_within_seconds() {
    let Some(python) = ray() else { return };
    let lab = Lab::new();
    let variables = ray_variables(&lab);
    let pairs: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let taken = listener.local_addr().expect("an address");
    let answering = std::thread::spawn(move || {
        use std::io::Write as _;
        let (mut client, _) = listener.accept().expect("a client");
        client.write_all(b"220 this is mail\r\n").expect("an answer");
    });
    for (address, why) in
        [("127.0.0.1:1".to_owned(), "refused"), (taken.to_string(), "something else listens")]
    {
        let began = Instant::now();
        let on = format!("ray={address}");
        let (output, _) = sweep(&lab, &["--on", &on, "--python", &python, "--force"], "batch=10", &pairs);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(
            said.contains(&format!("no cluster of Ray answers at {address}")) && said.contains(why),
            "{said}"
        );
        assert!(said.contains("ray status --address") && said.contains("--on ray"), "{said}");
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{:?}: with the import of Ray on a busy machine",
            began.elapsed()
        );
    }
    answering.join().expect("the listener");
}

#[test]
fn what_the_memory_monitor_of_ray_kills_is_a_result() {
    let Some(python) = ray() else { return };
    let lab = Lab::new();
    let variables = ray_variables(&lab);
    let mut strict: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    strict.extend([("RAY_memory_usage_threshold", "0.01"), ("RAY_memory_monitor_refresh_ms", "50")]);
    strict.push(("BATCH_HOLD", "1")); // until the monitor has looked
    let (output, document) =
        sweep(&lab, &["--on", "ray", "--python", &python, "--force"], "batch=5", &strict);
    assert_eq!(document["points"][0]["outcome"], "oom", "{document:#}\n{}", text(&output.stderr));
}

#[test]
fn workers_of_ray_are_ranks_with_numbers_of_their_own() {
    let Some(python) = ray() else { return };
    let lab = Lab::new();
    let mut driver = launcher(&lab, &python);
    driver.arg(py_program("ray_workers.py")).arg(nilo_binary()).arg(&python).envs(ray_variables(&lab));
    let output = finish(&mut driver);
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    let job = job_in(&lab.path("runs"));
    let found = document(&lab, &job);
    assert_eq!(found["launcher"], "ray");
    let ranks: Vec<u64> =
        found["ranks"].as_array().expect("ranks").iter().filter_map(|row| row["rank"].as_u64()).collect();
    assert!(
        ranks.len() >= 2 && ranks.iter().enumerate().all(|(place, rank)| *rank == place as u64),
        "{ranks:?}"
    );
    let large = found["ranks"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|row| row["peak_bytes"].as_f64())
        .fold(0.0, f64::max);
    assert!(large > 200.0 * MIB, "the worker that holds 200 MiB: {large}");
}
