//! Going before all others for a moment: while somebody stands still because of us.

/// The lowest of the real-time priorities: before every ordinary thread, after whoever really needs it.
const PRIORITY: libc::c_int = 1;

/// The calling thread, and those that it starts, run before ordinary ones until this is dropped.
///
/// Takes `CAP_SYS_NICE` or an `RLIMIT_RTPRIO`; niceness would not do, it counts only within a session (autogroup) or a
/// control group. Never held while waiting for an ordinary thread: it might need our processor.
#[derive(Debug)]
pub struct Urgent {
    before: libc::c_int,
}

impl Urgent {
    /// `None` where it is not permitted.
    pub fn raise() -> Option<Self> {
        // SAFETY: asks about the calling thread.
        let before = unsafe { libc::sched_getscheduler(0) };
        let is_ordinary = matches!(before, libc::SCHED_OTHER | libc::SCHED_BATCH | libc::SCHED_IDLE);
        (is_ordinary && set(libc::SCHED_RR, PRIORITY)).then_some(Self { before })
    }
}

impl Drop for Urgent {
    fn drop(&mut self) {
        set(self.before, 0);
    }
}

fn set(policy: libc::c_int, priority: libc::c_int) -> bool {
    let parameter = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameter` is valid for the call, which is about the calling thread.
    unsafe { libc::sched_setscheduler(0, policy, &raw const parameter) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy() -> libc::c_int {
        // SAFETY: asks about the calling thread.
        unsafe { libc::sched_getscheduler(0) }
    }

    #[test]
    fn it_is_over_when_it_is_dropped() {
        let before = policy();
        let urgent = Urgent::raise();
        assert_eq!(policy() == libc::SCHED_RR, urgent.is_some());
        drop(urgent);
        assert_eq!(policy(), before);
    }
}
