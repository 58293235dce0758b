//! Who says that a stretch of memory is theirs, and who is believed.
//!
//! The one invariant: a list of claims is sorted, and no two overlap.

use std::ops::Range;

use nilometer_trace::ledger::Line;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claim {
    pub start: u64,
    pub end: u64,
    pub line: Line,
}

/// Claims of one line; the ranges may come in any order and overlap.
pub(super) fn claims(mut ranges: Vec<Range<u64>>, line: Line) -> Vec<Claim> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_unstable_by_key(|range| range.start);
    let mut claims = Vec::with_capacity(ranges.len());
    let mut covered = 0;
    for range in ranges {
        push(&mut claims, range.start.max(covered), range.end, line);
        covered = covered.max(range.end);
    }
    claims
}

/// Both lists as one; where they overlap, `upper` is believed.
pub(super) fn overlay(upper: &[Claim], lower: impl IntoIterator<Item = Claim>) -> Vec<Claim> {
    let mut both = Vec::with_capacity(upper.len());
    let mut uppers = upper.iter().peekable();
    let mut covered = 0;
    for claim in lower {
        let mut at = claim.start.max(covered);
        while let Some(over) = uppers.next_if(|over| over.start < claim.end) {
            push(&mut both, at, over.start.min(claim.end), claim.line);
            push(&mut both, over.start, over.end, over.line);
            covered = over.end;
            at = at.max(covered);
        }
        push(&mut both, at, claim.end, claim.line);
    }
    for over in uppers {
        push(&mut both, over.start, over.end, over.line);
    }
    both
}

/// Joins what touches; nothing where nothing is left.
fn push(claims: &mut Vec<Claim>, start: u64, end: u64, line: Line) {
    if start >= end {
        return;
    }
    match claims.last_mut() {
        Some(last) if last.end == start && last.line == line => last.end = end,
        _ => claims.push(Claim { start, end, line }),
    }
}

/// Cuts a range by claims; what nobody claims has no line.
pub(super) fn cut(claims: &[Claim], range: Range<u64>, mut visit: impl FnMut(Range<u64>, Option<Line>)) {
    let first = claims.partition_point(|claim| claim.end <= range.start);
    let mut at = range.start;
    for claim in claims[first..].iter().take_while(|claim| claim.start < range.end) {
        if at < claim.start {
            visit(at..claim.start, None);
        }
        let from = claim.start.max(at);
        at = claim.end.min(range.end);
        visit(from..at, Some(claim.line));
    }
    if at < range.end {
        visit(at..range.end, None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(claims: &[Claim]) -> Vec<(u64, u64, Line)> {
        claims.iter().map(|claim| (claim.start, claim.end, claim.line)).collect()
    }

    #[test]
    fn ranges_of_one_line_do_not_overlap() {
        let found = claims(vec![30..40, 0..10, 5..8, 5..20, 20..25], Line::Arrays);
        assert_eq!(told(&found), [(0, 25, Line::Arrays), (30, 40, Line::Arrays)]);
    }

    #[test]
    fn the_upper_claim_is_believed() {
        use Line::{Arrays as A, MallocInUse as M};

        let upper = claims(vec![0..5, 12..14, 18..35, 50..60], Line::Arrays);
        let lower = claims(vec![10..20, 22..30, 32..40, 70..80], Line::MallocInUse);
        let expected = [
            (0, 5, A),
            (10, 12, M),
            (12, 14, A),
            (14, 18, M),
            (18, 35, A),
            (35, 40, M),
            (50, 60, A),
            (70, 80, M),
        ];
        assert_eq!(told(&overlay(&upper, lower)), expected);
    }

    proptest::proptest! {
        #[test]
        fn every_byte_has_the_first_line_that_claims_it(
            upper in proptest::collection::vec((0u64..200, 0u64..20), 0..12),
            lower in proptest::collection::vec((0u64..200, 0u64..20), 0..12),
        ) {
            let ranges = |list: &[(u64, u64)]| list.iter().map(|(s, l)| *s..s + l).collect::<Vec<_>>();
            let (upper, lower) = (ranges(&upper), ranges(&lower));
            let both = overlay(&claims(upper.clone(), Line::Code), claims(lower.clone(), Line::Files));
            proptest::prop_assert!(both.windows(2).all(|pair| pair[0].end <= pair[1].start));
            let has = |list: &[Range<u64>], at: u64| list.iter().any(|range| range.contains(&at));
            let mut next = 0;
            cut(&both, 0..250, |range, line| {
                assert_eq!(range.start, next);
                next = range.end;
                for at in range {
                    let expected = if has(&upper, at) {
                        Some(Line::Code)
                    } else {
                        has(&lower, at).then_some(Line::Files)
                    };
                    assert_eq!(line, expected, "{at}");
                }
            });
            proptest::prop_assert_eq!(next, 250);
        }
    }
}
