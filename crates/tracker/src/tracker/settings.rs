//! What the launcher asks for, in one environment variable.
//!
//! `NILO_TRACKER=mode=all,mean=524288,exact=262144,budget=100663296,depth=256,socket=/run/…`: `socket` comes
//! last and takes the rest. A leading `@` in it is an abstract name. Without the variable, or with one that
//! cannot be read, the library does nothing.

use nilometer_ring::event::{Level, Mode};

/// Room for a socket's path in `sockaddr_un`.
pub const PATH: usize = 108;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub mode: Mode,
    /// Mean distance of samples.
    pub mean_bytes: u64,
    /// Blocks from this size on are always recorded.
    pub exact_bytes: u64,
    /// Ceiling for the rings and for the book.
    pub budget_bytes: u64,
    /// Frames kept of a stack.
    pub depth: usize,
    /// How long a thread waits for a slow recorder before it drops events.
    pub wait_ms: u64,
    pub socket: [u8; PATH],
    pub socket_length: usize,
}

impl Settings {
    const DEFAULT: Self = Self {
        mode: Mode::new(Level::Sampled),
        mean_bytes: 512 << 10,
        exact_bytes: 256 << 10,
        budget_bytes: 96 << 20,
        depth: super::native::MAX_DEPTH,
        wait_ms: 5,
        socket: [0; PATH],
        socket_length: 0,
    };

    pub fn parse(text: &[u8]) -> Option<Self> {
        let mut settings = Self::DEFAULT;
        let mut rest = text;
        while let Some(equals) = rest.iter().position(|&byte| byte == b'=') {
            let (key, value) = (rest.get(..equals)?, rest.get(equals + 1..)?);
            if key == b"socket" {
                return settings.with_socket(value);
            }
            let end = value.iter().position(|&byte| byte == b',')?;
            settings.set(key, value.get(..end)?)?;
            rest = value.get(end + 1..)?;
        }
        None
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Option<()> {
        match key {
            b"mode" => self.mode = mode(value)?,
            b"mean" => self.mean_bytes = number(value)?.max(1),
            b"exact" => self.exact_bytes = number(value)?,
            b"budget" => self.budget_bytes = number(value)?,
            b"depth" => self.depth = (number(value)? as usize).clamp(1, super::native::MAX_DEPTH),
            b"wait" => self.wait_ms = number(value)?.min(60_000),
            b"stamp" => self.mode = self.mode.with(Mode::STAMP_ALL),
            _ => {} // a newer launcher's wish
        }
        Some(())
    }

    fn with_socket(mut self, path: &[u8]) -> Option<Self> {
        if path.is_empty() || path.len() >= PATH {
            return None;
        }
        self.socket.get_mut(..path.len())?.copy_from_slice(path);
        self.socket_length = path.len();
        if path.first() == Some(&b'@') {
            *self.socket.first_mut()? = 0;
        }
        Some(self)
    }
}

fn mode(name: &[u8]) -> Option<Mode> {
    Some(Mode::new(match name {
        b"off" | b"later" => Level::Off,
        b"sampled" => Level::Sampled,
        b"all" => Level::All,
        b"deep" => Level::Deep,
        _ => return None,
    }))
}

fn number(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() {
        return None;
    }
    digits.iter().try_fold(0_u64, |sum, &digit| {
        let digit = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_socket_takes_the_rest() {
        let settings = Settings::parse(b"mode=deep,mean=1000,future=x,socket=/tmp/a,b=c").unwrap();
        assert_eq!(settings.mode.level(), Level::Deep);
        assert_eq!(settings.mean_bytes, 1000);
        assert_eq!(&settings.socket[..settings.socket_length], b"/tmp/a,b=c");
    }

    #[test]
    fn what_cannot_be_read_is_refused() {
        for text in ["", "mode=all", "mode=most,socket=/a", "mean=12x,socket=/a", "socket="] {
            assert_eq!(Settings::parse(text.as_bytes()), None, "{text}");
        }
        let long = format!("socket=/{}", "x".repeat(PATH));
        assert_eq!(Settings::parse(long.as_bytes()), None);
    }

    #[test]
    fn abstract_names_start_with_a_zero() {
        let settings = Settings::parse(b"socket=@nilo").unwrap();
        assert_eq!(&settings.socket[..settings.socket_length], b"\0nilo");
    }
}
