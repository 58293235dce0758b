//! Allocations through the real binary, against what the programs themselves count.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Stdio};

use nilometer_trace::allocs::{self, ALLOCS_FILE, Amount, Process, Recording, Source, special, stream};

use crate::control::{ask, socket_of};
use crate::harness::{Dialogue, Lab, Run, c_program, finish, py_program, skip, text};
use crate::onlooker::until;

const QUICK: [&str; 5] = ["-q", "--before", "0ms", "--settle", "0ms"];

pub fn recording(run: &Path) -> Recording {
    let file = File::open(run.join(ALLOCS_FILE)).expect("allocations");
    allocs::read(file).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs a program of ours with `--allocs=MODE`.
fn run(lab: &Lab, mode: &str, more: &[&str], program: &str, arguments: &[&str]) -> (Run, Recording) {
    let program = c_program(program).display().to_string();
    let mode = format!("--allocs={mode}");
    let options: Vec<&str> = QUICK.into_iter().chain([mode.as_str()]).chain(more.iter().copied()).collect();
    let command: Vec<&str> = std::iter::once(program.as_str()).chain(arguments.iter().copied()).collect();
    let run = lab.run(&options, &command);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let recording = recording(&run.directory);
    (run, recording)
}

/// The numbers after a word of the output.
fn numbers(output: &str, word: &str) -> Vec<u64> {
    let line =
        output.lines().find(|line| line.starts_with(word)).unwrap_or_else(|| panic!("{word}: {output}"));
    line.split_whitespace().skip(1).filter_map(|number| number.parse().ok()).collect()
}

fn sum(recording: &Recording, of: impl Fn(&allocs::Site) -> Amount) -> Amount {
    recording.sites.iter().fold(Amount::default(), |sum, site| {
        let amount = of(site);
        Amount {
            bytes: sum.bytes + amount.bytes,
            count: sum.count + amount.count,
            variance: sum.variance + amount.variance,
        }
    })
}

#[test]
fn the_peak_of_one_thread_is_exact_to_the_byte() {
    let lab = Lab::new();
    let (run, found) = run(&lab, "all", &[], "allocs_known.c", &["300000"]);
    let truth = numbers(&run.stdout(), "truth");
    let about = &found.about;
    assert_eq!([about.live.bytes, about.peak.bytes, about.total.bytes, about.total.count], truth[..]);
    assert_eq!((about.lost_events, about.unknown_frees, about.finished), (0, 0, true));
    // Every total closes.
    assert_eq!(sum(&found, |site| site.peak), about.peak);
    assert_eq!(sum(&found, |site| site.live), about.live);
    assert_eq!(sum(&found, |site| site.total), about.total);
    assert_eq!(found.sites.iter().map(|site| site.own_peak_bytes).sum::<u64>(), about.peak.bytes);
    let sizes: u64 = about.sizes.buckets.iter().map(|bucket| bucket.bytes).sum();
    let lives: u64 = about.lifetimes.buckets.iter().map(|bucket| bucket.count).sum();
    assert_eq!((sizes, lives), (about.total.bytes, about.frees));
    // Eight depths of one recursion are eight stacks.
    assert_eq!(found.sites.len(), 8);
    for site in &found.sites {
        assert!(site.highest_bytes >= site.peak.bytes && site.highest_bytes <= site.total.bytes);
        assert!(found.stack(site.native).count() > 3);
    }
    assert!(about.tracker_bytes > 0);
}

#[test]
fn the_peak_of_threads_is_within_a_thousandth() {
    let lab = Lab::new();
    let (run, found) = run(&lab, "all", &[], "allocs_known.c", &["150000", "4"]);
    let truth = numbers(&run.stdout(), "truth");
    let heap: Vec<_> = found.sites.iter().filter(|site| site.source == Source::Heap).collect();
    let ours = |of: fn(&allocs::Site) -> u64| heap.iter().map(|site| of(site)).sum::<u64>();
    // The control blocks of threads are the C library's own (`_dl_allocate_tls` calls malloc inside the linker).
    let own = ours(|site| site.total.bytes) - truth[2];
    assert!(own < 20_000, "{own}");
    assert!(ours(|site| site.live.bytes).abs_diff(truth[0]) <= own);
    assert_eq!((found.about.lost_events, found.about.unknown_frees), (0, 0));
    let off = found.about.peak.bytes.abs_diff(truth[1] + own);
    assert!(off * 1000 <= truth[1], "peak {} of {}", found.about.peak.bytes, truth[1]);
    assert_eq!(sum(&found, |site| site.peak), found.about.peak);
}

fn by_pid(found: &Recording) -> HashMap<i32, Vec<&Process>> {
    let mut processes: HashMap<i32, Vec<&Process>> = HashMap::new();
    for process in &found.processes {
        processes.entry(process.pid).or_default().push(process);
    }
    processes
}

#[test]
fn forks_and_execs_are_followed_and_a_child_owns_what_it_made() {
    let lab = Lab::new();
    let (run, found) = run(&lab, "all", &[], "allocs_tree.c", &[]);
    let processes = by_pid(&found);
    let told = |name: &str| {
        let numbers = numbers(&run.stdout(), name);
        (processes[&(numbers[0] as i32)].clone(), numbers[1])
    };
    for name in ["parent", "child", "grandchild", "fresh"] {
        let (images, live) = told(name);
        let last = images.last().unwrap();
        assert_eq!(last.live.bytes, live, "{name}");
        // The tracker itself makes the linker forget two messages of failed lookups.
        assert!(last.unknown_frees <= 2, "{name}");
        assert!(last.ended_ns.is_some(), "{name}");
    }
    let (parent, child, grandchild) = (told("parent").0, told("child").0[0], told("grandchild").0[0]);
    assert_eq!((child.inherited.bytes, child.inherited_live.bytes), (3_000_000, 2_000_000));
    assert_eq!(grandchild.inherited.bytes, 2_040_000, "its parent's own and what that had inherited");
    assert_eq!(found.processes[child.forked_from.unwrap() as usize].pid, parent[0].pid);
    let fresh = told("fresh").0;
    assert_eq!(fresh.len(), 2, "before and after its exec");
    assert_eq!((fresh[0].live.bytes, fresh[1].forked_from), (9_000_000, None));
    // At the highest moment the parent had its own and the child the nine millions.
    // Ends have no time of their own: what ended in the same turn of the recorder may stand beside it.
    let ended = 40_000 + 5_000 + 70_000;
    let peak = found.about.peak.bytes;
    assert!((12_000_000..=12_000_000 + ended).contains(&peak), "{peak}");
    let at_peak = |pid: i32| -> u64 {
        let of = |site: &&allocs::Site| found.processes[site.process as usize].pid == pid;
        found.sites.iter().filter(of).map(|site| site.peak.bytes).sum()
    };
    assert_eq!((at_peak(parent[0].pid), at_peak(fresh[0].pid)), (3_000_000, 9_000_000));
    let rest = at_peak(child.pid) + at_peak(grandchild.pid);
    assert!(rest <= ended, "{rest}");
}

#[test]
fn samples_are_right_within_their_error() {
    let lab = Lab::new();
    let rounds = 20;
    let mut inside = [0; 2];
    let mut sums = [0.0; 2];
    let mut truth = Vec::new();
    let mut variance = [0.0; 2];
    for _ in 0..rounds {
        let (run, found) = run(&lab, "sampled", &["--allocs-interval", "64K"], "allocs_known.c", &["20000"]);
        truth = numbers(&run.stdout(), "truth");
        for (index, amount, exact) in [(0, found.about.live, truth[0]), (1, found.about.total, truth[2])] {
            let error = 1.96 * (amount.variance as f64).sqrt();
            inside[index] += u32::from((amount.bytes as f64 - exact as f64).abs() <= error);
            sums[index] += amount.bytes as f64;
            variance[index] += amount.variance as f64;
        }
        assert_eq!(sum(&found, |site| site.live).bytes, found.about.live.bytes);
    }
    // 19 are expected; fewer than 13 come once in a million times.
    assert!(inside.iter().all(|inside| *inside >= 13), "{inside:?} of {rounds}");
    for (index, exact) in [(0, truth[0]), (1, truth[2])] {
        let mean = sums[index] / f64::from(rounds);
        let error = variance[index].sqrt() / f64::from(rounds);
        assert!((mean - exact as f64).abs() < 4.5 * error, "{mean} of {exact} ± {error}");
    }
}

pub fn counter(path: &Path) -> u64 {
    let mut bytes = [0; 8];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut bytes, 0));
    read.map_or(0, |()| u64::from_le_bytes(bytes))
}

