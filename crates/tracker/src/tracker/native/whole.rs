//! Whole stacks that come again and again, each checked with one pass over the words it was read from.
//!
//! A program that repeats itself allocates from the same stacks in the same order. So what comes next is guessed from
//! what came last, and the guess is checked: the innermost frame must be the same, and the words that led outwards must
//! have the digest they had (64 bits; each single word decides it). A wrong guess costs the check, never a wrong stack.

use super::{NEEDS_BP, Seen, read};

/// Stacks that a thread remembers.
const MANY: usize = 4096;
/// Those of a thread that allocates little: it shall not cost much memory either.
const FEW: usize = 16;
/// Words of a stack that can be remembered; longer stacks are walked each time.
const WORDS: usize = 170;
/// What can come next, by what came before; and where a stack is.
const GUESSES: usize = 32_768;
const PLACES: usize = 8192;
const FEW_GUESSES: usize = 64;
/// Walks from frame to frame after which a thread allocates much.
pub const BUSY: u32 = 1000;

/// What only busy threads use of [`Wholes`].
pub const LARGE_BYTES: usize = (MANY - FEW) * size_of::<Whole>() + (GUESSES + PLACES - 2 * FEW_GUESSES) * 2;

#[repr(C, align(64))]
struct Whole {
    ip: usize,
    sp: usize,
    bp: usize,
    digest: u64,
    node: u32,
    life: u32,
    length: u16,
    needs_bp: bool,
    /// Where the words are, from `sp`, in words.
    offsets: [u16; WORDS],
}

const _: () = assert!(size_of::<Whole>() == 384);

#[repr(C)]
pub struct Wholes {
    /// How many are in use, and guesses about them, less one: powers of two.
    mask: usize,
    guess_mask: usize,
    /// Those of an earlier life are void.
    life: u32,
    /// The node of the last stack.
    last: u32,
    walks: u32,
    /// By what came before: where the stack is that came then.
    guesses: [u16; GUESSES],
    /// By node: where that stack is.
    places: [u16; PLACES],
    /// Last: its end is not touched by threads that allocate little.
    entries: [Whole; MANY],
}

/// What led to a guess that was wrong.
#[derive(Clone, Copy)]
pub struct Context {
    guess: usize,
    tried: usize,
}

impl Wholes {
    pub fn set_busy(&mut self, busy: bool) {
        self.mask = if busy { MANY } else { FEW } - 1;
        self.guess_mask = if busy { GUESSES } else { FEW_GUESSES } - 1;
    }

    /// One more walk from frame to frame; how many there were.
    pub fn count_walk(&mut self) -> u32 {
        self.walks = self.walks.saturating_add(1);
        self.walks
    }

    /// Nothing remembered holds any more. The stacks are not touched: they are large and mostly unused.
    pub fn forget(&mut self) {
        self.life = self.life.wrapping_add(1);
        self.walks = 0;
    }

    #[inline(always)]
    fn guess(&self, ip: usize, sp: usize) -> Context {
        let place = mix(mix(ip as u64, sp as u64), u64::from(self.last)) >> 49;
        let guess = place as usize & self.guess_mask & (GUESSES - 1);
        Context { guess, tried: self.guesses[guess] as usize & (MANY - 1) }
    }

    /// Has the processor fetch what [`Self::find`] will look at: the allocation itself takes as long.
    #[inline(always)]
    pub fn expect(&self, ip: usize, sp: usize) {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = (&raw const self.entries[self.guess(ip, sp).tried]).cast::<i8>();
        for line in 0..3 {
            // SAFETY: an address is only named to the processor; nothing is read here.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line * 64)) };
        }
    }

    /// The node of the stack that begins here, if it was guessed.
    #[inline(always)]
    pub fn find(&mut self, ip: usize, sp: usize, bp: usize) -> Result<u32, Context> {
        let Context { guess, tried } = self.guess(ip, sp);
        let whole = &self.entries[tried];
        if whole.life == self.life && whole.is_here(ip, sp, bp) {
            self.last = whole.node;
            Ok(whole.node)
        } else {
            Err(Context { guess, tried })
        }
    }

