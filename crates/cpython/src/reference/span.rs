//! Arrays of words in an image.

use std::borrow::Cow;

use nilometer_image::{Image, Memory};

/// Arrays longer than this are none.
const LONGEST: u64 = 1 << 40;
const PAGE: u64 = 4096;

/// `length` bytes; where only a part of them is in the image, the rest is zero. None when nothing is, or when the
/// length is absurd.
#[inline]
pub(crate) fn bytes(image: &Image, address: u64, length: u64) -> Option<Cow<'_, [u8]>> {
    match image.slice(address, usize::try_from(length).ok()?) {
        Some(bytes) => Some(Cow::Borrowed(bytes)),
        None => patched(image, address, length).map(Cow::Owned),
    }
}

/// Page by page: an array may cross what was not copied.
#[cold]
fn patched(image: &Image, address: u64, length: u64) -> Option<Vec<u8>> {
    let end = address.checked_add(length)?;
    if length == 0 || length > LONGEST || length > image.copied_bytes().saturating_mul(2) {
        return None;
    }
    let mut bytes = vec![0; length as usize];
    let mut found = false;
    let mut at = address;
    while at < end {
        let next = (at / PAGE + 1).saturating_mul(PAGE).min(end);
        let part = bytes.get_mut((at - address) as usize..(next - address) as usize)?;
        found |= image.read(at, part).is_some();
        at = next;
    }
    found.then_some(bytes)
}

/// The words of some bytes; a rest shorter than a word is left out.
#[inline]
pub(crate) fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word))
}

/// Whether a word may be the address of an object.
#[inline]
pub(crate) fn is_address(word: u64) -> bool {
    word.trailing_zeros() >= 3 && word.wrapping_sub(0x1000) < (1 << 47) - 0x1000
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_image::Segment;

    #[test]
    fn an_array_across_a_hole_is_zero_there() {
        let image = Image::new(
            [7u8; 8192].as_slice().into(),
            vec![Segment::new(0x1000, 0x2000, 0), Segment::new(0x3000, 0x4000, 4096)],
            Vec::new(),
        );
        let bytes = bytes(&image, 0x1ff8, 0x1010).unwrap();
        assert_eq!((bytes[7], bytes[8], bytes[0x1007], bytes[0x1008]), (7, 0, 0, 7));
        assert_eq!(super::bytes(&image, 0x8000, 16), None);
        assert_eq!(super::bytes(&image, 0x1000, u64::MAX), None);
    }

    #[test]
    fn addresses_are_aligned_and_of_user_space() {
        assert!(is_address(0x7fff_ffff_fff8) && is_address(0x1000));
        assert!(!is_address(0) && !is_address(0xff8) && !is_address(0x1004) && !is_address(1 << 47));
    }
}
