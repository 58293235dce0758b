//! `nilo pages` with commands of its own, with bad input, and with targets that end, replace themselves or see it killed.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use nilometer_trace::pages::PAGES_FILE;
use serde_json::Value;

use crate::harness::{Dialogue, Lab, c_program, finish, nilo_binary, skip, text};
use crate::pages::{Hot, MIB};
use crate::watched::is_root;

#[test]
fn a_command_is_started_split_and_ends_as_it_would() {
    let lab = Lab::new();
    let script = "b=bytearray(64<<20)\nimport time,os\nfor i in range(12):\n  b[0:16<<20:4096]=b'x'*4096\n  \
                  print('step',i,file=open(os.environ['NILO_MARKS'],'a'));time.sleep(0.1)\nprint('out')";
    let mut nilo = lab.nilo(["pages", "-o", "look", "--window", "200ms", "--", "python3", "-c", script]);
    let output = finish(&mut nilo);
    assert_eq!(
        (output.status.code(), &*text(&output.stdout)),
        (Some(0), "out\n"),
        "{}",
        text(&output.stderr)
    );
    let told = text(&output.stderr);
    assert!(told.contains("looking") && told.contains("chunks") && told.contains("reuse"), "{told}");
    for file in ["pages.jsonl", "pages.json", "heat.svg", "heat.png"] {
        assert!(lab.path("look").join(file).exists(), "{file}");
    }
    let again = finish(&mut lab.nilo(["pages", "look", "--json", "--picture", "again.svg"]));
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    let kept: Value = serde_json::from_slice(&std::fs::read(lab.path("look/pages.json")).unwrap()).unwrap();
    assert_eq!(again["windows"], kept["windows"]);
    assert!(lab.path("again.svg").exists());
    // Existing directories are not replaced unasked.
    let refused = finish(&mut lab.nilo(["pages", "-o", "look", "--", "true"]));
    assert_eq!(refused.status.code(), Some(125));
}

#[test]
fn windows_follow_steps() {
    let lab = Lab::new();
    let script = "import time,os\nm=open(os.environ['NILO_MARKS'],'a')\nfor i in range(9):\n  \
                  print('step',i,file=m,flush=True);time.sleep(0.15)";
    let mut nilo =
        lab.nilo(["pages", "--per-step=2", "--no-inject", "--json", "--", "python3", "-c", script]);
    let output = finish(&mut nilo);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let windows = document["windows"].as_array().unwrap();
    assert!(windows.len() >= 2, "{document:#}");
    assert!(windows.iter().all(|window| window["steps"].as_u64() >= Some(2)), "{document:#}");
    assert_eq!(document["injects"], Value::Null);
}

#[test]
fn a_command_that_fails_or_is_too_short_is_said() {
    let lab = Lab::new();
    let failed = finish(&mut lab.nilo(["pages", "--window", "50ms", "--", "sh", "-c", "sleep 0.5; exit 9"]));
    assert_eq!(failed.status.code(), Some(4), "{}", text(&failed.stderr));
    let short = finish(&mut lab.nilo(["pages", "--", "true"]));
    assert_eq!(short.status.code(), Some(3));
    assert!(text(&short.stderr).contains("--window 50ms"), "{}", text(&short.stderr));
    let missing = finish(&mut lab.nilo(["pages", "--", "no-such-program-here"]));
    assert_eq!(missing.status.code(), Some(127));
}

#[test]
fn a_window_that_the_command_did_not_live_to_see_is_told() {
    let lab = Lab::new();
    let words = ["pages", "--windows", "0.1,30", "--", "sleep", "0.5"];
    let output = finish(&mut lab.nilo(words));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    // Standard output is the command's own.
    let shown = text(&output.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        shown.contains("the process ended after 0.") && shown.contains(": no window of 30 s was seen"),
        "{shown}"
    );
    // One row of the table of windows, with its count of looks.
    assert!(shown.contains("window touched least most written looks effective 100 ms"), "{shown}");
}

#[test]
fn bad_input_is_answered_with_the_next_command() {
    let lab = Lab::new();
    let said = |words: &[&str]| {
        let output = finish(&mut lab.nilo(words));
        (output.status.code(), text(&output.stderr))
    };
    let cases: [(&[&str], i32, &str); 9] = [
        (&["pages"], 2, "nilo pages -- python train.py"),
        (&["pages", "0"], 125, "no process id"),
        (&["pages", "4194303"], 125, "no process"),
        (&["pages", "nowhere"], 125, "nilo pages PID -o nowhere"),
        (&["pages", "1", "--chunk", "4K"], 2, "64K"),
        (&["pages", "1", "--window", "0"], 2, "1ms"),
        (&["pages", "1", "--split", "--no-inject"], 2, "cannot be used"),
        (&["pages", "1", "--backend", "split", "--no-inject"], 5, "nilo doctor"),
        (&["pages", "1", "--per-step"], 125, "NILO_MARKS"),
    ];
    for (words, code, sentence) in cases {
        let (got, told) = said(words);
        assert_eq!(got, Some(code), "{words:?}: {told}");
        assert!(told.contains(sentence), "{words:?}: {told}");
    }
}

