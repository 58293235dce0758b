//! Which CPython.

use std::fmt;

/// A release, as in `sys.version_info`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    pub major: u8,
    pub minor: u8,
    pub micro: u8,
    pub level: Level,
    pub serial: u8,
}

/// How finished a release is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    Alpha,
    Beta,
    Candidate,
    Final,
}

impl Version {
    pub const fn new(major: u8, minor: u8, micro: u8) -> Self {
        Self { major, minor, micro, level: Level::Final, serial: 0 }
    }

    /// From `PY_VERSION_HEX`: `Py_Version` (3.11 on) and the debug offsets hold it. None if it cannot be one.
    pub fn from_hex(hex: u64) -> Option<Self> {
        let level = match hex >> 4 & 0xf {
            0xa => Level::Alpha,
            0xb => Level::Beta,
            0xc => Level::Candidate,
            0xf => Level::Final,
            _ => return None,
        };
        let [major, minor, micro] = [hex >> 24, hex >> 16, hex >> 8].map(|part| part as u8);
        let plausible = hex >> 32 == 0 && matches!(major, 2 | 3);
        plausible.then_some(Self { major, minor, micro, level, serial: (hex & 0xf) as u8 })
    }

    /// From the beginning of what `Py_GetVersion` returns: `3.11.2 (main, …`, `3.15.0b1+ (…`.
    pub fn parse(text: &str) -> Option<Self> {
        let (major, rest) = take_number(text)?;
        let (minor, rest) = take_number(rest.strip_prefix('.')?)?;
        let (micro, rest) = take_number(rest.strip_prefix('.')?)?;
        let (level, serial, rest) = take_level(rest)?;
        let ends = rest.is_empty() || rest.starts_with(['+', ' ']);
        (ends && matches!(major, 2 | 3)).then_some(Self { major, minor, micro, level, serial })
    }

    pub fn at_least(self, minor: u8) -> bool {
        self.major == 3 && self.minor >= minor
    }
}

fn take_number(text: &str) -> Option<(u8, &str)> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    Some((text[..end].parse().ok()?, &text[end..]))
}

fn take_level(text: &str) -> Option<(Level, u8, &str)> {
    for (mark, level) in [("a", Level::Alpha), ("b", Level::Beta), ("rc", Level::Candidate)] {
        if let Some(rest) = text.strip_prefix(mark) {
            let (serial, rest) = take_number(rest)?;
            return Some((level, serial, rest));
        }
    }
    Some((Level::Final, 0, text))
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.micro)?;
        match self.level {
            Level::Alpha => write!(f, "a{}", self.serial),
            Level::Beta => write!(f, "b{}", self.serial),
            Level::Candidate => write!(f, "rc{}", self.serial),
            Level::Final => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_comes_from_its_number() {
        assert_eq!(Version::from_hex(0x030b_07f0), Some(Version::new(3, 11, 7)));
        let beta = Version::from_hex(0x030f_00b2).map(|version| version.to_string());
        assert_eq!(beta.as_deref(), Some("3.15.0b2"));
        assert_eq!(Version::from_hex(0), None);
        assert_eq!(Version::from_hex(0x0001_030b_07f0), None);
        assert_eq!(Version::from_hex(0x070b_07f0), None);
    }

    #[test]
    fn a_version_comes_from_its_text() {
        assert_eq!(Version::parse("3.8.18 (default, Dec 1 2023, 10:00:00)"), Some(Version::new(3, 8, 18)));
        assert_eq!(Version::parse("3.12.1+ (heads/x:1)"), Some(Version::new(3, 12, 1)));
        assert_eq!(Version::parse("3.15.0rc1 (main").map(|v| v.to_string()).as_deref(), Some("3.15.0rc1"));
        assert_eq!(Version::parse("3.11"), None);
        assert_eq!(Version::parse("3.11.2.4"), None);
        assert_eq!(Version::parse("1.11.2 ("), None);
    }
}
