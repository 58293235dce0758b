//! Exports, each read by the tool that it is for, and compared with our own report.
//!
//! `owners.c` has functions with known bytes; `exports_target.py` has steps, phases and a note.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::allocs::recording;
use crate::control::{ask, socket_of};
use crate::harness::{Dialogue, Lab, finish, py_program, skip, text};
use crate::onlooker::until;

const QUICK: [&str; 5] = ["-q", "--before", "0ms", "--settle", "0ms"];
const STEPS: u64 = 6;

/// What `owners.c` owns, by function: at the peak, at the end, in all, blocks, temporary blocks.
const OWNERS: [(&str, [u64; 5]); 4] = [
    ("keep_small", [3_000_000, 2_900_000, 3_000_000, 30, 0]),
    ("shared_part", [2_000_000, 2_000_000, 2_000_000, 1, 0]),
    ("spike", [8_000_000, 0, 8_000_000, 1, 1]),
    ("short_lived", [0, 0, 64_000, 1000, 1000]),
];
const PEAK_BYTES: u64 = 13_000_000;
const LIVE_BYTES: u64 = 4_900_000;

/// The python that has the readers; a skip where it cannot be had.
fn readers() -> Option<PathBuf> {
    nilometer_lab::environment(&["exports"]).map(PathBuf::from)
}

/// `heaptrack` (a folder), `pprof`, or `speedscope` (a folder).
fn tool(name: &str) -> Option<PathBuf> {
    let made = Command::new("sh").arg(py_program("exports_tools.sh")).arg(name).output().expect("sh");
    if !made.status.success() {
        skip(name, &text(&made.stderr));
        return None;
    }
    Some(text(&made.stdout).trim().into())
}

