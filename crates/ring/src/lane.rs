//! A lane: one producer, one consumer, a ring of bytes between them.
//!
//! The producer writes a record and then publishes it by moving `head`; a kill in between loses the record
//! whole. Records never wrap: what does not fit before the end is filled with zeros, which decode to nothing.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::cursor::{Cursor, MAX_RECORD};
use crate::layout::{LANE_HEADER, LaneHeader};

/// The producer's view of a lane. Owned by one thread at a time.
#[derive(Debug)]
#[repr(C)]
pub struct Producer {
    header: *const LaneHeader,
    bytes: *mut u8,
    capacity: u64,
    /// Bytes written since the lane exists; the published head follows it.
    head: u64,
    /// Where in the ring `head` is.
    at: u64,
    /// The head may go this far without a look at the tail.
    limit: u64,
}

/// The lane has no room for a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Producer {
    /// Takes over the lane at `start`, of `size` bytes, where its last owner left it.
    ///
    /// # Safety
    /// `start` is the mapped, backed start of a lane of `size` bytes; the caller owns the lane (its `owner`
    /// word was won) until this value is dropped or abandoned.
    pub unsafe fn take(start: *mut u8, size: u64) -> Self {
        let header = start.cast::<LaneHeader>().cast_const();
        let capacity = size - LANE_HEADER;
        // SAFETY: the header is mapped and its fields are atomics.
        let head = unsafe { (*header).head.load(Acquire) };
        let mut producer = Self {
            header,
            // SAFETY: the lane is longer than its header.
            bytes: unsafe { start.add(LANE_HEADER as usize) },
            capacity,
            head,
            at: head % capacity,
            limit: 0,
        };
        producer.look();
        producer
    }

    pub fn header(&self) -> &LaneHeader {
        // SAFETY: see `take`; the mapping outlives the producer.
        unsafe { &*self.header }
    }

    /// Goes back to what was published: a writer was interrupted for good somewhere in between.
    pub fn go_back(&mut self) {
        self.head = self.header().head.load(Acquire);
        self.at = self.head % self.capacity;
        self.look();
    }

    /// Looks how far the consumer is. True if there is room for a record.
    pub fn look(&mut self) -> bool {
        self.limit = self.header().tail.load(Acquire).wrapping_add(self.capacity);
        self.has_room()
    }

    /// Room for the longest record and the zeros before it.
    #[inline(always)]
    fn has_room(&self) -> bool {
        self.head + 2 * MAX_RECORD as u64 <= self.limit
    }

    /// A place for one record, not yet visible to the consumer.
    #[inline(always)]
    pub fn reserve(&mut self) -> Result<Cursor, Full> {
        if !self.has_room() && !self.look() {
            return Err(Full);
        }
        if self.at + MAX_RECORD as u64 > self.capacity {
            self.wrap();
        }
        // SAFETY: `at + MAX_RECORD <= capacity`, and the consumer has taken these bytes.
        Ok(unsafe { Cursor::new(self.bytes.add(self.at as usize)) })
    }

    #[cold]
    fn wrap(&mut self) {
        let rest = self.capacity - self.at;
        // SAFETY: `at..capacity` is within the ring and, by `has_room`, taken by the consumer.
        unsafe { self.bytes.add(self.at as usize).write_bytes(0, rest as usize) };
        self.head += rest;
        self.at = 0;
    }

    /// Makes the record that ends at the cursor visible.
    #[inline(always)]
    pub fn publish(&mut self, record: &Cursor) {
        let length = record.position() as u64 - self.bytes as u64 - self.at;
        self.head += length;
        self.at += length;
        self.header().head.store(self.head, Release);
    }

    /// Bytes written and not yet taken, for tests and waits.
    pub fn pending(&self) -> u64 {
        self.head - self.header().tail.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Source, Stacks};
    use crate::{Encoder, Event};

    #[repr(align(64))]
    struct Memory([u8; 1024]);

    /// Drains as the reader does.
    fn drain(memory: &Memory, into: &mut Vec<u8>) {
        // SAFETY: the array is aligned and larger than the header.
        let header = unsafe { &*memory.0.as_ptr().cast::<LaneHeader>() };
        let capacity = memory.0.len() as u64 - LANE_HEADER;
        let (tail, head) = (header.tail.load(Relaxed), header.head.load(Acquire));
        into.extend((tail..head).map(|n| memory.0[(LANE_HEADER + n % capacity) as usize]));
        header.tail.store(head, Release);
    }

    #[test]
    fn records_cross_the_end_of_the_ring_whole() {
        let mut memory = Memory([0; 1024]);
        let start = memory.0.as_mut_ptr();
        // SAFETY: the memory is a zeroed lane that only this test uses.
        let mut producer = unsafe { Producer::take(start, 1024) };
        let (mut encoder, mut stream, mut expected) = (Encoder::default(), Vec::new(), Vec::new());
        for n in 0..10_000_u64 {
            let stacks = Stacks { native: (n * 7) as u32, python: 0 };
            let address = n * 4096;
            let mut cursor = producer.reserve().unwrap_or_else(|Full| {
                drain(&memory, &mut stream);
                producer.reserve().unwrap()
            });
            encoder.alloc(&mut cursor, Source::Malloc, address, n, stacks);
            producer.publish(&cursor);
            expected.push(Event::Alloc { address, bytes: n, source: Source::Malloc, stacks });
        }
        drain(&memory, &mut stream);
        assert_eq!(producer.pending(), 0);
        let (mut decoder, mut bytes) = (crate::Decoder::default(), crate::cursor::Source::new(&stream));
        for event in expected {
            assert_eq!(decoder.next(&mut bytes), Ok(Some(event)));
        }
        assert_eq!(decoder.next(&mut bytes), Ok(None));
    }

    #[test]
    fn a_full_lane_refuses_and_keeps_what_it_has() {
        let mut memory = Memory([0; 1024]);
        // SAFETY: as above.
        let mut producer = unsafe { Producer::take(memory.0.as_mut_ptr(), 1024) };
        let mut encoder = Encoder::default();
        let mut written = 0;
        while let Ok(mut cursor) = producer.reserve() {
            encoder.gap(&mut cursor, written);
            producer.publish(&cursor);
            written += 1;
        }
        let mut stream = Vec::new();
        drain(&memory, &mut stream);
        let (mut decoder, mut bytes) = (crate::Decoder::default(), crate::cursor::Source::new(&stream));
        for n in 0..written {
            assert_eq!(decoder.next(&mut bytes), Ok(Some(Event::Gap { events: n })));
        }
    }
}