#[test]
fn a_killed_target_loses_no_event() {
    let lab = Lab::new();
    for round in 0..3_u64 {
        let path = lab.path(&format!("counter-{round}"));
        let mut nilo = lab.nilo(["run", "-o", "run.nilo", "--force", "--allocs=all"]);
        nilo.args(QUICK).arg("--").arg(c_program("allocs_count.c")).arg(&path);
        let child = nilo.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        until("it counts", || counter(&path) > 100_000 + 33_333 * round);
        let target = std::fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
        let is_target = |pid: &&str| {
            std::fs::read_to_string(format!("/proc/{pid}/comm"))
                .is_ok_and(|name| name.starts_with("allocs_c"))
        };
        let pid = target.split_whitespace().find(is_target).expect("the target");
        assert!(Command::new("kill").args(["-KILL", pid]).status().unwrap().success());
        let output = crate::harness::finish_child(child);
        assert_eq!(output.status.code(), Some(137), "{}", text(&output.stderr));
        let found = recording(&lab.path("run.nilo"));
        let truth = counter(&path);
        // The counter follows the allocation: one more may be told than it says.
        let told = found.about.total.count;
        assert!(told == truth || told == truth + 1, "{told} told, {truth} made");
        assert_eq!((found.about.lost_events, found.about.unknown_frees), (0, 0));
    }
}

