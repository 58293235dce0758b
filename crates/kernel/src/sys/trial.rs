//! Calls made only to learn whether the kernel would allow them: each leaves everything as it was.
//!
//! What would change this process (namespaces, mounts, a tracer) happens in a forked child that does
//! nothing else and ends. After the fork the child makes system calls only: other threads may have held a
//! lock of the allocator at that moment.

use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use super::memory::read_bytes;
use super::process::{Change, wait_for};
use super::{check, last_error};

/// `nobody`, or its neighbour where we are nobody: they own no processes that matter.
const OTHER_UIDS: [libc::uid_t; 2] = [65534, 65533];
/// Read from a child; its address is the same there.
static WITNESS: [u8; 8] = *b"nilometr";
/// Exit code of a child that failed without an errno.
const UNKNOWN: i32 = 255;

/// A child, a sibling, a child of another user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kin {
    Child,
    /// A child reads another child of ours: neither descends from the other.
    Sibling,
    /// A child with another uid; making one takes `CAP_SETUID`.
    OtherUser,
}

/// Reads the memory of a process that is kin; `None` if there is no such process to be had.
pub fn read_memory(kin: Kin) -> Option<io::Result<()>> {
    let target = Waiting::fork(kin == Kin::OtherUser)?;
    Some(match kin {
        Kin::Child | Kin::OtherUser => read_witness(target.pid),
        Kin::Sibling => in_child(|| errno_of(read_witness(target.pid))),
    })
}

/// Stops a child as the watchdog does, and lets it go.
pub fn stop_child() -> io::Result<()> {
    let target = Waiting::fork(false).ok_or_else(last_error)?;
    // SAFETY: PTRACE_SEIZE takes no addresses; the child is ours and ends when `target` is dropped.
    let seized = unsafe { libc::ptrace(libc::PTRACE_SEIZE, target.pid, 0, 0) };
    if seized < 0 { Err(last_error()) } else { Ok(()) }
}

fn read_witness(pid: i32) -> io::Result<()> {
    let mut copy = [0; WITNESS.len()];
    read_bytes(pid, WITNESS.as_ptr() as u64, &mut copy).map(drop)
}

/// New pid and mount namespaces, in a child; with a user namespace of its own if `with_user`.
pub fn unshare(with_user: bool) -> io::Result<()> {
    let user = if with_user { libc::CLONE_NEWUSER } else { 0 };
    in_child(|| {
        // SAFETY: takes flags only; the calling child has one thread.
        errno_of(check(unsafe { libc::unshare(user | libc::CLONE_NEWPID | libc::CLONE_NEWNS) }).map(drop))
    })
}

/// A tmpfs over `/tmp`, in a mount namespace of a child that nobody else sees.
pub fn mount_tmpfs() -> io::Result<()> {
    in_child(|| {
        let null = std::ptr::null::<libc::c_char>();
        // SAFETY: all strings are NUL-terminated literals or null where that is allowed; the changes are
        // private to the namespace of this child, which ends now.
        let outcome = unsafe {
            check(libc::unshare(libc::CLONE_NEWNS))
                .and_then(|_| {
                    let private = libc::MS_REC | libc::MS_PRIVATE;
                    check(libc::mount(null, c"/".as_ptr(), null, private, std::ptr::null()))
                })
                .and_then(|_| {
                    let tmpfs = c"tmpfs".as_ptr();
                    check(libc::mount(tmpfs, c"/tmp".as_ptr(), tmpfs, 0, std::ptr::null()))
                })
        };
        errno_of(outcome.map(drop))
    })
}

/// `swapon("")`: the right to do it is checked before the name, so ENOENT means that we may.
pub fn swapon() -> io::Result<()> {
    // SAFETY: the name is NUL-terminated and names nothing.
    match check(unsafe { libc::swapon(c"".as_ptr(), 0) }) {
        Err(e) if e.raw_os_error() != Some(libc::ENOENT) => Err(e),
        _ => Ok(()),
    }
}

