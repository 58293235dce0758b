//! Clocks, in nanoseconds.

/// `CLOCK_MONOTONIC`: the one clock of a run.
#[inline]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// `CLOCK_REALTIME`, for the anchor only.
pub fn realtime_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// CPU time of the calling thread: what a piece of our own work cost.
pub fn thread_cpu_ns() -> u64 {
    read(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// CPU time of all threads of any process, its own or not; `None` when `pid` is no process (a thread's number
/// is none) or this kernel does not tell.
///
/// A system call without a file: a tenth of what `/proc/PID/stat` costs. Of a thread that runs at this moment on
/// another CPU it is the time up to the last scheduler tick (`thread_group_cputime`, kernel/sched/cputime.c).
#[inline]
pub fn process_cpu_ns(pid: i32) -> Option<u64> {
    const SCHEDULED: libc::clockid_t = 2; // CPUCLOCK_SCHED, include/linux/posix-timers_types.h
    const PID_MAX_LIMIT: i32 = 1 << 22; // include/linux/threads.h
    if !(1..=PID_MAX_LIMIT).contains(&pid) {
        return None; // 0 would be ourselves
    }
    try_read((!pid << 3) | SCHEDULED)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    try_read(clock).unwrap_or(0) // the clocks above exist on every Linux
}

#[inline]
fn try_read(clock: libc::clockid_t) -> Option<u64> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid, writable timespec; a clock that does not exist is an error.
    let read = unsafe { libc::clock_gettime(clock, &raw mut time) };
    (read == 0).then_some(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_works_is_seen_working_and_one_that_ended_is_not() {
        let own = std::process::id() as i32;
        let before = process_cpu_ns(own).unwrap();
        while thread_cpu_ns() < 1_000_000 {}
        assert!(process_cpu_ns(own).unwrap() > before);
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id() as i32;
        drop(child.stdin.take());
        child.wait().unwrap();
        assert_eq!(process_cpu_ns(pid), None, "it has ended");
        assert_eq!(process_cpu_ns(i32::MAX), None);
    }
}
