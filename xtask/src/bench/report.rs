//! `cargo xtask bench report`: time, memory and size of the page of a long run, beside memray's flame graph of the same
//! program, and how fast the page answers in a browser.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde_json::{Value, json};

use super::bar::{Bar, Limit, all_hold, render_bars};
use super::{machine, write_folder};
use crate::workspace::succeed;
use crate::{test, workspace};

#[derive(Debug, Args)]
pub struct Options {
    /// A short run: to see that the bench works, not for figures
    #[arg(long)]
    pub quick: bool,
    /// Folder to write [default: bench/DATE-report]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
}

const ROUNDS: usize = 3;
/// What a reader waits for after a click or a key.
const ANSWERS: [&str; 9] =
    ["build", "first draw", "zoom", "back", "search", "by function", "sandwich", "invert", "draw inverted"];
const PROGRAM: &str = include_str!("report/workload.py");

/// One way to make a page, at its best of some rounds.
#[derive(Debug, Clone)]
struct Reading {
    what: String,
    wall_s: f64,
    cpu_s: f64,
    peak_bytes: u64,
    page_bytes: u64,
}

struct Workshop {
    nilo: PathBuf,
    memray: PathBuf,
    folder: PathBuf,
}

pub fn run(options: &Options) -> Result<bool> {
    let workshop = Workshop::open()?;
    let hours = if options.quick { 1 } else { 24 };
    let sites = if options.quick { 2_000 } else { 50_000 };
    let long = workshop.made_up(hours, sites)?;
    let mut readings =
        vec![workshop.page(&format!("nilo report --html: {hours} h at 100 ms, {sites} stacks"), &long)?];
    readings.extend(workshop.same_program()?);
    let browser = match test::web::missing()? {
        None => read_browser(&long)?,
        Some(why) => {
            println!("without a browser: {why}");
            Value::Null
        }
    };
    let bars = bars(&readings, &browser);
    let page = render(&readings, &browser, &bars, options.quick)?;
    println!("\n{page}");
    let data = json!({
        "date": machine::read_date()?, "machine": machine::read_machine()?, "commit": machine::read_commit(),
        "readings": readings.iter().map(Reading::to_json).collect::<Vec<_>>(), "browser": browser,
        "bars": bars.iter().map(Bar::to_json).collect::<Vec<_>>(),
    });
    write_folder(options.out.clone(), "report", &page, &data)?;
    Ok(all_hold(&bars))
}

impl Reading {
    fn to_json(&self) -> Value {
        json!({
            "what": self.what, "wall_s": self.wall_s, "cpu_s": self.cpu_s,
            "peak_bytes": self.peak_bytes, "page_bytes": self.page_bytes,
        })
    }
}

fn bars(readings: &[Reading], browser: &Value) -> Vec<Bar> {
    let at_most = |what: &str, measured: Option<f64>, limit: f64, unit| Bar {
        what: what.to_owned(),
        measured,
        limit: Limit::AtMost(limit),
        unit,
    };
    let first = readings.first();
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let code = fs::metadata(workspace::root().join("web/dist/report.js")).map_or(0, |file| file.len())
        + fs::metadata(workspace::root().join("web/dist/report.css")).map_or(0, |file| file.len());
    let part = |name: &str| browser[name].as_f64();
    let slowest = |group: &str, parts: &[&str]| {
        parts.iter().filter_map(|part| browser[group][*part].as_f64()).max_by(f64::total_cmp)
    };
    vec![
        at_most("long run with allocations: time", first.map(|one| one.wall_s), 3.0, " s"),
        at_most(
            "long run with allocations: memory",
            first.map(|one| one.peak_bytes as f64 / 1e6),
            300.0,
            " MB",
        ),
        at_most("long run with allocations: page", first.map(|one| mib(one.page_bytes)), 15.0, " MiB"),
        at_most("script and style", Some(code as f64 / 1e3), 150.0, " kB"),
        at_most("the page opens in", part("open_ms").map(|ms| ms / 1e3), 2.0, " s"),
        at_most("1 M nodes: slowest answer", slowest("icicle_ms", &ANSWERS), 100.0, " ms"),
        at_most("1 M nodes of few functions: slowest answer", slowest("skewed_ms", &ANSWERS), 100.0, " ms"),
        at_most(
            "4.2 M cells: slowest of paint, draw, zoom",
            slowest("heatmap_ms", &["paint", "draw", "zoom"]),
            100.0,
            " ms",
        ),
    ]
}

