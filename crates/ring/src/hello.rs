//! What a tracked process says when it introduces itself: a fixed message and two descriptors.

/// Bytes of the message.
pub const SIZE: usize = 64;
const MAGIC: [u8; 8] = *b"NILOhi\0\x01";

/// Sent once per process image over the recorder's socket, with the control file and, if it is still open,
/// the book.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// As the process sees itself; across namespaces the socket's credentials say more.
    pub pid: u32,
    /// The process it was forked from without `exec`, 0 for a fresh image.
    pub forked_from: u32,
    /// When, in ticks.
    pub start_ticks: u64,
    pub control_inode: u64,
    pub book_inode: u64,
}

impl Hello {
    pub fn to_bytes(&self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.pid.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.forked_from.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.start_ticks.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.control_inode.to_le_bytes());
        bytes[32..40].copy_from_slice(&self.book_inode.to_le_bytes());
        bytes
    }

    pub fn from_bytes(bytes: &[u8; SIZE]) -> Option<Self> {
        let long = |at: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(word)
        };
        (bytes[..8] == MAGIC).then(|| Self {
            pid: long(8) as u32,
            forked_from: (long(8) >> 32) as u32,
            start_ticks: long(16),
            control_inode: long(24),
            book_inode: long(32),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_comes_back_and_noise_does_not() {
        let hello = Hello { pid: 7, forked_from: 6, start_ticks: 5, control_inode: 4, book_inode: 3 };
        assert_eq!(Hello::from_bytes(&hello.to_bytes()), Some(hello));
        assert_eq!(Hello::from_bytes(&[b'x'; SIZE]), None);
    }
}
