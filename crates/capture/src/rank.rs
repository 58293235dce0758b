//! Which rank of which job this is, told from the variables that launchers set.
//!
//! The one invariant: all ranks of one job get the same [`Rank::key`], on whichever node they ask.

use std::ffi::{OsStr, OsString};

/// Says the rank by hand, or `none`: no rank, whatever a launcher says.
pub const RANK_VARIABLE: &str = "NILO_RANK";
/// The directory of the job, for launchers that give it no name, or because another is wanted.
pub const RUN_VARIABLE: &str = "NILO_RUN";

/// torchrun's name for a job that was given none.
const NO_ID: &str = "none";
const RAY_WORKER: &str = "default_worker.py";
const RAY_SESSION: &str = "--session-name=";

/// What a launcher told one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rank {
    pub launcher: &'static str,
    /// Absent where the launcher does not number its processes (Ray): the next free number is taken.
    pub rank: Option<u64>,
    pub local: Option<u64>,
    pub world: Option<u64>,
    pub restart: u64,
    /// As the launcher calls the job, the same on all nodes.
    pub id: Option<String>,
    /// No other job ever has this name.
    pub unique: bool,
    /// By this variable the launcher is told from its children.
    pub variable: &'static str,
}

impl Rank {
    /// What all ranks of the job, and no other job of this launcher, have in common. Not unique in time unless `unique`.
    pub fn key(&self) -> Option<String> {
        Some(format!("{} {}", self.launcher, self.id.as_deref()?))
    }
}

/// The variables of a process.
struct Variables<'a>(&'a [(OsString, OsString)]);

impl Variables<'_> {
    fn text(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known == OsStr::new(name))?;
        found.1.to_str().map(str::trim).filter(|value| !value.is_empty())
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.text(name)?.parse().ok()
    }

    /// The first of these that is a number.
    fn any(&self, names: &[&str]) -> Option<u64> {
        names.iter().find_map(|name| self.number(name))
    }
}

/// The rank of a process with these variables that is to run `command`; none where no launcher started it.
pub fn tell(environment: &[(OsString, OsString)], command: &[OsString]) -> Option<Rank> {
    let v = Variables(environment);
    match v.text(RANK_VARIABLE) {
        Some("none") => return None,
        Some(_) => return by_hand(&v),
        None => {}
    }
    ray(&v, command)
        .or_else(|| torchrun(&v))
        .or_else(|| by_variables(&v))
        .or_else(|| open_mpi(&v))
        .or_else(|| slurm(&v))
        .or_else(|| hydra(&v))
}

fn by_hand(v: &Variables<'_>) -> Option<Rank> {
    Some(Rank {
        launcher: "hand",
        rank: Some(v.number(RANK_VARIABLE)?),
        local: v.number("LOCAL_RANK"),
        world: v.number("WORLD_SIZE"),
        id: slurm_step(v),
        unique: slurm_step(v).is_some(),
        variable: RANK_VARIABLE,
        ..Rank::default()
    })
}

/// Every torchrun gives a number of its own nowadays; older ones say `none`, and then the meeting point must do.
fn torchrun(v: &Variables<'_>) -> Option<Rank> {
    let run = v.text("TORCHELASTIC_RUN_ID")?;
    let meeting = format!("{}:{}", v.text("MASTER_ADDR").unwrap_or(""), v.text("MASTER_PORT").unwrap_or(""));
    let id = if run == NO_ID { meeting } else { run.to_owned() };
    let step = slurm_step(v);
    Some(Rank {
        launcher: "torchrun",
        rank: Some(v.number("RANK")?),
        local: v.number("LOCAL_RANK"),
        world: v.number("WORLD_SIZE"),
        restart: v.number("TORCHELASTIC_RESTART_COUNT").unwrap_or(0),
        unique: is_uuid(run) || step.is_some(),
        id: Some(step.map_or_else(|| id.clone(), |step| format!("{id}@{step}"))),
        variable: "RANK",
    })
}

