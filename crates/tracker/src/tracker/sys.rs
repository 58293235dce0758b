//! System calls without libc: they leave `errno` alone and never come back as hooks.

use core::arch::asm;
use core::ffi::{CStr, c_int};
use core::ptr::null_mut;

/// A negative `errno`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

/// # Safety
/// As for the call itself.
#[inline(always)]
pub unsafe fn call(number: i64, args: [usize; 6]) -> Result<usize, Errno> {
    let result: isize;
    // SAFETY: the kernel's calling convention: rcx and r11 are lost, memory may be written.
    unsafe {
        asm!("syscall", inlateout("rax") number as isize => result,
            in("rdi") args[0], in("rsi") args[1], in("rdx") args[2],
            in("r10") args[3], in("r8") args[4], in("r9") args[5],
            lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

macro_rules! syscall {
    ($number:expr $(, $arg:expr)* $(,)?) => {{
        let mut args = [0_usize; 6];
        let given = [$($arg as usize),*];
        args[..given.len()].copy_from_slice(&given);
        $crate::tracker::sys::call($number, args)
    }};
}

/// Private zeroed memory of our own; null if refused.
pub fn map_private(length: usize) -> *mut u8 {
    let (prot, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping where the kernel likes.
    unsafe { syscall!(libc::SYS_mmap, 0, length, prot, flags, -1_isize, 0) }
        .map_or(null_mut(), |at| at as *mut u8)
}

/// Part of a file, shared; null if refused.
pub fn map_file(fd: c_int, offset: u64, length: u64) -> *mut u8 {
    let prot = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: a new mapping where the kernel likes.
    unsafe { syscall!(libc::SYS_mmap, 0, length, prot, libc::MAP_SHARED, fd, offset) }
        .map_or(null_mut(), |at| at as *mut u8)
}

/// # Safety
/// The range is a mapping of ours that nobody uses any more.
pub unsafe fn unmap(start: *mut u8, length: usize) {
    // SAFETY: by the caller's promise.
    let _ = unsafe { syscall!(libc::SYS_munmap, start, length) };
}

/// # Safety
/// The advice must be harmless for the users of the range.
pub unsafe fn advise(start: *mut u8, length: usize, advice: c_int) -> bool {
    // SAFETY: by the caller's promise.
    unsafe { syscall!(libc::SYS_madvise, start, length, advice) }.is_ok()
}

/// A file of this size that cannot change its size any more; `None` if anything is refused.
pub fn sealed_file(name: &CStr, length: u64) -> Option<c_int> {
    if file_size_limit() < length {
        return None; // growing beyond RLIMIT_FSIZE is a deadly signal, not an error
    }
    let fd = memory_file(name)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_SEAL;
    // SAFETY: calls on the descriptor that was just made.
    let sealed = unsafe {
        syscall!(libc::SYS_ftruncate, fd, length).is_ok()
            && syscall!(libc::SYS_fcntl, fd, libc::F_ADD_SEALS, seals).is_ok()
    };
    if !sealed {
        close(fd);
        return None;
    }
    Some(out_of_the_way(fd))
}

fn memory_file(name: &CStr) -> Option<c_int> {
    const MFD_NOEXEC_SEAL: u32 = 8; // since Linux 6.3; where `vm.memfd_noexec` is 2 nothing else is allowed
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name ends with a zero.
    unsafe {
        syscall!(libc::SYS_memfd_create, name.as_ptr(), flags | MFD_NOEXEC_SEAL)
            .or_else(|_| syscall!(libc::SYS_memfd_create, name.as_ptr(), flags))
            .map(|fd| fd as c_int)
            .ok()
    }
}

/// Moves a descriptor to a high number: programs close or count on the low ones.
fn out_of_the_way(fd: c_int) -> c_int {
    let lowest = limit(libc::RLIMIT_NOFILE).clamp(64, 1024) - 32;
    // SAFETY: duplicates a descriptor of ours.
    match unsafe { syscall!(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, lowest) } {
        Ok(high) => {
            close(fd);
            high as c_int
        }
        Err(_) => fd,
    }
}

pub fn close(fd: c_int) {
    // SAFETY: closing a descriptor touches no memory of ours.
    let _ = unsafe { syscall!(libc::SYS_close, fd) };
}

fn limit(resource: libc::__rlimit_resource_t) -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the structure.
    match unsafe { syscall!(libc::SYS_prlimit64, 0, resource, 0, &raw mut limit) } {
        Ok(_) => limit.rlim_cur,
        Err(_) => 0,
    }
}

fn file_size_limit() -> u64 {
    limit(libc::RLIMIT_FSIZE)
}

pub fn stack_limit() -> u64 {
    limit(libc::RLIMIT_STACK)
}

/// The inode behind a descriptor; 0 if it is closed.
pub fn inode(fd: c_int) -> u64 {
    // SAFETY: all bits zero are a valid `stat`, and the kernel fills it.
    unsafe {
        let mut facts: libc::stat = core::mem::zeroed();
        match syscall!(libc::SYS_fstat, fd, &raw mut facts) {
            Ok(_) => facts.st_ino,
            Err(_) => 0,
        }
    }
}

/// Backs a range of a file, so that touching it cannot fail.
pub fn back(fd: c_int, offset: u64, length: u64) -> bool {
    for _ in 0..8 {
        // SAFETY: touches only the file.
        match unsafe { syscall!(libc::SYS_fallocate, fd, 0, offset, length) } {
            Ok(_) => return true,
            Err(Errno(libc::EINTR)) => {} // a signal: the target's handler has run, go on
            Err(_) => return false,
        }
    }
    false
}

pub fn punch(fd: c_int, offset: u64, length: u64) {
    let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: touches only the file.
    let _ = unsafe { syscall!(libc::SYS_fallocate, fd, mode, offset, length) };
}

pub fn process_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as u32
}

pub fn thread_id() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) }.unwrap_or(0) as u32
}

