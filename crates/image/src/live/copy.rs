//! Copying many pieces with several threads, up to a deadline.

use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::memory::{MOST_SPANS, Span};

use super::plan::Piece;
use super::source::Source;

/// What one thread takes at once: some 0.3 ms, so that a deadline is kept and the threads end together.
const CHUNK_BYTES: usize = 2 << 20;
/// A run that fails this often in a row cannot be read at all.
const MOST_FAILURES: u32 = 8;
const PAGE_BYTES: u64 = 4096;

/// What did not come.
#[derive(Debug, Default)]
pub(super) struct Missed {
    /// The deadline was over.
    pub late: Vec<Piece>,
    /// The kernel refused: guard pages, memory of devices, what was unmapped meanwhile.
    pub unreadable: Vec<Range<u64>>,
}

struct Chunk<'a> {
    spans: Vec<Span<'a>>,
    pieces: Vec<Piece>,
}

/// `pieces` sorted by offset, not overlapping; those beyond `into` are late.
pub(super) fn copy(
    from: &Source,
    pieces: &[Piece],
    into: &mut [u8],
    threads: usize,
    deadline_ns: u64,
) -> Missed {
    let (chunks, late) = split(pieces, into);
    let threads = threads.min(chunks.len());
    let queue = Mutex::new(chunks.into_iter());
    let missed = Mutex::new(Missed { late, unreadable: Vec::new() });
    let work = || {
        let mut own = Missed::default();
        while let Some(chunk) = queue.lock().ok().and_then(|mut chunks| chunks.next()) {
            if monotonic_ns() >= deadline_ns {
                own.late.extend(chunk.pieces);
            } else {
                read_chunk(from, chunk.spans, &mut own.unreadable);
            }
        }
        let mut all = missed.lock().unwrap_or_else(PoisonError::into_inner);
        all.late.append(&mut own.late);
        all.unreadable.append(&mut own.unreadable);
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work);
        }
        work();
    });
    let mut missed = missed.into_inner().unwrap_or_else(PoisonError::into_inner);
    missed.late.sort_unstable_by_key(|piece| piece.offset);
    missed
}

/// Pieces cut to chunks, each with its part of the destination.
fn split<'a>(pieces: &[Piece], into: &'a mut [u8]) -> (Vec<Chunk<'a>>, Vec<Piece>) {
    let (mut chunks, mut late): (Vec<Chunk>, _) = (Vec::new(), Vec::new());
    let (mut rest, mut begin, mut filled) = (into, 0, CHUNK_BYTES);
    for piece in pieces.iter().flat_map(cut) {
        let end = piece.offset + piece.length;
        if piece.offset < begin || end - begin > rest.len() {
            late.push(piece);
            continue;
        }
        let (_, from) = rest.split_at_mut(piece.offset - begin);
        let (span, after) = from.split_at_mut(piece.length);
        (rest, begin) = (after, end);
        let is_full = chunks.last().is_none_or(|chunk| chunk.spans.len() == MOST_SPANS);
        if is_full || filled + piece.length > CHUNK_BYTES {
            chunks.push(Chunk { spans: Vec::new(), pieces: Vec::new() });
            filled = 0;
        }
        filled += piece.length;
        if let Some(chunk) = chunks.last_mut() {
            chunk.spans.push(Span { address: piece.address, into: span });
            chunk.pieces.push(piece);
        }
    }
    (chunks, late)
}

/// Parts of a piece, none larger than a chunk.
fn cut(piece: &Piece) -> impl Iterator<Item = Piece> + use<> {
    let piece = *piece;
    (0..piece.length).step_by(CHUNK_BYTES).map(move |from| Piece {
        address: piece.address + from as u64,
        length: (piece.length - from).min(CHUNK_BYTES),
        offset: piece.offset + from,
    })
}

/// Reads all spans, stepping over pages that cannot be read.
fn read_chunk(from: &Source, mut spans: Vec<Span>, unreadable: &mut Vec<Range<u64>>) {
    let (mut at, mut failures) = (0, 0);
    while let Some(left) = spans.get_mut(at..).filter(|left| !left.is_empty()) {
        let mut read = from.read_spans(left).unwrap_or(0);
        failures = if read > 0 { 0 } else { failures + 1 };
        while let Some(span) = spans.get_mut(at).filter(|span| span.into.len() <= read) {
            read -= span.into.len();
            at += 1;
        }
        let Some(span) = spans.get_mut(at) else { return };
        advance(span, read);
        let to_page = (PAGE_BYTES - span.address % PAGE_BYTES) as usize;
        let skip = if failures >= MOST_FAILURES { span.into.len() } else { to_page.min(span.into.len()) };
        unreadable.push(span.address..span.address + skip as u64);
        advance(span, skip);
        if span.into.is_empty() {
            at += 1;
        }
    }
}

fn advance(span: &mut Span, bytes: usize) {
    span.address += bytes as u64;
    span.into = std::mem::take(&mut span.into).split_at_mut(bytes).1;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_land_at_their_offsets_whatever_the_threads() {
        let source: Vec<u8> = (0..5 << 20).map(|i: u32| (i % 251) as u8).collect();
        let at = source.as_ptr() as u64;
        let pieces = [
            Piece { address: at, length: 3 << 20, offset: 0 },
            Piece { address: at + (4 << 20), length: 7, offset: (3 << 20) + 5 },
        ];
        for threads in [1, 3] {
            let mut into = vec![0; 4 << 20];
            let missed =
                copy(&Source::calls(std::process::id() as i32, None), &pieces, &mut into, threads, u64::MAX);
            assert!(missed.late.is_empty() && missed.unreadable.is_empty());
            assert!(into[..3 << 20] == source[..3 << 20]);
            assert_eq!(into[(3 << 20) + 5..][..7], source[4 << 20..][..7]);
            assert_eq!(into[3 << 20..][..5], [0; 5]);
        }
    }

    #[test]
    fn what_is_late_is_told_and_what_does_not_fit() {
        let source = [7_u8; 64];
        let piece = |offset, length| Piece { address: source.as_ptr() as u64, length, offset };
        let me = std::process::id() as i32;
        let mut into = [0; 40];
        let pieces = [piece(0, 16), piece(30, 16)];
        assert_eq!(copy(&Source::calls(me, None), &pieces, &mut into, 1, 0).late, pieces);
        assert_eq!(copy(&Source::calls(me, None), &pieces, &mut into, 1, u64::MAX).late, pieces[1..]);
        assert_eq!((into[15], into[16], into[39]), (7, 0, 0));
    }

    #[test]
    fn pages_that_cannot_be_read_are_stepped_over() {
        let source = [7_u8; 8];
        let good = source.as_ptr() as u64;
        let piece = |address, length, offset| Piece { address, length, offset };
        let pieces = [piece(good, 8, 0), piece(8192, 8192, 8), piece(good, 8, 8200)];
        let mut into = vec![0; 8208];
        let missed = copy(&Source::calls(std::process::id() as i32, None), &pieces, &mut into, 1, u64::MAX);
        assert_eq!(missed.unreadable, [8192..12288, 12288..16384]);
        assert_eq!((into[7], into[8], into[8199], into[8200]), (7, 0, 0, 7));
    }
}
