//! `nilo run` of an ordinary user under Yama: recording needs no ptrace, and the watchdog ends the run whether or
//! not it may stop the tree first, and says so.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::Cases;
use super::place::{ENDED, HOG, MIB, NILO, User, capability, describe, doctor, report, run_directory};

pub fn run(cases: &mut Cases, scope: u8) {
    cases.run(&format!("run-under-yama-{scope}"), || record(scope));
    cases.run(&format!("watchdog-under-yama-{scope}"), || guard(scope));
}

fn record(scope: u8) -> Result<()> {
    let run = run_directory(User::Ordinary, &format!("record-{scope}"));
    let mut nilo = User::Ordinary.command(NILO);
    nilo.args(["run", "-q", "-o"]).arg(&run).args(["--", HOG, "48", "0"]);
    let output = nilo.output()?;
    ensure!(output.status.code() == Some(0), "{}", describe(&output));
    let report = report(User::Ordinary, &run)?;
    let peak = report["largest_process"]["hwm_bytes"].as_u64().context("a peak")?;
    ensure!((48 * MIB..56 * MIB).contains(&peak), "48 MiB and little more, not {peak}");
    Ok(())
}

fn guard(scope: u8) -> Result<()> {
    let run = run_directory(User::Ordinary, &format!("guard-{scope}"));
    let mut nilo = User::Ordinary.command(NILO);
    nilo.args(["run", "-o"]).arg(&run).args(["--max-rss", "40M", "--", HOG, "30", "400"]);
    let output = nilo.output()?;
    ensure!(output.status.code() == Some(ENDED), "{}", describe(&output));
    let report = report(User::Ordinary, &run)?;
    ensure!(report["exit"]["cause"] == "watchdog", "{}", report["exit"]);
    let hwm = report["largest_process"]["hwm_bytes"].as_u64().context("a peak")?;
    ensure!((40 * MIB..200 * MIB).contains(&hwm), "ended at 40 MiB, not {hwm}");
    let may_stop = capability(&doctor(User::Ordinary)?, "stop-own-child")?["works"] == true;
    let said = not_stopped(&report);
    ensure!(may_stop == said.is_none(), "the doctor says {may_stop}, the run {said:?}");
    let pause_s = report["cost"]["pause_s"].as_f64().context("a pause")?;
    ensure!(may_stop == (pause_s > 0.0), "paused for {pause_s} s; may stop: {may_stop}");
    let screen = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(may_stop != screen.contains("not stopped"), "the verdict of the run: {screen}");
    Ok(())
}

/// The event that tells that the tree ran on while it was looked at.
fn not_stopped(report: &Value) -> Option<&str> {
    let texts = report["events"].as_array()?.iter().filter_map(|event| event["text"].as_str());
    texts.into_iter().find(|text| text.contains("not stopped"))
}
