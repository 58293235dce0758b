//! A process number that was given to somebody else: what we kept open of the first process does not read the second.
#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers of tests are outside `#[test]` functions

use std::process::{Child, Command};

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::poll::PollSet;
use nilometer_kernel::sys::process::pidfd;

const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";

fn skip(reason: &str) {
    nilometer_lab::skip("pid-namespace", reason);
}

/// In a namespace of its own nobody else takes the number.
#[test]
fn kept_descriptors_are_immune_to_reuse() {
    let unshare = |words: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]).args(words).output()
    };
    match unshare(&["test", "-w", LAST_PID]) {
        Err(e) => return skip(&format!("unshare: {e}")),
        Ok(output) if !output.status.success() => return skip(&String::from_utf8_lossy(&output.stderr)),
        Ok(_) => {}
    }
    let this = std::env::current_exe().unwrap();
    let words = [
        this.to_str().unwrap(),
        "--exact",
        "inside_the_namespace",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ];
    let output = unshare(&words).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("was reused"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn sleeper() -> Child {
    Command::new("sleep").arg("60").spawn().unwrap()
}

fn end(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
#[ignore = "runs inside another test's namespace"]
fn inside_the_namespace() {
    if std::process::id() != 1 {
        return; // started by hand: other processes could take the number
    }
    let first = sleeper();
    let pid = first.id() as i32;
    let (kept, watched) = (Proc::default().process(pid).unwrap(), pidfd(pid).unwrap());
    let started = kept.read_stat(&mut Vec::new()).unwrap().starttime;
    end(first);
    std::fs::write(LAST_PID, (pid - 1).to_string()).unwrap();
    let second = sleeper();
    let reused = second.id() as i32;
    let after = kept.read_stat(&mut Vec::new());
    let status = kept.read_status(&mut Vec::new());
    let anew = Proc::default().process(pid).unwrap().read_stat(&mut Vec::new()).unwrap();
    let mut poll = PollSet::default();
    poll.add(std::os::fd::AsRawFd::as_raw_fd(&watched));
    let ended = poll.wait_until(monotonic_ns()).count();
    end(second);
    assert_eq!(reused, pid, "the number was not given out again");
    assert!(after.is_err() && status.is_err(), "the first process is read as {after:?}");
    assert!(anew.starttime >= started, "opened anew, it is the second");
    assert_eq!(ended, 1, "the pidfd tells that the first has ended");
    println!("{pid} was reused");
}
