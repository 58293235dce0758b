//! Receiving an introduction: the message and the descriptors that come with it.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd};

use super::Error;
use crate::hello::{Hello, SIZE};

/// A process that introduced itself.
#[derive(Debug)]
pub struct Introduction {
    pub hello: Hello,
    pub control: File,
    /// Absent when the target has closed its descriptor: the book is that of the process it was forked from.
    pub book: Option<File>,
}

#[repr(C)]
struct IoVec {
    start: *mut c_void,
    length: usize,
}

#[repr(C)]
struct Message {
    name: *mut c_void,
    name_length: u32,
    buffers: *mut IoVec,
    buffer_count: usize,
    control: *mut c_void,
    control_length: usize,
    flags: c_int,
}

/// Room for one `SCM_RIGHTS` header (16 bytes) and two descriptors, and some that we then close.
#[repr(C, align(8))]
struct Ancillary([u8; 64]);

unsafe extern "C" {
    fn recvmsg(fd: c_int, message: *mut Message, flags: c_int) -> isize;
}

const MSG_CMSG_CLOEXEC: c_int = 0x4000_0000;
const MSG_WAITALL: c_int = 0x100;
const SOL_SOCKET: i32 = 1;
const SCM_RIGHTS: i32 = 1;
const HEADER: usize = 16;

/// Reads the introduction that a process sent over `socket`. Blocks if the socket does.
pub fn receive(socket: BorrowedFd<'_>) -> Result<Introduction, Error> {
    let mut bytes = [0_u8; SIZE];
    let mut ancillary = Ancillary([0; 64]);
    let mut buffer = IoVec { start: bytes.as_mut_ptr().cast(), length: SIZE };
    let mut message = Message {
        name: std::ptr::null_mut(),
        name_length: 0,
        buffers: &raw mut buffer,
        buffer_count: 1,
        control: ancillary.0.as_mut_ptr().cast(),
        control_length: ancillary.0.len(),
        flags: 0,
    };
    // SAFETY: the message points to live buffers of the lengths it tells.
    let read = unsafe { recvmsg(socket.as_raw_fd(), &raw mut message, MSG_CMSG_CLOEXEC | MSG_WAITALL) };
    if read < 0 {
        return Err(io::Error::last_os_error().into());
    }
    let mut files = files(&ancillary.0[..message.control_length.min(64)]).into_iter();
    let hello =
        (read as usize == SIZE).then(|| Hello::from_bytes(&bytes)).flatten().ok_or(Error::BadHello)?;
    Ok(Introduction { hello, control: files.next().ok_or(Error::BadHello)?, book: files.next() })
}

/// Takes ownership of every descriptor that came, wanted or not.
fn files(ancillary: &[u8]) -> Vec<File> {
    let word = |at: usize| ancillary.get(at..at + 4).and_then(|b| b.try_into().ok()).map(i32::from_le_bytes);
    let is_rights = word(8) == Some(SOL_SOCKET) && word(12) == Some(SCM_RIGHTS);
    let length = ancillary.get(..8).and_then(|b| b.try_into().ok()).map_or(0, usize::from_le_bytes);
    if !is_rights {
        return Vec::new();
    }
    (HEADER..length.min(ancillary.len()))
        .step_by(4)
        .filter_map(word)
        // SAFETY: the kernel has just installed these descriptors for us; nobody else knows them.
        .map(|fd| unsafe { File::from_raw_fd(fd) })
        .collect()
}
