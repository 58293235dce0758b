//! `/proc/PID/smaps`: what each mapping uses; and `smaps_rollup` (since Linux 4.14), its sum.
//!
//! The text is long (about 800 bytes per mapping), so it is scanned as it is read, chunk by chunk.

use std::ops::AddAssign;

use super::maps::{Mapping, parse_header};
use super::scan::{lines, padded_number};
use memchr::memchr;

/// Sizes in kB as the kernel prints them; a field that this kernel does not know is 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub size: u64,
    pub rss: u64,
    pub pss: u64,
    /// Since Linux 6.0.
    pub pss_dirty: u64,
    pub shared_clean: u64,
    pub shared_dirty: u64,
    pub private_clean: u64,
    pub private_dirty: u64,
    pub referenced: u64,
    pub anonymous: u64,
    pub lazy_free: u64,
    pub anon_huge: u64,
    pub shmem_pmd: u64,
    pub file_pmd: u64,
    /// Huge pages of hugetlbfs are in neither `rss` nor `pss` (`smaps_hugetlb_range`).
    pub shared_hugetlb: u64,
    pub private_hugetlb: u64,
    pub swap: u64,
    pub swap_pss: u64,
    pub locked: u64,
}

impl Usage {
    /// What would be freed if the process ended.
    pub fn uss_kib(&self) -> u64 {
        self.private_clean.saturating_add(self.private_dirty).saturating_add(self.private_hugetlb)
    }

    fn field(&mut self, name: &[u8]) -> Option<&mut u64> {
        Some(match name {
            b"Size" => &mut self.size,
            b"Rss" => &mut self.rss,
            b"Pss" => &mut self.pss,
            b"Pss_Dirty" => &mut self.pss_dirty,
            b"Shared_Clean" => &mut self.shared_clean,
            b"Shared_Dirty" => &mut self.shared_dirty,
            b"Private_Clean" => &mut self.private_clean,
            b"Private_Dirty" => &mut self.private_dirty,
            b"Referenced" => &mut self.referenced,
            b"Anonymous" => &mut self.anonymous,
            b"LazyFree" => &mut self.lazy_free,
            b"AnonHugePages" => &mut self.anon_huge,
            b"ShmemPmdMapped" => &mut self.shmem_pmd,
            b"FilePmdMapped" => &mut self.file_pmd,
            b"Shared_Hugetlb" => &mut self.shared_hugetlb,
            b"Private_Hugetlb" => &mut self.private_hugetlb,
            b"Swap" => &mut self.swap,
            b"SwapPss" => &mut self.swap_pss,
            b"Locked" => &mut self.locked,
            _ => return None,
        })
    }

    fn take(&mut self, line: &[u8]) {
        let Some((name, value)) = split(line) else { return };
        if let (Some(field), Some(value)) = (self.field(name), padded_number(value)) {
            *field = value;
        }
    }
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        let add = |sum: &mut u64, value: u64| *sum = sum.saturating_add(value);
        add(&mut self.size, other.size);
        add(&mut self.rss, other.rss);
        add(&mut self.pss, other.pss);
        add(&mut self.pss_dirty, other.pss_dirty);
        add(&mut self.shared_clean, other.shared_clean);
        add(&mut self.shared_dirty, other.shared_dirty);
        add(&mut self.private_clean, other.private_clean);
        add(&mut self.private_dirty, other.private_dirty);
        add(&mut self.referenced, other.referenced);
        add(&mut self.anonymous, other.anonymous);
        add(&mut self.lazy_free, other.lazy_free);
        add(&mut self.anon_huge, other.anon_huge);
        add(&mut self.shmem_pmd, other.shmem_pmd);
        add(&mut self.file_pmd, other.file_pmd);
        add(&mut self.shared_hugetlb, other.shared_hugetlb);
        add(&mut self.private_hugetlb, other.private_hugetlb);
        add(&mut self.swap, other.swap);
        add(&mut self.swap_pss, other.swap_pss);
        add(&mut self.locked, other.locked);
    }
}

fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let colon = line.iter().position(|b| *b == b':')?;
    Some((&line[..colon], &line[colon + 1..]))
}

/// Cuts the text of `smaps` into mappings; a line may straddle chunks.
///
/// Both buffers keep their capacity, so a scanner that is used again allocates nothing.
#[derive(Debug, Default)]
pub struct Scanner {
    /// The beginning of a line whose end has not come yet.
    carry: Vec<u8>,
    /// The header of the mapping whose fields are being read; empty before the first.
    header: Vec<u8>,
    usage: Usage,
}

