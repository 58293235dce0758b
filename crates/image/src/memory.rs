//! Reading numbers and text at addresses, wherever the bytes come from.

/// A name longer than this is no name.
const LONGEST_NAME: usize = 256;

/// Something that has bytes at addresses.
pub trait Memory {
    /// Fills `into` from `address`, or nothing: a part of it is not there.
    fn read(&self, address: u64, into: &mut [u8]) -> Option<()>;

    /// It cannot change between two reads.
    fn is_still(&self) -> bool {
        true
    }

    /// Drops what was kept of earlier readings: the next ones tell what is there then.
    fn forget(&self) {}

    fn u8(&self, address: u64) -> Option<u8> {
        read_array(self, address).map(u8::from_le_bytes)
    }

    fn u32(&self, address: u64) -> Option<u32> {
        read_array(self, address).map(u32::from_le_bytes)
    }

    fn u64(&self, address: u64) -> Option<u64> {
        read_array(self, address).map(u64::from_le_bytes)
    }

    /// A C string of UTF-8 without control characters, at most 256 bytes long: a name.
    fn name(&self, address: u64) -> Option<String> {
        let mut bytes = Vec::new();
        let mut chunk = [0; 32];
        while bytes.len() < LONGEST_NAME {
            let at = address.checked_add(bytes.len() as u64)?;
            // Up to the next multiple of 32, so that a read never crosses into a page that is not there.
            let chunk = &mut chunk[..32 - (at % 32) as usize];
            self.read(at, chunk)?;
            if let Some(end) = chunk.iter().position(|byte| *byte == 0) {
                bytes.extend_from_slice(&chunk[..end]);
                return String::from_utf8(bytes).ok().filter(|name| !name.chars().any(char::is_control));
            }
            bytes.extend_from_slice(chunk);
        }
        None
    }
}

fn read_array<const N: usize>(memory: &(impl Memory + ?Sized), address: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    memory.read(address, &mut bytes)?;
    Some(bytes)
}
