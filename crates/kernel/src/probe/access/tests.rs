//! Every cell: Yama's scope × whose process × privilege × where we are.

use super::*;
use crate::probe::facts::{Capabilities, Trials};
use crate::read::host::Host;

const PTRACE: Capabilities = Capabilities(1 << Cap::SysPtrace as u8);
const RELATIONS: [Relation; 3] = [Relation::OwnChild, Relation::SameUser, Relation::OtherUser];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Host,
    Docker,
    Kubernetes,
    /// A filter that refuses even to read a child: Docker's default in 20.10.
    Filtered,
    FilteredPod,
}

impl Place {
    const ALL: [Self; 5] = [Self::Host, Self::Docker, Self::Kubernetes, Self::Filtered, Self::FilteredPod];

    fn facts(self, scope: Option<u8>, privileged: bool) -> Facts {
        let container = match self {
            Self::Host => None,
            Self::Docker | Self::Filtered => Some("docker".to_owned()),
            Self::Kubernetes | Self::FilteredPod => Some("kubernetes".to_owned()),
        };
        let is_filtered = matches!(self, Self::Filtered | Self::FilteredPod);
        Facts {
            euid: if self == Self::Host && !privileged { 1000 } else { 0 },
            capabilities: if privileged { PTRACE } else { Capabilities(0) },
            yama_scope: scope,
            seccomp: if container.is_some() { 2 } else { 0 },
            in_pid_namespace: container.is_some(),
            host: Host { container, ..Host::default() },
            trials: Trials { read_child: is_filtered.then_some(Err(libc::EPERM)), ..Trials::default() },
            ..Facts::default()
        }
    }
}

/// A cell: works, or refused by Yama 1, 2, 3, by the user id, or by the filter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Works,
    Yama1,
    Yama2,
    Yama3,
    User,
    Filter,
}
use Cell::{Filter as F, User as U, Works as W, Yama1 as Y1, Yama2 as Y2, Yama3 as Y3};

/// Rows: no Yama, scopes 0 to 3; columns: own child, same user, other user.
const PLAIN: [[Cell; 3]; 5] = [[W, W, U], [W, W, U], [W, Y1, U], [Y2, Y2, U], [Y3, Y3, Y3]];
const PRIVILEGED: [[Cell; 3]; 5] = [[W, W, W], [W, W, W], [W, W, W], [W, W, W], [Y3, Y3, Y3]];
const FILTERED: [[Cell; 3]; 5] = [[F, F, U], [F, F, U], [F, Y1, U], [Y2, Y2, U], [Y3, Y3, Y3]];
const FILTERED_PRIVILEGED: [[Cell; 3]; 5] = [[F, F, F], [F, F, F], [F, F, F], [F, F, F], [Y3, Y3, Y3]];

fn expected(place: Place, privileged: bool) -> [[Cell; 3]; 5] {
    match (place, privileged) {
        (Place::Filtered | Place::FilteredPod, false) => FILTERED,
        (Place::Filtered | Place::FilteredPod, true) => FILTERED_PRIVILEGED,
        (_, false) => PLAIN,
        (_, true) => PRIVILEGED,
    }
}

/// What the sentence must name.
fn policy(cell: Cell) -> &'static str {
    match cell {
        W => "",
        Y1 => "Yama's ptrace_scope 1",
        Y2 => "Yama's ptrace_scope 2",
        Y3 => "Yama's ptrace_scope 3",
        U => "another user's",
        F => "seccomp filter of this container",
    }
}

