//! Slurm and Ray, started for real on this machine: ranks of a step, workers, sweeps as an array job and as tasks.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{Lab, finish, nilo_binary, py_program, skip, text};
use crate::ranks::{assert_leak_is_named, document, job_in, launcher, python};
use crate::schema::validate;

const MIB: f64 = 1_048_576.0;
const DAEMONS: [&str; 3] = ["munged", "slurmctld", "slurmd"];
/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster of one node with everything in the lab; ends with this.
struct Slurm {
    conf: PathBuf,
    daemons: Vec<Child>,
}

impl Slurm {
    /// None, with a skip, where it is not installed or we are not root.
    fn start(lab: &Lab) -> Option<Self> {
        let installed =
            |name: &&str| ["/usr/sbin", "/sbin"].iter().any(|place| Path::new(place).join(name).exists());
        if let Some(missing) = DAEMONS.iter().find(|name| !installed(name)) {
            skip(
                "slurm",
                &format!(
                    "{missing} is not installed (Debian: apt-get install slurmctld slurmd slurm-client munge)"
                ),
            );
            return None;
        }
        if !nilometer_kernel::sys::limits::effective_uid().eq(&0) {
            skip("root", "slurmd starts tasks as other users");
            return None;
        }
        let mut slurm = Self { conf: lab.path("slurm.conf"), daemons: Vec::new() };
        for name in ["state", "spool"] {
            std::fs::create_dir(lab.path(name)).expect("a directory");
        }
        slurm.start_munge(lab);
        std::fs::write(&slurm.conf, configuration(lab)).expect("slurm.conf");
        for daemon in ["slurmctld", "slurmd"] {
            let child =
                slurm.command(&format!("/usr/sbin/{daemon}")).args(["-D", "-f"]).arg(&slurm.conf).spawn();
            slurm.daemons.push(child.expect(daemon));
        }
        slurm.wait_for_idle();
        Some(slurm)
    }

    /// Its socket must be in a place that only root writes to, all the way down; the lab is in /tmp.
    fn start_munge(&mut self, lab: &Lab) {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::write(lab.path("munge.key"), [7u8; 128]).expect("a key");
        std::fs::set_permissions(lab.path("munge.key"), std::fs::Permissions::from_mode(0o600))
            .expect("chmod");
        let option = |name: &str, file: &str| format!("--{name}={}", lab.path(file).display());
        let mut munged = Command::new("/usr/sbin/munged");
        munged.args(["--foreground", "--force"]);
        munged.args([
            option("key-file", "munge.key"),
            option("socket", "munge.sock"),
            option("seed-file", "seed"),
        ]);
        munged.args([option("pid-file", "munged.pid"), option("log-file", "munged.log")]);
        self.daemons.push(
            munged.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("munged"),
        );
        wait_until("munged listens", || lab.path("munge.sock").exists());
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("SLURM_CONF", &self.conf)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    fn wait_for_idle(&self) {
        wait_until("the node is idle", || {
            let told = self.command("sinfo").args(["-h", "-o", "%t"]).stdout(Stdio::piped()).output();
            told.is_ok_and(|output| text(&output.stdout).trim() == "idle")
        });
    }
}

impl Drop for Slurm {
    fn drop(&mut self) {
        for daemon in self.daemons.iter_mut().rev() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ports from our own number: tests run in parallel. Below those that the kernel gives to clients.
fn configuration(lab: &Lab) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim().split('.').next().unwrap_or("localhost").to_owned();
    let port = 10_000 + std::process::id() % 10_000 * 2;
    let at = |file: &str| lab.path(file).display().to_string();
    format!(
        "ClusterName=nilo\nSlurmctldHost={host}\nAuthType=auth/munge\nAuthInfo=socket={}\nSlurmUser=root\nSlurmdUser=root\n\
         SlurmctldPort={port}\nSlurmdPort={}\nStateSaveLocation={}\nSlurmdSpoolDir={}\nSlurmctldPidFile={}\nSlurmdPidFile={}\n\
         SlurmctldLogFile={}\nSlurmdLogFile={}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         PropagateResourceLimits=NONE\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU_Memory\nReturnToService=2\n\
         DefMemPerNode=1000\nJobAcctGatherType=jobacct_gather/linux\nJobAcctGatherFrequency=task=1\n\
         JobAcctGatherParams=OverMemoryKill\nKillWait=2\n\
         MpiDefault=none\nMailProg=/bin/true\nSchedulerParameters=sched_min_interval=50000,batch_sched_delay=0,sched_interval=1\n\
         NodeName={host} CPUs=2 RealMemory=4000 State=UNKNOWN\nPartitionName=test Nodes={host} Default=YES MaxTime=10 State=UP\n",
        at("munge.sock"),
        port + 1,
        at("state"),
        at("spool"),
        at("ctld.pid"),
        at("slurmd.pid"),
        at("ctld.log"),
        at("slurmd.log"),
    )
}

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
    let points = document["points"].as_array().expect("points");
    let told: Vec<(f64, &str)> = points
        .iter()
        .filter_map(|p| Some((p["params"]["batch"].as_f64()?, p["outcome"].as_str()?)))
        .collect();
    assert_eq!(told, [(10.0, "ok"), (30.0, "ok"), (60.0, "ok")], "{document:#}");
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
    let points = document["points"].as_array().expect("points");
    let told: Vec<(f64, &str)> = points
        .iter()
        .filter_map(|p| Some((p["params"]["batch"].as_f64()?, p["outcome"].as_str()?)))
        .collect();
    assert_eq!(told, [(10.0, "ok"), (300.0, "oom")], "{document:#}{}", text(&output.stderr));
    assert!(points[1]["evidence"].to_string().contains("exceeded memory limit"), "{document:#}");
    drop(slurm);
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
fn a_cluster_of_ray_that_is_there_runs_a_sweep() {
    let Some(python) = ray() else { return };
    let lab = Lab::new();
    let port = 30_000 + std::process::id() % 2_500;
    let cluster = RayCluster::start(&lab, &python, port);
    let variables = ray_variables(&lab);
    let pairs: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let on = format!("ray=127.0.0.1:{port}");
    let options = ["--on", &on, "--python", &python, "--limit", "300M"];
    let (output, document) = sweep(&lab, &options, "batch=10,30,60", &pairs);
    assert_table(&output, &document);
    assert!(is_open(port), "it goes on after the sweep");
    drop(cluster);
}

#[test]
fn what_the_memory_monitor_of_ray_kills_is_a_result() {
    let Some(python) = ray() else { return };
    let lab = Lab::new();
    let variables = ray_variables(&lab);
    let mut strict: Vec<(&str, &str)> =
        variables.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    strict.extend([("RAY_memory_usage_threshold", "0.01"), ("RAY_memory_monitor_refresh_ms", "50")]);
    let hold = [("BATCH_HOLD", "1")];
    strict.extend(hold);
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
