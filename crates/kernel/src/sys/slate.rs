//! A file that is written by storing into memory: what was stored is the kernel's when we are killed, as after a
//! `write`, and costs a tenth of it (no system call, no journal entry for the time of change).
//!
//! The price of a mapping is that what would be an error of `write` is SIGBUS: the file was cut, a copy-on-write file
//! system is full, a disk failed. [`Slate`] turns it back into an error: its handler puts memory of our own in the
//! file's place, the store goes on into that, and the next look finds the slate lost.

use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::{check, last_error};

// What the handler needs to know; one slate at a time. 0 = none.
static START: AtomicUsize = AtomicUsize::new(0);
static LENGTH: AtomicUsize = AtomicUsize::new(0);
static IS_LOST: AtomicBool = AtomicBool::new(false);

/// All of a file, mapped for writing.
#[derive(Debug)]
pub struct Slate {
    start: NonNull<u8>,
    length: usize,
    before: BusErrors,
}

// SAFETY: the mapping belongs to this value alone and is bound to no thread.
unsafe impl Send for Slate {}

impl Slate {
    /// Refused where another slate is in use. The file must have its full length.
    pub fn over(file: &File) -> io::Result<Self> {
        let length = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if LENGTH.compare_exchange(0, length, Ordering::SeqCst, Ordering::SeqCst).is_err() {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let slate = map(file, length).and_then(|start| {
            IS_LOST.store(false, Ordering::SeqCst);
            START.store(start.as_ptr().expose_provenance(), Ordering::SeqCst);
            Ok(Self { start, length, before: BusErrors::take()? })
        });
        if slate.is_err() {
            LENGTH.store(0, Ordering::SeqCst);
        }
        slate
    }

    /// After an error it stays lost.
    #[inline]
    pub fn write_at(&mut self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let offset = usize::try_from(offset).map_err(io::Error::other)?;
        if offset > self.length || bytes.len() > self.length - offset {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        // SAFETY: the range lies within the mapping, which nothing in this process refers to but `self`; `bytes`
        // cannot overlap it. A page that is not there any more is replaced by the handler.
        unsafe { bytes.as_ptr().copy_to_nonoverlapping(self.start.as_ptr().add(offset), bytes.len()) };
        if IS_LOST.load(Ordering::SeqCst) { Err(io::Error::from_raw_os_error(libc::EIO)) } else { Ok(()) }
    }
}

impl Drop for Slate {
    fn drop(&mut self) {
        self.before.put_back();
        START.store(0, Ordering::SeqCst);
        // SAFETY: this is our mapping (or the handler's in its place), and nobody refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length) };
        LENGTH.store(0, Ordering::SeqCst);
    }
}

fn map(file: &File, length: usize) -> io::Result<NonNull<u8>> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
    let start = unsafe {
        libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, file.as_raw_fd(), 0)
    };
    if start == libc::MAP_FAILED {
        return Err(last_error());
    }
    NonNull::new(start.cast()).ok_or_else(|| io::Error::other("mapped at 0"))
}

/// What happened at SIGBUS before.
struct BusErrors(libc::sigaction);

impl std::fmt::Debug for BusErrors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BusErrors")
    }
}

impl BusErrors {
    fn take() -> io::Result<Self> {
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: an all-zero sigaction is valid; the handler has the signature that SA_SIGINFO asks for, and
        // `before` is filled on success.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = on_bus_error as extern "C" fn(_, _, _) as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            check(libc::sigaction(libc::SIGBUS, &raw const action, before.as_mut_ptr()))?;
            Self(before.assume_init()).unless_ignored()
        }
    }

    /// A program that we start would no longer ignore it: `exec` gives back what is ignored, not what is handled.
    fn unless_ignored(self) -> io::Result<Self> {
        if self.0.sa_sigaction != libc::SIG_IGN {
            return Ok(self);
        }
        self.put_back();
        Err(io::ErrorKind::Unsupported.into())
    }

    fn put_back(&self) {
        // SAFETY: the action is the one the kernel gave us.
        unsafe { libc::sigaction(libc::SIGBUS, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// A store into the slate goes on in memory of our own; any other bus error ends us as it would have.
extern "C" fn on_bus_error(_: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    let (start, length) = (START.load(Ordering::SeqCst), LENGTH.load(Ordering::SeqCst));
    // SAFETY: the kernel passes a valid siginfo, whose address is set for SIGBUS.
    let at = unsafe { (*info).si_addr() }.addr();
    if start != 0 && at.wrapping_sub(start) < length && replace(start, length) {
        IS_LOST.store(true, Ordering::SeqCst);
        return;
    }
    // SAFETY: the default action is valid; returning repeats the access, which then ends us.
    unsafe { libc::signal(libc::SIGBUS, libc::SIG_DFL) };
}

fn replace(start: usize, length: usize) -> bool {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: `start` and `length` are those of the slate's own mapping; the call itself is async-signal-safe.
    let replaced =
        unsafe { libc::mmap(std::ptr::with_exposed_provenance_mut(start), length, protection, flags, -1, 0) };
    replaced != libc::MAP_FAILED
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// One test, because there is one slate at a time.
    #[test]
    fn stores_are_in_the_file_and_a_cut_file_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mut slate = Slate::over(&file).unwrap();
        assert!(Slate::over(&file).is_err(), "one at a time");
        slate.write_at(b"abc", 4095).unwrap();
        let mut read = [0; 3];
        file.read_exact_at(&mut read, 4095).unwrap();
        assert_eq!(&read, b"abc");
        assert!(slate.write_at(b"abc", 8190).is_err());
        assert!(slate.write_at(b"abc", u64::MAX).is_err());
        file.set_len(0).unwrap();
        assert!(slate.write_at(b"abc", 4095).is_err());
        assert!(slate.write_at(b"abc", 0).is_err(), "lost for good");
        drop(slate);
        file.set_len(4096).unwrap();
        Slate::over(&file).unwrap().write_at(b"again", 0).unwrap();
        let empty = tempfile::tempfile().unwrap();
        assert!(Slate::over(&empty).is_err());
    }
}
