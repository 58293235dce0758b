//! The target is left as it was, whatever happens to `nilo heap`; and it is found wherever it lives.

use std::process::{Command, Stdio};

use crate::harness::{Dialogue, Lab, finish_child, nilo_binary, py_program, skip, text};
use crate::heap_target::{Target, document, row, screen, tracer};
use crate::onlooker::{KILL, children, send, stat, until};
use crate::watched::{is_root, python};

/// A stop in which a test can be sure to act.
const BIG: u64 = 800 << 20;

#[test]
fn serial_killing_nilo_in_the_middle_of_the_stop_leaves_the_target_running() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order(&format!("big {BIG}"));
    let pid = target.dialogue.pid();
    // On one CPU: it copies at a high priority, and whoever looks for the moment needs the other one.
    let mut nilo = Command::new("taskset");
    nilo.args(["-c", "0", nilo_binary(), "heap", &target.pid(), "--max-pause", "10s", "-o", "a.heap"]);
    nilo.current_dir(lab.path("")).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = nilo.spawn().expect("taskset (Debian: util-linux)");
    while tracer(pid) == Some(0) {
        assert!(child.try_wait().expect("wait").is_none(), "it ended before its stop was seen");
    }
    send(child.id() as i32, KILL);
    let output = finish_child(child);
    assert_eq!(output.status.code(), None, "it was killed: {}", text(&output.stderr));
    until("the kernel has let it go", || tracer(pid) == Some(0));
    assert!(stat(pid).is_some_and(|s| matches!(s.state, 'S' | 'R')), "it is not stopped");
    assert!(!lab.path("a.heap").exists());
    // The next look works.
    assert_eq!(document(&lab, &[&target.pid()])["partial"], false);
    target.end_unharmed();
}

#[test]
fn a_pause_has_an_end_and_what_is_missing_is_said() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order(&format!("big {BIG}"));
    let found = document(&lab, &[&target.pid(), "--max-pause", "1ms"]);
    assert_eq!(found["partial"], true, "{found:#}");
    assert!(found["partial_reasons"][0].as_str().is_some_and(|reason| !reason.is_empty()));
    let pause_ms = found["pause_ms"].as_f64().expect("a pause");
    assert!(pause_ms < 250.0, "{pause_ms}");
    let shown = screen(&lab, &[&target.pid(), "--max-pause", "1ms"]);
    assert!(shown.starts_with("at least ") && shown.contains("\n partial "), "{shown}");
    target.end_unharmed();
}

#[test]
fn a_fork_is_read_by_that_flag_only_and_leaves_no_child() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 1000");
    let found = document(&lab, &[&target.pid(), "--fork", "--top", "all"]);
    assert_eq!(found["pause_mode"], "fork");
    assert_eq!(row(&found, "__main__.Node")["count"], 1000);
    assert!(children(target.dialogue.pid()).is_empty());
    target.end_unharmed();
}

#[test]
fn a_census_does_not_grow_the_target() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 10000");
    let pid = target.pid();
    let anonymous = || {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("status");
        status.lines().find_map(|line| line.strip_prefix("RssAnon:")).map(str::to_owned)
    };
    target.order("grow 0"); // every page of this loop has been touched now
    until("it waits for an order", || stat(target.dialogue.pid()).is_some_and(|s| s.state == 'S'));
    let before = anonymous();
    for _ in 0..3 {
        screen(&lab, &[&pid]);
    }
    assert_eq!(anonymous(), before);
    target.end_unharmed();
}

/// Whatever it is doing when it is stopped, what it holds is found, and it goes on.
fn look_at_busy(what: &str, censuses: usize) -> Vec<serde_json::Value> {
    let lab = Lab::new();
    let mut busy = Dialogue::start(Command::new(python()).arg(py_program("heap_busy.py")).arg(what));
    assert_eq!(busy.line(), "ready");
    let pid = busy.pid();
    let found: Vec<serde_json::Value> =
        (0..censuses).map(|_| document(&lab, &[&pid.to_string(), "--top", "all"])).collect();
    for found in &found {
        assert_eq!(row(found, "__main__.Node")["count"], 1000, "{what}");
        assert_eq!(found["partial"], false, "{what}: {}", found["partial_reasons"]);
        // What is being freed at that moment, and two objects for each thread, are held by C alone.
        let share = found["quality"]["refcount_exact_share"].as_f64();
        assert!(share >= Some(0.95), "{what}: {share:?}");
    }
    assert_eq!(tracer(pid), Some(0));
    let output = busy.end();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with("turns "), "{}", text(&output.stdout));
    found
}