#[test]
fn a_recording_that_waits_is_switched_on_and_off() {
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-o", "run.nilo", "--allocs=later"]);
    let mut pace = Dialogue::start(nilo.args(QUICK).arg("--").arg(c_program("allocs_pace.c")));
    assert!(pace.line().starts_with("ready"));
    let directory = lab.path("run.nilo");
    let socket = socket_of(&directory);
    let status = || ask(&socket, r#"{"do":"status"}"#)["allocs"].clone();
    until("the process is known", || status()["processes"] == 1);
    let quiet = status()["events"].as_u64().unwrap();
    assert!(quiet < 100, "{}", status());
    for (mode, word) in [("all", "all"), ("off", "off")] {
        let output = finish(&mut lab.nilo(["mode", mode, "run.nilo"]));
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert_eq!(status()["mode"], word);
        if mode == "all" {
            until("events come", || status()["events"].as_u64().unwrap() > 10_000);
        }
    }
    let wrong = finish(&mut lab.nilo(["mode", "most", "run.nilo"]));
    assert_eq!(wrong.status.code(), Some(2));
    let output = pace.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = recording(&directory);
    assert!(found.about.total.count > 1000 && found.about.notes.len() == 2, "{:?}", found.about.notes);
    let late = finish(&mut lab.nilo(["mode", "all", "run.nilo"]));
    assert!(!late.status.success() && text(&late.stderr).contains("has ended"), "{}", text(&late.stderr));
}

#[test]
fn a_recording_that_waits_in_vain_says_so() {
    let lab = Lab::new();
    let output =
        finish(lab.nilo(["run", "-o", "run.nilo", "--allocs=later"]).args(&QUICK[1..]).args(["--", "true"]));
    let said = text(&output.stderr);
    assert!(
        said.contains("allocs   not recorded: never switched on") && said.contains("nilo mode all"),
        "{said}"
    );
    let shown = text(&finish(&mut lab.nilo(["report", "run.nilo", "--allocs"])).stdout);
    assert!(shown.contains("doubt    it was never switched on"), "{shown}");
}

#[test]
fn growth_is_told_step_by_step() {
    let lab = Lab::new();
    let mut nilo = lab.nilo(["run", "-o", "run.nilo", "--allocs=all"]);
    let program = py_program("allocs_steps.py");
    let mut python = Dialogue::start(nilo.args(QUICK).arg("--").args(["/usr/bin/python3", &program, "10"]));
    let socket = || socket_of(&lab.path("run.nilo"));
    for step in 0..10 {
        assert_eq!(python.line(), "step");
        let seen = || ask(&socket(), r#"{"do":"status"}"#)["allocs"]["steps"].clone();
        until("the step is noted", || seen() == step + 1);
        python.say("on");
    }
    let output = python.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = recording(&lab.path("run.nilo"));
    assert_eq!((found.about.steps_seen, found.about.steps.len()), (10, 10));
    let grows = |values: &[u64]| values.windows(2).all(|pair| pair[1] == pair[0] + 100_001);
    let growing: Vec<_> = found.series.iter().filter(|series| grows(&series.bytes)).collect();
    assert_eq!(growing.len(), 1, "one site keeps a block a step");
    let site = &found.sites[growing[0].site as usize];
    let (_, node) = found.stack(site.python).next().expect("a Python frame");
    let allocs::Frame::Python { code, line, .. } = node.frame else { panic!("{node:?}") };
    assert!(found.codes[code as usize].file.ends_with("allocs_steps.py"));
    assert_eq!(line, 8, "the line that keeps");
    let passing = found.sites.iter().find(|site| site.total.bytes >= 30_000_000).expect("what passes");
    assert_eq!((passing.live.bytes, passing.freed_in_step_bytes), (0, passing.total.bytes));
}

#[test]
fn the_stream_holds_every_event() {
    let lab = Lab::new();
    let (_, found) = run(&lab, "all", &["--events"], "allocs_known.c", &["100000"]);
    let file = File::open(lab.path("run.nilo").join(stream::EVENTS_FILE)).expect("events");
    let bytes = file.metadata().unwrap().len();
    assert_eq!(found.about.event_bytes, Some(bytes));
    let mut raw = 0;
    let end = stream::read(file, |process, _, bytes| {
        assert!(process == 0 && !bytes.is_empty());
        raw += bytes.len() as u64;
    });
    assert_eq!(end.unwrap(), stream::StreamEnd::Whole);
    assert_eq!(found.about.raw_bytes, raw, "what the rings held is what the stream holds");
    assert!(bytes / found.about.events < 6, "{bytes} bytes for {} events", found.about.events);
}

#[test]
fn a_stream_ends_at_its_ceiling_and_the_sums_do_not() {
    let lab = Lab::new();
    let (run, found) = run(&lab, "all", &["--events", "--max-log", "300K"], "allocs_known.c", &["300000"]);
    let truth = numbers(&run.stdout(), "truth");
    assert_eq!(found.about.peak.bytes, truth[1]);
    assert!(found.about.event_bytes.unwrap() <= 300 << 10);
    assert!(found.about.notes.iter().any(|note| note.contains("--max-log")), "{:?}", found.about.notes);
}

#[test]
fn what_cannot_be_preloaded_runs_and_is_named() {
    let lab = Lab::new();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/allocs_known.c");
    let program = lab.path("static");
    let built =
        Command::new("cc").args(["-O1", "-static", "-pthread", "-o"]).arg(&program).arg(source).status();
    assert!(built.unwrap().success());
    let program = program.display().to_string();
    let options: Vec<&str> = QUICK.into_iter().chain(["--allocs=all"]).collect();
    let alone = lab.run(&options, &[&program, "10"]);
    assert_eq!(alone.code(), Some(0));
    let manifest = std::fs::read_to_string(alone.directory.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    assert_eq!(manifest["allocs"]["injected"], false);
    assert!(manifest["allocs"]["why_not"].as_str().unwrap().contains("statically"), "{manifest}");
    // As a child of a tracked process that waits for it: the shell is tracked, the child is named.
    let bare = "import os; os.execve('/bin/sleep', ['sleep', '0.4'], {})";
    let script = format!("{program} 30000000; /usr/bin/python3 -c \"{bare}\"; true");
    let under = lab.run(&options, &["/bin/sh", "-c", &script]);
    let stderr = under.stderr();
    assert!(under.code() == Some(0) && stderr.is_empty(), "{stderr}");
    let found = recording(&under.directory);
    let names: Vec<&str> = found.about.untracked.iter().map(|silent| silent.why.as_str()).collect();
    assert!(names.iter().any(|why| why.contains("statically")), "{names:?}");
    assert!(names.iter().any(|why| why.contains("another environment")), "{names:?}");
    assert!(found.processes.iter().any(|process| process.name == "sh"));
}

#[test]
fn children_that_cannot_report_are_counted_wherever_losses_are_told() {
    let lab = Lab::new();
    let program = c_program("allocs_unheard.c").display().to_string();
    let run = lab.run(&["--allocs=all", "--before", "0ms", "--settle", "0ms"], &[&program]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let truth = |word: &str| numbers(&run.stdout(), word)[0];
    let found = recording(&run.directory);
    assert_eq!(found.about.unheard_processes, truth("unheard"));
    assert_eq!(found.processes.len(), 2, "the parent, and the child that could");
    assert_eq!((found.about.live.bytes, found.about.lost_events), (truth("live"), 0));
    assert!(run.stderr().contains(" · 5 processes could not report"), "{}", run.stderr());
    let directory = run.directory.display().to_string();
    let view = |options: &[&str]| {
        let told = finish(&mut lab.nilo([&["report", &directory], options].concat()));
        assert!(told.status.success(), "{}", text(&told.stderr));
        text(&told.stdout)
    };
    let document: serde_json::Value = serde_json::from_str(&view(&["--allocs", "--json"])).unwrap();
    assert_eq!(document["unheard_processes"], truth("unheard"));
    let lost = "0 events, and everything of 5 processes that could not report";
    let screen = view(&["--allocs"]);
    assert!(screen.contains(&format!(" lost     {lost}")), "{screen}");
    assert!(view(&["--html", "-o", "-"]).contains(lost));
}

#[test]
fn a_sanitized_program_is_left_alone() {
    let lab = Lab::new();
    let source = lab.path("own.c");
    std::fs::write(&source, "#include <stdlib.h>\nint main(void) { free(malloc(10)); return 3; }\n").unwrap();
    let program = lab.path("own");
    let built =
        Command::new("cc").args(["-fsanitize=address", "-o"]).arg(&program).arg(&source).output().unwrap();
    if !built.status.success() {
        skip("AddressSanitizer", &text(&built.stderr));
        return;
    }
    let options: Vec<&str> = QUICK.into_iter().chain(["--allocs=all"]).collect();
    let run = lab.run(&options, &[&program.display().to_string()]);
    assert_eq!((run.code(), run.stderr().as_str()), (Some(3), ""));
}

#[test]
fn frames_of_python_have_lines_and_callers() {
    let lab = Lab::new();
    let program = lab.path("calls.py");
    let code = "def inner(n):\n    return bytearray(n)\n\n\ndef outer():\n    return inner(5_000_000)\n\n\nkept = outer()\n";
    std::fs::write(&program, code).unwrap();
    let options: Vec<&str> = QUICK.into_iter().chain(["--allocs"]).collect();
    let run = lab.run(&options, &["/usr/bin/python3", &program.display().to_string()]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    let found = recording(&run.directory);
    let site = found.sites.iter().max_by_key(|site| site.peak.bytes).expect("sites");
    assert_eq!((site.total.bytes, site.total.count), (5_000_001, 1), "large blocks are exact in samples");
    let frames: Vec<(String, u32)> = found
        .stack(site.python)
        .filter_map(|(_, node)| match node.frame {
            allocs::Frame::Python { code, line, .. } => Some((found.codes[code as usize].name.clone(), line)),
            allocs::Frame::Native { .. } => None,
        })
        .collect();
    let expected = [("inner", 2), ("outer", 6), ("<module>", 9)];
    assert_eq!(frames, expected.map(|(name, line)| (name.to_owned(), line)));
    assert!(found.stack(site.native).count() > 5);
    let mut stack = found.stack(site.native);
    assert!(stack.by_ref().last().is_some() && stack.next == special::NONE, "it ends at the root");
}
