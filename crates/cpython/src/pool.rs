//! The allocator's pools: found by what their headers say of themselves, no symbol needed.
//!
//! A pool is one aligned stretch of blocks of one size: header, blocks handed out or free, and virgin space. Its
//! free list tells which blocks are in use. The invariant: a [`Pool`] in [`Pools`] is wholly in the image.

use std::ops::Range;

use nilometer_image::Image;

use crate::layout::Obmalloc;

/// Addresses that one part of the index covers, as a power of two.
const SPAN: u32 = 32;
/// Enough bits for the smallest blocks in the largest pools: 16 KiB by 8 bytes.
const LONGEST: usize = 2048;

/// A pool in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Pool {
    pub base: u64,
    /// Number of its first block among the blocks of all pools.
    pub first: u32,
    pub block_bytes: u32,
    /// Blocks ever handed out: those after them have never been touched.
    pub carved: u32,
    /// The header's own count of blocks in use.
    counted: u32,
    free_list: u64,
}

/// All pools of an image, in order of address.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    list: Vec<Pool>,
    index: Vec<(u64, Box<[u32]>)>,
    shift: u32,
    header: u32,
    blocks: u32,
}

/// Which blocks of a pool are free.
#[derive(Debug)]
pub(crate) struct Free {
    bits: [u64; LONGEST / 64],
    /// False when the list and the header's counts disagree by more than an allocation under way.
    pub consistent: bool,
}

impl Pools {
    /// Every aligned address of the image is tried.
    pub fn find(image: &Image, layout: &Obmalloc) -> Self {
        let mut pools = Self {
            shift: layout.pool_size.checked_ilog2().unwrap_or(0),
            header: layout.pool_header as u32,
            ..Self::default()
        };
        if !layout.pool_size.is_power_of_two() || layout.pool_size / layout.alignment.max(1) > LONGEST as u64
        {
            return pools;
        }
        for (start, bytes) in image.segments() {
            pools.find_in(start, bytes, layout);
        }
        pools.build_index();
        pools
    }

    fn find_in(&mut self, start: u64, bytes: &[u8], layout: &Obmalloc) {
        let size = layout.pool_size as usize;
        let Some(skip) =
            start.checked_next_multiple_of(layout.pool_size).map(|first| (first - start) as usize)
        else {
            return;
        };
        let aligned = bytes.get(skip..).unwrap_or_default();
        for (number, pool) in aligned.chunks_exact(size).enumerate() {
            let base = start + (skip + number * size) as u64;
            let Some(mut found) = Pool::parse(base, pool, layout) else { continue };
            found.first = self.blocks;
            let Some(blocks) = self.blocks.checked_add(found.carved) else { return };
            self.blocks = blocks;
            self.list.push(found);
        }
    }

    fn build_index(&mut self) {
        let per_span = 1usize << (SPAN - self.shift);
        for (number, pool) in self.list.iter().enumerate() {
            let span = pool.base >> SPAN;
            if self.index.last().is_none_or(|(last, _)| *last != span) {
                self.index.push((span, vec![0; per_span].into_boxed_slice()));
            }
            let place = (pool.base >> self.shift) as usize & (per_span - 1);
            if let Some((_, part)) = self.index.last_mut() {
                part[place] = number as u32 + 1;
            }
        }
    }

    pub fn list(&self) -> &[Pool] {
        &self.list
    }

    /// Blocks ever handed out, in all pools.
    pub fn blocks(&self) -> usize {
        self.blocks as usize
    }

    /// Whether an address falls into `pool`.
    #[inline]
    pub fn is_in(&self, pool: &Pool, address: u64) -> bool {
        address.wrapping_sub(pool.base) >> self.shift == 0
    }

    /// The pool that an address falls into.
    #[inline]
    pub fn at(&self, address: u64) -> Option<&Pool> {
        let part = self.part(address >> SPAN)?;
        let place = (address >> self.shift) as usize & (part.len() - 1);
        self.list.get((part[place] as usize).checked_sub(1)?)
    }

    #[inline]
    fn part(&self, span: u64) -> Option<&[u32]> {
        if let Some((first, part)) = self.index.first()
            && *first == span
        {
            return Some(part);
        }
        let number = self.index.binary_search_by_key(&span, |(span, _)| *span).ok()?;
        self.index.get(number).map(|(_, part)| &**part)
    }

    /// The block that holds an address of a pool: its number among all, and how far into it the address is.
    #[inline]
    pub fn block_in(&self, pool: &Pool, address: u64) -> Option<(usize, u32)> {
        let within = ((address - pool.base) as u32).checked_sub(self.header)?;
        let block = divided(within, pool.block_bytes);
        (block < pool.carved).then(|| ((pool.first + block) as usize, within - block * pool.block_bytes))
    }

