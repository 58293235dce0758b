//! The memory of another process, by `process_vm_readv`.
//!
//! Needs what `PTRACE_ATTACH` needs (`mm_access(…, PTRACE_MODE_ATTACH_REALCREDS)`, `mm/process_vm_access.c`), but
//! stops nothing. EPERM is the policy's refusal, EFAULT an address that is not mapped. A page that was never touched
//! is faulted in by reading it: whoever must leave the target as it was asks the page map first.

use std::io;

/// As many pieces as one call takes (`UIO_MAXIOV`, include/uapi/linux/uio.h).
pub const MOST_SPANS: usize = 1024;

/// Bytes of another process and where they go.
#[derive(Debug)]
pub struct Span<'a> {
    pub address: u64,
    pub into: &'a mut [u8],
}

/// Copies bytes of another process from `address`; fewer than asked where the mapping ends.
pub fn read_bytes(pid: i32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
    read_spans(pid, &mut [Span { address, into: bytes }])
}

/// Fills the first [`MOST_SPANS`] spans in their order; how many bytes came before the first page that cannot be read.
pub fn read_spans(pid: i32, spans: &mut [Span]) -> io::Result<usize> {
    let none = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
    let (mut local, mut remote) = ([none; MOST_SPANS], [none; MOST_SPANS]);
    let count = spans.len().min(MOST_SPANS);
    for (index, span) in spans.iter_mut().take(count).enumerate() {
        let iov_len = span.into.len();
        local[index] = libc::iovec { iov_base: span.into.as_mut_ptr().cast(), iov_len };
        remote[index] = libc::iovec { iov_base: span.address as usize as *mut libc::c_void, iov_len };
    }
    let count = count as libc::c_ulong;
    // SAFETY: each local entry describes a slice borrowed for writing; remote entries are addresses of the other
    // process and never dereferenced here.
    let read = unsafe { libc::process_vm_readv(pid, local.as_ptr(), count, remote.as_ptr(), count, 0) };
    usize::try_from(read).map_err(|_| super::last_error())
}

/// Copies bytes into another process; all of them, or it fails.
pub fn write_bytes(pid: i32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: the local entry describes a slice that is only read; the remote one is an address of the other process.
    let written = unsafe { libc::process_vm_writev(pid, &raw const local, 1, &raw const remote, 1, 0) };
    match usize::try_from(written) {
        Ok(written) if written == bytes.len() => Ok(()),
        Ok(_) => Err(io::Error::from(io::ErrorKind::WriteZero)),
        Err(_) => Err(super::last_error()),
    }
}

/// No transparent huge pages in this process and those it starts, exec or not (`PR_SET_THP_DISABLE`, since Linux 3.15).
pub fn disable_huge_pages() -> io::Result<()> {
    // SAFETY: takes numbers only.
    super::check(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_bytes_come_back_and_address_zero_is_a_fault() {
        let words = *b"read me";
        let mut copy = [0; 7];
        let me = std::process::id() as i32;
        assert_eq!(read_bytes(me, words.as_ptr() as u64, &mut copy).unwrap(), 7);
        assert_eq!(copy, words);
        assert_eq!(read_bytes(me, 0, &mut copy).unwrap_err().raw_os_error(), Some(libc::EFAULT));
    }

    #[test]
    fn spans_are_filled_up_to_the_first_that_cannot_be_read() {
        let words = *b"read me";
        let me = std::process::id() as i32;
        let (mut first, mut second, mut third) = ([0; 4], [0; 4], [0; 2]);
        let at = words.as_ptr() as u64;
        let mut spans = [
            Span { address: at, into: &mut first },
            Span { address: 1, into: &mut second },
            Span { address: at + 5, into: &mut third },
        ];
        assert_eq!(read_spans(me, &mut spans).unwrap(), 4);
        assert_eq!(read_spans(me, &mut spans[2..]).unwrap(), 2);
        assert_eq!((&first, &third), (b"read", b"me"));
    }
}
