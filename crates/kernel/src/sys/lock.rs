//! Advisory locks on whole files (`flock`): released by the kernel when their holder is gone, however it went.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use nix::fcntl::{Flock, FlockArg};

/// A lock that is held until this is dropped.
#[derive(Debug)]
pub struct Lock(Flock<File>);

impl Lock {
    /// Waits until nobody else holds it. The file is made where there is none.
    pub fn wait_for(path: &Path) -> std::io::Result<Self> {
        let locked = Flock::lock(open(path)?, FlockArg::LockExclusive);
        locked.map(Self).map_err(|(_, errno)| errno.into())
    }

    /// None where somebody else holds it.
    pub fn try_take(path: &Path) -> std::io::Result<Option<Self>> {
        match Flock::lock(open(path)?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(Some(Self(lock))),
            Err((_, nix::Error::EWOULDBLOCK)) => Ok(None),
            Err((_, errno)) => Err(errno.into()),
        }
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.0
    }
}

fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lock");
        let first = Lock::try_take(&path).unwrap().unwrap();
        assert!(Lock::try_take(&path).unwrap().is_none());
        drop(first);
        assert!(Lock::try_take(&path).unwrap().is_some());
        assert!(Lock::wait_for(&path).is_ok());
    }
}
