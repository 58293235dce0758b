//! `nilo pages` against a program that touches stated pages: by the idle bitmap nothing missed and nothing false, at
//! small pages and at huge ones; written pages by soft-dirty bits; whole mappings for an ordinary user; DAMON roughly.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdout, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Cases;
use super::place::{MIB, NILO, User, describe};

const PAGE: u64 = 4096;
const BYTES: u64 = 64 * MIB;
const PAGES: u64 = BYTES / PAGE;
/// Pages of a huge page.
const HUGE: u64 = 512;
const NOT_AVAILABLE: i32 = 5;

pub fn run(cases: &mut Cases) {
    cases.run("touched-idle-4k-read", || idle(5, "r"));
    cases.run("touched-idle-4k-write", || idle(3, "w"));
    cases.run("touched-idle-thp", idle_huge);
    cases.run("touched-idle-forked", forked);
    cases.run("touched-mappings-user", mappings);
    cases.run("touched-idle-refused", refused);
    cases.run("touched-damon", damon);
}

/// The program, touching `count` pages from the first on.
struct Hot {
    child: Child,
    answers: BufReader<ChildStdout>,
    base: u64,
    user: User,
}

impl Hot {
    fn start(user: User, how: &str) -> Result<Self> {
        let mut command = user.command("/bin/hot_pages");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let answers = BufReader::new(child.stdout.take().context("its output is piped")?);
        let mut hot = Self { child, answers, base: 0, user };
        let told = hot.ask(&format!("map {BYTES} {how}"))?;
        hot.base = told.trim().strip_prefix("mapped ").context("an address")?.parse()?;
        Ok(hot)
    }

    fn ask(&mut self, line: &str) -> Result<String> {
        writeln!(self.child.stdin.as_mut().context("its input is piped")?, "{line}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        Ok(answer)
    }

    /// Every `stride`th page of the mapping.
    fn touch(&mut self, count: u64, stride: u64, how: &str) -> Result<()> {
        ensure!(self.ask(&format!("hot 0 {count} {stride} {how}"))?.trim() == "hot", "no answer");
        Ok(())
    }

    fn look(&self, options: &[&str]) -> Result<(Value, Vec<Value>)> {
        self.look_for("2s", options)
    }

    fn look_for(&self, duration: &str, options: &[&str]) -> Result<(Value, Vec<Value>)> {
        let place = self.user.home().join("look");
        let pid = self.child.id().to_string();
        let mut nilo = self.user.command(NILO);
        nilo.args([
            "pages",
            &pid,
            "--window",
            "1s",
            "--duration",
            duration,
            "--json",
            "--force",
            "--no-names",
            "-o",
        ]);
        let output = nilo.arg(&place).args(options).output()?;
        ensure!(output.status.success(), "{}", describe(&output));
        let document = serde_json::from_slice(&output.stdout)?;
        let lines = fs::read_to_string(place.join("pages.jsonl"))?;
        let lines: Vec<Value> = lines.lines().map(serde_json::from_str).collect::<Result<_, _>>()?;
        let looks: Vec<Value> =
            lines.into_iter().filter_map(|mut line| line.get_mut("look").map(Value::take)).collect();
        ensure!(!looks.is_empty(), "no look was stored");
        Ok((document, looks))
    }

    fn process<'l>(&self, look: &'l Value) -> Result<&'l Value> {
        let processes = look["processes"].as_array().context("processes")?;
        processes.iter().find(|process| process["pid"] == self.child.id()).context("the process")
    }

    /// (first page in the mapping, pages, touched) of its spans.
    fn spans(&self, look: &Value) -> Result<Vec<(u64, u64, u64)>> {
        let numbers: Vec<u64> = serde_json::from_value(self.process(look)?["spans"].clone())?;
        let (mut spans, mut end) = (Vec::new(), 0_u64);
        for span in numbers.chunks_exact(5) {
            let first = end.wrapping_add(span[0]);
            end = first + span[1];
            // The mapping before may be alike, and a span begin in it.
            let base = self.base / PAGE;
            let (from, to) = (first.max(base), end.min(base + PAGES));
            if from < to {
                spans.push((from - base, to - from, span[3]));
            }
        }
        Ok(spans)
    }

    /// Pages told as resident, of all mappings.
    fn resident(&self, look: &Value) -> Result<u64> {
        let numbers: Vec<u64> = serde_json::from_value(self.process(look)?["spans"].clone())?;
        Ok(numbers.chunks_exact(5).map(|span| span[2]).sum())
    }

    /// Pages told as touched, where each span is touched whole or not at all.
    fn touched(&self, look: &Value) -> Result<BTreeSet<u64>> {
        let spans = self.spans(look)?.into_iter();
        Ok(spans
            .filter(|(_, _, touched)| *touched > 0)
            .flat_map(|(first, pages, _)| first..first + pages)
            .collect())
    }

    /// What is told of the whole process, for a failure.
    fn outline(&self, look: &Value) -> String {
        let Ok(process) = self.process(look) else { return String::new() };
        let numbers = ["rss_bytes", "untracked_bytes", "shared_bytes", "huge_bytes"];
        let told: Vec<String> = numbers.iter().map(|name| format!("{name} {}", process[name])).collect();
        let spans = self.spans(look).map_or(0, |spans| spans.len());
        format!("{}, {spans} spans, {} ns", told.join(", "), look["effective_ns"])
    }

    fn written(&self, look: &Value) -> Result<BTreeSet<u64>> {
        let runs: Vec<(u64, u64)> = serde_json::from_value(self.process(look)?["written"].clone())?;
        let pages = runs.into_iter().flat_map(|(first, count)| first..first + count);
        Ok(pages.filter_map(|page| page.checked_sub(self.base / PAGE)).filter(|page| *page < PAGES).collect())
    }
}

