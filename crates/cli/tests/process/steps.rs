//! Steps: marks of the target, and what memory did between them.

use serde_json::Value;

use crate::harness::Lab;
use crate::watched::{MIB, Watched, assert_near, bytes, rss_slack};

/// Marks a step and lets nilo take note of it before anything else happens.
fn step(puppet: &mut Watched<'_>, words: &str) -> u64 {
    let at_ns = puppet.order(&format!("mark step {words}"), "mark");
    puppet.ticks_pass();
    at_ns
}

fn steps(report: &Value) -> &[Value] {
    report["steps"].as_array().expect("steps")
}

#[test]
fn each_step_has_its_own_peak_and_end() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &["--interval", "5ms"], "puppet.c", &[]);
    puppet.number("ready");
    let mut truths = Vec::new();
    for number in 1..=8 {
        step(&mut puppet, &number.to_string());
        truths.push(puppet.order("grow 10", "rss") * 1024);
        puppet.ticks_pass();
    }
    let run = puppet.end();
    assert_eq!(run.report["steps_seen"], 8);
    assert_eq!(steps(&run.report).len(), 8);
    for (position, (step, truth)) in steps(&run.report).iter().zip(&truths).enumerate() {
        assert_eq!(step["step"], position + 1);
        assert_near("peak_bytes", bytes(&step["peak_bytes"]), *truth, rss_slack());
        assert_near("end_bytes", bytes(&step["end_bytes"]), *truth, rss_slack());
        let grown = step["increment_bytes"].as_i64().expect("increment");
        assert!(position == 0 || (grown as u64).abs_diff(10 * MIB) <= 2 * rss_slack(), "{step}");
    }
    let starts: Vec<f64> = steps(&run.report).iter().filter_map(|s| s["start_s"].as_f64()).collect();
    assert!(starts.is_sorted() && starts.len() == 8, "{starts:?}");
    assert_eq!(run.report["peak"]["step"], 8);
}

#[test]
fn exact_step_peaks_belong_to_their_step_alone() {
    let lab = Lab::new();
    let options = ["--interval", "20ms", "--exact-step-peaks"];
    let mut puppet = Watched::start_program(&lab, &options, "puppet.c", &[]);
    puppet.number("ready");
    let mut truths = Vec::new();
    for number in 1..=4 {
        step(&mut puppet, &number.to_string());
        let spike = if number == 3 { "spike 100" } else { "hwm" };
        truths.push(puppet.order(spike, "hwm") * 1024); // its own mark, which nilo reset
        puppet.ticks_pass();
    }
    let run = puppet.end();
    for (step, truth) in steps(&run.report).iter().zip(&truths) {
        assert_near("peak_bytes", bytes(&step["peak_bytes"]), *truth, rss_slack());
        assert_eq!(step["peak_method"], "VmHWM reset at this step");
    }
    let peaks: Vec<u64> = steps(&run.report).iter().map(|s| bytes(&s["peak_bytes"])).collect();
    assert!(peaks[2] > 100 * MIB && peaks[3] < 50 * MIB && peaks[1] < 50 * MIB, "{peaks:?}");
    // The whole run's peak is still the highest.
    assert_near("peak.bytes", bytes(&run.report["peak"]["bytes"]), truths[2], rss_slack());
}

#[test]
fn a_stamped_mark_stands_where_its_stamp_says_and_one_process_counts() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &["--interval", "5ms"], "puppet.c", &[]);
    let pid = puppet.number("ready");
    let born_ns = puppet.order("born", "born");
    puppet.ticks_pass();
    let earlier_ns = step(&mut puppet, &format!("1 pid={pid}"));
    puppet.ticks_pass();
    step(&mut puppet, &format!("2 ns={earlier_ns} pid={pid}"));
    step(&mut puppet, "9 pid=1");
    let marked_ns = step(&mut puppet, &format!("3 pid={pid}"));
    let run = puppet.end();
    let numbers: Vec<&Value> = steps(&run.report).iter().map(|s| &s["step"]).collect();
    assert_eq!(numbers.len(), 3, "the step of process 1 is not one of these: {numbers:?}");
    // From `born` to the target's start there is an `exec`, which takes less than half a second.
    let at = |number: u64| {
        let found = steps(&run.report).iter().find(|s| s["step"] == number);
        found.and_then(|s| s["start_s"].as_f64()).unwrap_or_else(|| panic!("no step {number} in {numbers:?}"))
    };
    for (number, ns) in [(2, earlier_ns), (3, marked_ns)] {
        let truth = (ns - born_ns) as f64 / 1e9;
        assert!((truth..truth + 0.5).contains(&at(number)), "step {number} at {}, not {truth}", at(number));
    }
    let said = run.report["quality"].as_array().expect("quality");
    let foreign =
        |doubt: &&Value| doubt.as_str().is_some_and(|d| d.starts_with("1 step marks of other processes"));
    assert_eq!(said.iter().filter(foreign).count(), 1, "{said:?}");
}

#[test]
fn lines_that_are_no_marks_are_counted_and_told() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &["--interval", "5ms"], "puppet.c", &[]);
    puppet.number("ready");
    let too_long = format!("mark note {}", "x".repeat(6_000));
    let wrong = ["mark step", "mark step one", "mark stepp 1", "mark \u{1b}[31m", too_long.as_str()];
    for words in wrong.iter().chain(&["mark phase warm up", "mark note all is well", "mark step 7"]) {
        puppet.order(words, "mark");
    }
    puppet.ticks_pass();
    let run = puppet.end();
    assert_eq!(run.report["steps_seen"], 1);
    assert_eq!(steps(&run.report)[0]["step"], 7);
    assert_eq!(run.report["phases"][0]["name"], "warm up");
    assert_eq!(run.report["notes"][0]["text"], "all is well");
    let events = run.report["events"].as_array().expect("events");
    let told = |e: &&Value| e["text"].as_str().is_some_and(|t| t.starts_with("5 lines of the marks file"));
    assert_eq!(events.iter().filter(told).count(), 1, "{events:#?}");
}