    /// Remembers a stack that was walked, outermost frame first, unless it is too long.
    pub fn keep(&mut self, context: Context, stack: &[Seen], node: u32) {
        self.last = node;
        let Some((leaf, outer)) = stack.split_last() else { return };
        let by_node = mix(u64::from(node), leaf.sp as u64) as usize >> 51 & self.guess_mask & (PLACES - 1);
        let mut place = self.places[by_node] as usize & (MANY - 1);
        let there = &self.entries[place];
        let is_there = there.life == self.life && there.node == node && there.sp == leaf.sp;
        if !is_there {
            // Any of them may go: a loop over more stacks than there is room for then keeps some.
            place = mix(u64::from(node), u64::from(self.walks)) as usize >> 40 & self.mask & (MANY - 1);
        }
        if (!is_there || place == context.tried) && !self.entries[place].write(leaf, outer, node, self.life) {
            return;
        }
        self.places[by_node] = place as u16;
        self.guesses[context.guess] = place as u16;
    }
}

impl Whole {
    #[inline(always)]
    fn is_here(&self, ip: usize, sp: usize, bp: usize) -> bool {
        if self.ip != ip || self.sp != sp || (self.needs_bp && self.bp != bp) {
            return false;
        }
        let offsets = self.offsets.get(..self.length as usize).unwrap_or(&[]);
        // SAFETY: the words lie on this thread's stack, outwards of a frame that is on it.
        unsafe { digest(sp, offsets) == self.digest }
    }

    fn write(&mut self, leaf: &Seen, outer: &[Seen], node: u32, life: u32) -> bool {
        self.ip = 0;
        let mut count = 0;
        for seen in outer.iter().rev() {
            let bp_slot = (seen.bp_slot != 0).then_some(seen.bp_slot);
            for slot in [Some(seen.sp - 8), bp_slot].into_iter().flatten() {
                let Some(place) = self.offsets.get_mut(count) else { return false };
                let distance = slot - leaf.sp;
                let Ok(words) = u16::try_from(distance / 8) else { return false };
                if !distance.is_multiple_of(8) {
                    return false;
                }
                *place = words;
                count += 1;
            }
        }
        self.sp = leaf.sp;
        self.bp = leaf.bp;
        self.node = node;
        self.life = life;
        self.needs_bp = leaf.word & NEEDS_BP != 0;
        self.length = count as u16;
        // SAFETY: as in `is_here`; the walk has just read these words.
        self.digest = unsafe { digest(leaf.sp, self.offsets.get(..count).unwrap_or(&[])) };
        self.ip = leaf.ip;
        true
    }
}

/// A bijection of each of its arguments.
#[inline(always)]
fn mix(state: u64, word: u64) -> u64 {
    (state.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95)
}

/// Of words of the stack, in four rows so that the processor need not wait for each product.
///
/// # Safety
/// The words at these offsets from `sp` can be read.
#[inline(always)]
unsafe fn digest(sp: usize, offsets: &[u16]) -> u64 {
    // SAFETY: by the caller's promise.
    let word = |offset: u16| unsafe { read(sp + offset as usize * 8) } as u64;
    let mut rows = [1_u64, 2, 3, 4];
    let mut chunks = offsets.chunks_exact(4);
    for chunk in &mut chunks {
        for (row, &offset) in rows.iter_mut().zip(chunk) {
            *row = mix(*row, word(offset));
        }
    }
    for (row, &offset) in rows.iter_mut().zip(chunks.remainder()) {
        *row = mix(*row, word(offset));
    }
    mix(mix(rows[0], rows[1]), mix(rows[2], rows[3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_other_word_is_another_digest() {
        let mut stack: Vec<u64> = (0..300).map(|n| 0x7f00_0000_0000 + n * 0x40).collect();
        let offsets: Vec<u16> = (0..90).map(|n| n * 3 + 1).collect();
        // SAFETY: all offsets lie in the vector.
        let of = |stack: &[u64]| unsafe { digest(stack.as_ptr() as usize, &offsets) };
        let before = of(&stack);
        for &offset in &offsets {
            stack[offset as usize] ^= 0x10;
            assert_ne!(of(&stack), before, "{offset}");
            stack[offset as usize] ^= 0x10;
        }
        stack.swap(1, 4);
        assert_ne!(of(&stack), before);
        stack.swap(1, 4);
        stack[0] = 0;
        assert_eq!(of(&stack), before, "words that are not asked for");
    }
}
