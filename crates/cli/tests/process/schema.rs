//! The contract of `report --json` and of the exports, on real runs of every kind.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nilometer_kernel::sys::process::pidfd;
use nilometer_kernel::sys::signals;
use serde_json::Value;

use crate::harness::{Dialogue, Lab, c_program, finish, text};
use crate::watched::{Watched, number_of, wait_readable};

fn assert_valid(kind: &str, report: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/schema/report.schema.json");
    assert_conforms(kind, &std::fs::read_to_string(path).expect("the schema"), report);
}

/// A document against its schema.
pub fn validate(schema: &str, document: &Value) {
    assert_conforms("document", schema, document);
}

fn assert_conforms(kind: &str, schema: &str, document: &Value) {
    let schema: Value = serde_json::from_str(schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{kind}: {errors:#?}");
}

fn puppet_with_steps(lab: &Lab) -> Watched<'_> {
    let mut puppet = Watched::start_program(lab, &["--interval", "20ms"], "puppet.c", &[]);
    puppet.number("ready");
    puppet.order("mark step 1", "mark");
    puppet.order("grow 20", "rss");
    puppet.order("mark phase second half", "mark");
    puppet.order("mark note here", "mark");
    puppet.ticks_pass();
    puppet
}

fn plain(lab: &Lab) -> (Value, PathBuf) {
    let run = puppet_with_steps(lab).end();
    (run.report, run.directory)
}

#[test]
fn a_plain_run_is_valid_and_has_the_contracts_fields() {
    let (report, _) = plain(&Lab::new());
    assert_valid("plain", &report);
    let numbers = [
        "/duration_s",
        "/interval_ms/asked",
        "/interval_ms/achieved",
        "/exit/code",
        "/peak/bytes",
        "/peak/low_bytes",
        "/peak/high_bytes",
        "/peak/at_s",
        "/largest_process/pid",
        "/limit/bytes",
        "/largest_process/hwm_bytes",
        "/processes/0/pid",
        "/processes/0/parent",
        "/processes/0/hwm_bytes",
        "/system/swap_used_max_bytes",
        "/system/available_min_bytes",
        "/system/outlives_process_bytes",
        "/steps/0/step",
        "/steps/0/start_s",
        "/steps/0/peak_bytes",
        "/steps/0/end_bytes",
        "/cost/cpu_s",
        "/cost/rss_bytes",
        "/cost/written_bytes",
        "/cost/pause_s",
    ];
    for field in numbers {
        assert!(report.pointer(field).is_some_and(Value::is_number), "{field}: {:?}", report.pointer(field));
    }
    let words = [
        "/exit/cause",
        "/peak/method",
        "/limit/source",
        "/processes/0/role",
        "/processes/0/command",
        "/steps/0/peak_method",
    ];
    for field in words {
        assert!(report.pointer(field).is_some_and(Value::is_string), "{field}: {:?}", report.pointer(field));
    }
    assert!(report["command"].as_array().is_some_and(|c| c.len() == 1 && c[0].is_string()));
    assert_eq!(report["exit"]["signal"], Value::Null);
}

#[test]
fn failed_and_killed_runs_are_valid() {
    let lab = Lab::new();
    assert_valid("failed", &lab.run(&["-q"], &["sh", "-c", "exit 3"]).report);
    assert_valid("killed", &lab.run(&["-q"], &["sh", "-c", "kill -9 $$"]).report);
    assert_valid("too short to sample", &lab.run(&["-q"], &["true"]).report);
}

#[test]
fn a_cut_run_is_valid() {
    let lab = Lab::new();
    let puppet = puppet_with_steps(&lab);
    let nilo = pidfd(puppet.dialogue.pid()).expect("it runs");
    signals::send(puppet.dialogue.pid(), 9).expect("kill");
    wait_readable(std::os::fd::AsRawFd::as_raw_fd(&nilo), "nilo did not die");
    let run = puppet.end();
    assert_eq!(run.report["data_end"]["clean"], false);
    assert_valid("cut", &run.report);
}

#[test]
fn attached_and_system_recordings_are_valid() {
    let lab = Lab::new();
    let mut target = Dialogue::start(&mut Command::new(c_program("puppet.c")));
    let pid = number_of(&target.line(), "ready").to_string();
    let output =
        finish(lab.nilo(["attach", "-q", "-o", "a.nilo", "--duration", "300ms", &pid]).stdin(Stdio::null()));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    target.end();
    let attached = lab.report(&lab.path("a.nilo"));
    assert_valid("attach", &attached);
    assert_eq!(attached["processes"][0]["pid"].to_string(), pid);
    let output =
        finish(&mut lab.nilo(["record", "-q", "-o", "r.nilo", "--samples", "3", "--interval", "50ms"]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let recorded = lab.report(&lab.path("r.nilo"));
    assert_valid("record", &recorded);
    assert_eq!(recorded["peak"], Value::Null);
    assert_eq!(recorded["processes"].as_array().map(Vec::len), Some(0));
}

fn export(lab: &Lab, run: &Path, format: &str) -> String {
    let output = finish(lab.nilo(["export"]).arg(run).args(["--format", format]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn the_csv_has_the_seeds_columns_and_a_row_for_each_reading_of_the_system() {
    let lab = Lab::new();
    let (_, run) = plain(&lab);
    let csv = export(&lab, &run, "csv");
    let mut lines = csv.lines();
    let header: Vec<&str> = lines.next().expect("a header").split(',').collect();
    assert_eq!(header[..2], ["seconds", "MemTotal"]);
    let meminfo = std::fs::read_to_string("/proc/meminfo").expect("meminfo");
    let fields = meminfo.lines().filter_map(|line| line.split(':').next());
    for column in fields.chain(["program_usage", "used-less-buffers-cache", "swap"]) {
        let there = header.iter().any(|name| name.eq_ignore_ascii_case(column));
        let spelt_otherwise = header.iter().any(|name| name.replace('_', "-") == column);
        assert!(there || spelt_otherwise, "{column} is not in {header:?}");
    }
    let rows: Vec<Vec<&str>> = lines.map(|line| line.split(',').collect()).collect();
    assert!(rows.iter().all(|row| row.len() == header.len()));
    // As many as the records say by another export.
    let json = export(&lab, &run, "json");
    let records = json.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON lines"));
    let readings = records.filter(has_system_values).count();
    assert!(readings > 3);
    assert_eq!(rows.len(), readings);
    let seconds: Vec<f64> = rows.iter().map(|row| row[0].parse().expect("seconds")).collect();
    assert!(seconds.is_sorted(), "{seconds:?}");
    // MemTotal is a constant of this machine.
    let total = meminfo.lines().next().and_then(|line| line.split_whitespace().nth(1)).expect("MemTotal");
    assert!(
        rows.iter()
            .all(|row| row[1] == total || row[1] == format!("{}", total.parse::<u64>().unwrap_or(0) * 1024))
    );
}

fn has_system_values(record: &Value) -> bool {
    let tick = record.get("tick").or_else(|| record.get("Tick")).unwrap_or(record);
    tick.get("system").is_some_and(|s| {
        s.as_array().is_some_and(|a| !a.is_empty()) || s.as_object().is_some_and(|o| !o.is_empty())
    })
}

#[test]
fn parquet_tables_are_written_beside_the_run() {
    let lab = Lab::new();
    let (_, run) = plain(&lab);
    export(&lab, &run, "parquet");
    let mut found = Vec::new();
    collect(&run.join("tables"), &mut found);
    assert!(!found.is_empty(), "no table below {}", run.join("tables").display());
    for table in found {
        let content = std::fs::read(&table).expect("read");
        assert!(content.starts_with(b"PAR1") && content.ends_with(b"PAR1"), "{}", table.display());
    }
}

fn collect(directory: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(directory).expect("tables").flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            collect(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "parquet") {
            found.push(path);
        }
    }
}
