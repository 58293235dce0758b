//! Verbs that need no target: `import`, `demo`, and `nilo` alone, through the real binary.

#![allow(clippy::unwrap_used)] // helpers of tests

use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A private place with the binary under test.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { directory: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nilo"));
        command.args(words).current_dir(self.directory.path()).stdin(Stdio::null());
        command.env_remove("NILO_DIR").env("XDG_STATE_HOME", self.path("state")).env("LC_ALL", "C.UTF-8");
        command.env_remove("COLUMNS");
        command
    }

    /// The same, where modes of files count for root too.
    fn unprivileged(&self, words: &[&str]) -> Command {
        let plain = self.command(words);
        if text(&Command::new("id").arg("-u").output().unwrap().stdout).trim() != "0" {
            return plain;
        }
        let mut command = Command::new("setpriv");
        command.args(["--bounding-set=-all", "--inh-caps=-all"]).arg(plain.get_program()).args(words);
        command.current_dir(self.directory.path()).stdin(Stdio::null());
        command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command
    }

    fn nilo(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    fn report(&self, run: &str) -> Value {
        let output = self.nilo(&["report", run, "--json"]);
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Names of what is there, hidden files left out.
    fn entries(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    root.join("../import/fixtures").join(name).display().to_string()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[test]
fn imported_repeats_say_what_each_run_left_behind() {
    let place = Place::new();
    let output = place.nilo(&["import", &fixture("repeats.log"), "-o", "caffe.nilo"]);
    assert!(output.status.success());
    let said = text(&output.stderr);
    assert!(said.contains("is a free-log: line 1 is the header of `free`"), "{said}");
    assert!(said.contains("left behind per run: 57,169 kB (30 runs)"), "{said}");
    assert!(said.contains("18.13 s per run"), "{said}");
    let shown = text(&place.nilo(&["report", "caffe.nilo"]).stdout);
    assert!(
        shown.contains("left behind per run: 57,169 kB (30 runs)") && shown.contains("run 30"),
        "{shown}"
    );
    let judged = place.nilo(&["leak", "caffe.nilo", "--json"]);
    let verdict: Value = serde_json::from_slice(&judged.stdout).unwrap();
    assert_eq!((judged.status.code(), &verdict["class"]), (Some(1), &"outlives the process".into()));
    let rate = verdict["rate_bytes_per_step"].as_f64().unwrap() / 1024.0;
    assert!((rate - 57_169.0).abs() < 1.0 && verdict["per"] == "run", "{verdict:#}");
    let report = place.report("caffe.nilo");
    assert_eq!((&report["repeats"]["runs"], &report["duration_s"]), (&30.into(), &544.0.into()));
    assert_eq!(report["about"]["verb"], "import");
    assert_eq!(report["cost"], Value::Null);
}

#[test]
fn an_imported_sampled_run_left_61_766_mib() {
    let place = Place::new();
    let output = place.nilo(&["import", &fixture("free_sampled.log"), "-o", "one.nilo"]);
    let said = text(&output.stderr);
    assert!(said.contains("(1 run), 61.766 MiB"), "{said}");
    let left_mib = place.report("one.nilo")["repeats"]["left_per_run_kib"].as_f64().unwrap() / 1024.0;
    assert!((left_mib - (2_522.589_614_868_2 - 2_460.823_486_328_1)).abs() < 1e-9, "{left_mib}");
}

#[test]
fn an_imported_meminfo_log_is_a_run_for_every_reading_verb() {
    let place = Place::new();
    let output = place.nilo(&["import", &fixture("mem_info.log"), "-o", "choke.nilo"]);
    assert!(text(&output.stderr).contains("swap in use at most 504 MiB"), "{}", text(&output.stderr));
    let csv = text(&place.nilo(&["export", "choke.nilo", "--format", "csv"]).stdout);
    assert_eq!(csv.lines().count(), 61);
    assert!(csv.lines().next().unwrap().contains("HugePages_Total"), "{csv}");
    assert!(place.nilo(&["export", "choke.nilo", "--format", "parquet"]).status.success());
    assert!(text(&place.nilo(&["list"]).stdout).contains("choke.nilo"));
    let shown = text(&place.nilo(&["report", "choke.nilo"]).stdout);
    assert!(shown.contains("Available on the machine") && shown.contains("Swap in use"), "{shown}");
}

#[test]
fn every_verb_finds_a_run_by_its_name_without_the_ending() {
    let place = Place::new();
    for name in ["base.nilo", "new.nilo"] {
        assert!(place.nilo(&["import", &fixture("repeats.log"), "-q", "-o", name]).status.success());
    }
    for words in [
        &["report", "base"][..],
        &["report", "base", "--html", "-o", "page.html", "--base", "new"],
        &["compare", "base", "new"],
        &["export", "base", "--format", "csv"],
        &["plot", "base", "--view", "system", "-o", "both.svg"],
        &["list", "--rm", "new"],
    ] {
        let output = place.nilo(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
    }
    // These find it and say what it has not.
    for (words, why) in [
        (&["leak", "base"][..], "runs"),
        (&["where", "base"], "has no ledger"),
        (&["pages", "base"], "has no looks at pages"),
        (&["merge", "base"], "no job of ranks"),
        (&["mode", "all", "base"], "base.nilo"),
    ] {
        let output = place.nilo(words);
        let said = text(&output.stdout) + &text(&output.stderr);
        assert!(!said.contains("does not exist") && said.contains(why), "{words:?}: {said}");
    }
}

#[test]
fn a_run_without_a_ledger_names_what_it_has_instead() {
    let place = Place::new();
    for program in [&["true"][..], &["sleep", "0.5"]] {
        let words = [&["run", "-q", "--force", "-o", "a.nilo", "--"], program].concat();
        assert!(place.nilo(&words).status.success());
        let output = place.nilo(&["where", "a.nilo"]);
        let (said, report) = (text(&output.stderr), text(&place.nilo(&["report", "a.nilo"]).stdout));
        let next = if report.contains("\n made of ") { "nilo report a.nilo" } else { "nilo where PID" };
        assert!(output.status.code() == Some(5) && said.contains(next), "{said}{report}");
    }
}

#[test]
fn reports_of_imports_follow_the_schema() {
    let place = Place::new();
    let schema = serde_json::from_str(nilometer_report::json::SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for name in ["repeats", "free_sampled", "mem_info"] {
        place.nilo(&["import", &fixture(&format!("{name}.log")), "-q", "-o", name]);
        let document = place.report(name);
        let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
    }
}

#[test]
fn a_malformed_log_is_refused_by_line_and_leaves_nothing() {
    let place = Place::new();
    place.write("bad.log", "microtime 1462118400\nMemTotal: 5 kB\nMemFree: many kB\n");
    let output = place.nilo(&["import", "bad.log"]);
    assert_eq!(output.status.code(), Some(125));
    let said = text(&output.stderr);
    assert!(said.contains("line 3") && said.contains("\nhint: "), "{said}");
    assert_eq!(place.entries(), ["bad.log"]);
    place.write("song.txt", "la la la\n");
    let said = text(&place.nilo(&["import", "song.txt"]).stderr);
    assert!(said.contains("line 1 is not the start of a known log") && said.contains("--as"), "{said}");
    let forced = text(&place.nilo(&["import", "song.txt", "--as", "free-log"]).stderr);
    assert!(forced.contains("line 1: expected the header of `free`"), "{forced}");
    assert_eq!(place.entries(), ["bad.log", "song.txt"]);
}

#[test]
fn an_existing_run_is_replaced_by_force_and_only_by_a_good_log() {
    let place = Place::new();
    assert!(place.nilo(&["import", &fixture("repeats.log"), "-q", "-o", "r.nilo"]).status.success());
    let again = place.nilo(&["import", &fixture("mem_info.log"), "-o", "r.nilo"]);
    assert_eq!(again.status.code(), Some(125));
    place.write("bad.log", "microtime x\n");
    assert!(!place.nilo(&["import", "bad.log", "--force", "-o", "r.nilo"]).status.success());
    assert_eq!(place.report("r.nilo")["repeats"]["runs"], 30);
    assert!(
        place.nilo(&["import", &fixture("mem_info.log"), "-q", "--force", "-o", "r.nilo/"]).status.success()
    );
    assert_eq!(place.report("r.nilo")["repeats"], Value::Null);
    assert_eq!(place.entries(), ["bad.log", "r.nilo"]);
    std::fs::create_dir(place.path("mine")).unwrap();
    place.write("mine/thesis.tex", "x");
    assert!(!place.nilo(&["import", &fixture("repeats.log"), "--force", "-o", "mine"]).status.success());
    assert_eq!(place.entries(), ["bad.log", "mine", "r.nilo"]);
    assert!(place.path("mine/thesis.tex").exists());
}

#[test]
fn a_log_may_come_through_a_pipe() {
    let place = Place::new();
    let mut child = place
        .command(&["import", "-", "-o", "piped.nilo", "-q"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = std::fs::read(fixture("repeats.log")).unwrap();
    child.stdin.take().unwrap().write_all(&log).unwrap();
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert_eq!(place.report("piped.nilo")["repeats"]["runs"], 30);
    assert_eq!(said, "");
}

#[test]
fn a_run_directory_is_no_log_and_is_pointed_to_report() {
    let place = Place::new();
    place.nilo(&["import", &fixture("repeats.log"), "-q", "-o", "r.nilo"]);
    let said = text(&place.nilo(&["import", "r.nilo"]).stderr);
    assert!(said.contains("is a directory") && said.contains("nilo report r.nilo"), "{said}");
}

/// It failed, named the path, and says what to try.
fn refuses_with_a_hint(place: &Place, words: &[&str], path: &str) {
    let output = place.nilo(words);
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{words:?}: {said}");
    let (sentence, hint) = said.split_once("\nhint: ").unwrap_or((&said, ""));
    assert!(sentence.contains(path) && !hint.trim().is_empty(), "{words:?}: {said}");
}

#[test]
fn a_path_that_cannot_be_read_is_named_with_a_next_step() {
    let place = Place::new();
    assert!(place.nilo(&["import", &fixture("repeats.log"), "-q", "-o", "good.nilo"]).status.success());
    std::fs::create_dir_all(place.path("folder")).unwrap();
    std::fs::create_dir_all(place.path("broken.nilo")).unwrap();
    place.write("broken.nilo/manifest.json", "");
    place.write("empty", "");
    place.write("words.txt", "some words\n");
    for wrong in ["missing", "folder", "empty", "words.txt", "broken.nilo"] {
        for words in [
            &["heap", wrong][..],
            &["heap", "diff", wrong, wrong],
            &["where", wrong],
            &["pages", wrong],
            &["compare", wrong, "good.nilo"],
            &["compare", "good.nilo", wrong],
            &["mode", "all", wrong],
            &["report", wrong],
            &["report", wrong, "--allocs"],
            &["report", "good.nilo", "--html", "--base", wrong],
            &["report", "good.nilo", "--html", "--pages", wrong],
            &["plot", wrong, "-o", "picture.svg"],
            &["export", wrong, "--format", "csv"],
            &["leak", wrong],
            &["merge", wrong],
            &["import", wrong],
            &["sweep", "--resume", wrong],
            &["sweep", "--sets", wrong, "--", "true"],
        ] {
            refuses_with_a_hint(&place, words, wrong);
        }
    }
    assert_eq!(place.entries(), ["broken.nilo", "empty", "folder", "good.nilo", "words.txt"]);
}

#[test]
fn what_is_closed_to_us_is_named_with_its_owner() {
    let place = Place::new();
    let run = place.path("closed.nilo");
    std::fs::create_dir(&run).unwrap();
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o0)).unwrap();
    let user = text(&Command::new("id").arg("-un").output().unwrap().stdout);
    for words in [
        &["report", "closed.nilo"][..],
        &["report", "closed"],
        &["where", "closed.nilo"],
        &["leak", "closed.nilo"],
        &["compare", "closed.nilo", "closed.nilo"],
        &["pages", "closed.nilo"],
        &["heap", "closed.nilo"],
        &["sweep", "closed.nilo"],
    ] {
        let output = place.unprivileged(words).output().unwrap();
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{words:?}: {said}");
        let whose = format!("permission denied; closed.nilo belongs to {}", user.trim());
        assert!(said.contains(&whose) && said.contains("chmod u+rwx closed.nilo"), "{words:?}: {said}");
    }
    std::fs::set_permissions(&run, std::fs::Permissions::from_mode(0o700)).unwrap();
}

#[test]
fn what_somebody_else_has_closed_is_to_be_asked_for() {
    let place = Place::new();
    std::fs::create_dir(place.path("closed.nilo")).unwrap();
    std::fs::set_permissions(place.path("closed.nilo"), std::fs::Permissions::from_mode(0o700)).unwrap();
    if std::os::unix::fs::chown(place.path("closed.nilo"), Some(4_000_000), None).is_err() {
        return nilometer_lab::skip("root", "a directory of another user is needed");
    }
    let output = place.unprivileged(&["report", "closed.nilo"]).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("belongs to user 4000000") && said.contains("sudo -u '#4000000' nilo"), "{said}");
}

#[test]
fn a_place_that_cannot_be_written_is_named_with_a_next_step() {
    let place = Place::new();
    assert!(place.nilo(&["run", "-q", "-o", "good.nilo", "--", "sleep", "0.3"]).status.success());
    std::fs::create_dir_all(place.path("folder.svg")).unwrap();
    for wrong in ["no/such.svg", "folder.svg"] {
        refuses_with_a_hint(&place, &["report", "good.nilo", "--html", "-o", wrong], wrong);
        refuses_with_a_hint(&place, &["plot", "good.nilo", "-o", wrong], wrong);
        refuses_with_a_hint(&place, &["export", "good.nilo", "--format", "csv", "-o", wrong], wrong);
        let json = format!("--json={wrong}");
        refuses_with_a_hint(&place, &["leak", "good.nilo", &json], wrong);
    }
}

#[test]
fn a_pipe_cuts_nothing_and_is_as_wide_as_columns_says() {
    let place = Place::new();
    let long = "x".repeat(90);
    let script = format!("sleep 0.3; : {long}");
    assert!(place.nilo(&["run", "-q", "-o", "good.nilo", "--", "sh", "-c", &script]).status.success());
    let narrow = text(&place.command(&["report", "good.nilo"]).env("COLUMNS", "40").output().unwrap().stdout);
    let widest = |text: &str| text.lines().map(|line| line.chars().count()).max();
    assert_eq!(widest(&narrow), Some(40), "{narrow}");
    let plain = text(&place.nilo(&["report", "good.nilo"]).stdout);
    let wrong =
        text(&place.command(&["report", "good.nilo"]).env("COLUMNS", "many").output().unwrap().stdout);
    assert!(plain.contains(&long), "{plain}");
    assert_eq!(plain, wrong);
}

#[test]
fn nilo_alone_shows_python_processes_and_questions_in_80_columns() {
    let place = Place::new();
    // Says that it runs, then waits for the end of its input.
    let program = "import sys; print('up', flush=True); sys.stdin.read()";
    let mut python = Command::new("python3")
        .args(["-c", program, "\u{1b}[2J", &"x".repeat(300)])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    python.stdout.take().unwrap().read_exact(&mut [0; 3]).unwrap();
    let output = place.nilo(&[]);
    drop(python.stdin.take());
    let pid = python.id().to_string();
    python.wait().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    // Others may have ten larger ones; ours is there or the list says that it is cut.
    assert!(shown.contains(&pid) || shown.contains("(10 of "), "{shown}");
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(shown.chars().all(|c| c == '\n' || !c.is_control()), "{shown:?}");
    for command in ["nilo run --", "nilo attach PID", "nilo import FILE", "nilo demo"] {
        assert!(shown.contains(command), "{shown}");
    }
    assert!(shown.contains("nilo leak") && shown.contains("nilo top"));
    assert!(text(&place.nilo(&["--help"]).stdout).contains("Usage:"));
}

#[test]
fn the_leak_demo_records_its_example_and_tidies_up() {
    let place = Place::new();
    std::fs::create_dir(place.path("tmp")).unwrap();
    let output =
        place.command(&["demo", "leak", "--steps", "4"]).env("TMPDIR", place.path("tmp")).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("nilo run -- python3 tree_lstm.py --leak --steps 4"), "{said}");
    assert!(said.contains("peak") && said.contains("nilo report"), "{said}");
    assert_eq!(std::fs::read_dir(place.path("tmp")).unwrap().count(), 0);
    let runs: Vec<String> =
        place.entries().into_iter().filter(|name| name.starts_with("tree_lstm.")).collect();
    assert_eq!(runs.len(), 1);
    assert_eq!(place.report(&runs[0])["steps_seen"], 4);
}

#[test]
fn a_demo_without_python_says_so_and_unknown_ones_are_refused() {
    let place = Place::new();
    let output = place.command(&["demo"]).env("PATH", place.path("empty")).output().unwrap();
    assert_eq!(output.status.code(), Some(127));
    let said = text(&output.stderr);
    assert!(said.contains("needs python3") && said.contains("\nhint: install it"), "{said}");
    assert_eq!(place.nilo(&["demo", "where"]).status.code(), Some(2));
}

#[test]
fn a_recording_of_damon_becomes_looks_at_pages() {
    let place = Place::new();
    let line = |at: &str, regions: &str| {
        format!("kdamond.0 9 [001] {at}: damon:damon_aggregated: target_id=0 nr_regions=1 {regions} 1\n")
    };
    let text = [
        line("1.000000", "4096-8192: 3"),
        line("1.100000", "4096-40960: 0"),
        line("1.200000", "4096-40960: 2"),
    ];
    place.write("perf.txt", &text.concat());
    let output = place.nilo(&["import", "perf.txt", "-o", "look", "--json", "-q"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let sizes: Vec<u64> = document["windows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|window| window["wss_bytes"].as_u64().unwrap())
        .collect();
    assert_eq!(sizes, [4096, 0, 9 * 4096]);
    let again = place.nilo(&["pages", "look", "--json"]);
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["windows"], document["windows"]);
    assert!(
        !place.nilo(&["import", "perf.txt", "-o", "look"]).status.success(),
        "an existing directory is kept"
    );
    assert!(place.nilo(&["import", "--as", "damon", "perf.txt", "-o", "look", "--force"]).status.success());
}