#[test]
fn another_users_process_is_refused_by_name_of_the_rule() {
    let hot = Hot::start(MIB, "private");
    let Some(told) = refused_to_nobody(&["pages", &hot.dialogue.pid().to_string()]) else { return };
    assert!(told.contains("another user's"), "{told}");
    hot.dialogue.end();
}

/// To anybody but root DAMON is refused on every machine.
#[test]
fn a_way_that_does_not_work_here_promises_nothing() {
    let command = ["sh", "-c", "echo started >&2"];
    let Some(told) = refused_to_nobody(&[&["pages", "--backend", "damon", "--"], &command[..]].concat())
    else {
        return;
    };
    assert!(told.contains("damon is not available here") && told.contains("nilo doctor"), "{told}");
    assert!(!told.contains("gives") && !told.contains("started"), "{told}");
}

/// What another user than root is told, whom `nilo` refuses with 5.
fn refused_to_nobody(words: &[&str]) -> Option<String> {
    const NOBODY: u32 = 65534;
    if !is_root() {
        skip("root", "a second user is needed");
        return None;
    }
    let lab = Lab::new();
    std::fs::set_permissions(lab.path(""), PermissionsExt::from_mode(0o777)).unwrap();
    std::fs::copy(nilo_binary(), lab.path("nilo")).unwrap(); // the build directory may be closed to others
    let mut nilo = Command::new(lab.path("nilo"));
    let output = finish(nilo.uid(NOBODY).gid(NOBODY).current_dir(lab.path("")).args(words));
    let told = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{told}");
    Some(told)
}

#[test]
fn a_process_of_many_mappings_is_looked_at() {
    let script = "import mmap,sys\nk=[mmap.mmap(-1,8192,prot=mmap.PROT_READ|mmap.PROT_WRITE) for _ in range(20000)]\n\
                  [m.__setitem__(0,1) for m in k]\nprint('ready',flush=True)\nsys.stdin.read()";
    let mut dialogue = Dialogue::start(Command::new("python3").args(["-c", script]));
    assert_eq!(dialogue.line(), "ready");
    let lab = Lab::new();
    let pid = dialogue.pid().to_string();
    let output = finish(&mut lab.nilo(["pages", &pid, "--window", "20ms", "--duration", "300ms", "--json"]));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert!(!document["windows"].as_array().unwrap().is_empty());
    dialogue.end();
}

#[test]
fn a_process_that_ends_within_a_window_ends_the_looks() {
    let lab = Lab::new();
    let mut dialogue = Dialogue::start(Command::new("python3").args(["-c", "input(); input()"]));
    let pid = dialogue.pid().to_string();
    let mut nilo =
        lab.nilo(["pages", &pid, "--window", "100ms", "--duration", "30s", "--json", "-o", "look"]);
    let nilo = Dialogue::start(&mut nilo);
    // Its first look is stored: now it may end.
    let looks = lab.path("look").join(PAGES_FILE);
    while !std::fs::read_to_string(&looks).is_ok_and(|lines| lines.contains("{\"look\"")) {
        std::thread::yield_now();
    }
    dialogue.say("");
    dialogue.say("");
    dialogue.end();
    let output = nilo.end();
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    assert_eq!(document["ended"], "the process ended");
}

/// The moments are spread over the start, when calls are made in the target, and some windows.
#[test]
fn a_target_is_whole_wherever_nilo_is_killed() {
    const KILLS: u32 = 80;
    let lab = Lab::new();
    let mut target = Dialogue::start(&mut Command::new(c_program("steadfast.c")));
    assert_eq!(target.line(), "ready");
    let pid = target.pid().to_string();
    for kill in 0..KILLS {
        let mut nilo = lab.nilo(["pages", &pid, "--split", "--window", "10ms", "--json", "--no-names"]);
        let mut nilo = nilo.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(500) * kill);
        nilo.kill().unwrap();
        nilo.wait().unwrap();
    }
    // What was registered went with whoever held it.
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    assert!(!smaps.lines().any(|line| line.starts_with("VmFlags:") && line.contains(" uw")), "{smaps}");
    target.say("end");
    assert_eq!(target.line(), "right");
    assert!(target.end().status.success());
}

