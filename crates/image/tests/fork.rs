//! A snapshot by an injected fork leaves nothing behind in the target: no child, no signal, no register.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)] // helpers of tests are outside `#[test]` functions
#![allow(clippy::print_stderr)] // skips are told

mod lab;

use std::process::Command;

use lab::{Target, c_program};
use nilometer_image::live::{CaptureOptions, Mode, Peek, capture};

const FORK: CaptureOptions =
    CaptureOptions { mode: Mode::Fork, max_pause: std::time::Duration::from_millis(500), threads: 1 };

fn children(target: &Target) -> String {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", target.pid())).unwrap();
    tasks
        .flatten()
        .map(|task| std::fs::read_to_string(task.path().join("children")).unwrap_or_default())
        .collect()
}

fn signals(target: &Target) -> Vec<String> {
    ["SigPnd", "ShdPnd", "SigBlk", "SigIgn", "SigCgt", "TracerPid"].map(|field| target.status(field)).into()
}

#[test]
fn sleeps_registers_and_signals_are_as_before() {
    let mut target = Target::start(&mut Command::new(c_program("stubborn.c", &[])));
    let expected = target.ask();
    assert!(expected.starts_with("0 1 "), "{expected}");
    let before = signals(&target);
    for mode in [Mode::Fork, Mode::Copy] {
        let options = CaptureOptions { mode, ..FORK };
        target.say();
        let peek = Peek::open(target.pid()).unwrap();
        for _ in 0..25 {
            let copy = capture(&peek, &options, &[]).unwrap();
            assert_eq!(
                (copy.partial.len(), copy.pause.reaped_ns > 0),
                (0, mode == Mode::Fork),
                "{:?}",
                copy.partial
            );
        }
        assert_eq!(target.answer(), expected, "{mode:?}");
        assert_eq!(signals(&target), before, "{mode:?}");
        assert_eq!(children(&target), "", "{mode:?}");
    }
}

#[test]
fn a_target_that_ends_during_its_snapshot_is_no_error_of_ours() {
    for _ in 0..10 {
        let mut target = Target::patterns();
        let peek = Peek::open(target.pid()).unwrap();
        let pid = target.pid();
        // Killed at some moment of the capture; whatever that moment is, we come back with words or with a copy.
        let killer = std::thread::spawn(move || {
            while nilometer_kernel::read::proc::Proc::default()
                .read_status(pid, &mut Vec::new())
                .is_ok_and(|status| status.tracer == 0 && !status.is_zombie())
            {
                std::hint::spin_loop();
            }
            target.child.kill().unwrap();
            target.child.wait().unwrap()
        });
        let outcome = capture(&peek, &FORK, &[]);
        // It may have got through before it was seen.
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).output();
        killer.join().unwrap();
        if let Ok(copy) = outcome {
            assert!(copy.partial.iter().all(|why| !why.contains("zombie")), "{:?}", copy.partial);
        }
    }
}
