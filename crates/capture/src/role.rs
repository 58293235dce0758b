//! What a process of the tree is for, told from evidence and never guessed without saying so.

use nilometer_trace::record::Role;

/// What can be read of a process when it appears or becomes another program.
#[derive(Debug, Clone, Default)]
pub struct Evidence<'a> {
    pub parent_pid: i32,
    pub is_direct_child: bool,
    pub comm: &'a str,
    pub arguments: &'a [String],
    /// Arguments of the parent, if the parent is a known member of the tree.
    pub parent_arguments: Option<&'a [String]>,
    /// Rank variable and its value, if its own environment has one that its parent's has not.
    pub own_rank: Option<(&'a str, &'a str)>,
    /// How many members of the tree have been given this stem before (for numbering workers).
    pub workers_before: u32,
}

/// Variables by which launchers tell a process its rank, most specific first.
pub const RANK_VARIABLES: [&str; 6] =
    ["RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "SLURM_PROCID", "LOCAL_RANK"];

/// The name that PyTorch gives the main thread of a DataLoader worker (cut to 15 bytes by the kernel).
pub const DATA_WORKER_COMM: &str = "pt_data_worker";

const SHELLS: [&str; 9] = ["sh", "bash", "dash", "zsh", "ksh", "fish", "ash", "csh", "tcsh"];

const LAUNCHERS: [&str; 14] = [
    "torchrun",
    "torch.distributed.run",
    "torch.distributed.launch",
    "accelerate",
    "accelerate.commands.launch",
    "deepspeed",
    "horovodrun",
    "mpirun",
    "mpiexec",
    "orterun",
    "prterun",
    "srun",
    "hydra_pmi_proxy",
    "ray",
];

/// Python's own helper processes, told from the code on their command line (`-c from multiprocessing…`).
const PYTHON_HELPERS: [(&str, &str); 4] = [
    ("multiprocessing.resource_tracker", "resource tracker"),
    ("multiprocessing.semaphore_tracker", "resource tracker"),
    ("multiprocessing.forkserver", "fork server"),
    ("multiprocessing.spawn", "spawned worker"),
];

/// The rules in order; the first that has evidence wins.
pub fn tell(e: &Evidence<'_>) -> Role {
    data_worker(e)
        .or_else(|| python_helper(e))
        .or_else(|| rank(e))
        .or_else(|| main(e))
        .or_else(|| launcher(e))
        .or_else(|| shell(e))
        .or_else(|| fork(e))
        .unwrap_or_else(|| program(e))
}

/// A process that ended while we looked has no command line any more.
fn program(e: &Evidence<'_>) -> Role {
    let evidence = if e.arguments.is_empty() { "its name alone" } else { "its own command line" };
    role("program", evidence)
}

fn role(name: impl Into<String>, evidence: impl Into<String>) -> Role {
    Role { name: name.into(), evidence: evidence.into() }
}

fn data_worker(e: &Evidence<'_>) -> Option<Role> {
    (e.comm == DATA_WORKER_COMM)
        .then(|| role(format!("DataLoader worker {}", e.workers_before), "thread name pt_data_worker"))
}

fn python_helper(e: &Evidence<'_>) -> Option<Role> {
    // A helper's own forks (the workers of a fork server) keep its command line.
    if is_fork(e) {
        return None;
    }
    let code = e.arguments.iter().find(|a| a.contains("multiprocessing."))?;
    let (module, name) = PYTHON_HELPERS.iter().find(|(module, _)| code.contains(module))?;
    Some(role(*name, format!("command line imports {module}")))
}

fn rank(e: &Evidence<'_>) -> Option<Role> {
    let (variable, value) = e.own_rank?;
    Some(role(format!("rank {value}"), format!("{variable}={value} in its environment, not in its parent's")))
}

fn main(e: &Evidence<'_>) -> Option<Role> {
    if !e.is_direct_child {
        return None;
    }
    let kind = launcher(e).or_else(|| shell(e));
    Some(kind.unwrap_or_else(|| role("main", "started by nilo")))
}

fn launcher(e: &Evidence<'_>) -> Option<Role> {
    let is_launcher = |word: &&str| LAUNCHERS.contains(word);
    // The program itself, or what an interpreter runs: `python -m torch.distributed.run`, `python …/torchrun`.
    let word = e.arguments.iter().take(3).map(|a| base_name(a)).find(is_launcher)?;
    Some(role("launcher", format!("runs {word}")))
}

fn shell(e: &Evidence<'_>) -> Option<Role> {
    let program = base_name(e.arguments.first()?).trim_start_matches('-');
    SHELLS.contains(&program).then(|| role("shell", format!("runs {program}")))
}

fn is_fork(e: &Evidence<'_>) -> bool {
    !e.arguments.is_empty() && e.parent_arguments.is_some_and(|parent| parent == e.arguments)
}

fn fork(e: &Evidence<'_>) -> Option<Role> {
    is_fork(e).then(|| role(format!("fork of {}", e.parent_pid), "same command line as its parent"))
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &str) -> Vec<String> {
        line.split(' ').map(str::to_owned).collect()
    }

    fn name(e: &Evidence<'_>) -> String {
        tell(e).name
    }

    #[test]
    fn the_direct_child_is_main_unless_it_is_a_shell_or_a_launcher() {
        let direct = |line| {
            let a = arguments(line);
            name(&Evidence { is_direct_child: true, arguments: &a, ..Default::default() })
        };
        assert_eq!(direct("python train.py"), "main");
        assert_eq!(direct("/bin/sh -c x"), "shell");
        assert_eq!(direct("-bash"), "shell");
        assert_eq!(direct("/opt/bin/torchrun --nproc-per-node 2 train.py"), "launcher");
        assert_eq!(direct("python -m torch.distributed.run train.py"), "launcher");
    }

    #[test]
    fn python_helpers_are_known_by_their_code() {
        let tracker = [
            "python".to_owned(),
            "-c".to_owned(),
            "from multiprocessing.resource_tracker import main;main(5)".to_owned(),
        ];
        assert_eq!(name(&Evidence { arguments: &tracker, ..Default::default() }), "resource tracker");
        let spawned = [
            "python".to_owned(),
            "-c".to_owned(),
            "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=6, pipe_handle=8)"
                .to_owned(),
        ];
        assert_eq!(name(&Evidence { arguments: &spawned, ..Default::default() }), "spawned worker");
    }

    #[test]
    fn forks_of_a_fork_server_are_forks() {
        let server = [
            "python".to_owned(),
            "-c".to_owned(),
            "from multiprocessing.forkserver import main; main(7, 8, ['__main__'])".to_owned(),
        ];
        assert_eq!(name(&Evidence { arguments: &server, ..Default::default() }), "fork server");
        let worker = Evidence {
            parent_pid: 9,
            arguments: &server,
            parent_arguments: Some(&server),
            ..Default::default()
        };
        assert_eq!(name(&worker), "fork of 9");
    }

    #[test]
    fn without_a_command_line_nothing_is_a_fork() {
        let ended = Evidence { parent_pid: 7, parent_arguments: Some(&[]), ..Default::default() };
        assert_eq!(tell(&ended), role("program", "its name alone"));
    }

    #[test]
    fn forks_workers_and_ranks() {
        let a = arguments("python train.py");
        let fork =
            Evidence { parent_pid: 7, arguments: &a, parent_arguments: Some(&a), ..Default::default() };
        assert_eq!(name(&fork), "fork of 7");
        let worker = Evidence { comm: DATA_WORKER_COMM, workers_before: 3, ..fork.clone() };
        assert_eq!(name(&worker), "DataLoader worker 3");
        let ranked = Evidence { own_rank: Some(("RANK", "5")), ..fork };
        assert_eq!(name(&ranked), "rank 5");
        let other = arguments("gcc a.c");
        let program = Evidence { arguments: &other, parent_arguments: Some(&a), ..Default::default() };
        assert_eq!(name(&program), "program");
    }
}
