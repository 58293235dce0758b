//! Who is at the other end of a Unix socket.

use std::os::fd::BorrowedFd;

use nix::sys::socket::{Backlog, getsockopt, listen, sockopt::PeerCredentials};

/// The process that connected, as seen from here; `None` where it cannot be seen.
pub fn peer_pid(socket: BorrowedFd<'_>) -> Option<i32> {
    getsockopt(&socket, PeerCredentials).ok().map(|peer| peer.pid()).filter(|pid| *pid > 0)
}

/// Lets as many connections wait as the kernel allows: a storm of processes is not turned away.
pub fn lengthen_queue(listener: BorrowedFd<'_>) {
    let _ = listen(&listener, Backlog::MAXALLOWABLE);
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_peer_is_known() {
        let (here, _there) = UnixStream::pair().unwrap();
        assert_eq!(peer_pid(here.as_fd()), Some(std::process::id() as i32));
    }
}
