//! Slurm, started for real on this machine with everything in the lab: one node, or several that are slurmds with names of
//! their own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::harness::{Lab, skip, text};

/// Tests of one process have ports of their own, too.
static CLUSTERS: AtomicU32 = AtomicU32::new(0);
const DAEMONS: [&str; 3] = ["munged", "slurmctld", "slurmd"];
/// How long a daemon may take to answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A cluster with everything in the lab; ends with this.
pub struct Slurm {
    pub conf: PathBuf,
    daemons: Vec<Child>,
}

impl Slurm {
    /// One node. None, with a skip, where it is not installed or we are not root.
    pub fn start(lab: &Lab) -> Option<Self> {
        Self::with_nodes(lab, &[])
    }

    /// Several nodes with these names: each slurmd, and what it starts, believes to be on a host of that name.
    pub fn with_nodes(lab: &Lab, nodes: &[&str]) -> Option<Self> {
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
        std::fs::write(&slurm.conf, configuration(lab, nodes)).expect("slurm.conf");
        let mut controller = slurm.command("/usr/sbin/slurmctld");
        slurm.daemons.push(controller.args(["-D", "-f"]).arg(&slurm.conf).spawn().expect("slurmctld"));
        if nodes.is_empty() {
            let mut slurmd = slurm.command("/usr/sbin/slurmd");
            slurm.daemons.push(slurmd.args(["-D", "-f"]).arg(&slurm.conf).spawn().expect("slurmd"));
        }
        for node in nodes {
            let mut slurmd = slurm.command("unshare");
            let named =
                "echo \"$0\" >/proc/sys/kernel/hostname && exec /usr/sbin/slurmd -D -N \"$0\" -f \"$1\"";
            slurmd.args(["--uts", "sh", "-c", named, node]).arg(&slurm.conf);
            slurm.daemons.push(slurmd.spawn().expect("slurmd"));
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

    pub fn command(&self, program: &str) -> Command {
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
            told.is_ok_and(|output| text(&output.stdout).lines().all(|line| line.trim() == "idle"))
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

pub fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Ports from our own number: tests run in parallel. Below those that the kernel gives to clients.
fn configuration(lab: &Lab, nodes: &[&str]) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    let host = host.trim().split('.').next().unwrap_or("localhost").to_owned();
    let another = CLUSTERS.fetch_add(2_503, Ordering::Relaxed);
    let port = 10_000 + (std::process::id() + another) % 5_000 * 4;
    let at = |file: &str| lab.path(file).display().to_string();
    format!(
        "ClusterName=nilo\nSlurmctldHost={host}\nAuthType=auth/munge\nAuthInfo=socket={}\nSlurmUser=root\nSlurmdUser=root\n\
         SlurmctldPort={port}\nSlurmdPort={}\nStateSaveLocation={}\nSlurmdSpoolDir={}\nSlurmctldPidFile={}\nSlurmdPidFile={}\n\
         SlurmctldLogFile={}\nSlurmdLogFile={}\nProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n\
         PropagateResourceLimits=NONE\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU_Memory\nReturnToService=2\n\
         DefMemPerNode=1000\nJobAcctGatherType=jobacct_gather/linux\nJobAcctGatherFrequency=task=1\n\
         JobAcctGatherParams=OverMemoryKill\nKillWait=2\n\
         MpiDefault=none\nMailProg=/bin/true\nSchedulerParameters=sched_min_interval=50000,batch_sched_delay=0,sched_interval=1\n\
         {}\n",
        at("munge.sock"),
        port + 1,
        at("state"),
        at("spool/%n"),
        at("ctld.pid"),
        at("slurmd.%n.pid"),
        at("ctld.log"),
        at("slurmd.%n.log"),
        nodes_of(&host, port + 2, nodes),
    )
}

/// Several slurmds of one host need ports of their own.
fn nodes_of(host: &str, port: u32, nodes: &[&str]) -> String {
    let names = if nodes.is_empty() { vec![host] } else { nodes.to_vec() };
    let node = |(place, name): (usize, &&str)| {
        let of_its_own = format!("NodeHostname={host} NodeAddr=127.0.0.1 Port={} ", port as usize + place);
        let of_its_own = if nodes.is_empty() { String::new() } else { of_its_own };
        format!("NodeName={name} {of_its_own}CPUs=2 RealMemory=4000 State=UNKNOWN\n")
    };
    let all: String = names.iter().enumerate().map(node).collect();
    format!("{all}PartitionName=test Nodes={} Default=YES MaxTime=10 State=UP", names.join(","))
}
