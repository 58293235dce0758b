//! Waiting for descriptors until an absolute time.

use std::os::fd::RawFd;

use super::clock::monotonic_ns;

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
        let left = deadline_ns.saturating_sub(monotonic_ns());
        let timeout = libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        };
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
