//! Resident bytes by mapping and line, and from there to the parts of a ledger.
//!
//! The one invariant: what is counted of a mapping that was seen at the same instant is never more than the kernel says.

use std::collections::BTreeMap;
use std::ops::Range;

use nilometer_kernel::sys::pagemap::{PageRun, PageState};
use nilometer_trace::ledger::{Library, Line, Method, Part};

use super::claim::{Claim, cut};
use super::ground::Ground;
use super::sight::Vma;

const PAGE: u64 = 4096;

pub(super) type Sums = [u64; Line::ALL.len()];

/// One mapping's resident bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Counted {
    pub lines: Sums,
    /// Pages of buffers that are in files or shared memory: told there.
    pub buffers_bytes: u64,
    /// Counted, but not by the kernel: zero pages, devices, huge pages of hugetlbfs.
    pub over_bytes: u64,
    /// Where it is known which pages are shared with how many.
    pub weights: Option<Box<Weights>>,
}

/// What decides over PSS and USS of the lines in one mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Weights {
    /// Bytes divided by the number of processes that have them, in 1/1024.
    pss: Sums,
    uss: Sums,
}

impl Default for Counted {
    fn default() -> Self {
        Self { lines: [0; Line::ALL.len()], buffers_bytes: 0, over_bytes: 0, weights: None }
    }
}

impl Counted {
    pub fn bytes(&self) -> u64 {
        self.lines.iter().sum()
    }

    fn add(&mut self, line: Line, bytes: u64) {
        self.lines[line as usize] += bytes;
    }

    /// Takes away what the kernel does not count, from each line by its share.
    fn cap(&mut self, rss_bytes: u64) {
        let counted = self.bytes();
        if counted > rss_bytes {
            self.lines = apportion(rss_bytes, &self.lines);
            self.over_bytes = counted - rss_bytes;
        }
    }
}

/// By the page map. `is_zero` tells whether a page holds nothing but zeros.
pub(super) fn count_pages(
    (vma, ground): (&Vma, &Ground),
    pages: &[PageRun],
    claims: &[Claim],
    is_zero: impl Fn(u64) -> bool,
) -> Counted {
    let mut counted = Counted::default();
    let first = pages.partition_point(|run| run.end <= vma.start);
    for run in pages[first..].iter().take_while(|run| run.start < vma.end) {
        let range = run.start.max(vma.start)..run.end.min(vma.end);
        match run.state {
            PageState::File => {
                counted.add(ground.file, range.end - range.start);
                counted.buffers_bytes += claimed(claims, range, Line::Arrays);
            }
            PageState::Own if ground.open => {
                cut(claims, range, |piece, line| match line {
                    Some(line) => counted.add(line, piece.end - piece.start),
                    None => counted.add_unclaimed(vma, ground, piece, &is_zero),
                });
            }
            PageState::Own => {
                counted.add(ground.own, range.end - range.start);
                counted.buffers_bytes += claimed(claims, range, Line::Arrays);
            }
            PageState::Zero | PageState::Swapped => {}
        }
    }
    counted
}

impl Counted {
    /// A page of zeros in a mapping with huge pages is there because of its neighbours.
    fn add_unclaimed(
        &mut self,
        vma: &Vma,
        ground: &Ground,
        piece: Range<u64>,
        is_zero: &impl Fn(u64) -> bool,
    ) {
        let bytes = piece.end - piece.start;
        if vma.usage.anon_huge == 0 {
            return self.add(ground.own, bytes);
        }
        let (first, last) = (piece.start.next_multiple_of(PAGE), piece.end - piece.end % PAGE);
        let zeros = (first..last).step_by(PAGE as usize).filter(|page| is_zero(*page)).count() as u64 * PAGE;
        self.add(Line::HugeRounding, zeros);
        self.add(ground.own, bytes - zeros);
    }
}

