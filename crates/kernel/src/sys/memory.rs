//! The memory of another process, by `process_vm_readv`.

use std::io;

/// Copies bytes of another process from `address`; fewer than asked where the mapping ends.
///
/// Needs what `PTRACE_ATTACH` needs (`mm_access(…, PTRACE_MODE_ATTACH_REALCREDS)`, `mm/process_vm_access.c`),
/// but stops nothing. EPERM is the policy's refusal, EFAULT an address that is not mapped.
pub fn read_bytes(pid: i32, address: u64, bytes: &mut [u8]) -> io::Result<usize> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: address as usize as *mut libc::c_void, iov_len: bytes.len() };
    // SAFETY: `local` describes `bytes`, writable for its whole length; `remote` is an address of the other
    // process and never dereferenced here.
    let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(read).map_err(|_| super::last_error())
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
}
