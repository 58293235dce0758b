//! Starting a command suspended: fork, wait for our word, exec; a failing exec gives its real errno.
//!
//! The child stays in our session, process group and terminal, gets the signal mask, dispositions and
//! limits that we were started with, and every inherited descriptor (ours are all close-on-exec).
//! If we die before the release, the child runs all the same.

use std::ffi::{CStr, CString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

use super::limits::OpenFiles;
use super::process::wait_for;
use super::signals::{Mask, send};
use super::{check, inherited};

/// What to start, prepared before the fork so that the child allocates nothing.
#[derive(Debug)]
pub struct Command {
    argv: Vec<CString>,
    envp: Vec<CString>,
    inherited_mask: Mask,
    inherited_files: OpenFiles,
    /// Descriptors that take the place of its standard output (1) and error (2).
    redirected: Vec<(OwnedFd, RawFd)>,
}

impl Command {
    /// `argv` must not be empty; both must be free of NUL bytes, as the kernel's own are.
    pub fn new(
        argv: Vec<CString>,
        envp: Vec<CString>,
        inherited_mask: Mask,
        inherited_files: OpenFiles,
    ) -> Self {
        Self { argv, envp, inherited_mask, inherited_files, redirected: Vec::new() }
    }

    /// `fd` takes the place of the target's descriptor `number`.
    #[must_use]
    pub fn redirect(mut self, fd: OwnedFd, number: RawFd) -> Self {
        self.redirected.push((fd, number));
        self
    }

    /// Forks a child that waits for [`Suspended::release`].
    ///
    /// Other threads of ours do no harm: until exec the child makes system calls and nothing else.
    pub fn start_suspended(&self) -> std::io::Result<Suspended> {
        let (go_read, go_write) = pipe()?;
        let (error_read, error_write) = pipe()?;
        let argv = pointers(&self.argv);
        let envp = pointers(&self.envp);
        // SAFETY: the child only calls async-signal-safe functions, then execs or exits.
        let pid = check(unsafe { libc::fork() })?;
        if pid == 0 {
            drop(go_write);
            drop(error_read);
            self.become_target(&argv, &envp, go_read, error_write);
        }
        let leash = Leash { pid, go: Some(File::from(go_write)) };
        Ok(Suspended { pid, leash, exec_error: File::from(error_read) })
    }

    fn become_target(
        &self,
        argv: &[*const libc::c_char],
        envp: &[*const libc::c_char],
        go: OwnedFd,
        error: OwnedFd,
    ) -> ! {
        let mut byte = [0u8; 1];
        let mut go = File::from(go);
        while matches!(go.read(&mut byte), Err(e) if e.kind() == std::io::ErrorKind::Interrupted) {}
        drop(go);
        inherited::close_for_target();
        for (fd, number) in &self.redirected {
            // SAFETY: replaces a descriptor of this child only.
            unsafe { libc::dup2(fd.as_raw_fd(), *number) };
        }
        inherited::restore_for_target();
        self.inherited_files.set();
        self.inherited_mask.restore();
        // SAFETY: `argv` and `envp` are null-terminated arrays of C strings that outlive the call.
        unsafe { libc::execvpe(argv[0], argv.as_ptr(), envp.as_ptr()) };
        let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::ENOEXEC);
        let _ = File::from(error).write_all(&errno.to_ne_bytes());
        // SAFETY: leaves at once, without the parent's exit handlers.
        unsafe { libc::_exit(127) }
    }
}

/// A child that has not yet become the command. Dropped without a release, it never does.
#[derive(Debug)]
pub struct Suspended {
    pub pid: i32,
    leash: Leash,
    exec_error: File,
}

impl Suspended {
    /// Lets the child exec. It may be stopped or killed before it does: [`Execing`] tells.
    pub fn release(mut self) -> Execing {
        if let Some(mut go) = self.leash.go.take() {
            // A child that died meanwhile is told by `wait`.
            let _ = go.write_all(&[1]);
        }
        Execing(self.exec_error)
    }
}

#[derive(Debug)]
struct Leash {
    pid: i32,
    go: Option<File>,
}

impl Drop for Leash {
    fn drop(&mut self) {
        // Closing the pipe would let it run: that is for our death, not for an error of ours.
        if self.go.is_some() {
            let _ = send(self.pid, libc::SIGKILL);
            wait_for(self.pid);
        }
    }
}

/// A child on its way to exec.
#[derive(Debug)]
pub struct Execing(File);

impl Execing {
    /// Waits until it became the command (or died); the error is exec's own.
    pub fn outcome(mut self) -> std::io::Result<()> {
        let mut errno = [0u8; 4];
        match self.0.read_exact(&mut errno) {
            Ok(()) => Err(std::io::Error::from_raw_os_error(i32::from_ne_bytes(errno))),
            Err(_) => Ok(()), // closed by exec (or by a death that `wait` will tell)
        }
    }
}

impl AsFd for Execing {
    /// Readable when [`Self::outcome`] does not wait.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Lets go of a standard descriptor that only the target needs: if we kept its pipe open, the other end would
/// not notice that the target closed it.
pub fn let_go(fd: RawFd) {
    if let Ok(nothing) = File::options().read(true).write(true).open("/dev/null") {
        // SAFETY: replaces a standard descriptor, which nothing of ours owns.
        unsafe { libc::dup3(nothing.as_raw_fd(), fd, libc::O_CLOEXEC) };
    }
}

/// A pipe whose ends are closed by exec.
pub(super) fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: `ends` has room for the two descriptors.
    check(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) })?;
    // SAFETY: both descriptors are new and owned by nobody else.
    Ok(unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) })
}

fn pointers(strings: &[CString]) -> Vec<*const libc::c_char> {
    strings.iter().map(|s| CStr::as_ptr(s)).chain(std::iter::once(std::ptr::null())).collect()
}

/// Closes every descriptor from `first` on; for processes of ours that must hold nothing of the user's.
pub(super) fn close_from(first: i32) {
    // SAFETY: closing descriptors that this (just forked) process no longer uses.
    let closed = unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, libc::c_uint::MAX, 0) };
    if closed != 0 {
        // Before Linux 5.9: one by one, up to the limit.
        let limit = OpenFiles::read().map_or(1024, |l| l.soft.min(65_536)) as i32;
        for fd in first..limit {
            // SAFETY: as above.
            unsafe { libc::close(fd) };
        }
    }
}
