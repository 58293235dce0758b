//! Waiting for descriptors until an absolute time.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

use super::clock::monotonic_ns;
use super::{check, last_error};

/// Most descriptors in one set: a loop waits for a handful.
const MOST: usize = 8;

/// A set of descriptors to wait on; lives on the stack, because a tick allocates nothing.
#[derive(Debug)]
pub struct PollSet {
    entries: [libc::pollfd; MOST],
    count: usize,
}

impl Default for PollSet {
    fn default() -> Self {
        Self { entries: [libc::pollfd { fd: -1, events: libc::POLLIN, revents: 0 }; MOST], count: 0 }
    }
}

impl PollSet {
    /// Adds a descriptor to wait for input on; -1 keeps its position and is never ready. It must stay open
    /// while it is in the set; more than eight are not waited for.
    pub fn add(&mut self, fd: RawFd) {
        self.add_for(fd, libc::POLLIN);
    }

    /// Adds a descriptor that is ready when nobody reads what is written to it any more.
    pub fn add_output(&mut self, fd: RawFd) {
        self.add_for(fd, 0); // POLLERR and POLLHUP are always told
    }

    fn add_for(&mut self, fd: RawFd, events: libc::c_short) {
        if let Some(entry) = self.entries.get_mut(self.count) {
            *entry = libc::pollfd { fd, events, revents: 0 };
            self.count += 1;
        }
    }

    /// Waits until `deadline_ns` (monotonic) or until a descriptor is ready; the positions that are.
    pub fn wait_until(&mut self, deadline_ns: u64) -> impl Iterator<Item = usize> + '_ {
        let timeout = time_left(deadline_ns);
        // SAFETY: the first `count` entries are valid; a null mask leaves signals as they are.
        let ready = unsafe {
            libc::ppoll(
                self.entries.as_mut_ptr(),
                self.count as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        let waited = &self.entries[..self.count];
        waited.iter().enumerate().filter(move |(_, p)| ready > 0 && p.revents != 0).map(|(i, _)| i)
    }
}

/// A set of any number of descriptors, kept from one wait to the next.
#[derive(Debug, Default)]
pub struct PollMany {
    entries: Vec<libc::pollfd>,
}

impl PollMany {
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds a descriptor to wait for input on; -1 is never ready.
    pub fn add(&mut self, fd: RawFd) {
        self.entries.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    }

    /// Waits at most this long, and tells whether anything is ready.
    pub fn wait(&mut self, nanoseconds: u64) -> bool {
        let timeout = libc::timespec {
            tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
            tv_nsec: (nanoseconds % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the entries are valid; a null mask leaves signals as they are.
        let ready = unsafe {
            libc::ppoll(
                self.entries.as_mut_ptr(),
                self.entries.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        if ready <= 0 {
            self.entries.iter_mut().for_each(|entry| entry.revents = 0);
        }
        ready > 0
    }

    /// Whether the descriptor at this position was ready after the last wait.
    pub fn is_ready(&self, position: usize) -> bool {
        self.entries.get(position).is_some_and(|entry| entry.revents != 0)
    }
}

/// Descriptors that are waited for again and again. They are told to the kernel once, so that a wait costs the same
/// however many there are: half of [`PollSet`] for four of them.
#[derive(Debug)]
pub struct WaitList {
    epoll: OwnedFd,
}

impl WaitList {
    pub fn new() -> std::io::Result<Self> {
        // SAFETY: no memory is passed.
        let fd = check(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) })?;
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(Self { epoll: unsafe { OwnedFd::from_raw_fd(fd) } })
    }

    /// Waits from now on for input on `fd` too, until it is closed; `position` is its name in the answers.
    pub fn add(&self, fd: RawFd, position: usize) -> std::io::Result<()> {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: position as u64 };
        // SAFETY: `event` is valid for the call; a descriptor that is not open is an error.
        let added =
            unsafe { libc::epoll_ctl(self.epoll.as_raw_fd(), libc::EPOLL_CTL_ADD, fd, &raw mut event) };
        check(added).map(drop)
    }

    /// Waits until `deadline_ns` (monotonic) or until a descriptor is ready; calls `ready` with the position of
    /// each that is.
    #[inline]
    pub fn wait_until(&self, deadline_ns: u64, mut ready: impl FnMut(usize)) {
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; MOST];
        let count = match self.wait(&mut events, deadline_ns) {
            Err(e) if e.raw_os_error() == Some(libc::ENOSYS) => self.poll_then_take(&mut events, deadline_ns),
            count => count,
        };
        for event in events.iter().take(count.unwrap_or(0)) {
            ready(event.u64 as usize);
        }
    }

    /// `epoll_pwait2`, for its fine timeout: since Linux 5.11.
    #[inline]
    fn wait(&self, events: &mut [libc::epoll_event], deadline_ns: u64) -> std::io::Result<usize> {
        let timeout = time_left(deadline_ns);
        // SAFETY: `events` is writable for its whole length, `timeout` is valid; a null mask leaves signals alone.
        let count = unsafe {
            libc::syscall(
                libc::SYS_epoll_pwait2,
                self.epoll.as_raw_fd(),
                events.as_mut_ptr(),
                events.len(),
                &raw const timeout,
                std::ptr::null::<libc::sigset_t>(),
                0,
            )
        };
        usize::try_from(count).map_err(|_| last_error())
    }

    fn poll_then_take(&self, events: &mut [libc::epoll_event], deadline_ns: u64) -> std::io::Result<usize> {
        let mut any = PollSet::default();
        any.add(self.epoll.as_raw_fd());
        if any.wait_until(deadline_ns).next().is_none() {
            return Ok(0);
        }
        // SAFETY: `events` is writable for its whole length.
        let count = check(unsafe {
            libc::epoll_wait(self.epoll.as_raw_fd(), events.as_mut_ptr(), events.len() as libc::c_int, 0)
        })?;
        Ok(count as usize)
    }
}

#[inline]
fn time_left(deadline_ns: u64) -> libc::timespec {
    let left = deadline_ns.saturating_sub(monotonic_ns());
    libc::timespec {
        tv_sec: (left / 1_000_000_000) as libc::time_t,
        tv_nsec: (left % 1_000_000_000) as libc::c_long,
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::net::UnixStream;

    use super::*;

    fn ready(list: &WaitList, deadline_ns: u64) -> Vec<usize> {
        let mut positions = Vec::new();
        list.wait_until(deadline_ns, |position| positions.push(position));
        positions
    }

    #[test]
    fn a_list_names_what_is_ready_and_forgets_what_is_closed() {
        let list = WaitList::new().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        let (_quiet, other) = UnixStream::pair().unwrap();
        list.add(far.as_raw_fd(), 3).unwrap();
        list.add(other.as_raw_fd(), 1).unwrap();
        assert!(list.add(-1, 0).is_err());
        let begin = monotonic_ns();
        assert_eq!(ready(&list, begin + 2_000_000), []);
        assert!(monotonic_ns() >= begin + 2_000_000);
        near.write_all(b"x").unwrap();
        assert_eq!(ready(&list, u64::MAX >> 1), [3]);
        let mut events = [libc::epoll_event { events: 0, u64: 0 }; 2];
        assert_eq!(list.poll_then_take(&mut events, u64::MAX >> 1).unwrap(), 1, "on an older kernel");
        drop(far);
        assert_eq!(ready(&list, 0), []);
        assert_eq!(list.poll_then_take(&mut events, 0).unwrap(), 0);
    }
}
