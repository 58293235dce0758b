//! What mprof and memray say of a program. Neither has a verdict: mprof records a curve, memray lists what was not
//! freed at the end.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use super::program::Program;

#[derive(Debug, Clone)]
pub struct Peer {
    pub label: String,
    pub leaks: bool,
    /// MiB per second over the second half of mprof's record.
    pub mprof_slope: Option<f64>,
    /// MB that memray calls leaked.
    pub memray_leaked: Option<f64>,
}

impl Peer {
    pub fn to_json(&self) -> Value {
        json!({"program": self.label, "leaks": self.leaks, "mprof_mib_per_s": self.mprof_slope, "memray_leaked_mb": self.memray_leaked})
    }
}

/// Both run the program once each; memray only Python, and only with the interpreter it is installed in.
pub fn ask(program: &Program, venv: &Path, folder: &Path) -> Peer {
    let mprof_slope = mprof(program, venv, folder);
    let memray_leaked =
        if program.is_python() && !program.needs_torch() { memray(program, venv, folder) } else { None };
    Peer { label: program.label.clone(), leaks: program.leaks, mprof_slope, memray_leaked }
}

fn quiet(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::null()).stderr(Stdio::null())
}

fn mprof(program: &Program, venv: &Path, folder: &Path) -> Option<f64> {
    let record = folder.join("mprof.dat");
    let mut mprof = Command::new(venv.join("bin/mprof"));
    mprof.args(["run", "-C", "-T", "0.1", "-o"]).arg(&record).args(&program.command);
    quiet(&mut mprof).current_dir(folder).status().ok()?;
    let text = std::fs::read_to_string(&record).ok()?;
    let _ = std::fs::remove_file(&record);
    slope(&text)
}

/// Lines `MEM MiB SECONDS`; the least squares slope of the second half.
fn slope(text: &str) -> Option<f64> {
    let rows = text.lines().filter_map(|line| line.strip_prefix("MEM "));
    let points: Vec<(f64, f64)> = rows
        .filter_map(|row| {
            let (memory, at) = row.split_once(' ')?;
            Some((at.trim().parse().ok()?, memory.parse().ok()?))
        })
        .collect();
    // The end, where the process gives back its memory, is no part of it.
    let half = points.get(points.len() / 2..points.len().saturating_sub(3))?;
    let count = half.len() as f64;
    let (x, y) =
        (half.iter().map(|p| p.0).sum::<f64>() / count, half.iter().map(|p| p.1).sum::<f64>() / count);
    let spread: f64 = half.iter().map(|p| (p.0 - x).powi(2)).sum();
    (spread > 0.0).then(|| half.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>() / spread)
}

fn memray(program: &Program, venv: &Path, folder: &Path) -> Option<f64> {
    let record = folder.join("memray.bin");
    let _ = std::fs::remove_file(&record);
    let python = venv.join("bin/python");
    let script = program.command.get(1..)?;
    let mut run = Command::new(&python);
    run.args(["-m", "memray", "run", "--force", "--quiet", "-o"]).arg(&record).args(script);
    // Python's own allocator keeps blocks: with it an at-exit list says even less.
    quiet(run.env("PYTHONMALLOC", "malloc")).current_dir(folder).status().ok()?;
    let mut list = Command::new(&python);
    list.args(["-c", LIST]).arg(&record);
    let told = list.output().ok()?;
    let _ = std::fs::remove_file(&record);
    String::from_utf8_lossy(&told.stdout).trim().parse().ok()
}

/// The sum of memray's list of what was not freed.
const LIST: &str = "import sys, memray
reader = memray.FileReader(sys.argv[1])
print(sum(record.size for record in reader.get_leaked_allocation_records(merge_threads=True)) / 1e6)";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_the_second_half() {
        let lines: Vec<String> = (0..40).map(|n| format!("MEM {}.0 {}.0\n", 100 + 2 * n, n)).collect();
        let text = lines.concat();
        assert!((slope(&format!("CMDLINE x\n{text}")).unwrap() - 2.0).abs() < 1e-9);
        assert_eq!(slope("CMDLINE x\n"), None);
    }
}
