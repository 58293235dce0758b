//! `nilo report --allocs` on programs whose bytes per function and line are known.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::harness::{Lab, Run, finish, py_program, skip, text};

/// The line of a program that carries a mark.
fn line_of(source: &Path, mark: &str) -> u64 {
    let code = std::fs::read_to_string(source).expect("the program");
    let found = code.lines().position(|line| line.contains(&format!("line: {mark}")));
    found.unwrap_or_else(|| panic!("no line is marked {mark}")) as u64 + 1
}

fn source(name: &str) -> PathBuf {
    py_program(name).into()
}

/// A C program with debug information, in the lab.
fn build(lab: &Lab, flags: &[&str]) -> PathBuf {
    let program = lab.path("owners");
    let done = Command::new("cc").args(flags).arg("-o").arg(&program).arg(source("owners.c")).status();
    assert!(done.expect("cc").success());
    program
}

fn record(lab: &Lab, mode: &str, command: &[&str]) -> Run {
    let run = lab.run(&["-q", mode], command);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    run
}

/// `nilo report RUN --allocs WORDS --json`.
fn allocs(lab: &Lab, run: &Path, words: &[&str]) -> Value {
    let mut command = lab.nilo(["report".as_ref(), run.as_os_str()]);
    let output = finish(command.args(["--allocs", "--json", "--top", "all"]).args(words));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_valid(&document);
    document
}

fn assert_valid(document: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/schema/allocs.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).expect("the schema")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    let errors: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// `function:line` of each frame, innermost first.
fn stack(site: &Value) -> Vec<String> {
    let frames = site["stack"].as_array().expect("a stack");
    frames
        .iter()
        .map(|frame| format!("{}:{}", frame["function"].as_str().unwrap_or("?"), frame["line"]))
        .collect()
}

/// The sum of a field over the sites whose innermost frame has this name.
fn owned(document: &Value, function: &str, field: &str) -> u64 {
    let sites = document["sites"].as_array().expect("sites");
    let of = sites.iter().filter(|site| site["stack"][0]["function"] == function);
    of.map(|site| site[field].as_u64().unwrap_or_else(|| panic!("{field} of {site}"))).sum()
}

/// The site with this innermost frame.
fn site<'a>(document: &'a Value, function: &str) -> &'a Value {
    let sites = document["sites"].as_array().expect("sites");
    let found = sites.iter().find(|site| site["stack"][0]["function"] == function);
    found.unwrap_or_else(|| panic!("{function} is not among {} sites", sites.len()))
}

/// The number after a word of what the program said.
fn told(run: &Run, word: &str) -> u64 {
    let said = run.stdout();
    let mut words = said.split_whitespace().skip_while(|found| *found != word);
    let number = words.nth(1).and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("the program said {said:?}"))
}

#[test]
fn a_c_programs_bytes_belong_to_their_functions_and_lines() {
    let lab = Lab::new();
    let program = build(&lab, &["-O1", "-g"]);
    let run = record(&lab, "--allocs=all", &[program.to_str().unwrap()]);
    let document = allocs(&lab, &run.directory, &[]);
    assert_eq!(document["mode"], "all");
    assert_eq!(document["lost_events"], 0);
    assert_eq!(document["peak"]["bytes"], told(&run, "peak"), "to the byte");
    assert_eq!(document["live_end_bytes"], told(&run, "live"));
    let cells = |function: &str| {
        ["peak_bytes", "live_end_bytes", "cumulative_bytes", "count"]
            .map(|field| owned(&document, function, field))
    };
    assert_eq!(cells("keep_small"), [3_000_000, 2_900_000, 3_000_000, 30]);
    assert_eq!(cells("shared_part"), [2_000_000, 2_000_000, 2_000_000, 1]);
    assert_eq!(cells("spike"), [8_000_000, 0, 8_000_000, 1]);
    assert_eq!(cells("short_lived"), [0, 0, 64_000, 1000]);
    let line = |mark: &str| line_of(&source("owners.c"), mark);
    let small = stack(site(&document, "keep_small"));
    assert_eq!(
        small[..2],
        [format!("keep_small:{}", line("keep_small")), format!("caller:{}", line("caller"))]
    );
    assert_eq!(small.last().unwrap().split(':').next(), Some("main"), "nothing before main: {small:?}");
    let large = stack(site(&document, "shared_part"));
    assert_eq!(
        large[..2],
        [format!("shared_part:{}", line("shared_part")), format!("keep_large:{}", line("keep_large"))]
    );
    assert_eq!(site(&document, "shared_part")["stack"][0]["inlined"], true);
}

