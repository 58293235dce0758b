//! `nilo` as the first process of a container: it reaps, forwards and returns like an init.

use std::process::Command;

use crate::counter::{Counter, counter_program};
use crate::harness::{Dialogue, Lab, c_program, finish, nilo_binary, skip};
use crate::onlooker::{INT, TERM, USR1, children, send, until};

const UNSHARE: [&str; 4] = ["unshare", "--pid", "--fork", "--mount-proc"];

/// `nilo run -q -o run.nilo -- PROGRAM` in a pid namespace of its own; `None` (and a skip) where that is refused.
fn contained(lab: &Lab, program: &str) -> Option<Command> {
    let probe = finish(Command::new(UNSHARE[0]).args(&UNSHARE[1..]).arg("true"));
    if !probe.status.success() {
        skip("namespaces", String::from_utf8_lossy(&probe.stderr).trim());
        return None;
    }
    let mut command = Command::new(UNSHARE[0]);
    command.args(&UNSHARE[1..]).args([nilo_binary(), "run", "-q", "-o", "run.nilo", "--", program]);
    command.current_dir(lab.path(""));
    Some(command)
}

/// Our pid of the process that `unshare` started.
fn outside_pid(unshare: i32) -> i32 {
    let found = children(unshare);
    assert_eq!(found.len(), 1, "unshare has one child");
    found[0].0
}

#[test]
fn as_pid_1_it_forwards_and_returns_the_code() {
    let lab = Lab::new();
    let Some(mut command) = contained(&lab, &counter_program()) else { return };
    let mut counter = Counter::start(&mut command);
    assert_eq!(counter.nilo, 1, "the target's parent");
    counter.nilo = outside_pid(counter.dialogue.pid());
    for signal in [TERM, INT, USR1] {
        send(counter.nilo, signal);
    }
    assert_eq!(counter.counts(), "2=1 10=1 15=1");
    assert_eq!(counter.ask("kill 1 15"), "sent 0");
    assert_eq!(counter.counts(), "2=1 10=1 15=1", "the tree's own does not bounce");
    assert_eq!(counter.exit(42).status.code(), Some(42));
    assert_eq!(lab.report(&lab.path("run.nilo"))["exit"]["code"], 42);
}

#[test]
fn as_pid_1_a_signal_gives_128_and_its_number() {
    let lab = Lab::new();
    let Some(mut command) = contained(&lab, "sh") else { return };
    let output = finish(command.args(["-c", "kill -9 $$"]));
    assert_eq!(output.status.code(), Some(137));
}

#[test]
fn as_pid_1_it_reaps_orphans_and_does_not_wait_for_daemons() {
    let lab = Lab::new();
    let program = c_program("offspring.c").display().to_string();
    let Some(mut command) = contained(&lab, &program) else { return };
    let mut offspring = Dialogue::start(&mut command);
    assert!(offspring.line().ends_with(" 1"));
    let nilo = outside_pid(offspring.pid());
    offspring.say("orphans 20");
    assert_eq!(offspring.line(), "orphaned");
    until("no zombie is left", || children(nilo).len() == 2); // the target and the sentinel
    offspring.say("daemon");
    assert!(offspring.line().starts_with("daemon "));
    until("the daemon is adopted", || children(nilo).len() == 3);
    offspring.say("exit 3");
    assert_eq!(offspring.end().status.code(), Some(3));
}

#[test]
fn elsewhere_it_reaps_the_orphans_it_adopts() {
    let lab = Lab::new();
    let program = c_program("offspring.c");
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--"]);
    let mut offspring = Dialogue::start(nilo.arg(program));
    offspring.line();
    offspring.say("orphans 20");
    assert_eq!(offspring.line(), "orphaned");
    until("no zombie is left", || children(offspring.pid()).len() == 2);
    offspring.say("exit 0");
    assert_eq!(offspring.end().status.code(), Some(0));
}