pub(super) fn claimed(claims: &[Claim], range: Range<u64>, wanted: Line) -> u64 {
    let mut bytes = 0;
    cut(claims, range, |piece, line| {
        bytes += if line == Some(wanted) { piece.end - piece.start } else { 0 };
    });
    bytes
}

/// Which lines the shared pages of a mapping are in; nothing where that is not known.
pub(super) fn weigh(
    (vma, ground): (&Vma, &Ground),
    counted: &mut Counted,
    sharers: &[(Range<u64>, u64)],
    claims: &[Claim],
) {
    let first = sharers.partition_point(|(range, _)| range.end <= vma.start);
    let here = sharers[first..].iter().take_while(|(range, _)| range.start < vma.end);
    let mut weights = Weights::default();
    for (range, count) in here {
        let range = range.start.max(vma.start)..range.end.min(vma.end);
        let mut add = |piece: Range<u64>, line: Line| {
            weights.pss[line as usize] += (piece.end - piece.start) * 1024 / count;
            weights.uss[line as usize] += if *count == 1 { piece.end - piece.start } else { 0 };
        };
        if ground.open {
            cut(claims, range, |piece, line| add(piece, line.unwrap_or(ground.own)));
        } else if ground.own == ground.file {
            add(range, ground.own);
        } else {
            return; // a file's pages and copies of them: each line is of one sort
        }
    }
    counted.weights = (weights.pss.iter().sum::<u64>() > 0).then(|| Box::new(weights));
}

/// By the kernel's own sums, where the page map is not to be had.
pub(super) fn count_usage(vma: &Vma, ground: &Ground) -> Counted {
    let mut counted = Counted::default();
    let own = vma.usage.anonymous.min(vma.usage.rss);
    counted.add(ground.own, own << 10);
    counted.add(ground.file, (vma.usage.rss - own) << 10);
    counted
}

/// Applies the kernel's sum of each mapping, where it is of the same instant.
pub(super) fn cap_all(vmas: &[Vma], counted: &mut [Counted]) -> u64 {
    for (vma, counted) in vmas.iter().zip(counted.iter_mut()) {
        counted.cap(vma.usage.rss << 10);
    }
    counted.iter().map(|counted| counted.over_bytes).sum()
}

/// Sums over all mappings, with PSS and USS.
pub(super) fn parts(vmas: &[Vma], counted: &[Counted]) -> Vec<Part> {
    let (mut bytes, mut pss, mut uss): (Sums, Sums, Sums) = Default::default();
    let mut divided = [false; Line::ALL.len()];
    for (vma, counted) in vmas.iter().zip(counted) {
        let share = Share::of(vma, counted);
        for line in Line::ALL.map(|line| line as usize) {
            bytes[line] += counted.lines[line];
            pss[line] += share.pss[line];
            uss[line] += share.uss[line];
            divided[line] |= share.divided && counted.lines[line] > 0;
        }
    }
    let part = |line: Line| Part {
        name: line,
        bytes: bytes[line as usize],
        pss_bytes: Some(pss[line as usize]),
        uss_bytes: Some(uss[line as usize]),
        detail: Vec::new(),
        method: if divided[line as usize] { Method::Apportioned } else { Method::Exact },
    };
    Line::ALL.map(part).to_vec()
}

/// PSS and USS of the lines in one mapping.
struct Share {
    pss: Sums,
    uss: Sums,
    divided: bool,
}

impl Share {
    fn of(vma: &Vma, counted: &Counted) -> Self {
        let usage = &vma.usage;
        let rss = usage.rss << 10;
        // What is counted may be less than there is: the rest keeps its share.
        let explained = |all: u64| {
            let all = u128::from(all) << 10;
            (all * u128::from(counted.bytes().min(rss)) / u128::from(rss.max(1))) as u64
        };
        let private = usage.shared_clean == 0 && usage.shared_dirty == 0;
        let lines = counted.lines.iter().filter(|bytes| **bytes > 0).count();
        let weights = counted.weights.as_deref();
        let (pss, uss) =
            weights.map_or((&counted.lines, &counted.lines), |weights| (&weights.pss, &weights.uss));
        // Where nothing is private by the pages, the kernel's figure is of another instant.
        let uss = if uss.iter().all(|bytes| *bytes == 0) { &counted.lines } else { uss };
        Self {
            pss: apportion(explained(usage.pss), pss),
            uss: apportion(explained(usage.private_clean + usage.private_dirty), uss),
            divided: vma.scaled || !private && lines > 1 && weights.is_none(),
        }
    }
}