/// What a userfaultfd can do here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Userfaultfd {
    /// Faults inside system calls are handled too, not those of user code only.
    pub kernel_faults: bool,
    /// Write protection resolved by the kernel (`UFFD_FEATURE_WP_ASYNC`, since Linux 6.7).
    pub wp_async: bool,
}

pub fn userfaultfd() -> io::Result<Userfaultfd> {
    const UFFD_USER_MODE_ONLY: libc::c_int = 1; // since Linux 5.11
    let whole = open_userfaultfd(0);
    let kernel_faults = whole.is_ok();
    let fd = whole.or_else(|_| open_userfaultfd(UFFD_USER_MODE_ONLY))?;
    Ok(Userfaultfd { kernel_faults, wp_async: offers_wp_async(&fd) })
}

fn open_userfaultfd(flags: libc::c_int) -> io::Result<OwnedFd> {
    // SAFETY: takes flags and returns a new descriptor.
    let fd = check(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | flags) } as libc::c_int)?;
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// `struct uffdio_api`, include/uapi/linux/userfaultfd.h.
fn offers_wp_async(fd: &OwnedFd) -> bool {
    const UFFDIO_API: libc::c_ulong = 0xc018_aa3f; // _IOWR(0xaa, 0x3f, 24 bytes)
    const UFFD_API: u64 = 0xaa;
    const UFFD_FEATURE_WP_ASYNC: u64 = 1 << 15;
    let mut api = [UFFD_API, UFFD_FEATURE_WP_ASYNC, 0];
    // SAFETY: `api` is the 24 bytes that the call reads and writes.
    let asked = unsafe { libc::ioctl(fd.as_raw_fd(), UFFDIO_API, api.as_mut_ptr()) };
    asked == 0 && api[1] & UFFD_FEATURE_WP_ASYNC != 0
}

/// Asks `PAGEMAP_SCAN` (since Linux 6.7) about an empty range of our own.
pub fn pagemap_scan(pagemap: &File) -> io::Result<()> {
    const PAGEMAP_SCAN: libc::c_ulong = 0xc060_6610; // _IOWR('f', 16, 96 bytes), include/uapi/linux/fs.h
    const PAGE_IS_PRESENT: u64 = 1 << 3;
    // size, flags, start, end, walk_end, vec, vec_len, max_pages, inverted, mask, any of, return mask
    let mut scan = [96, 0, 0, 0, 0, 0, 0, 0, 0, PAGE_IS_PRESENT, 0, PAGE_IS_PRESENT];
    // SAFETY: `scan` is the `struct pm_scan_arg` of 96 bytes; it names no output vector.
    check(unsafe { libc::ioctl(pagemap.as_raw_fd(), PAGEMAP_SCAN, scan.as_mut_ptr()) }).map(drop)
}

/// Page faults of this process, one by one; those of user code are enough.
pub fn perf_faults() -> io::Result<()> {
    const OWN_THREAD: i32 = 0;
    super::faults::FaultStream::open(OWN_THREAD).map(drop)
}

/// A page of our own to look at in the page map.
#[derive(Debug)]
pub struct Page {
    address: *mut u8,
    bytes: usize,
}

impl Page {
    /// A fresh page with something written to it.
    pub fn touched() -> io::Result<Self> {
        let bytes = super::limits::page_bytes() as usize;
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new private mapping; nothing of ours is replaced.
        let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, -1, 0) };
        if address == libc::MAP_FAILED {
            return Err(last_error());
        }
        let page = Self { address: address.cast(), bytes };
        page.write();
        Ok(page)
    }

    pub fn write(&self) {
        // SAFETY: the mapping is writable and lives as long as `self`; volatile, so that it really happens.
        unsafe { self.address.write_volatile(1) };
    }

    pub fn number(&self) -> u64 {
        (self.address as usize / self.bytes) as u64
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made by `touched`, used by nobody else.
        unsafe { libc::munmap(self.address.cast(), self.bytes) };
    }
}

/// A forked child that waits to be ended; it ends with us in any case.
#[derive(Debug)]
struct Waiting {
    pid: i32,
}

