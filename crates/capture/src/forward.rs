//! What to do with a signal that reached us: pure policy, tested without a process.

/// Everything the decision needs.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    pub number: i32,
    /// Sent by the kernel: the terminal's keys, hang-up, window change, a timer.
    pub from_kernel: bool,
    /// The sentinel got it too: it went to our whole process group, so the target has it already. `None`
    /// when there is no sentinel to ask.
    pub to_group: Option<bool>,
    /// The sender belongs to the observed tree.
    pub from_tree: bool,
    /// We caused it ourselves.
    pub from_us: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// The target has it, or it is not meant for it.
    Ignore,
    /// Pass it on to the direct child.
    Forward,
    /// A child changed state.
    Reap,
}

/// The target gets each signal exactly once.
pub fn decide(a: Arrival) -> Action {
    // Most of the kernel's signals go to the group, but not all: a hang-up reaches the leader of the session
    // alone, a timer that was set before our `exec` only us.
    let reached_target = a.to_group.unwrap_or(a.from_kernel);
    match a.number {
        SIGCHLD => Action::Reap,
        _ if reached_target => Action::Ignore,
        // Our own limits on CPU time and file size.
        SIGXCPU | SIGXFSZ if a.from_kernel || a.from_us => Action::Ignore,
        // The target signalled its parent; sending it back would be a signal it never asked for.
        _ if a.from_tree => Action::Ignore,
        _ => Action::Forward,
    }
}

/// The target was stopped by this signal: should we stop as well, so that the shell sees the job stopped?
///
/// We follow what the target really did (a program may ignore Ctrl-Z), and only job control: a SIGSTOP
/// sent to the target alone may be undone by a SIGCONT to it alone, and we would stay behind.
pub fn is_job_control_stop(signal: i32) -> bool {
    matches!(signal, SIGTSTP | SIGTTIN | SIGTTOU)
}

/// A recording without a child of its own ends in order on these.
pub fn asks_to_end(signal: i32) -> bool {
    matches!(signal, 1 | 2 | 3 | 15) // SIGHUP, SIGINT, SIGQUIT, SIGTERM
}

// Numbers of x86-64 Linux; this crate has no libc, and the launcher runs nowhere else.
pub const SIGTSTP: i32 = 20;
pub const SIGTTIN: i32 = 21;
pub const SIGTTOU: i32 = 22;
pub const SIGCHLD: i32 = 17;
pub const SIGCONT: i32 = 18;
pub const SIGXCPU: i32 = 24;
pub const SIGXFSZ: i32 = 25;

#[cfg(test)]
mod tests {
    use super::*;

    const SIGINT: i32 = 2;
    const SIGTERM: i32 = 15;

    fn arrival(number: i32) -> Arrival {
        Arrival { number, from_kernel: false, to_group: Some(false), from_tree: false, from_us: false }
    }

    #[test]
    fn the_terminals_keys_are_not_forwarded_again() {
        let key = Arrival { from_kernel: true, to_group: Some(true), ..arrival(SIGINT) };
        assert_eq!(decide(key), Action::Ignore);
        assert_eq!(decide(Arrival { to_group: None, ..key }), Action::Ignore, "without a sentinel");
    }

    #[test]
    fn a_signal_to_us_alone_is_forwarded() {
        assert_eq!(decide(arrival(SIGTERM)), Action::Forward);
        assert_eq!(decide(arrival(18)), Action::Forward);
        assert_eq!(decide(Arrival { to_group: None, ..arrival(SIGTERM) }), Action::Forward);
    }

    #[test]
    fn a_hang_up_of_the_session_leader_and_an_inherited_timer_are_forwarded() {
        for number in [1, 14] {
            assert_eq!(decide(Arrival { from_kernel: true, ..arrival(number) }), Action::Forward);
        }
    }

    #[test]
    fn our_own_limits_are_not_the_targets() {
        assert_eq!(decide(Arrival { from_us: true, ..arrival(SIGXFSZ) }), Action::Ignore);
        assert_eq!(decide(Arrival { from_kernel: true, ..arrival(SIGXCPU) }), Action::Ignore);
        assert_eq!(decide(arrival(SIGXCPU)), Action::Forward, "a batch system's warning");
    }

    #[test]
    fn a_group_kill_is_not_forwarded_again() {
        assert_eq!(decide(Arrival { to_group: Some(true), ..arrival(SIGTERM) }), Action::Ignore);
    }

    #[test]
    fn the_targets_own_signals_do_not_bounce() {
        assert_eq!(decide(Arrival { from_tree: true, ..arrival(SIGTERM) }), Action::Ignore);
    }

    #[test]
    fn only_job_control_stops_are_followed() {
        assert!(is_job_control_stop(SIGTSTP) && is_job_control_stop(SIGTTIN) && is_job_control_stop(SIGTTOU));
        assert!(!is_job_control_stop(19), "SIGSTOP to the target alone is not meant for us");
    }

    #[test]
    fn children_are_reaped() {
        assert_eq!(decide(arrival(SIGCHLD)), Action::Reap);
    }
}