/// Divides `total` in proportion to `shares`, to the byte.
fn apportion(total: u64, shares: &Sums) -> Sums {
    let sum: u128 = shares.iter().map(|share| u128::from(*share)).sum();
    let mut parts = Sums::default();
    let (mut seen, mut given) = (0u128, 0u64);
    for (part, share) in parts.iter_mut().zip(shares) {
        // By the rounded sum up to here, so that the parts add up to the total.
        seen += u128::from(*share);
        let up_to = (u128::from(total) * seen).checked_div(sum).unwrap_or(0) as u64;
        *part = up_to - given;
        given = up_to;
    }
    parts
}

/// Programs and libraries by package, largest first.
pub(super) fn libraries(vmas: &[Vma], grounds: &[Ground], counted: &[Counted]) -> Vec<Library> {
    let mut packages: BTreeMap<&str, (Library, Vec<&[u8]>)> = BTreeMap::new();
    for ((vma, ground), counted) in vmas.iter().zip(grounds).zip(counted) {
        let Some(name) = &ground.package else { continue };
        let (library, files) = packages.entry(name).or_default();
        let share = Share::of(vma, counted);
        for line in [Line::Code as usize, Line::LibraryData as usize] {
            library.pss_bytes += share.pss[line];
            library.uss_bytes += share.uss[line];
        }
        library.code_bytes += counted.lines[Line::Code as usize];
        library.data_bytes += counted.lines[Line::LibraryData as usize];
        library.mapped_bytes += vma.end - vma.start;
        if !vma.name.is_empty() && !files.contains(&vma.name.as_slice()) {
            files.push(&vma.name);
        }
    }
    let mut libraries: Vec<Library> = packages
        .into_iter()
        .map(|(name, (library, files))| Library { name: name.into(), files: files.len() as u64, ..library })
        .filter(|library| library.code_bytes + library.data_bytes > 0)
        .collect();
    libraries.sort_by_key(|library| std::cmp::Reverse(library.code_bytes + library.data_bytes));
    libraries
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one range is meant")]
mod tests {
    use super::*;
    use crate::ledger::claim::claims;
    use nilometer_kernel::parse::kind::Kind;
    use nilometer_kernel::parse::smaps::Usage;

    fn anonymous(usage: Usage) -> (Vma, Ground) {
        let vma = Vma {
            start: 0,
            end: 16 * PAGE,
            kind: Kind::Anonymous,
            write: true,
            name: Vec::new(),
            usage,
            scaled: false,
        };
        let ground = Ground { own: Line::OtherMaps, file: Line::OtherMaps, open: true, package: None };
        (vma, ground)
    }

    fn run(start: u64, end: u64, state: PageState) -> PageRun {
        PageRun { start: start * PAGE, end: end * PAGE, state }
    }

    #[test]
    fn each_resident_byte_has_one_line_and_zero_pages_none() {
        let (vma, ground) = anonymous(Usage::default());
        let pages = [run(0, 4, PageState::Own), run(4, 6, PageState::Zero), run(8, 9, PageState::Own)];
        let claims = claims(vec![100..PAGE, 2 * PAGE..9 * PAGE], Line::MallocInUse);
        let counted = count_pages((&vma, &ground), &pages, &claims, |_| false);
        assert_eq!(counted.lines[Line::MallocInUse as usize], (PAGE - 100) + 2 * PAGE + PAGE);
        assert_eq!(counted.lines[Line::OtherMaps as usize], 100 + PAGE);
        assert_eq!(counted.bytes(), 5 * PAGE);
    }

    #[test]
    fn zeros_beside_huge_pages_are_rounding() {
        let (vma, ground) = anonymous(Usage { anon_huge: 2048, ..Usage::default() });
        let pages = [run(0, 4, PageState::Own)];
        let counted = count_pages((&vma, &ground), &pages, &[], |page| page >= 2 * PAGE);
        assert_eq!(counted.lines[Line::HugeRounding as usize], 2 * PAGE);
        assert_eq!(counted.lines[Line::OtherMaps as usize], 2 * PAGE);
    }

    #[test]
    fn the_kernel_s_sum_is_the_most_that_is_counted() {
        let (vma, ground) = anonymous(Usage { rss: 8, pss: 8, ..Usage::default() });
        let pages = [run(0, 3, PageState::Own)];
        let claims = claims([0..PAGE].into(), Line::Arrays);
        let mut counted = [count_pages((&vma, &ground), &pages, &claims, |_| false)];
        assert_eq!(cap_all(&[vma], &mut counted), PAGE);
        assert_eq!(counted[0].bytes(), 2 * PAGE);
        assert!(counted[0].lines[Line::Arrays as usize] > 0);
    }

    #[test]
    fn shared_memory_is_divided_by_bytes_and_says_so() {
        let usage = Usage { rss: 16, pss: 8, shared_dirty: 16, ..Usage::default() };
        let (vma, ground) = anonymous(usage);
        let claims = claims([0..PAGE].into(), Line::Arrays);
        let counted = [count_pages((&vma, &ground), &[run(0, 4, PageState::Own)], &claims, |_| false)];
        let parts = parts(&[vma], &counted);
        let arrays = parts.iter().find(|part| part.name == Line::Arrays).unwrap();
        assert_eq!((arrays.bytes, arrays.pss_bytes, arrays.uss_bytes), (PAGE, Some(2048), Some(0)));
        assert_eq!(arrays.method, Method::Apportioned);
        assert_eq!(parts.iter().filter_map(|part| part.pss_bytes).sum::<u64>(), 8 << 10);
    }

    #[test]
    fn shared_pages_are_told_in_the_lines_that_have_them() {
        let usage = Usage { rss: 16, pss: 8, shared_dirty: 12, private_dirty: 4, ..Usage::default() };
        let (vma, ground) = anonymous(usage);
        let claims = claims([0..PAGE].into(), Line::Arrays);
        let mut counted = count_pages((&vma, &ground), &[run(0, 4, PageState::Own)], &claims, |_| false);
        // The array's page is private, the three others are in three processes each.
        let sharers = [(0..PAGE, 1), (PAGE..4 * PAGE, 3)];
        weigh((&vma, &ground), &mut counted, &sharers, &claims);
        let parts = parts(&[vma], &[counted]);
        let of = |line| parts.iter().find(|part| part.name == line).unwrap();
        let (arrays, maps) = (of(Line::Arrays), of(Line::OtherMaps));
        assert_eq!(
            (arrays.pss_bytes, arrays.uss_bytes, arrays.method),
            (Some(4096), Some(4096), Method::Exact)
        );
        assert_eq!((maps.pss_bytes, maps.uss_bytes), (Some(4096), Some(0)));
    }

    proptest::proptest! {
        #[test]
        fn shares_add_up_to_the_byte(total: u32, shares: [u32; 18]) {
            let shares = shares.map(u64::from);
            let parts = apportion(u64::from(total), &shares);
            let expected = if shares.iter().sum::<u64>() == 0 { 0 } else { u64::from(total) };
            proptest::prop_assert_eq!(parts.iter().sum::<u64>(), expected);
            proptest::prop_assert!(parts.iter().zip(&shares).all(|(part, share)| *part == 0 || *share > 0));
        }
    }
}