#[test]
fn temporary_blocks_rows_by_line_and_by_library_add_up() {
    let lab = Lab::new();
    let program = build(&lab, &["-O1", "-g"]);
    let run = record(&lab, "--allocs=all", &[program.to_str().unwrap()]);
    let temporary = allocs(&lab, &run.directory, &["--what", "temporary", "--by", "function"]);
    assert_eq!(temporary["rows"][0]["name"], "spike", "{:#}", temporary["rows"]);
    assert_eq!(owned(&temporary, "short_lived", "temporary_count"), 1000);
    let lines = allocs(&lab, &run.directory, &["--by", "line"]);
    let row = format!("owners.c:{}", line_of(&source("owners.c"), "keep_small"));
    let rows = lines["rows"].as_array().unwrap();
    let found = rows.iter().find(|found| found["name"].as_str().unwrap().ends_with(&row));
    assert_eq!(found.unwrap_or_else(|| panic!("{row}"))["peak_bytes"], 3_000_000);
    let libraries = allocs(&lab, &run.directory, &["--by", "library"]);
    assert_eq!(libraries["rows"][0]["name"], "owners");
    let types = allocs(&lab, &run.directory, &["--by", "type"]);
    assert_eq!(types["rows"][0]["name"], "malloc and its kin");
    let owners = allocs(&lab, &run.directory, &["--by", "owner"]);
    assert_eq!(owners["rows"][0]["name"], "no code of its own: owners", "there is no Python");
    for document in [&lines, &libraries, &types, &owners] {
        let sum: u64 =
            document["rows"].as_array().unwrap().iter().map(|row| row["peak_bytes"].as_u64().unwrap()).sum();
        assert_eq!(document["peak"]["bytes"], sum, "the rows add up to the peak");
    }
    let sizes: u64 =
        lines["sizes"].as_array().unwrap().iter().map(|bin| bin["count"].as_u64().unwrap()).sum();
    assert_eq!(lines["count"], sizes);
}

#[test]
fn a_run_renders_where_its_program_is_not() {
    let lab = Lab::new();
    let program = build(&lab, &["-O1", "-g"]);
    let run = record(&lab, "--allocs=all", &[program.to_str().unwrap()]);
    let here = allocs(&lab, &run.directory, &[]);
    std::fs::remove_file(&program).expect("remove");
    let there = lab.path("copied.nilo");
    let copied = Command::new("cp").arg("-r").arg(&run.directory).arg(&there).status().expect("cp");
    assert!(copied.success());
    let mut again = allocs(&lab, &there, &[]);
    again["saved"] = here["saved"].clone();
    assert_eq!(again["sites"], here["sites"]);
}

/// One interpreter of each version; those that are missing are named.
fn interpreters(minors: std::ops::RangeInclusive<u32>) -> Vec<(u32, PathBuf)> {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    let cache = std::env::var_os("XDG_CACHE_HOME").map_or_else(|| home.join(".cache"), PathBuf::from);
    let folders =
        [(home.join(".pyenv/versions"), "bin/python3"), (cache.join("nilometer/interpreters"), "python")];
    let of = |minor: u32| {
        folders.iter().find_map(|(folder, program)| {
            let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
            let name = |path: &PathBuf| {
                path.file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with(&format!("3.{minor}.")))
            };
            let mut found = entries.filter(name).map(|path| path.join(program)).filter(|path| path.exists());
            found.next()
        })
    };
    let mut found = Vec::new();
    for minor in minors {
        match of(minor) {
            Some(path) => found.push((minor, path)),
            None => skip(&format!("Python 3.{minor}"), "cargo xtask interpreters"),
        }
    }
    found
}