    /// The end of the block that an address of a pool is in.
    #[inline]
    pub fn block_end(&self, pool: &Pool, address: u64) -> u64 {
        let within = ((address - pool.base) as u32).saturating_sub(self.header);
        let blocks = divided(within, pool.block_bytes) + 1;
        pool.base + u64::from(self.header + blocks * pool.block_bytes)
    }

    /// The size of the block that begins at an address; none where that is no block.
    pub fn block_bytes(&self, address: u64) -> Option<u64> {
        let pool = self.at(address)?;
        let within = ((address - pool.base) as u32).checked_sub(self.header)?;
        (within % pool.block_bytes == 0).then_some(u64::from(pool.block_bytes))
    }

    /// The address of the first block of a pool.
    pub fn first_block(&self, pool: &Pool) -> u64 {
        pool.base + u64::from(self.header)
    }

    /// The blocks of a pool that were ever handed out; `bytes` are all of it.
    #[inline]
    pub fn blocks_of<'b>(&self, pool: &Pool, bytes: &'b [u8]) -> impl Iterator<Item = &'b [u8]> + use<'b> {
        let blocks = bytes.get(self.header as usize..).unwrap_or_default();
        blocks.chunks_exact(pool.block_bytes.max(1) as usize).take(pool.carved as usize)
    }

    /// Where the blocks of a pool begin, in bytes from its base.
    pub fn block_ranges(&self, pool: &Pool) -> impl Iterator<Item = Range<usize>> + use<> {
        let (header, size) = (self.header as usize, pool.block_bytes as usize);
        (0..pool.carved as usize).map(move |number| header + number * size..header + (number + 1) * size)
    }

    /// Reads a pool's free list.
    pub fn free(&self, pool: &Pool, bytes: &[u8]) -> Free {
        let mut free = Free { bits: [0; LONGEST / 64], consistent: false };
        let mut next = pool.free_list;
        let mut count = 0u32;
        while next != 0 {
            let Some(block) = self.block_number(pool, next) else { return free };
            if count >= pool.carved || free.contains(block) {
                return free;
            }
            free.bits[block / 64] |= 1 << (block % 64);
            count += 1;
            next = word(bytes, (next - pool.base) as usize);
        }
        // A thread may have stood between the list and the counts.
        free.consistent = (count + pool.counted).abs_diff(pool.carved) <= 1;
        free
    }

    fn block_number(&self, pool: &Pool, address: u64) -> Option<usize> {
        let within = u32::try_from(address.checked_sub(pool.base)?).ok()?.checked_sub(self.header)?;
        let block = within / pool.block_bytes;
        (within % pool.block_bytes == 0 && block < pool.carved).then_some(block as usize)
    }
}

impl Free {
    #[inline]
    pub fn contains(&self, block: usize) -> bool {
        self.bits.get(block / 64).is_some_and(|bits| bits >> (block % 64) & 1 == 1)
    }
}

impl Pool {
    /// Where no address is: beyond user space.
    pub const NONE: Self =
        Self { base: 1 << 63, first: 0, block_bytes: 8, carved: 0, counted: 0, free_list: 0 };

    /// `struct pool_header` (Objects/obmalloc.c; `pycore_obmalloc.h` since 3.12): count, free list, two links, arena,
    /// size class, next virgin block, last possible block.
    pub fn parse(base: u64, bytes: &[u8], layout: &Obmalloc) -> Option<Self> {
        let counted = half(bytes, 0)?;
        let class = u64::from(half(bytes, 36)?);
        let next = u64::from(half(bytes, 40)?);
        let last = u64::from(half(bytes, 44)?);
        let block = (class + 1) * layout.alignment;
        if class >= 64 || block > 512 || last != layout.pool_size.checked_sub(block)? {
            return None;
        }
        let used = next.checked_sub(layout.pool_header)?;
        if next > layout.pool_size || used % block != 0 {
            return None;
        }
        let carved = (used / block) as u32;
        let free_list = word(bytes, 8);
        let inside = free_list == 0 || (base..base + layout.pool_size).contains(&free_list);
        (inside && counted > 0 && counted <= carved).then_some(Self {
            base,
            first: 0,
            block_bytes: block as u32,
            carved,
            counted,
            free_list,
        })
    }

    /// Of the blocks that are handed out, by the header's own count.
    pub fn used_bytes(&self) -> u32 {
        self.counted * self.block_bytes
    }
}

/// 2^32 divided by each size of blocks, which are multiples of 8, rounded up.
const INVERSE: [u64; 65] = {
    let mut inverse = [0; 65];
    let mut units = 1;
    while units < inverse.len() {
        inverse[units] = (1u64 << 32).div_ceil(8 * units as u64);
        units += 1;
    }
    inverse
};

