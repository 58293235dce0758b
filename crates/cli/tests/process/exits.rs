//! Exit codes, streams and errors: the prefix is transparent.

use crate::harness::{Lab, finish, text};

#[test]
fn the_exit_code_is_the_commands() {
    let lab = Lab::new();
    for code in [0, 1, 42, 75, 255] {
        let run = lab.run(&["-q"], &["sh", "-c", &format!("exit {code}")]);
        assert_eq!(run.code(), Some(code));
        assert_eq!(run.report["exit"]["code"], code);
    }
}

#[test]
fn a_signal_gives_128_and_its_number() {
    let lab = Lab::new();
    for signal in [6, 9, 11, 15] {
        let run = lab.run(&["-q"], &["sh", "-c", &format!("kill -{signal} $$")]);
        assert_eq!(run.code(), Some(128 + signal));
        assert_eq!(run.report["exit"]["signal"], signal);
    }
}

#[test]
fn exec_errors_have_their_errno_and_leave_no_directory() {
    let lab = Lab::new();
    let missing = lab.run(&[], &["/nonexistent/program"]);
    assert_eq!(missing.code(), Some(127));
    assert!(missing.stderr().contains("No such file or directory"), "{}", missing.stderr());
    assert!(missing.stderr().contains("hint:"), "{}", missing.stderr());
    assert!(!missing.directory.exists());
    let refused = lab.run(&[], &["/etc/passwd"]);
    assert_eq!(refused.code(), Some(126));
    assert!(refused.stderr().contains("Permission denied"));
    let folder = lab.run(&[], &["/proc"]);
    assert_eq!(folder.code(), Some(126));
    assert!(folder.stderr().contains("hint: it is a directory"), "{}", folder.stderr());
}

#[test]
fn streams_pass_through_untouched() {
    let lab = Lab::new();
    let run = lab.run(&["-q"], &["sh", "-c", "printf 'a\\0b'; printf err >&2"]);
    assert_eq!(run.output.stdout, b"a\0b");
    assert_eq!(run.output.stderr, b"err");
}

#[test]
fn json_on_standard_output_is_one_document() {
    let lab = Lab::new();
    let run = lab.run(&["-q", "--json"], &["sh", "-c", "echo noise"]);
    let document: serde_json::Value = serde_json::from_slice(&run.output.stdout).expect("one document");
    assert_eq!(document["exit"]["code"], 0);
    assert!(run.stderr().contains("noise"));
}

#[test]
fn json_to_a_file_leaves_the_streams_alone() {
    let lab = Lab::new();
    let run = lab.run(&["-q", "--json=out.json"], &["echo", "hello"]);
    assert_eq!(run.stdout(), "hello\n");
    let written = std::fs::read(lab.path("out.json")).expect("out.json");
    let told: serde_json::Value = serde_json::from_slice(&written).expect("JSON");
    assert_eq!(told["exit"]["code"], 0, "{told}");
}

#[test]
fn usage_errors_of_run_end_with_125_and_of_others_with_2() {
    let lab = Lab::new();
    for arguments in [
        &["run"][..],
        &["run", "--interval", "1ms", "--", "true"],
        &["run", "--interval", "100", "--", "true"],
        &["run", "--max-log", "12X", "--", "true"],
        &["run", "--no-such-option", "--", "true"],
    ] {
        let output = finish(&mut lab.nilo(arguments));
        assert_eq!(output.status.code(), Some(125), "{arguments:?}: {}", text(&output.stderr));
    }
    let output = finish(&mut lab.nilo(["report", "--no-such-option"]));
    assert_eq!(output.status.code(), Some(2));
    let output = finish(&mut lab.nilo(["report", "nothing.nilo"]));
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("hint:"));
}

#[test]
fn an_existing_output_is_refused_before_anything_runs() {
    let lab = Lab::new();
    std::fs::create_dir(lab.path("there")).expect("mkdir");
    let output = finish(&mut lab.nilo(["run", "-o", "there", "--", "touch", "ran"]));
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("exists already"));
    assert!(!lab.path("ran").exists());
}
