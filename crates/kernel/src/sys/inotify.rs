//! Being woken when a file grows.

use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;

use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// Watches one file for writes.
#[derive(Debug)]
pub struct Watch(Inotify);

impl Watch {
    pub fn modifications(path: &Path) -> std::io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)?;
        inotify.add_watch(path, AddWatchFlags::IN_MODIFY)?;
        Ok(Self(inotify))
    }

    /// The descriptor that becomes readable.
    pub fn raw(&self) -> i32 {
        self.0.as_fd().as_raw_fd()
    }

    /// Forgets the events so far.
    pub fn drain(&mut self) {
        while self.0.read_events().is_ok_and(|events| !events.is_empty()) {}
    }
}
