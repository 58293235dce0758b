//! What a run leaves on the machine. System-wide figures: these tests run alone.

use std::process::Command;

use serde_json::Value;

use crate::harness::{Lab, Run, c_program};
use crate::watched::{MIB, assert_near, bytes, number_of};

/// Shared memory is counted by the page and known by name; the machine's other users move it by less than this.
const NOISE: u64 = 4 * MIB;

fn run(lab: &Lab, arguments: &[&str]) -> Run {
    let program = c_program("remains.c");
    let command: Vec<&str> =
        std::iter::once(program.to_str().expect("UTF-8")).chain(arguments.iter().copied()).collect();
    let run = lab.run(&["-q"], &command);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    run
}

/// Shared memory alone: slab and page tables of other programs are nobody's to predict.
fn shared_and_others(report: &Value) -> (u64, u64) {
    let parts = report["system"]["outlives"].as_array().expect("outlives");
    let (shared, others): (Vec<&Value>, Vec<&Value>) =
        parts.iter().partition(|part| part["name"] == "shared memory and tmpfs");
    assert_eq!(shared.len(), 1, "{parts:#?}");
    (bytes(&shared[0]["bytes"]), others.iter().map(|part| bytes(&part["bytes"])).sum())
}

fn assert_remains(report: &Value, truth: u64, name: &str) {
    let (shared, others) = shared_and_others(report);
    assert_near("shared memory that outlives", shared, truth, NOISE);
    assert_eq!(bytes(&report["system"]["outlives_process_bytes"]), shared + others);
    let remains = report["system"]["remains"].as_array().expect("remains");
    let named = remains.iter().find(|part| part["name"] == name);
    let named = named.unwrap_or_else(|| panic!("{name} is not named in {remains:#?}"));
    assert_eq!(named["bytes"], truth);
}

#[test]
fn serial_a_file_in_shared_memory_outlives() {
    let lab = Lab::new();
    let file = format!("/dev/shm/nilo-test-{}", std::process::id());
    let run = run(&lab, &["file", "200", &file]);
    std::fs::remove_file(&file).expect("the program left it");
    assert_remains(&run.report, 200 * MIB, &file);
    // It is a line of the verdict, and it is not the program's own memory.
    assert!(bytes(&run.report["peak"]["bytes"]) < 50 * MIB);
    let mut report = lab.nilo(["report", "run.nilo"]);
    let screen = crate::harness::text(&crate::harness::finish(&mut report).stdout);
    assert!(screen.contains("outlives") && screen.contains(&file), "{screen}");
}

#[test]
fn serial_a_system_v_segment_outlives() {
    let lab = Lab::new();
    let run = run(&lab, &["segment", "64"]);
    let id = number_of(run.stdout().trim(), "segment");
    let removed = Command::new("ipcrm").args(["-m", &id.to_string()]).status().expect("ipcrm");
    assert!(removed.success());
    assert_remains(&run.report, 64 * MIB, &format!("System V segment {id}"));
}

#[test]
fn serial_a_program_that_leaves_nothing_leaves_nothing() {
    let lab = Lab::new();
    let run = run(&lab, &["nothing", "200"]);
    let (shared, others) = shared_and_others(&run.report);
    assert_eq!(shared, 0);
    assert_eq!(run.report["system"]["remains"].as_array().expect("remains").len(), 0);
    assert_eq!(bytes(&run.report["system"]["outlives_process_bytes"]), others);
    // The 200 MiB it had and gave back are not among what is left.
    assert!(others < 100 * MIB, "{:#}", run.report["system"]);
}