impl Drop for Hot {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The first difference decides: nothing missed, nothing false.
fn same(what: &str, seen: &BTreeSet<u64>, expected: &BTreeSet<u64>) -> Result<()> {
    let (missed, wrong) = (expected.difference(seen).count(), seen.difference(expected).count());
    ensure!(missed == 0 && wrong == 0, "{what}: {missed} missed and {wrong} false of {}", expected.len());
    Ok(())
}

fn idle(stride: u64, how: &str) -> Result<()> {
    let mut hot = Hot::start(User::Root, "private")?;
    let count = PAGES / stride;
    hot.touch(count, stride, how)?;
    let (document, looks) = hot.look(&[])?;
    ensure!(document["backend"] == "idle", "it was not chosen by itself: {}", document["why"]);
    let expected: BTreeSet<u64> = (0..count).map(|number| number * stride).collect();
    for look in &looks {
        same("touched", &hot.touched(look)?, &expected).with_context(|| hot.outline(look))?;
        let written = if how == "w" { expected.clone() } else { BTreeSet::new() };
        same("written", &hot.written(look)?, &written)?;
    }
    Ok(())
}

fn idle_huge() -> Result<()> {
    let mut hot = Hot::start(User::Root, "huge")?;
    let count = PAGES / 5;
    hot.touch(count, 1, "r")?;
    let (document, looks) = hot.look(&["--backend", "idle"])?;
    let huge = document["huge_share"].as_f64().unwrap_or(0.0);
    ensure!(huge > 0.5, "no huge pages were given: {huge}");
    // A huge page counts whole: the hot prefix and the rest of its last huge page.
    let expected: BTreeSet<u64> = (0..count.next_multiple_of(HUGE)).collect();
    for look in &looks {
        same("touched", &hot.touched(look)?, &expected)?;
    }
    Ok(())
}

/// Pages that two processes have: touched by one of them, told as shared.
fn forked() -> Result<()> {
    let mut hot = Hot::start(User::Root, "private")?;
    ensure!(hot.ask("fork")?.trim() == "forked", "no answer");
    let count = PAGES / 4;
    hot.touch(count, 1, "r")?;
    let (_, looks) = hot.look(&["--backend", "idle", "--single"])?;
    for look in &looks {
        same("touched", &hot.touched(look)?, &(0..count).collect())?;
        let shared = hot.process(look)?["shared_bytes"].as_u64().unwrap_or(0);
        ensure!(shared >= count * PAGE, "only {shared} bytes are told as shared");
    }
    let (document, looks) = hot.look(&["--backend", "idle"])?;
    for (look, window) in looks.iter().zip(document["windows"].as_array().context("windows")?) {
        counted_once(look, window, count * PAGE)?;
    }
    hot.ask("end").map(drop)
}

/// Of a process and its fork: what both have, `shared` bytes of which were touched, is in the window's sum once.
fn counted_once(look: &Value, window: &Value, shared: u64) -> Result<()> {
    let processes = look["processes"].as_array().context("processes")?;
    let touched = |process: &Value| -> Result<u64> {
        let numbers: Vec<u64> = serde_json::from_value(process["spans"].clone())?;
        Ok(numbers.chunks_exact(5).map(|span| span[3] * PAGE).sum())
    };
    let all: Vec<u64> = processes.iter().map(touched).collect::<Result<_>>()?;
    let again: u64 = processes.iter().filter_map(|process| process["again_bytes"].as_u64()).sum();
    ensure!(all.len() == 2, "{} processes", all.len());
    ensure!((shared..=all[0].min(all[1])).contains(&again), "{again} of {all:?} are told as counted before");
    let told = [&window["wss_bytes"], &window["wss_low_bytes"]].map(|told| told.as_u64().unwrap_or(0));
    ensure!(told == [all[0] + all[1] - again; 2], "{told:?} of {all:?} less {again}");
    Ok(())
}

fn mappings() -> Result<()> {
    let mut hot = Hot::start(User::Ordinary, "private")?;
    let count = PAGES / 5;
    hot.touch(count, 5, "r")?;
    let (document, looks) = hot.look(&[])?;
    ensure!(document["backend"] == "mappings", "{}", document["backend"]);
    for look in &looks {
        let touched: u64 = hot.spans(look)?.iter().map(|(_, _, touched)| touched).sum();
        ensure!(touched == count, "{touched} of {count} pages");
        same("written", &hot.written(look)?, &BTreeSet::new())?;
    }
    Ok(())
}

fn refused() -> Result<()> {
    let mut nilo = User::Ordinary.command(NILO);
    let own = std::process::id().to_string();
    let output = nilo.args(["pages", &own, "--backend", "idle"]).output()?;
    ensure!(output.status.code() == Some(NOT_AVAILABLE), "{}", describe(&output));
    Ok(())
}

/// Sampled: nearly all of the hot part, and beside it no more than the region that lies across its border.
fn damon() -> Result<()> {
    let mut hot = Hot::start(User::Root, "private")?;
    let count = PAGES / 4;
    hot.touch(count, 1, "r")?;
    let (document, looks) = hot.look_for("5s", &["--backend", "damon", "--single"])?;
    ensure!(document["exact"] == false, "it is said to be exact");
    for look in &looks {
        let seen = hot.touched(look)?;
        let found = seen.range(..count).count() as f64 / count as f64;
        let wrong = seen.range(count..).count() as f64 / count as f64;
        ensure!(
            found >= 0.95 && wrong <= 0.10,
            "{:.0} % found, {:.0} % false: {}",
            found * 100.0,
            wrong * 100.0,
            hot.outline(look)
        );
        let resident = hot.resident(look)?;
        let rss = hot.process(look)?["rss_bytes"].as_u64().unwrap_or(0);
        ensure!(
            resident * PAGE <= rss && rss < BYTES + 8 * MIB,
            "{resident} pages of {rss} bytes are resident"
        );
    }
    let left = fs::read_to_string("/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds")?;
    ensure!(left.trim() == "0", "a kdamond was left behind");
    Ok(())
}