/// `RANK` and `WORLD_SIZE` as `DeepSpeed`, Kubeflow, a script of one's own set them. Where a launcher below knows of more
/// processes, they were left over from elsewhere.
fn by_variables(v: &Variables<'_>) -> Option<Rank> {
    let (rank, world) = (v.number("RANK")?, v.number("WORLD_SIZE")?);
    let below = v.any(&["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]).or_else(|| slurm(v)?.world).unwrap_or(0);
    if rank >= world || world < below {
        return None;
    }
    let meeting = v.text("MASTER_ADDR").map(|host| format!("{host}:{}", v.text("MASTER_PORT").unwrap_or("")));
    let step = slurm_step(v);
    Some(Rank {
        launcher: "environment",
        rank: Some(rank),
        local: v.any(&["LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"]),
        world: Some(world),
        restart: v.number("SLURM_RESTART_COUNT").unwrap_or(0),
        unique: step.is_some(),
        id: step.or(meeting),
        variable: "RANK",
    })
}

fn open_mpi(v: &Variables<'_>) -> Option<Rank> {
    Some(Rank {
        launcher: "openmpi",
        rank: Some(v.number("OMPI_COMM_WORLD_RANK")?),
        local: v.number("OMPI_COMM_WORLD_LOCAL_RANK"),
        world: v.number("OMPI_COMM_WORLD_SIZE"),
        id: v.text("PMIX_NAMESPACE").or_else(|| v.text("OMPI_MCA_ess_base_jobid")).map(str::to_owned),
        variable: "OMPI_COMM_WORLD_RANK",
        ..Rank::default()
    })
}

/// A step of `srun`. A batch script is no rank, though it is told one.
fn slurm(v: &Variables<'_>) -> Option<Rank> {
    Some(Rank {
        launcher: "slurm",
        rank: Some(v.number("SLURM_PROCID")?),
        local: v.number("SLURM_LOCALID"),
        world: v.any(&["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]),
        restart: v.number("SLURM_RESTART_COUNT").unwrap_or(0),
        id: Some(slurm_step(v)?),
        unique: true,
        variable: "SLURM_PROCID",
    })
}

/// `JOB.STEP` of this cluster.
fn slurm_step(v: &Variables<'_>) -> Option<String> {
    let step = v.text("SLURM_STEP_ID").or_else(|| v.text("SLURM_STEPID"))?;
    let step = format!("{}.{step}", v.text("SLURM_JOB_ID")?);
    Some(v.text("SLURM_CLUSTER_NAME").map_or_else(|| step.clone(), |cluster| format!("{step}@{cluster}")))
}

/// MPICH and Intel MPI: the manager gives the job no name.
fn hydra(v: &Variables<'_>) -> Option<Rank> {
    Some(Rank {
        launcher: "mpich",
        rank: Some(v.any(&["PMI_RANK", "PMIX_RANK"])?),
        local: v.number("MPI_LOCALRANKID"),
        world: v.number("PMI_SIZE"),
        id: v.text("PMIX_NAMESPACE").map(str::to_owned),
        variable: if v.number("PMI_RANK").is_some() { "PMI_RANK" } else { "PMIX_RANK" },
        ..Rank::default()
    })
}

/// A worker of Ray, known by its program: tasks that start something inherit its variables and are no workers.
fn ray(v: &Variables<'_>, command: &[OsString]) -> Option<Rank> {
    let words = || command.iter().filter_map(|word| word.to_str());
    words().find(|word| word.ends_with(RAY_WORKER))?;
    let session = words().find_map(|word| word.strip_prefix(RAY_SESSION))?;
    let job = v.text("RAY_JOB_ID").map(|job| format!("/{job}")).unwrap_or_default();
    Some(Rank {
        launcher: "ray",
        id: Some(format!("{session}{job}")),
        unique: true,
        variable: "RAY_RAYLET_PID",
        ..Rank::default()
    })
}

fn is_uuid(text: &str) -> bool {
    text.bytes().filter(u8::is_ascii_hexdigit).count() >= 32
        && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-')
}

/// A short word for the directory: `torchrun-d3ce8904`, `slurm-17.0`.
pub fn short_name(rank: &Rank) -> String {
    const LONGEST: usize = 16;
    let Some(id) = &rank.id else { return rank.launcher.to_owned() };
    let id = id.strip_prefix("session_").unwrap_or(id);
    let id = id.split('@').next().unwrap_or(id);
    let id = if is_uuid(id) { id.get(..8).unwrap_or(id) } else { id };
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '.' { c } else { '_' };
    let id: String = id.chars().map(plain).take(LONGEST).collect();
    format!("{}-{id}", rank.launcher)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told_with(pairs: &str, command: &[&str]) -> Option<Rank> {
        let pair = |word: &str| word.split_once('=').map(|(name, value)| (name.into(), value.into()));
        let environment: Vec<_> = pairs.split_whitespace().filter_map(pair).collect();
        tell(&environment, &command.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn told(pairs: &str) -> Option<Rank> {
        told_with(pairs, &["python", "train.py"])
    }

    /// As torchrun 2.15 sets them.
    const TORCHRUN: &str = "GROUP_RANK=0 LOCAL_RANK=1 MASTER_ADDR=localhost MASTER_PORT=37941 RANK=1 WORLD_SIZE=2 \
        TORCHELASTIC_RESTART_COUNT=2 TORCHELASTIC_RUN_ID=d3ce8904-379c-42b6-b7b3-75d4493014a8";
    /// As srun 22.05 sets them.
    const SRUN: &str = "SLURM_CLUSTER_NAME=c SLURM_JOB_ID=17 SLURM_LOCALID=1 SLURM_NODEID=0 SLURM_NTASKS=2 \
        SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2";
    /// As Open MPI 4.1 sets them.
    const MPIRUN: &str = "OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_RANK=5 OMPI_COMM_WORLD_SIZE=8 \
        PMIX_NAMESPACE=460914689 PMIX_RANK=5";

    #[test]
    fn torchrun_tells_all() {
        let rank = told(TORCHRUN).unwrap();
        assert_eq!(
            (rank.launcher, rank.rank, rank.local, rank.world),
            ("torchrun", Some(1), Some(1), Some(2))
        );
        assert_eq!((rank.restart, rank.unique), (2, true));
        assert_eq!(short_name(&rank), "torchrun-d3ce8904");
    }

    #[test]
    fn a_job_without_a_name_is_known_by_its_meeting_point() {
        let none = TORCHRUN.replace("d3ce8904-379c-42b6-b7b3-75d4493014a8", "none");
        let rank = told(&none).unwrap();
        assert_eq!((rank.id.as_deref(), rank.unique), (Some("localhost:37941"), false));
        assert_eq!(short_name(&rank), "torchrun-localhost_37941");
        assert!(!told(&TORCHRUN.replace("d3ce8904-379c-42b6-b7b3-75d4493014a8", "456")).unwrap().unique);
        assert!(told(&format!("{none} {SRUN}")).unwrap().unique, "within a step of Slurm");
    }

    #[test]
    fn a_step_of_slurm_is_a_rank_and_its_batch_script_is_not() {
        let rank = told(SRUN).unwrap();
        assert_eq!((rank.launcher, rank.rank, rank.world, rank.unique), ("slurm", Some(1), Some(2), true));
        assert_eq!(rank.key().as_deref(), Some("slurm 17.0@c"));
        assert_eq!(short_name(&rank), "slurm-17.0");
        assert_eq!(told("SLURM_JOB_ID=17 SLURM_PROCID=0 SLURM_NTASKS=1"), None);
        assert_eq!(told(&format!("{SRUN} SLURM_RESTART_COUNT=3")).unwrap().restart, 3);
    }

    #[test]
    fn mpi_is_told_by_either_implementation() {
        let rank = told(MPIRUN).unwrap();
        assert_eq!(
            (rank.launcher, rank.rank, rank.local, rank.world),
            ("openmpi", Some(5), Some(1), Some(8))
        );
        let rank = told("PMI_RANK=3 PMI_SIZE=4 MPI_LOCALRANKID=1").unwrap();
        assert_eq!(
            (rank.launcher, rank.rank, rank.local, rank.id.as_deref()),
            ("mpich", Some(3), Some(1), None)
        );
        assert_eq!(rank.key(), None);
    }

    #[test]
    fn the_innermost_launcher_counts_unless_it_knows_of_fewer() {
        let inner = "RANK=9 WORLD_SIZE=16 LOCAL_RANK=1 MASTER_ADDR=h MASTER_PORT=1";
        let rank = told(&format!("{inner} {SRUN}")).unwrap();
        assert_eq!((rank.launcher, rank.rank, rank.id.as_deref()), ("environment", Some(9), Some("17.0@c")));
        let stale = "RANK=0 WORLD_SIZE=1";
        assert_eq!(told(&format!("{stale} {SRUN}")).unwrap().launcher, "slurm");
        assert_eq!(told(&format!("{stale} {MPIRUN}")).unwrap().launcher, "openmpi");
        assert_eq!(told("RANK=3"), None, "a rank of how many?");
        assert_eq!(told("RANK=3 WORLD_SIZE=2"), None);
        assert_eq!(told("LOCAL_RANK=3"), None);
    }

    #[test]
    fn a_worker_of_ray_is_known_by_its_command() {
        let worker =
            ["python", "/x/ray/_private/workers/default_worker.py", "--session-name=session_2026-11-16_09"];
        let rank = told_with("RAY_JOB_ID=01000000", &worker).unwrap();
        assert_eq!((rank.launcher, rank.rank, rank.unique), ("ray", None, true));
        assert_eq!(rank.id.as_deref(), Some("session_2026-11-16_09/01000000"));
        assert_eq!(told("RAY_JOB_ID=01000000"), None, "a task that starts something is no worker");
    }

    #[test]
    fn by_hand_comes_first_and_none_is_none() {
        let rank = told(&format!("{MPIRUN} NILO_RANK=7")).unwrap();
        assert_eq!((rank.launcher, rank.rank), ("hand", Some(7)));
        assert_eq!(told(&format!("{MPIRUN} NILO_RANK=none")), None);
        assert_eq!(told("NILO_RANK=seven"), None);
    }
}
