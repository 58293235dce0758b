//! Limits on swap, with a small swap file and a small cgroup: the machine is never short of anything.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

use crate::harness::{Lab, Run, c_program, finish, finish_child, skip, text};
use crate::limited::Limited;
use crate::watched::MIB;

/// 256 MiB of swap on the disk; given back at the end.
struct SwapFile(PathBuf);

impl SwapFile {
    fn new() -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = PathBuf::from(format!("/var/tmp/nilo-test-{}-{number}.swap", std::process::id()));
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

/// A group where little fits without swap. The order of the fields is that of their end.
struct Place {
    group: Limited,
    lab: Lab,
    _swap: SwapFile,
}

impl Place {
    fn new(memory_mib: u64) -> Result<Self, String> {
        let swap = SwapFile::new()?;
        Ok(Self { group: Limited::new(memory_mib, 360)?, lab: Lab::new(), _swap: swap })
    }

    /// Each of `runs` leaves a file of so many MiB in memory. The verdict, its screen, and the files are gone again.
    fn leave_files(&self, runs: u64, mib: u64) -> (Output, Value) {
        let name = format!("nilo-swap-test-{}-", std::process::id());
        let program = c_program("remains.c").display().to_string();
        let script = format!("exec {program} file {mib} /dev/shm/{name}$$");
        let mut nilo = self.group.nilo(&self.lab, ["leak", "-o", "leak.nilo", "--json=verdict.json"]);
        nilo.args(["--repeat", &runs.to_string(), "--", "sh", "-c", &script]).stdin(Stdio::null());
        let output = finish(&mut nilo);
        let left = std::fs::read_dir("/dev/shm").expect("/dev/shm").flatten().map(|entry| entry.path());
        let left: Vec<PathBuf> = left.filter(|path| path.to_string_lossy().contains(&name)).collect();
        for path in &left {
            std::fs::remove_file(path).expect("ours");
        }
        assert_eq!(left.len() as u64, runs, "{}", text(&output.stderr));
        let verdict = std::fs::read(self.lab.path("verdict.json")).expect("a verdict");
        (output, serde_json::from_slice(&verdict).expect("JSON"))
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
    let place = match Place::new(128) {
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

/// Eleven runs leave a file of 16 MiB each where 64 MiB fit: from the fifth on all of it is in swap.
#[test]
fn files_in_memory_that_went_to_swap_are_named_so() {
    const FILE: u64 = 16 * MIB;
    let place = match Place::new(64) {
        Ok(place) => place,
        Err(reason) => return skip("swap-file", &reason),
    };
    let (output, verdict) = place.leave_files(11, 16);
    let screen = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{screen}");
    assert_eq!(verdict["class"], "outlives the process", "{screen}");
    let rate = verdict["rate_bytes_per_step"].as_f64().expect("a rate");
    assert!((rate / FILE as f64 - 1.0).abs() < 0.01, "{rate}");
    let places = verdict["places"].as_array().expect("places");
    let named =
        |what: &str| places.iter().find(|place| place["name"].as_str().is_some_and(|n| n.contains(what)));
    assert!(named("/dev/shm/nilo-swap-test-").is_some(), "{places:#?}");
    let in_swap = named("swap that no process has").unwrap_or_else(|| panic!("{places:#?}"));
    let rate = in_swap["rate_bytes_per_step"].as_f64().expect("a rate");
    assert!((rate / FILE as f64 - 1.0).abs() < 0.25, "{rate}");
    let runs = verdict["runs"].as_array().expect("runs");
    let later: i64 = runs[5..].iter().map(|run| run["left_in_swap_bytes"].as_i64().expect("bytes")).sum();
    assert!((later as f64 / (6 * FILE) as f64 - 1.0).abs() < 0.15, "{runs:#?}");
    assert!(screen.contains("moves it to swap") && screen.contains("in swap"), "{screen}");
    assert_eq!(place.group.oom_kills(), 0);
}