/// `exports_read.py WHAT FILES…`
fn read(python: &Path, what: &str, files: &[&Path]) -> Value {
    let mut command = Command::new(python);
    let output = finish(command.arg(py_program("exports_read.py")).arg(what).args(files));
    assert!(output.status.success(), "{what}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// `nilo export RUN --format FORMAT -o NAME`; what it said.
fn export(lab: &Lab, format: &str, name: &str) -> (PathBuf, String) {
    let mut command = lab.nilo(["export", "run.nilo", "--format", format, "-o", name]);
    let output = finish(&mut command);
    assert!(output.status.success(), "{format}: {}", text(&output.stderr));
    (lab.path(name), text(&output.stderr))
}

/// A run of `owners.c` with all its allocations.
fn owners() -> Lab {
    let lab = Lab::new();
    let program = lab.path("owners");
    let mut compiler = Command::new("cc");
    let built = compiler.args(["-O1", "-g", "-o"]).arg(&program).arg(py_program("owners.c")).status();
    assert!(built.expect("cc").success());
    let run = lab.run(&["-q", "--allocs=all"], &[program.to_str().unwrap()]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    assert_eq!(run.stdout().trim(), format!("peak {PEAK_BYTES} live {LIVE_BYTES}"));
    lab
}

/// A run with steps; each is noted, and sampled twice, before the next one begins.
fn stepping(options: &[&str]) -> Lab {
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-o", "run.nilo", "--interval", "10ms"]);
    let program = py_program("exports_target.py");
    let count = STEPS.to_string();
    let command = ["--", "/usr/bin/python3", &program, &count];
    let mut python = Dialogue::start(nilo.args(QUICK).args(options).args(command));
    for step in 0..STEPS {
        assert_eq!(python.line(), "step");
        let status = || ask(&socket_of(&lab.path("run.nilo")), r#"{"do":"status"}"#);
        if !options.is_empty() {
            until("the step is noted", || status()["allocs"]["steps"] == step + 1);
        }
        let ticks = || number(&status()["ticks"]);
        let before = ticks();
        until("samples are taken", || ticks() >= before + 2);
        python.say("on");
    }
    let output = python.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    lab
}

fn report(lab: &Lab, words: &[&str]) -> Value {
    let output = finish(lab.nilo(["report", "run.nilo", "--json"]).args(words));
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn number(value: &Value) -> u64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number")) as u64
}

/// Stacks that have something of a figure.
fn stacks(allocs: &Value, field: &str) -> usize {
    let sites = allocs["sites"].as_array().expect("sites");
    sites.iter().filter(|site| number(&site[field]) > 0).count()
}

#[test]
fn pprof_adds_up_what_we_recorded() {
    let Some(program) = tool("pprof") else { return };
    let lab = owners();
    let (file, _) = export(&lab, "pprof", "owners.pb.gz");
    for (column, name) in ["peak_space", "inuse_space", "alloc_space", "alloc_objects", "temporary_objects"]
        .into_iter()
        .enumerate()
    {
        let index = format!("-sample_index={name}");
        let mut pprof = Command::new(&program);
        pprof.args(["-top", "-unit=B", "-nodecount=1000", "-nodefraction=0", &index]).arg(&file);
        let output = finish(pprof.env("PPROF_TMPDIR", lab.path("pprof")).env("HOME", lab.path("")));
        let said = text(&output.stdout);
        assert!(
            output.status.success()
                && said.contains("File: owners")
                && said.contains(&format!("Type: {name}")),
            "{}",
            text(&output.stderr)
        );
        let flat = |function: &str| {
            let line = said.lines().find(|line| line.split_whitespace().nth(5) == Some(function));
            let number = line.and_then(|line| line.split_whitespace().next()).unwrap_or("0");
            number
                .trim_end_matches('B')
                .parse::<u64>()
                .unwrap_or_else(|_| panic!("{name} {function}: {said}"))
        };
        for (function, amounts) in OWNERS {
            assert_eq!(flat(function), amounts[column], "{name} of {function}: {said}");
        }
        if name == "peak_space" {
            assert!(said.contains(&format!("of {PEAK_BYTES}B total")), "{said}");
        }
    }
    let imported = finish(&mut lab.nilo(["import", "owners.pb.gz", "-o", "back.nilo"]));
    assert!(imported.status.success(), "{}", text(&imported.stderr));
    let back = finish(&mut lab.nilo(["report", "back.nilo", "--allocs", "--json"]));
    let back: Value = serde_json::from_slice(&back.stdout).expect("JSON");
    assert_eq!(number(&back["peak"]["bytes"]), PEAK_BYTES, "we read it ourselves");
    let (file, _) = export(&lab, "pprof", "again.pb.gz");
    let first = std::fs::read(lab.path("owners.pb.gz")).unwrap();
    assert!(first == std::fs::read(file).unwrap(), "the same run gives the same bytes");
}

#[test]
fn heaptrack_finds_the_same_peak_and_leaks() {
    let Some(root) = tool("heaptrack") else { return };
    let lab = owners();
    let (file, said) = export(&lab, "heaptrack", "heaptrack.owners.gz");
    assert!(said.contains("note: a recording has no order"), "{said}");
    let libraries = root.join("usr/lib/x86_64-linux-gnu");
    let print = |cost: &str| {
        let folded = lab.path(cost);
        let mut command = Command::new(root.join("usr/bin/heaptrack_print"));
        command.arg(&file).args(["--flamegraph-cost-type", cost, "-F"]).arg(&folded);
        let output = finish(command.env("LD_LIBRARY_PATH", &libraries));
        assert!(output.status.success(), "{}", text(&output.stderr));
        (text(&output.stdout), std::fs::read_to_string(folded).expect("stacks"))
    };
    for (column, cost) in [(0, "peak"), (1, "leaked"), (3, "allocations"), (4, "temporary")] {
        let (summary, folded) = print(cost);
        let lines: Vec<(&str, u64)> = folded
            .lines()
            .map(|line| line.rsplit_once(' ').expect("a value"))
            .map(|(stack, value)| (stack, value.parse().expect("a number")))
            .collect();
        for (function, amounts) in OWNERS {
            let of = lines.iter().filter(|(stack, _)| stack.contains(&format!(";{function} (")));
            assert_eq!(
                of.map(|(_, value)| value).sum::<u64>(),
                amounts[column],
                "{cost} of {function}: {folded}"
            );
        }
        let all: u64 = lines.iter().map(|(_, value)| value).sum();
        let whole = OWNERS.iter().map(|(_, amounts)| amounts[column]).sum::<u64>();
        assert_eq!(all, whole, "{cost}: {folded}");
        for line in [
            "calls to allocation functions: 1032 ",
            "temporary memory allocations: 1001 ",
            "peak heap memory consumption: 13.00M",
            "total memory leaked: 4.90M",
        ] {
            assert!(summary.contains(line), "{line}: {summary}");
        }
    }
}

#[test]
fn speedscope_files_keep_its_schema() {
    let Some(folder) = tool("speedscope") else { return };
    let lab = owners();
    let (file, _) = export(&lab, "speedscope", "owners.speedscope.json");
    let document: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).expect("JSON");
    let schema = std::fs::read(folder.join("file-format-schema.json")).expect("the schema");
    let schema: Value = serde_json::from_slice(&schema).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> =
        validator.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
    let allocs = report(&lab, &["--allocs", "--top", "all"]);
    let frames = document["shared"]["frames"].as_array().expect("frames");
    for (index, field) in
        ["peak_bytes", "live_end_bytes", "cumulative_bytes", "temporary_bytes"].into_iter().enumerate()
    {
        let profile = &document["profiles"][index];
        let (samples, weights) =
            (profile["samples"].as_array().unwrap(), profile["weights"].as_array().unwrap());
        assert_eq!((samples.len(), weights.len()), (stacks(&allocs, field), samples.len()), "{field}");
        let sum: u64 = weights.iter().map(number).sum();
        assert_eq!(number(&profile["endValue"]), sum, "{field}");
        for (function, amounts) in OWNERS.iter().filter(|_| index < 3) {
            let innermost = |sample: &Value| {
                let frame = sample.as_array().and_then(|stack| stack.last()).map(number).expect("a frame");
                frames[frame as usize]["name"] == *function
            };
            let of = samples.iter().zip(weights).filter(|(sample, _)| innermost(sample));
            assert_eq!(
                of.map(|(_, weight)| number(weight)).sum::<u64>(),
                amounts[index],
                "{field} of {function}"
            );
        }
    }
    assert_eq!(number(&document["profiles"][0]["endValue"]), PEAK_BYTES);
}

#[test]
fn perfetto_decodes_heap_profiles_by_its_schema() {
    let Some(python) = readers() else { return };
    let lab = owners();
    let (file, _) = export(&lab, "perfetto", "owners.pftrace");
    let found = read(&python, "perfetto", &[&file]);
    assert_eq!(found["wrong"], serde_json::json!([]));
    let (peak, all) = (&found["dumps"]["live at the peak"], &found["dumps"]["allocations"]);
    let allocs = report(&lab, &["--allocs", "--top", "all"]);
    assert_eq!(number(&peak["self_max"]), PEAK_BYTES);
    assert_eq!(number(&peak["stacks"]), stacks(&allocs, "peak_bytes") as u64);
    assert_eq!(
        (number(&all["live"]), number(&all["allocated"])),
        (LIVE_BYTES, number(&allocs["cumulative_bytes"]))
    );
    assert_eq!(number(&all["count"]), number(&allocs["count"]));
    for (function, amounts) in OWNERS {
        let of = |dump: &Value, place: usize| {
            dump["by_function"].get(function).map_or(0, |sums| number(&sums[place]))
        };
        assert_eq!([of(peak, 0), of(all, 1), of(all, 2)], amounts[..3], "{function}");
    }
}

#[test]
fn firefox_tables_hold_together_and_add_up() {
    let Some(python) = readers() else { return };
    let lab = owners();
    let (file, _) = export(&lab, "firefox", "owners.firefox.json");
    let found = read(&python, "firefox", &[&file]);
    assert_eq!(found["wrong"], serde_json::json!([]));
    let whole = report(&lab, &[]);
    let pid = whole["processes"][0]["pid"].to_string();
    let thread =
        found["threads"].as_array().unwrap().iter().find(|thread| thread["pid"] == *pid).expect("its thread");
    let sums = ["at_peak", "live", "allocated"].map(|field| number(&thread[field]));
    assert_eq!(sums, [PEAK_BYTES, LIVE_BYTES, 13_064_000], "{thread:#}");
    for (function, amounts) in OWNERS {
        let of = &thread["by_function"][function];
        assert_eq!((number(&of[0]), number(&of[1])), (amounts[1], amounts[2]), "{function}");
    }
}

#[test]
fn steps_and_curves_reach_perfetto_and_firefox() {
    let Some(python) = readers() else { return };
    let lab = stepping(&["--allocs=all"]);
    let whole = report(&lab, &[]);
    let pid = whole["processes"][0]["pid"].to_string();
    let highest =
        |points: &Value| points.as_array().unwrap().iter().map(|it| number(&it["max"])).max().unwrap();
    let rss = highest(&whole["curve"]["processes"][0]["rss"]["points"]);
    let tree = highest(&whole["curve"]["tree_high"]["points"]);

    let (file, _) = export(&lab, "perfetto", "run.pftrace.gz");
    let unpacked = lab.path("run.pftrace");
    let zcat = Command::new("zcat").arg(&file).output().expect("zcat");
    std::fs::write(&unpacked, zcat.stdout).unwrap();
    let found = read(&python, "perfetto", &[&unpacked]);
    assert_eq!(found["wrong"], serde_json::json!([]));
    assert_eq!(number(&found["rss_kb"][&pid]) * 1024, rss);
    assert_eq!(found["clocks"]["3"], found["clocks"]["4"], "both monotonic clocks");
    assert_eq!(found["command"][&pid][0], whole["processes"][0]["role"]);
    let counted: Vec<u64> =
        found["counters"]["memory of the tree, at most"].as_array().unwrap().iter().map(number).collect();
    assert_eq!(counted.iter().max(), Some(&tree));
    let names = |track: &str| -> Vec<String> {
        let slices = found["slices"][track].as_array().unwrap_or_else(|| panic!("{:#}", found["slices"]));
        slices.iter().map(|slice| slice[0].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("steps"), (0..STEPS).map(|step| format!("step {step}")).collect::<Vec<_>>());
    assert_eq!(names("phases"), ["warm-up", "training"]);
    let instants = found["instants"].as_array().unwrap();
    assert!(instants.contains(&"half-way".into()) && instants.contains(&"peak".into()), "{instants:?}");
    let steps = whole["steps"].as_array().unwrap();
    for (slice, step) in found["slices"]["steps"].as_array().unwrap().iter().zip(steps) {
        let difference = slice[1].as_f64().unwrap() - step["duration_s"].as_f64().unwrap();
        assert!(difference.abs() < 1e-6, "{slice} {step}");
    }

    let (file, _) = export(&lab, "firefox", "run.firefox.json");
    let found = read(&python, "firefox", &[&file]);
    assert_eq!(found["wrong"], serde_json::json!([]));
    let counters = found["counters"].as_array().unwrap();
    let counter = |name: &str| {
        let found = counters.iter().find(|counter| counter["name"] == name && counter["pid"] == *pid);
        number(&found.unwrap_or_else(|| panic!("{name} in {counters:?}"))["highest"])
    };
    assert_eq!((counter("RSS"), counter("tree")), (rss, tree));
    assert!(counters.iter().all(|counter| counter["category"] == "Memory"), "{counters:?}");
    let markers = &found["threads"][0]["markers"];
    assert_eq!(
        (number(&markers["step"]), number(&markers["phase"]), number(&markers["note"])),
        (STEPS, 2, 1)
    );
}

#[test]
fn tensorboard_reads_a_scalar_for_each_step() {
    let Some(python) = readers() else { return };
    let lab = stepping(&["--allocs=all"]);
    let (file, _) = export(&lab, "tensorboard", "run.tfevents");
    let found = read(&python, "tensorboard", &[&file]);
    let whole = report(&lab, &[]);
    let steps = whole["steps"].as_array().unwrap();
    assert_eq!(steps.len() as u64, STEPS);
    let points = |tag: &str| found["points"][tag].as_array().unwrap_or_else(|| panic!("{tag} in {found:#}"));
    for (tag, field) in
        [("tree/peak", "peak_bytes"), ("tree/end", "end_bytes"), ("tree/increment", "increment_bytes")]
    {
        let expected: Vec<(u64, f32)> =
            steps.iter().map(|step| (number(&step["step"]), step[field].as_f64().unwrap() as f32)).collect();
        let read: Vec<(u64, f32)> =
            points(tag).iter().map(|point| (number(&point[0]), point[1].as_f64().unwrap() as f32)).collect();
        assert_eq!(read, expected, "{tag}");
    }
    let allocs = report(&lab, &["--allocs", "--top", "all"]);
    let live: Vec<u64> = points("allocations/live").iter().map(|point| number(&point[1])).collect();
    let recorded: Vec<u64> =
        recording(&lab.path("run.nilo")).about.steps.iter().map(|step| step.live_bytes).collect();
    assert_eq!(live, recorded, "all below 16 MiB, so exact");
    // Five blocks of a million bytes; a mark without a time is of the moment when it arrives, perhaps a block later.
    assert!(live.len() as u64 == STEPS && live[5] - live[0] > 3_900_000, "blocks are kept: {live:?}");
    let categories = allocs["by_category"].as_array().unwrap();
    let mut told = 0;
    for category in categories.iter().filter(|it| !it["step_bytes"].as_array().unwrap().is_empty()) {
        let tag = format!("category/{}", category["category"].as_str().unwrap());
        let expected: Vec<f32> =
            category["step_bytes"].as_array().unwrap().iter().map(|bytes| number(bytes) as f32).collect();
        let read: Vec<f32> = points(&tag).iter().map(|point| point[1].as_f64().unwrap() as f32).collect();
        assert_eq!(read, expected, "{tag}");
        told += 1;
    }
    assert!(told > 0, "{categories:#?}");
    let role = whole["processes"][0]["role"].as_str().unwrap();
    assert!(!points(&format!("rss/{role}")).is_empty() && !points(&format!("pss/{role}")).is_empty());
}

#[test]
fn tables_are_read_by_pandas_pyarrow_and_duckdb() {
    let Some(python) = readers() else { return };
    let lab = stepping(&["--allocs=all"]);
    let (csv, _) = export(&lab, "csv", "run.csv");
    let (json, _) = export(&lab, "json", "run.json");
    let (tables, _) = export(&lab, "parquet", "tables");
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/export.md");
    let page = std::fs::read_to_string(page).expect("docs/export.md");
    let query = page.split("```sql\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a query");
    std::fs::write(lab.path("query.sql"), query).unwrap();
    let found = read(&python, "tables", &[&csv, &json, &tables, &lab.path("query.sql")]);
    let whole = report(&lab, &[]);
    let highest = whole["curve"]["tree_high"]["points"].as_array().unwrap();
    let highest = highest.iter().map(|it| number(&it["max"])).max().unwrap();
    assert_eq!(
        number(&found["csv_high_kb"]) * 1024,
        number(&found["system_high_bytes"]),
        "of the same ticks"
    );
    assert_eq!(found["csv_rows"], found["system_ticks"]);
    assert_eq!(number(&found["parquet_high_bytes"]), highest);
    assert_eq!(number(&found["json_ticks"]), number(&whole["ticks"]));
    assert_eq!(number(&found["json_steps"]), STEPS);
    let rows = found["duckdb"].as_array().unwrap();
    assert_eq!(rows.len() as u64, STEPS, "{rows:?}");
    let steps = whole["steps"].as_array().unwrap();
    for (row, step) in rows.iter().zip(steps) {
        assert_eq!(row[0], step["step"], "{rows:?}");
    }
    assert_eq!(rows.iter().map(|row| number(&row[1])).max(), Some(highest));
}

#[test]
fn a_format_that_needs_stacks_says_how_to_record_them() {
    let lab = stepping(&[]);
    for format in ["speedscope", "pprof", "heaptrack", "folded"] {
        let output = finish(&mut lab.nilo(["export", "run.nilo", "--format", format]));
        assert_eq!(output.status.code(), Some(5), "{format}");
        assert!(text(&output.stderr).contains("nilo run --allocs"), "{}", text(&output.stderr));
    }
    for (format, file) in
        [("perfetto", "run.pftrace"), ("firefox", "run.firefox.json"), ("tensorboard", "run.tfevents")]
    {
        let output = finish(&mut lab.nilo(["export", "run.nilo", "--format", format]));
        let said = text(&output.stderr);
        assert!(output.status.success() && said.contains("no stacks: nilo run --allocs"), "{said}");
        assert!(lab.path(file).exists() && said.contains(&format!("wrote {file}")), "{said}");
        let again = finish(&mut lab.nilo(["export", "run.nilo", "--format", format]));
        assert!(
            !again.status.success() && text(&again.stderr).contains("--force"),
            "{}",
            text(&again.stderr)
        );
        let piped = finish(&mut lab.nilo(["export", "run.nilo", "--format", format, "-o", "-"]));
        assert_eq!(piped.stdout, std::fs::read(lab.path(file)).unwrap(), "{format}");
    }
}