impl Workshop {
    fn open() -> Result<Self> {
        let target = workspace::read_target_dir()?;
        let folder = target.join("bench-report");
        fs::remove_dir_all(&folder).ok(); // what an earlier bench left
        fs::create_dir_all(&folder)?;
        succeed(workspace::cargo().args(["build", "--release", "--locked"]))?;
        let venv = workspace::cache_folder()?.join("bench-allocs-venv");
        fs::write(folder.join("workload.py"), PROGRAM)?;
        Ok(Self { nilo: target.join("release/nilo"), memray: venv.join("bin/memray"), folder })
    }

    /// A run as the recorder would have written it.
    fn made_up(&self, hours: u64, sites: u64) -> Result<PathBuf> {
        let directory = self.folder.join("long.nilo");
        let mut maker = workspace::cargo();
        maker.args([
            "run",
            "--release",
            "--locked",
            "-q",
            "-p",
            "nilometer-trace",
            "--example",
            "long_run",
            "--",
        ]);
        succeed(maker.arg(&directory).args([hours.to_string(), sites.to_string()]))?;
        Ok(directory)
    }

    fn page(&self, what: &str, run: &Path) -> Result<Reading> {
        let page = run.with_extension("html");
        let mut best: Option<Reading> = None;
        for _ in 0..ROUNDS {
            let words = [self.nilo.as_os_str(), "report".as_ref(), run.as_os_str(), "--html".as_ref()];
            let rest = ["-o".as_ref(), page.as_os_str(), "--force".as_ref()];
            let reading = measure(what, &words.into_iter().chain(rest).collect::<Vec<_>>(), &page)?;
            best = best.filter(|best| best.wall_s <= reading.wall_s).or(Some(reading));
        }
        best.context("no round")
    }

    /// The same program under both, every block; then each one's page.
    fn same_program(&self) -> Result<Vec<Reading>> {
        if !self.memray.exists() {
            println!("without memray: cargo xtask bench allocs --quick makes its environment");
            return Ok(Vec::new());
        }
        let python = self.memray.with_file_name("python");
        let program = self.folder.join("workload.py");
        let ours = self.folder.join("same.nilo");
        let mut recorder = Command::new(&self.nilo);
        recorder.args(["run", "-q", "--allocs=all", "-o"]).arg(&ours).arg("--").arg(&python).arg(&program);
        succeed(&mut recorder)?;
        let theirs = self.folder.join("same.bin");
        succeed(Command::new(&self.memray).args(["run", "-q", "-f", "-o"]).arg(&theirs).arg(&program))?;
        let page = self.folder.join("memray.html");
        let mut best: Option<Reading> = None;
        for _ in 0..ROUNDS {
            let words = [self.memray.as_os_str(), "flamegraph".as_ref(), "-f".as_ref(), "-o".as_ref()];
            let rest = [page.as_os_str(), theirs.as_os_str()];
            let reading = measure(
                "memray flamegraph: workload.py",
                &words.into_iter().chain(rest).collect::<Vec<_>>(),
                &page,
            )?;
            best = best.filter(|best| best.wall_s <= reading.wall_s).or(Some(reading));
        }
        Ok([Some(self.page("nilo report --html: workload.py", &ours)?), best].into_iter().flatten().collect())
    }
}

