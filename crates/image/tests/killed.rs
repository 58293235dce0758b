//! Whoever kills the reader in the middle of a copy leaves the target as it was.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)] // helpers of tests are outside `#[test]` functions
#![allow(clippy::print_stderr, clippy::print_stdout)] // a helper of a test speaks on its output

mod lab;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use lab::Target;
use nilometer_image::live::{CaptureOptions, Peek, capture};
use nilometer_kernel::read::proc::Proc;

const TARGET: &str = "NILO_TEST_TARGET";
const ROUNDS: usize = 20;

fn state(pid: i32) -> u8 {
    Proc::default().read_stat(pid, &mut Vec::new()).unwrap().state
}

/// This test program again, copying the target over and over.
fn reader(target: i32) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "copy_for_ever", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(TARGET, target.to_string()).stdout(Stdio::piped()).spawn().unwrap()
}

#[test]
fn a_target_goes_on_when_its_reader_is_killed_while_it_stands_still() {
    let mut target = Target::patterns();
    let sum = target.ask();
    for round in 0..ROUNDS {
        let mut reader = reader(target.pid());
        let mut lines = BufReader::new(reader.stdout.take().unwrap()).lines().map_while(Result::ok);
        assert!(lines.any(|line| line == "copying"), "it could not copy");
        // The next stop: nobody but the reader stops it.
        while state(target.pid()) != b't' {
            assert!(reader.try_wait().unwrap().is_none(), "the reader ended by itself");
        }
        reader.kill().unwrap();
        reader.wait().unwrap();
        assert_eq!(target.ask(), sum, "round {round}");
        assert_eq!(target.status("TracerPid"), "TracerPid:\t0");
    }
}

#[test]
#[ignore = "the reader of another test"]
fn copy_for_ever() {
    let Some(pid) = std::env::var(TARGET).ok().and_then(|pid| pid.parse().ok()) else { return };
    let peek = Peek::open(pid).unwrap();
    println!("\ncopying");
    loop {
        capture(&peek, &CaptureOptions::default(), &[]).unwrap();
    }
}