impl Waiting {
    /// `None` if it could not be made, or could not take another uid.
    fn fork(another_user: bool) -> Option<Self> {
        let mut ready = [0; 2];
        // SAFETY: room for the two descriptors of a pipe.
        check(unsafe { libc::pipe2(ready.as_mut_ptr(), libc::O_CLOEXEC) }).ok()?;
        // SAFETY: both descriptors are new and owned by nobody else.
        let (reader, writer) = unsafe { (OwnedFd::from_raw_fd(ready[0]), OwnedFd::from_raw_fd(ready[1])) };
        // SAFETY: the child only makes system calls and never returns.
        let pid = unsafe { libc::fork() };
        if pid == 0 {
            wait_to_be_ended(another_user, writer.as_raw_fd());
        }
        drop(writer);
        let target = (pid > 0).then_some(Self { pid })?;
        let mut word = [0u8; 1];
        // SAFETY: `word` is writable for one byte.
        let count = unsafe { libc::read(reader.as_raw_fd(), word.as_mut_ptr().cast(), 1) };
        (count == 1).then_some(target)
    }
}

/// The life of that child. A change of uid makes it undumpable, which would forbid reading it even to its
/// own user; an ordinary process of that user is dumpable.
fn wait_to_be_ended(another_user: bool, ready: libc::c_int) -> ! {
    // SAFETY: system calls on plain numbers and one byte of a constant; no memory of the parent is changed.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
        let other = OTHER_UIDS[usize::from(libc::getuid() == OTHER_UIDS[0])];
        let is_there = !another_user
            || (libc::syscall(libc::SYS_setresuid, other, other, other) == 0
                && libc::prctl(libc::PR_SET_DUMPABLE, 1) == 0
                && libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) == 0);
        if is_there && libc::write(ready, WITNESS.as_ptr().cast(), 1) == 1 {
            loop {
                libc::pause();
            }
        }
        libc::_exit(UNKNOWN)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // SAFETY: our own child, not yet waited for, so the pid is still its own.
        unsafe { libc::kill(self.pid, libc::SIGKILL) };
        while wait_for(self.pid).is_some_and(|wait| matches!(wait.change, Change::Stopped(_))) {}
    }
}

/// Runs `work`, which returns an errno or 0, in a forked child.
fn in_child(work: impl FnOnce() -> i32) -> io::Result<()> {
    // SAFETY: `work` is one of the closures above, which make system calls only; the child never returns.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        let errno = work();
        // SAFETY: ends the child without running anything of the parent's.
        unsafe { libc::_exit(errno) };
    }
    check(pid)?;
    match wait_for(pid).map(|wait| wait.change) {
        Some(Change::Exited(0)) => Ok(()),
        Some(Change::Exited(errno)) if errno != UNKNOWN => Err(io::Error::from_raw_os_error(errno)),
        // A seccomp filter may kill instead of refusing.
        _ => Err(io::Error::from_raw_os_error(libc::EPERM)),
    }
}

fn errno_of(outcome: io::Result<()>) -> i32 {
    outcome.err().map_or(0, |e| e.raw_os_error().unwrap_or(UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_read_and_gone_afterwards() {
        let Some(Ok(())) = read_memory(Kin::Child) else { return };
        assert!(stop_child().is_ok(), "who may read may stop");
        assert!(matches!(read_memory(Kin::Child), Some(Ok(()))));
    }

    #[test]
    fn an_errno_comes_back_from_a_child() {
        assert!(in_child(|| 0).is_ok());
        assert_eq!(in_child(|| libc::EBUSY).unwrap_err().raw_os_error(), Some(libc::EBUSY));
        assert_eq!(in_child(|| UNKNOWN).unwrap_err().raw_os_error(), Some(libc::EPERM));
    }

    #[test]
    fn mounts_of_a_trial_are_not_seen() {
        let before = std::fs::read("/proc/self/mountinfo").unwrap();
        let _ = (mount_tmpfs(), unshare(false), unshare(true));
        assert_eq!(std::fs::read("/proc/self/mountinfo").unwrap(), before);
    }
}