fn command(cell: Cell, place: Place, relation: Relation, privileged: bool) -> &'static str {
    const REBOOT: &str =
        "echo kernel.yama.ptrace_scope=1 | sudo tee /etc/sysctl.d/99-ptrace.conf && sudo reboot";
    const REBOOT_HOST: &str = "echo kernel.yama.ptrace_scope=1 | sudo tee /etc/sysctl.d/99-ptrace.conf && sudo reboot  # on the host";
    match (cell, place) {
        (Y3, Place::Host) => REBOOT,
        (Y3, _) => REBOOT_HOST,
        (Y2, Place::Host) if relation == Relation::OwnChild => "sudo sysctl kernel.yama.ptrace_scope=1",
        (Y1 | Y2, Place::Host) => "sudo sysctl kernel.yama.ptrace_scope=0",
        (U, Place::Host) => "sudo nilo …",
        (F, Place::FilteredPod) if privileged => {
            "securityContext: {capabilities: {add: [SYS_PTRACE]}, seccompProfile: {type: Unconfined}}"
        }
        (F, _) if privileged => "docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined …",
        (_, Place::Kubernetes | Place::FilteredPod) => "securityContext: {capabilities: {add: [SYS_PTRACE]}}",
        (_, _) => "docker run --cap-add SYS_PTRACE …",
    }
}

#[test]
fn every_cell_works_or_names_the_policy_and_the_command() {
    let mut cells = 0;
    for place in Place::ALL {
        for privileged in [false, true] {
            let rows = expected(place, privileged);
            for (row, scope) in [None, Some(0), Some(1), Some(2), Some(3)].into_iter().enumerate() {
                let facts = place.facts(scope, privileged);
                for (column, relation) in RELATIONS.into_iter().enumerate() {
                    let cell = rows[row][column];
                    let verdict = ptrace_access(&facts, relation);
                    let at = format!("{place:?} {privileged} {scope:?} {relation:?}: {verdict:?}");
                    assert_eq!(verdict.works, cell == W, "{at}");
                    assert!(verdict.sentence.contains(policy(cell)), "{at}");
                    let wanted = (cell != W).then(|| command(cell, place, relation, privileged).to_owned());
                    assert_eq!(verdict.command, wanted, "{at}");
                    cells += 1;
                }
            }
        }
    }
    assert_eq!(cells, 150);
}

#[test]
fn an_attempt_that_worked_outweighs_the_rules() {
    // For example a container that hides `/proc/sys`, or an exception by prctl(PR_SET_PTRACER).
    let mut facts = Place::Docker.facts(Some(1), false);
    facts.trials.read_sibling = Some(Ok(()));
    assert!(ptrace_access(&facts, Relation::SameUser).works);
    assert!(!ptrace_access(&facts, Relation::OtherUser).works);
}

#[test]
fn an_attempt_that_failed_is_explained_by_the_first_rule_that_forbids_it() {
    let mut facts = Place::Host.facts(Some(1), false);
    facts.trials.read_sibling = Some(Err(libc::EPERM));
    assert!(ptrace_access(&facts, Relation::SameUser).sentence.contains("ptrace_scope 1"));
    facts.yama_scope = None;
    facts.security_modules = "capability,landlock,selinux".into();
    let verdict = ptrace_access(&facts, Relation::SameUser);
    assert_eq!(verdict.command.as_deref(), Some("sudo setsebool deny_ptrace off"));
    facts.security_modules = "capability,landlock".into();
    let verdict = ptrace_access(&facts, Relation::SameUser);
    assert_eq!(verdict.sentence, "a security module (capability,landlock) refuses it (EPERM)");
}

#[test]
fn the_watchdogs_stop_has_an_attempt_of_its_own() {
    let mut facts = Place::Docker.facts(None, false);
    facts.trials.read_child = Some(Ok(()));
    facts.trials.stop_child = Some(Err(libc::EPERM));
    assert!(ptrace_access(&facts, Relation::OwnChild).works);
    assert!(stop_access(&facts).sentence.contains("seccomp filter"));
}

#[test]
fn a_kernel_without_the_call_says_so() {
    let mut facts = Place::Host.facts(None, true);
    facts.trials.read_child = Some(Err(libc::ENOSYS));
    let verdict = ptrace_access(&facts, Relation::OwnChild);
    assert!(verdict.sentence.contains("CONFIG_CROSS_MEMORY_ATTACH"));
}

#[test]
fn reach_ends_at_the_container() {
    let verdict = ptrace_access(&Place::Docker.facts(Some(1), true), Relation::OtherUser);
    assert_eq!(verdict.sentence, "CAP_SYS_PTRACE; processes of this container only");
}
