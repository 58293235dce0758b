//! Which release of glibc is loaded, by the sentence that it would print if it were run. Only told, never relied on.

use nilometer_image::{Image, Memory, Modules};

use super::is_libc;

/// libc's constants are no larger.
const MOST_BYTES: u64 = 8 << 20;
const BEFORE: &[u8] = b"release version ";

/// As `2.36`; none where libc's file cannot be had.
pub(super) fn version(image: &Image, modules: &Modules) -> Option<String> {
    let constants = modules.find(is_libc)?.section(".rodata")?;
    let length = constants.end.checked_sub(constants.start).filter(|length| *length <= MOST_BYTES)?;
    let mut bytes = vec![0; length as usize];
    image.read(constants.start, &mut bytes)?;
    parse_banner(&bytes)
}

fn parse_banner(bytes: &[u8]) -> Option<String> {
    let at = bytes.windows(BEFORE.len()).position(|window| window == BEFORE)?;
    let number = bytes[at + BEFORE.len()..].iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.');
    let number = String::from_utf8(number.copied().collect()).ok()?;
    let number = number.trim_end_matches('.');
    (!number.is_empty()).then(|| number.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_banner_names_the_release() {
        let banner = b"\0GNU C Library (Debian GLIBC 2.36-9) stable release version 2.36.\nCopyright";
        assert_eq!(parse_banner(banner).as_deref(), Some("2.36"));
        assert_eq!(parse_banner(b"release version x"), None);
        assert_eq!(parse_banner(b""), None);
    }
}