/// What `owners.py` owns, by any interpreter.
fn check_python(minor: u32, interpreter: &Path) {
    let lab = Lab::new();
    let program = py_program("owners.py");
    let run = record(&lab, "--allocs=all", &[interpreter.to_str().unwrap(), &program]);
    let version = interpreter.display();
    assert_eq!(told(&run, "kept"), 4 * (300_000 + 5 * 200_000));
    let document = allocs(&lab, &run.directory, &["--what", "live"]);
    let line = |mark: &str| line_of(Path::new(&program), mark);
    let [keep, nested, forward, comprehension, main] =
        ["keep", "nested", "forward", "comprehension", "main"].map(line);
    let sites = document["sites"].as_array().unwrap();
    let mut bytes = [0, 0];
    for site in sites {
        let frames = stack(site);
        if frames.first() != Some(&format!("keep:{keep}")) || site["live_end_bytes"].as_u64() < Some(100_000)
        {
            continue;
        }
        // Names are qualified since 3.11; comprehensions are frames of their own before 3.12.
        let plain: Vec<&str> = frames
            .iter()
            .map(|frame| frame.trim_start_matches("Model."))
            .filter(|frame| !frame.contains("<listcomp>"))
            .collect();
        let way = plain.get(1).is_some_and(|frame| frame.starts_with("nested"));
        let caller = if way { format!("forward:{forward}") } else { format!("forward:{comprehension}") };
        let mut expected = vec![format!("keep:{keep}")];
        expected.extend(way.then(|| format!("nested:{nested}")));
        expected.extend([caller, format!("main:{main}")]);
        assert_eq!(plain[..expected.len()], expected, "{version}: {frames:?}");
        assert!(plain[expected.len()].starts_with("<module>"), "{version}: {frames:?}");
        bytes[usize::from(way)] += site["live_end_bytes"].as_u64().unwrap();
    }
    // Each bytearray has one byte more than it shows; since 3.15 there is a bytes object in it.
    let more = if minor < 15 { 1 } else { 33 };
    assert_eq!(bytes, [4 * 5 * (200_000 + more), 4 * (300_000 + more)], "{version}");
    let spike = format!("spike:{}", line("spike"));
    let site = sites.iter().find(|site| stack(site).first() == Some(&spike));
    assert_eq!(site.unwrap_or_else(|| panic!("{version}: no {spike}"))["peak_bytes"], 9_000_000 + more);
}

#[test]
fn python_bytes_belong_to_their_functions_and_lines_up_to_3_11() {
    for (minor, interpreter) in interpreters(8..=11) {
        check_python(minor, &interpreter);
    }
}

#[test]
fn python_bytes_belong_to_their_functions_and_lines_from_3_12_on() {
    for (minor, interpreter) in interpreters(12..=15) {
        check_python(minor, &interpreter);
    }
}

#[test]
fn sampled_figures_have_error_bars_that_hold_the_truth() {
    let lab = Lab::new();
    let program = build(&lab, &["-O1", "-g"]);
    let run = record(&lab, "--allocs", &[program.to_str().unwrap()]);
    let document = allocs(&lab, &run.directory, &[]);
    assert_eq!(document["mode"], "sampled");
    assert_eq!(document["sampling"]["mean_bytes"], 524_288);
    // From 256 KiB on every block is recorded.
    assert_eq!(owned(&document, "spike", "peak_bytes"), 8_000_000);
    assert_eq!(owned(&document, "shared_part", "peak_bytes"), 2_000_000);
    let peak = &document["peak"];
    let number = |field: &str| peak[field].as_u64().unwrap();
    assert!(number("low_bytes") <= number("bytes") && number("bytes") <= number("high_bytes"));
    assert!(number("low_bytes") >= 9_000_000, "{peak}");
}

#[test]
fn exports_have_every_stack() {
    let lab = Lab::new();
    let program = build(&lab, &["-O1", "-g"]);
    let run = record(&lab, "--allocs=all", &[program.to_str().unwrap()]);
    let folder = run.directory.to_str().unwrap();
    let folded = finish(&mut lab.nilo(["export", folder, "--format", "folded"]));
    assert!(folded.status.success(), "{}", text(&folded.stderr));
    let lines: Vec<(String, u64)> = text(&folded.stdout)
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a value"))
        .map(|(stack, value)| (stack.to_owned(), value.parse().expect("bytes")))
        .collect();
    assert_eq!(lines.iter().map(|(_, bytes)| bytes).sum::<u64>(), told(&run, "peak"));
    let small = lines.iter().find(|(stack, _)| stack.contains(";keep_small")).expect("keep_small");
    assert!(
        small.0.starts_with("main ") && small.0.contains(";caller ") && small.1 == 3_000_000,
        "{small:?}"
    );
    let csv = finish(&mut lab.nilo(["export", folder, "--allocs", "--format", "csv"]));
    let text = text(&csv.stdout);
    assert!(text.starts_with("function,file,line,library,peak_bytes,"));
    assert!(
        text.lines().any(|line| line.starts_with("keep_small,") && line.contains(",3000000,30,")),
        "{text}"
    );
    let parquet = finish(&mut lab.nilo(["export", folder, "--format", "parquet", "-o", "tables"]));
    assert!(parquet.status.success());
    let made = Command::new("find")
        .arg(lab.path("tables"))
        .args(["-name", "allocs.parquet"])
        .output()
        .expect("find");
    assert!(!made.stdout.is_empty());
}

#[test]
fn a_run_without_allocations_says_how_to_get_them() {
    let lab = Lab::new();
    let run = lab.run(&["-q"], &["true"]);
    let output = finish(&mut lab.nilo(["report".as_ref(), run.directory.as_os_str(), "--allocs".as_ref()]));
    assert_eq!(output.status.code(), Some(5));
    assert!(text(&output.stderr).contains("nilo run --allocs"), "{}", text(&output.stderr));
}