/// How fast the page of a run answers.
fn read_browser(run: &Path) -> Result<Value> {
    let page = run.with_extension("html");
    let output = Command::new("node")
        .current_dir(workspace::root().join("web"))
        .arg("bench.mjs")
        .arg(&page)
        .output()
        .context("cannot start node")?;
    ensure!(output.status.success(), "bench.mjs: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("bench.mjs printed no JSON")
}

/// Time by the clock and of the CPU, and the most memory, as GNU-free `wait4` tells it through Python.
fn measure(what: &str, words: &[&std::ffi::OsStr], page: &Path) -> Result<Reading> {
    let script = "import os, sys, time\nstart = time.monotonic()\npid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ)\n\
                  _, status, used = os.wait4(pid, 0)\nassert status == 0, status\n\
                  print(time.monotonic() - start, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)";
    let output =
        Command::new("python3").args(["-c", script]).args(words).output().context("cannot start python3")?;
    ensure!(output.status.success(), "{what}: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let last = text.lines().last().unwrap_or_default();
    let numbers: Vec<f64> = last.split_whitespace().filter_map(|word| word.parse().ok()).collect();
    let [wall_s, cpu_s, peak] = numbers.as_slice() else {
        anyhow::bail!("{what}: `{last}` is not three numbers")
    };
    let (wall_s, cpu_s, peak_bytes) = (*wall_s, *cpu_s, *peak as u64);
    let page_bytes = fs::metadata(page).with_context(|| format!("no {}", page.display()))?.len();
    println!("{what}: {wall_s:.2} s");
    Ok(Reading { what: what.to_owned(), wall_s, cpu_s, peak_bytes, page_bytes })
}

fn render(readings: &[Reading], browser: &Value, bars: &[Bar], quick: bool) -> Result<String> {
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    let row = |one: &Reading| {
        let (memory, page) = (mib(one.peak_bytes), mib(one.page_bytes));
        format!(
            "| {} | {:.2} s | {:.2} s | {memory:.0} MiB | {page:.2} MiB |\n",
            one.what, one.wall_s, one.cpu_s
        )
    };
    let parts = |group: &str| -> String {
        let all = browser[group].as_object().into_iter().flatten();
        let row = |(name, ms): (&String, &Value)| {
            let part = group.trim_end_matches("_ms");
            format!("| {part} | {name} | {:.1} ms |\n", ms.as_f64().unwrap_or(0.0))
        };
        all.map(row).collect::<Vec<_>>().concat()
    };
    let opened = browser["open_ms"].as_f64().map_or_else(
        || "not measured: no browser".to_owned(),
        |ms| format!("a fresh tab opens the page of the long run and has painted it after {ms:.0} ms"),
    );
    Ok(format!(
        "# The page of a run, {date}\n\nMachine: {machine}  \nCommit {commit}; repeat with `cargo xtask bench report`\n\n{note}\
         The long run is made up (`crates/trace/examples/long_run.rs`): a sample every 100 ms, a step every ten seconds, stacks of \
         24 frames. The best of {ROUNDS} rounds each; memory is `ru_maxrss`.\n\n\
         | what | time | CPU | memory | page |\n|---|---:|---:|---:|---:|\n{rows}\n\
         In headless Chromium, the median of five: {opened}. Parts with made-up data, each in a fresh tab: a million nodes of \
         8,000 functions with bytes at every node, and of 2,000 functions of which few are most (`skewed`); 4.2 million cells.\n\n\
         | part | what | time |\n|---|---|---:|\n{icicle}{skewed}{heat}\n{bars}",
        date = machine::read_date()?,
        machine = machine::read_machine()?,
        commit = machine::read_commit(),
        note = if quick { "**Quick: to see that the bench works, not for figures.**\n\n" } else { "" },
        rows = readings.iter().map(row).collect::<Vec<_>>().concat(),
        icicle = parts("icicle_ms"),
        skewed = parts("skewed_ms"),
        heat = parts("heatmap_ms"),
        bars = render_bars(bars),
    ))
}