/// True if the process exists, as far as we may know.
pub fn exists(pid: u32) -> bool {
    // SAFETY: signal 0 is sent to nobody.
    unsafe { syscall!(libc::SYS_kill, pid, 0) != Err(Errno(libc::ESRCH)) }
}

/// True if this thread of ours exists.
pub fn thread_exists(pid: u32, tid: u32) -> bool {
    // SAFETY: signal 0 is sent to nobody.
    unsafe { syscall!(libc::SYS_tgkill, pid, tid, 0) != Err(Errno(libc::ESRCH)) }
}

pub fn nap(nanoseconds: i64) {
    let time = libc::timespec { tv_sec: 0, tv_nsec: nanoseconds };
    // SAFETY: the kernel reads the structure. A signal may cut it short.
    let _ = unsafe { syscall!(libc::SYS_nanosleep, &raw const time, 0) };
}

/// `CLOCK_MONOTONIC` in nanoseconds.
pub fn monotonic_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure.
    let _ = unsafe { syscall!(libc::SYS_clock_gettime, libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Random bits from the kernel; the clock where there are none yet.
pub fn random() -> u64 {
    let mut bits = 0_u64;
    // SAFETY: the kernel fills eight bytes.
    let got = unsafe { syscall!(libc::SYS_getrandom, &raw mut bits, 8, libc::GRND_NONBLOCK) };
    if got == Ok(8) { bits } else { nilometer_ring::clock::ticks().rotate_left(32) ^ monotonic_ns() }
}

/// Fills `into` with the name of the file that is mapped at an address; its length, 0 if there is none.
///
/// The program's own file is found so too when it was started through the dynamic linker by hand.
pub fn mapped_file(address: usize, into: &mut [u8]) -> usize {
    let mut found = 0;
    let mut buffer = [0_u8; 2048];
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero.
    let Ok(fd) =
        (unsafe { syscall!(libc::SYS_openat, libc::AT_FDCWD, c"/proc/self/maps".as_ptr(), flags, 0) })
    else {
        return 0;
    };
    let mut kept = 0;
    while let Some(room) = buffer.get_mut(kept..).filter(|room| !room.is_empty()) {
        // SAFETY: the kernel writes at most as many bytes as there is room for.
        let read = unsafe { syscall!(libc::SYS_read, fd, room.as_mut_ptr(), room.len()) }.unwrap_or(0);
        let end = kept + read;
        let mut start = 0;
        while let Some(length) = buffer.get(start..end).and_then(|rest| rest.iter().position(|&b| b == b'\n'))
        {
            found = buffer.get(start..start + length).map_or(0, |line| name_at(line, address, into));
            start += length + 1;
            if found != 0 {
                break;
            }
        }
        if found != 0 || read == 0 {
            break;
        }
        buffer.copy_within(start..end, 0);
        kept = end - start;
    }
    close(fd as c_int);
    found
}

/// A line of `/proc/self/maps`: the length of its name if it covers the address.
fn name_at(line: &[u8], address: usize, into: &mut [u8]) -> usize {
    let mut words = line.splitn(2, |&byte| byte == b' ');
    let range = words.next().unwrap_or(&[]);
    let number = |digits: Option<&[u8]>| {
        let digits = core::str::from_utf8(digits.unwrap_or(&[])).unwrap_or("");
        usize::from_str_radix(digits, 16).unwrap_or(0)
    };
    let mut ends = range.splitn(2, |&byte| byte == b'-');
    let covers = number(ends.next()) <= address && address < number(ends.next());
    let name = line.iter().position(|&byte| byte == b'/').and_then(|at| line.get(at..)).unwrap_or(&[]);
    let length = name.len().min(into.len());
    match (covers, into.get_mut(..length), name.get(..length)) {
        (true, Some(into), Some(name)) => {
            into.copy_from_slice(name);
            length
        }
        _ => 0,
    }
}

/// The first bytes of a file, as many as there is room for; none if it cannot be read.
pub fn read_file<'a>(path: &CStr, into: &'a mut [u8]) -> &'a [u8] {
    let flags = libc::O_RDONLY | libc::O_CLOEXEC;
    // SAFETY: the path ends with a zero.
    let Ok(fd) = (unsafe { syscall!(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0) }) else {
        return &[];
    };
    let mut length = 0;
    while let Some(room) = into.get_mut(length..).filter(|room| !room.is_empty()) {
        // SAFETY: the kernel writes at most as many bytes as there is room for.
        match unsafe { syscall!(libc::SYS_read, fd, room.as_mut_ptr(), room.len()) } {
            Ok(read) if read > 0 => length += read,
            _ => break,
        }
    }
    close(fd as c_int);
    into.get(..length).unwrap_or(&[])
}