/// What was opened in the target is gone with its program; the number may be a file of the next one.
#[test]
fn a_program_that_replaces_itself_keeps_its_files() {
    let lab = Lab::new();
    let next = "import os, time; fds = [os.open('/dev/null', os.O_WRONLY) for _ in range(40)]\n\
                end = time.monotonic() + 3\n\
                while time.monotonic() < end: [os.write(fd, b'x') for fd in fds]\n\
                print('whole')";
    // Long enough for a first window before it replaces itself.
    let script = format!(
        "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec {} -c \"$0\"",
        crate::watched::python()
    );
    let mut nilo = lab.nilo(["pages", "--window", "100ms", "--duration", "1500ms", "--"]);
    let output = finish(nilo.args(["sh", "-c", &script, next]));
    let shown = text(&output.stdout) + &text(&output.stderr);
    assert!(shown.contains("whole") && !shown.contains("Error"), "{shown}");
    assert_eq!(output.status.code(), Some(0), "{shown}");
}

/// Launchers do so a few times (`env`, pyenv's shims): what is read in that moment is of a program that is gone.
#[test]
fn a_program_that_replaces_itself_all_the_time_is_looked_at_to_the_end() {
    let lab = Lab::new();
    std::fs::write(lab.path("again.sh"), "[ $1 -gt 0 ] && exec sh $0 $(($1 - 1)); exec sleep 1").unwrap();
    let mut nilo = lab.nilo(["pages", "--window", "1ms", "--no-inject", "--json", "--", "sh"]);
    let output = finish(nilo.arg(lab.path("again.sh")).arg("1500"));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    let last = document["windows"].as_array().unwrap().last().unwrap();
    assert!(last["at_s"].as_f64() > Some(0.9), "until it ended: {document:#}");
}

/// The new program has memory of its own: what it writes is seen again from the next mark on.
#[test]
fn writes_of_a_program_that_replaced_the_first_are_seen() {
    let lab = Lab::new();
    let next = "import time; block = bytearray(32 << 20); end = time.monotonic() + 2\n\
                while time.monotonic() < end: block[::4096] = bytes(len(block) // 4096)\n";
    let script = format!(
        "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exec {} -c \"$0\"",
        crate::watched::python()
    );
    let mut nilo = lab.nilo(["pages", "--window", "100ms", "--json", "--no-names", "-o", "look", "--"]);
    let output = finish(nilo.args(["sh", "-c", &script, next]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
    if document["written"].is_null() {
        return skip("soft-dirty or userfaultfd", document["written_why_not"].as_str().unwrap_or("?"));
    }
    let written = |window: &Value| window["written_bytes"].as_u64().unwrap_or(0);
    let windows = document["windows"].as_array().unwrap();
    let seen = windows.iter().filter(|window| written(window) >= 32 * MIB).count();
    assert!(seen >= 5, "{seen} of {} windows: {document:#}", windows.len());
    assert!(
        windows.iter().all(|window| written(window) <= window["wss_bytes"].as_u64().unwrap()),
        "{document:#}"
    );
}

/// Secrets that a program keeps out of core dumps stay out, whatever is split around them.
#[test]
fn what_a_program_left_out_of_core_dumps_stays_so() {
    let lab = Lab::new();
    let program = "import mmap, sys\n\
                   secret = mmap.mmap(-1, 16 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)\n\
                   secret.madvise(mmap.MADV_DONTDUMP)\n\
                   secret.write(b'x' * (16 << 20))\n\
                   plain = bytearray(b'x') * (16 << 20)\n\
                   print('ready', flush=True)\n\
                   sys.stdin.read()";
    let mut target = Dialogue::start(Command::new(crate::watched::python()).args(["-c", program]));
    assert_eq!(target.line(), "ready");
    let pid = target.pid().to_string();
    let left_out = || -> Vec<String> {
        let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
        let mut range = "";
        let is_left_out = |line: &str| line.starts_with("VmFlags:") && line.contains(" dd");
        let mut found = Vec::new();
        for line in smaps.lines() {
            let first = line.split(' ').next().unwrap_or_default();
            range = if first.contains('-') { first } else { range };
            found.extend(is_left_out(line).then(|| range.to_owned()));
        }
        found
    };
    let before = left_out();
    assert!(!before.is_empty());
    let output = finish(
        lab.nilo(["pages", &pid, "--split", "--window", "100ms", "--duration", "300ms"]).arg("--json"),
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["backend"], "split");
    assert_eq!(left_out(), before);
    assert_eq!(target.end().status.code(), Some(0));
}
