//! A file that is read again and again.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// Keeps its descriptor: a `pread` at 0 of a proc file costs a third of open + read + close.
///
/// The descriptor of a `/proc/PID` file is bound to that process, so a reused pid cannot be mistaken for
/// it. Where no descriptor is left (EMFILE) the file is opened for each reading.
#[derive(Debug)]
pub struct KeptFile {
    path: PathBuf,
    file: Option<File>,
}

impl KeptFile {
    pub fn open(path: PathBuf) -> Result<Self, Error> {
        let file = match File::open(&path) {
            Ok(file) => Some(file),
            Err(e) if matches!(e.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) => None,
            Err(e) => return Err(Error::from_io(&path, e)),
        };
        Ok(Self { path, file })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole content, in a buffer that grows when needed and is reused.
    pub fn read<'b>(&self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], Error> {
        let length = match &self.file {
            Some(file) => read_all(file, buffer),
            None => File::open(&self.path).and_then(|file| read_all(&file, buffer)),
        };
        length.map(|n| &buffer[..n]).map_err(|e| Error::from_io(&self.path, e))
    }

    /// The beginning, as far as it goes into `buffer`. A file of `/proc/sys` costs the kernel memory of the size that is
    /// asked for.
    #[inline]
    pub fn read_start<'b>(&self, buffer: &'b mut [u8]) -> Result<&'b [u8], Error> {
        let length = match &self.file {
            Some(file) => file.read_at(buffer, 0),
            None => File::open(&self.path).and_then(|file| file.read_at(buffer, 0)),
        };
        length.map(|n| &buffer[..n]).map_err(|e| Error::from_io(&self.path, e))
    }
}

/// One `pread` is enough while the buffer is larger than the file; a full buffer is doubled and filled on.
fn read_all(file: &File, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    if buffer.is_empty() {
        buffer.resize(8192, 0);
    }
    let mut filled = 0;
    loop {
        if filled == buffer.len() {
            buffer.resize(buffer.len() * 2, 0);
        }
        match file.read_at(&mut buffer[filled..], filled as u64) {
            Ok(0) => return Ok(filled),
            // Small proc files come whole: a short read is the end, and saves the second call.
            Ok(n) if filled + n < buffer.len() && n < 3072 => return Ok(filled + n),
            Ok(n) => filled += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
}

/// Reads a small file once.
pub fn read_once(path: &Path, buffer: &mut Vec<u8>) -> Result<usize, Error> {
    File::open(path).and_then(|file| read_all(&file, buffer)).map_err(|e| Error::from_io(path, e))
}