impl Scanner {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next piece of text and shows each mapping that is complete by then.
    pub fn feed(&mut self, chunk: &[u8], visit: &mut impl FnMut(&Mapping<'_>, &Usage)) {
        let mut rest = chunk;
        while let Some(end) = memchr(b'\n', rest) {
            let line = &rest[..end];
            rest = &rest[end + 1..];
            if self.carry.is_empty() {
                self.line(line, visit);
            } else {
                let mut whole = std::mem::take(&mut self.carry);
                whole.extend_from_slice(line);
                self.line(&whole, visit);
                whole.clear();
                self.carry = whole;
            }
        }
        self.carry.extend_from_slice(rest);
    }

    /// Shows the last mapping; the scanner is then as new.
    pub fn finish(&mut self, visit: &mut impl FnMut(&Mapping<'_>, &Usage)) {
        let mut whole = std::mem::take(&mut self.carry);
        self.line(&whole, visit);
        whole.clear();
        self.carry = whole;
        self.show(visit);
        self.header.clear();
    }

    /// Field names begin with a capital, addresses with a lower-case hexadecimal digit.
    fn line(&mut self, line: &[u8], visit: &mut impl FnMut(&Mapping<'_>, &Usage)) {
        match line.first() {
            Some(b'0'..=b'9' | b'a'..=b'f') => {
                self.show(visit);
                self.header.clear();
                self.header.extend_from_slice(line);
            }
            Some(_) => self.usage.take(line),
            None => {}
        }
    }

    fn show(&mut self, visit: &mut impl FnMut(&Mapping<'_>, &Usage)) {
        let usage = std::mem::take(&mut self.usage);
        if let Some(mapping) = parse_header(&self.header) {
            visit(&mapping, &usage);
        }
    }
}

/// The sum over all mappings of a process, as the kernel computes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rollup {
    pub usage: Usage,
    /// `Pss_Anon`, `Pss_File`, `Pss_Shmem`: absent on older kernels.
    pub pss_anon: Option<u64>,
    pub pss_file: Option<u64>,
    pub pss_shmem: Option<u64>,
}

/// `None` without the `Rss` and `Pss` fields (an empty file: the process has no memory any more).
pub fn parse_rollup(text: &[u8]) -> Option<Rollup> {
    let mut rollup = Rollup::default();
    let mut seen = 0;
    for line in lines(text) {
        let Some((name, value)) = split(line) else { continue };
        match name {
            b"Pss_Anon" => rollup.pss_anon = padded_number(value),
            b"Pss_File" => rollup.pss_file = padded_number(value),
            b"Pss_Shmem" => rollup.pss_shmem = padded_number(value),
            b"Rss" | b"Pss" => {
                seen += 1;
                rollup.usage.take(line);
            }
            _ => rollup.usage.take(line),
        }
    }
    (seen >= 2).then_some(rollup)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &[u8] = include_bytes!("../../fixtures/numpy.smaps");
    const ROLLUP: &[u8] = include_bytes!("../../fixtures/numpy.smaps_rollup");

    /// Everything that was shown, as text.
    fn scan<'c>(chunks: impl IntoIterator<Item = &'c [u8]>) -> Vec<String> {
        let mut shown = Vec::new();
        let mut visit = |m: &Mapping<'_>, u: &Usage| shown.push(format!("{m:?} {u:?}"));
        let mut scanner = Scanner::new();
        chunks.into_iter().for_each(|chunk| scanner.feed(chunk, &mut visit));
        scanner.finish(&mut visit);
        shown
    }

    fn total(text: &[u8]) -> (usize, Usage) {
        let (mut count, mut sum) = (0, Usage::default());
        let mut visit = |_: &Mapping<'_>, u: &Usage| {
            count += 1;
            sum += *u;
        };
        let mut scanner = Scanner::new();
        scanner.feed(text, &mut visit);
        scanner.finish(&mut visit);
        (count, sum)
    }

    #[test]
    fn a_captured_process_adds_up() {
        let (count, sum) = total(SMAPS);
        assert_eq!(count, 247);
        let expected = Usage {
            size: 196_580,
            rss: 81_656,
            pss: 76_776,
            pss_dirty: 65_340,
            shared_clean: 6968,
            private_clean: 9348,
            private_dirty: 65_340,
            referenced: 81_656,
            anonymous: 51_004,
            anon_huge: 32_768,
            ..Usage::default()
        };
        assert_eq!(sum, expected);
        assert_eq!(sum.uss_kib(), 74_688);
    }

    #[test]
    fn the_rollup_is_the_sum_but_for_rounding_and_size() {
        let rollup = parse_rollup(ROLLUP).unwrap();
        assert_eq!(
            (rollup.pss_anon, rollup.pss_file, rollup.pss_shmem),
            (Some(51_004), Some(12_467), Some(13_312))
        );
        let (_, sum) = total(SMAPS);
        // Pss is rounded down for each mapping in smaps and once in the rollup, which has no Size.
        assert_eq!(rollup.usage, Usage { size: 0, pss: 76_783, ..sum });
    }

    #[test]
    fn every_field_has_its_place() {
        const NAMES: [&str; 19] = [
            "Size",
            "Rss",
            "Pss",
            "Pss_Dirty",
            "Shared_Clean",
            "Shared_Dirty",
            "Private_Clean",
            "Private_Dirty",
            "Referenced",
            "Anonymous",
            "LazyFree",
            "AnonHugePages",
            "ShmemPmdMapped",
            "FilePmdMapped",
            "Shared_Hugetlb",
            "Private_Hugetlb",
            "Swap",
            "SwapPss",
            "Locked",
        ];
        let mut usage = Usage::default();
        for (name, value) in NAMES.iter().zip(1u64..) {
            usage.take(format!("{name}:   {value} kB").as_bytes());
        }
        let u = usage;
        let values = [
            u.size,
            u.rss,
            u.pss,
            u.pss_dirty,
            u.shared_clean,
            u.shared_dirty,
            u.private_clean,
            u.private_dirty,
            u.referenced,
            u.anonymous,
            u.lazy_free,
            u.anon_huge,
            u.shmem_pmd,
            u.file_pmd,
            u.shared_hugetlb,
            u.private_hugetlb,
            u.swap,
            u.swap_pss,
            u.locked,
        ];
        assert!(values.into_iter().eq(1..=19), "{values:?}");
        assert_eq!(u.uss_kib(), 7 + 8 + 16);
        usage += u;
        assert_eq!((usage.size, usage.pss_dirty, usage.locked), (2, 8, 38));
    }

    #[test]
    fn old_kernels_and_empty_files() {
        let rollup = parse_rollup(
            b"00400000-7fff0000 ---p 00000000 00:00 0    [rollup]\nRss:   884 kB\nPss:   385 kB\n",
        )
        .unwrap();
        assert_eq!((rollup.usage.rss, rollup.usage.pss, rollup.pss_anon), (884, 385, None));
        assert_eq!(parse_rollup(b""), None);
        assert_eq!(scan([&b""[..]]), Vec::<String>::new());
    }

    #[test]
    fn a_scanner_is_as_new_after_finish() {
        let mut scanner = Scanner::new();
        let mut shown = Vec::new();
        for _ in 0..2 {
            let mut visit = |m: &Mapping<'_>, u: &Usage| shown.push((m.start, u.rss));
            scanner.feed(b"1000-2000 rw-p 0 00:00 0 \nRss: 4 k", &mut visit);
            scanner.finish(&mut visit);
        }
        assert_eq!(shown, [(0x1000, 4), (0x1000, 4)]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(chunks: Vec<Vec<u8>>) {
            scan(chunks.iter().map(Vec::as_slice));
            let _ = parse_rollup(&chunks.concat());
        }

        #[test]
        fn where_it_is_cut_makes_no_difference(cuts in proptest::collection::vec(0..6000usize, 0..40)) {
            let text = &SMAPS[..6000];
            let mut cuts = cuts;
            cuts.sort_unstable();
            let (mut chunks, mut start) = (Vec::new(), 0);
            for cut in cuts.into_iter().chain([text.len()]) {
                chunks.push(&text[start..cut]);
                start = cut;
            }
            proptest::prop_assert_eq!(scan(chunks), scan([text]));
        }
    }

    #[test]
    fn byte_by_byte_is_the_same_too() {
        let (sizes, whole) = ([1, 2, 7, 4095, 4096], scan([SMAPS]));
        assert!(sizes.iter().all(|size| scan(SMAPS.chunks(*size)) == whole));
    }
}
