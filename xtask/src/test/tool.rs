//! The programs that the tests need besides Rust. Where we may install, a missing one is installed.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};

/// A program, how to see that it works, and the Debian packages that bring it.
struct Tool {
    what: &'static str,
    probe: &'static [&'static str],
    packages: &'static [&'static str],
    /// The tests need it; otherwise only the benchmarks do.
    required: bool,
}

const TOOLS: &[Tool] = &[
    Tool {
        what: "a C compiler",
        probe: &["cc", "--version"],
        packages: &["gcc", "libc6-dev"],
        required: true,
    },
    Tool { what: "Python 3", probe: &["python3", "--version"], packages: &["python3"], required: true },
    Tool { what: "bash", probe: &["bash", "--version"], packages: &["bash"], required: true },
    Tool { what: "Open MPI", probe: &["mpirun", "--version"], packages: &["openmpi-bin"], required: false },
    Tool {
        what: "Slurm",
        probe: &[
            "sh",
            "-c",
            "PATH=$PATH:/usr/sbin; sinfo --version && slurmd -V && slurmctld -V && munged --version",
        ],
        packages: &["slurmctld", "slurmd", "slurm-client", "munge"],
        required: false,
    },
    Tool { what: "valgrind", probe: &["valgrind", "--version"], packages: &["valgrind"], required: false },
    Tool { what: "gcore", probe: &["gdb", "--version"], packages: &["gdb"], required: false },
    Tool {
        what: "Python's venv",
        probe: &["python3", "-c", "import venv, ensurepip"],
        packages: &["python3", "python3-venv"],
        required: false,
    },
];

/// True when all tools that the tests need are there, if need be after installing them.
pub fn ensure_all() -> Result<bool> {
    let missing: Vec<&Tool> = TOOLS.iter().filter(|tool| !works(tool)).collect();
    if missing.is_empty() {
        println!("all there");
        return Ok(true);
    }
    if can_install()? {
        install(&missing)?;
    }
    let still_missing: Vec<&Tool> = missing.into_iter().filter(|tool| !works(tool)).collect();
    for tool in &still_missing {
        let user = if tool.required { "" } else { " (some tests or benchmarks are skipped without it)" };
        println!("{} is missing{user}: sudo apt-get install {}", tool.what, tool.packages.join(" "));
    }
    Ok(!still_missing.iter().any(|tool| tool.required))
}

fn works(tool: &Tool) -> bool {
    Command::new(tool.probe[0])
        .args(&tool.probe[1..])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Root on a Debian.
pub(crate) fn can_install() -> Result<bool> {
    let status = fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let root = status.lines().any(|line| line.strip_prefix("Uid:").is_some_and(has_effective_root));
    Ok(root && Path::new("/etc/debian_version").exists() && Path::new("/usr/bin/apt-get").exists())
}

fn has_effective_root(ids: &str) -> bool {
    ids.split_whitespace().nth(1) == Some("0")
}

fn install(tools: &[&Tool]) -> Result<()> {
    let packages: Vec<&str> = tools.iter().flat_map(|tool| tool.packages).copied().collect();
    install_packages(&packages)
}

pub(crate) fn install_packages(packages: &[&str]) -> Result<()> {
    println!("installing {}", packages.join(" "));
    run_apt(&["update", "-q"])?;
    run_apt(&[&["install", "-qy", "--no-install-recommends"][..], packages].concat())
}

/// A failure shows in apt-get's own words; what is still missing is found by probing again.
fn run_apt(args: &[&str]) -> Result<()> {
    Command::new("apt-get")
        .args(args)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .status()
        .context("cannot start apt-get")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_effective_uid_decides() {
        assert!(has_effective_root("\t1000\t0\t0\t0"));
        assert!(!has_effective_root("\t0\t1000\t0\t0"));
    }

    #[test]
    fn a_program_that_is_not_there_does_not_work() {
        assert!(!works(&Tool { what: "x", probe: &["/nonexistent/x"], packages: &[], required: true }));
    }
}
