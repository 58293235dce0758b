//! The controlling terminal.

use std::fs::File;
use std::os::fd::AsRawFd;

/// Is our process group the foreground job of the controlling terminal?
pub fn is_foreground_job() -> bool {
    let Ok(terminal) = File::open("/dev/tty") else { return false };
    // SAFETY: both calls take plain descriptors and touch no memory of ours.
    unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) == libc::getpgrp() }
}