#[test]
fn a_target_that_collects_all_the_time() {
    look_at_busy("collect", 5);
}

#[test]
fn a_target_that_forks_all_the_time() {
    look_at_busy("fork", 5);
}

#[test]
fn a_target_that_allocates_all_the_time() {
    look_at_busy("allocate", 5);
}

#[test]
fn a_target_with_500_threads() {
    let found = look_at_busy("threads", 2);
    assert!(found[0]["threads"].as_u64() >= Some(501), "{}", found[0]["threads"]);
}

/// Its files exist in its own mount namespace only, and its pid there is 1.
#[test]
fn a_target_in_other_namespaces() {
    if !is_root() {
        return skip("namespaces", "a mount namespace needs root here");
    }
    let lab = Lab::new();
    std::fs::create_dir(lab.path("inside")).expect("mkdir");
    let script = r#"
        mount -t tmpfs tmpfs inside || exit 90
        prefix=$("$0" -c 'import sys; print(sys.base_prefix)') || exit 91
        mkdir -p inside/bin inside/lib && cp -L "$0" inside/bin/python3 || exit 92
        cp -L "$prefix"/lib/libpython3*.so* inside/lib/ 2>/dev/null
        exec env PYTHONHOME="$prefix" LD_LIBRARY_PATH="$PWD/inside/lib" inside/bin/python3 "$1""#;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", script]);
    unshare.arg(python()).arg(py_program("heap_nodes.py")).current_dir(lab.path(""));
    let mut dialogue = Dialogue::start(&mut unshare);
    if dialogue.line() != "ready" {
        let output = dialogue.end();
        return skip("namespaces", &format!("{:?} {}", output.status, text(&output.stderr)));
    }
    assert!(!lab.path("inside/bin/python3").exists(), "its files are its own");
    let mut target = Target { dialogue };
    target.order("grow 321");
    let pid = children(target.dialogue.pid())[0].0;
    let found = document(&lab, &[&pid.to_string(), "--top", "all"]);
    assert_eq!(row(&found, "__main__.Node")["count"], 321);
    assert_eq!((&found["pid"], &found["partial"]), (&pid.into(), &false.into()));
    target.dialogue.end();
}

#[test]
fn every_interpreter_of_this_machine() {
    let lab = Lab::new();
    let home = std::env::var("HOME").unwrap_or_default();
    let versions = std::fs::read_dir(format!("{home}/.pyenv/versions")).into_iter().flatten().flatten();
    let mut interpreters: Vec<String> =
        versions.map(|version| version.path().join("bin/python3").display().to_string()).collect();
    interpreters.push("/usr/bin/python3".into());
    interpreters.sort();
    let mut read = 0;
    for interpreter in interpreters {
        let minor = "import sys; print(sys.version_info[1]); print('.'.join(map(str, sys.version_info[:3])))";
        let Ok(output) = Command::new(&interpreter).args(["-c", minor]).output() else { continue };
        let said = text(&output.stdout);
        let Some((minor, version)) = said.trim().split_once('\n') else { continue };
        if !(8..=15).contains(&minor.parse().unwrap_or(0)) {
            continue;
        }
        let mut target = Target::start_in(&interpreter);
        target.order("grow 777");
        let found = document(&lab, &[&target.pid(), "--top", "all"]);
        assert_eq!(found["python"], version, "{interpreter}");
        assert_eq!(row(&found, "__main__.Node")["count"], 777, "{interpreter}");
        assert_eq!(found["partial"], false, "{interpreter}: {:#}", found["partial_reasons"]);
        target.end_unharmed();
        read += 1;
    }
    assert!(read > 0, "no interpreter from 3.8 on");
}