/// How many blocks fit into what is before an address of a pool: a division for each reference of a heap, as a
/// multiplication. Exact as long as the product of both is below 2^32.
#[inline]
fn divided(within: u32, block_bytes: u32) -> u32 {
    match INVERSE.get(block_bytes as usize / 8) {
        Some(inverse) => ((u64::from(within) * inverse) >> 32) as u32,
        None => within / block_bytes,
    }
}

pub(crate) fn half(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..offset + 4)?.try_into().ok().map(u32::from_le_bytes)
}

/// The word at an offset; 0 beyond the end.
#[inline]
pub(crate) fn word(bytes: &[u8], offset: usize) -> u64 {
    let word = offset.checked_add(8).and_then(|end| bytes.get(offset..end));
    word.and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use nilometer_image::Segment;

    use super::*;

    const LAYOUT: Obmalloc = Obmalloc {
        state: None,
        pointer: false,
        arenas: None,
        max_arenas: None,
        arena_size: 1 << 18,
        pool_size: 4096,
        pool_header: 48,
        alignment: 16,
    };
    const BASE: u64 = 0x7f00_0000_1000;

    /// A pool of 64-byte blocks, four of them carved, of which the free list has some.
    fn pool(counted: u32, free: &[u64]) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        let mut put = |at: usize, number: u64, width: usize| {
            bytes[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        };
        let block = |number: u64| BASE + 48 + number * 64;
        put(0, u64::from(counted), 4);
        put(36, 3, 4);
        put(40, 48 + 4 * 64, 4);
        put(44, 4096 - 64, 4);
        let mut place = 8;
        for number in free {
            put(place, block(*number), 8);
            place = 48 + *number as usize * 64;
        }
        put(place, 0, 8);
        bytes
    }

    fn find(bytes: &[u8]) -> (Image, Pools) {
        let image =
            Image::new(bytes.into(), vec![Segment::new(BASE, BASE + bytes.len() as u64, 0)], Vec::new());
        let pools = Pools::find(&image, &LAYOUT);
        (image, pools)
    }

    fn free_of(bytes: &[u8]) -> Free {
        let (_, pools) = find(bytes);
        pools.free(&pools.list()[0], bytes)
    }

    #[test]
    fn a_pool_is_known_by_its_header() {
        let bytes = pool(3, &[1]);
        let (_, pools) = find(&bytes);
        assert_eq!(pools.list().len(), 1);
        let pool = pools.list()[0];
        assert_eq!((pool.base, pool.block_bytes, pool.carved, pools.blocks()), (BASE, 64, 4, 4));
        for (at, wrong) in [(0, 0), (0, 9), (36, 40), (40, 50), (44, 1), (9, 0xff)] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            assert!(find(&bytes).1.list().is_empty(), "byte {at} = {wrong}");
        }
    }

    #[test]
    fn a_product_tells_what_a_division_would() {
        for block_bytes in (8..=512).step_by(8) {
            for within in 0..16 << 10 {
                assert_eq!(divided(within, block_bytes), within / block_bytes, "{within} / {block_bytes}");
            }
        }
    }

    #[test]
    fn blocks_are_found_by_address() {
        let (_, pools) = find(&pool(3, &[1]));
        let block_at = |address| pools.block_in(pools.at(address)?, address);
        assert_eq!(block_at(BASE + 48 + 64 + 16), Some((1, 16)));
        assert_eq!(block_at(BASE + 47), None);
        assert_eq!(block_at(BASE + 48 + 4 * 64), None, "never carved");
        assert_eq!(block_at(BASE + 4096), None);
        assert_eq!(pools.block_bytes(BASE + 48 + 128), Some(64));
        assert_eq!(pools.block_bytes(BASE + 48 + 120), None);
        let pool = pools.list()[0];
        assert_eq!(pools.block_end(&pool, BASE + 48 + 70), BASE + 48 + 128);
    }

    #[test]
    fn the_free_list_agrees_with_the_counts_up_to_an_allocation_under_way() {
        let free = free_of(&pool(2, &[3, 0]));
        assert!(free.consistent && free.contains(0) && free.contains(3) && !free.contains(1));
        assert!(free_of(&pool(3, &[3, 0])).consistent, "one more is handed out already");
        assert!(!free_of(&pool(4, &[3, 0])).consistent);
    }

    #[test]
    fn a_free_list_that_leads_astray_ends() {
        let mut circle = pool(2, &[1, 2]);
        let first = BASE + 48 + 64;
        circle[48 + 128..48 + 136].copy_from_slice(&first.to_le_bytes());
        assert!(!free_of(&circle).consistent);
        let mut elsewhere = pool(2, &[1, 2]);
        elsewhere[48 + 128..48 + 136].copy_from_slice(&0x1234u64.to_le_bytes());
        assert!(!free_of(&elsewhere).consistent);
    }
}
