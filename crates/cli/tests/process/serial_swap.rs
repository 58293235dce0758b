//! Limits on swap, with a small swap file and a small cgroup: the machine is never short of anything.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::harness::{Lab, Run, c_program, finish, finish_child, skip, text};
use crate::limited::Limited;
use crate::watched::MIB;

/// 256 MiB of swap on the disk; given back at the end.
struct SwapFile(PathBuf);

impl SwapFile {
    fn new() -> Result<Self, String> {
        let path = PathBuf::from(format!("/var/tmp/nilo-test-{}.swap", std::process::id()));
        let file = Self(path);
        let path = file.0.display();
        for words in [
            format!("install -m 600 /dev/null {path}"),
            format!("dd if=/dev/zero of={path} bs=1M count=256 status=none"),
            format!("mkswap {path}"),
            format!("swapon {path}"),
        ] {
            let mut words = words.split(' ');
            let output =
                finish(Command::new(words.next().unwrap_or_default()).args(words).stdin(Stdio::null()));
            if !output.status.success() {
                return Err(text(&output.stderr).trim().to_owned());
            }
        }
        Ok(file)
    }
}

impl Drop for SwapFile {
    fn drop(&mut self) {
        let _ = Command::new("swapoff").arg(&self.0).stderr(Stdio::null()).status();
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A hog of 220 MiB where only 128 fit without swap. The order of the fields is that of their end.
struct Place {
    group: Limited,
    lab: Lab,
    _swap: SwapFile,
}

impl Place {
    fn new() -> Result<Self, String> {
        let swap = SwapFile::new()?;
        Ok(Self { group: Limited::new(128, 360)?, lab: Lab::new(), _swap: swap })
    }

    fn run(&self, options: &[&str]) -> Run {
        let mut nilo = self.group.nilo(&self.lab, ["run", "-o", "run.nilo", "--force"]);
        nilo.args(options).arg("--").arg(c_program("hog.c")).args(["120", "100"]);
        let mut child =
            nilo.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("spawn");
        let input = child.stdin.take();
        let output = finish_child(child);
        drop(input);
        let directory = self.lab.path("run.nilo");
        Run { output, report: self.lab.report(&directory), directory }
    }
}

#[track_caller]
fn assert_ended_by(run: &Run, option: &str) {
    assert_eq!(run.code(), Some(75), "{}", run.stderr());
    assert_eq!(run.report["exit"]["cause"], "watchdog");
    let said = run.report["exit"]["evidence"][0].as_str().expect("evidence");
    assert!(said.contains(&format!("{option} 32.0 MiB crossed")), "{said}");
    let value: f64 =
        said.split_once(" with ").and_then(|(_, rest)| rest.split(' ').next()?.parse().ok()).expect(said);
    assert!((32.0..160.0).contains(&value), "{said}");
}

#[test]
fn too_much_swap_ends_the_run() {
    let place = match Place::new() {
        Ok(place) => place,
        Err(reason) => return skip("swap-file", &reason),
    };
    let run = place.run(&["--max-swap", "32M"]);
    assert_ended_by(&run, "--max-swap");
    let process = &run.report["processes"][0];
    assert!(process["swap_max_bytes"].as_u64() >= Some(32 * MIB), "{process:#}");

    let run = place.run(&["--max-system-swap", "32M"]);
    assert_ended_by(&run, "--max-system-swap");
    assert!(
        run.report["system"]["swap_used_max_bytes"].as_u64() >= Some(32 * MIB),
        "{:#}",
        run.report["system"]
    );
    assert_eq!(place.group.oom_kills(), 0);
}