/// True if eight bytes can be read there. Asks the kernel, which refuses politely.
pub fn readable(address: usize) -> bool {
    // SAFETY: `how` is invalid, so that nothing changes: EINVAL after the mask was read, EFAULT if it cannot be.
    unsafe { syscall!(libc::SYS_rt_sigprocmask, -1_isize, address, 0, 8) != Err(Errno(libc::EFAULT)) }
}

/// A socket connected to `address`, or nothing.
pub fn connect(address: &libc::sockaddr_un, length: usize) -> Option<c_int> {
    let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the kernel reads `length` bytes of the address.
    unsafe {
        let fd = syscall!(libc::SYS_socket, libc::AF_UNIX, kind, 0).ok()? as c_int;
        for _ in 0..100 {
            match syscall!(libc::SYS_connect, fd, &raw const *address, length) {
                Ok(_) => return Some(fd),
                Err(Errno(libc::EAGAIN)) => nap(100_000), // its queue is full: 10 ms at most
                Err(_) => break,
            }
        }
        close(fd);
        None
    }
}

/// # Safety
/// `message` and what it points to are valid.
pub unsafe fn send(fd: c_int, message: &libc::msghdr) -> bool {
    // SAFETY: by the caller's promise; a closed peer is an error, not a signal.
    unsafe {
        syscall!(libc::SYS_sendmsg, fd, &raw const *message, libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT).is_ok()
    }
}

/// The process at the other end, as we see it; 0 if it is in another namespace.
pub fn peer(fd: c_int) -> u32 {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as u32;
    let (level, what) = (libc::SOL_SOCKET, libc::SO_PEERCRED);
    // SAFETY: the kernel fills both.
    let got = unsafe { syscall!(libc::SYS_getsockopt, fd, level, what, &raw mut peer, &raw mut length) };
    if got.is_ok() { peer.pid as u32 } else { 0 }
}

#[cfg(not(test))]
pub(crate) use syscall;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_of_an_address_is_found() {
        let mut name = [0; 512];
        let length = mapped_file(mapped_file as *const () as usize, &mut name);
        let own = std::env::current_exe().unwrap();
        assert_eq!(&name[..length], own.as_os_str().as_encoded_bytes());
        assert_eq!(mapped_file(8, &mut name), 0);
        let line = b"7f00-7f10 r--p 00000000 fe:00 12 /a b";
        assert_eq!((name_at(line, 0x7f0f, &mut name), &name[..4]), (4, &b"/a b"[..]));
        assert_eq!(name_at(line, 0x7f10, &mut name), 0);
    }
}
