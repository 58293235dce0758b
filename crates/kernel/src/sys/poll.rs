//! Waiting for descriptors until an absolute time.

use std::os::fd::RawFd;

use super::clock::monotonic_ns;

/// A set of descriptors to wait on; built once and reused.
#[derive(Debug, Default)]
pub struct PollSet(Vec<libc::pollfd>);

impl PollSet {
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds a descriptor to wait for input on. It must stay open while it is in the set.
    pub fn add(&mut self, fd: RawFd) {
        self.0.push(libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
    }

    /// Waits until `deadline_ns` (monotonic) or until a descriptor is ready; the positions that are.
    pub fn wait_until(&mut self, deadline_ns: u64) -> impl Iterator<Item = usize> + '_ {
        let left = deadline_ns.saturating_sub(monotonic_ns());
        let timeout = libc::timespec {
            tv_sec: (left / 1_000_000_000) as libc::time_t,
            tv_nsec: (left % 1_000_000_000) as libc::c_long,
        };
        // SAFETY: the slice is valid for its length; a null mask leaves signals as they are.
        let ready = unsafe {
            libc::ppoll(
                self.0.as_mut_ptr(),
                self.0.len() as libc::nfds_t,
                &raw const timeout,
                std::ptr::null(),
            )
        };
        self.0.iter().enumerate().filter(move |(_, p)| ready > 0 && p.revents != 0).map(|(i, _)| i)
    }
}
