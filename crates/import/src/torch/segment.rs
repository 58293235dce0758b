//! Segments and their blocks: what is handed out, what is held back, how much of it is in pieces.

use std::collections::BTreeMap;

use super::pickle::{Id, Pickle};

/// A block that is handed out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Block {
    pub(super) address: u64,
    /// As asked for, where it is told.
    pub(super) bytes: u64,
    pub(super) frames: Option<Id>,
}

/// What the segments of one device add up to.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum {
    segments: u64,
    reserved: u64,
    allocated: u64,
    requested: u64,
    /// Given back by the program and not yet by the device.
    pending: u64,
    /// Free within segments that are in use: cannot be given to others.
    pieces: u64,
    largest_free: u64,
}

impl Sum {
    pub(super) fn sentence(&self, name: &str) -> String {
        let mib = |bytes: u64| format!("{:.2} MiB", bytes as f64 / f64::from(1 << 20));
        let share = self.pieces as f64 * 100.0 / self.reserved.max(1) as f64;
        let free = self.reserved.saturating_sub(self.allocated).saturating_sub(self.pending);
        format!(
            "{name}: {} reserved in {} segments: {} allocated ({} asked for), {} awaiting their free, {} free; {} of \
             that in pieces between blocks (fragmentation {share:.1} %), largest free block {}",
            mib(self.reserved),
            self.segments,
            mib(self.allocated),
            mib(self.requested),
            mib(self.pending),
            mib(free),
            mib(self.pieces),
            mib(self.largest_free),
        )
    }
}

/// Segments by device; devices that have only a history are there too.
pub(super) fn devices(pickle: &Pickle<'_>, segments: &[Id], traces: usize) -> BTreeMap<usize, Vec<Id>> {
    let with_history = (0..traces).filter(|_| segments.is_empty());
    let mut devices: BTreeMap<usize, Vec<Id>> = with_history.map(|number| (number, Vec::new())).collect();
    for &segment in segments {
        let number = pickle.number(pickle.get(segment, "device")) as usize;
        devices.entry(number).or_default().push(segment);
    }
    devices
}

/// The blocks that are handed out, and the sums.
pub(super) fn read(pickle: &Pickle<'_>, segments: &[Id]) -> (Vec<Block>, Sum) {
    let (mut handed_out, mut sum) = (Vec::new(), Sum::default());
    for &segment in segments {
        let mut address = pickle.number(pickle.get(segment, "address"));
        let blocks = pickle.list(pickle.get(segment, "blocks"));
        sum.segments += 1;
        sum.reserved = sum.reserved.saturating_add(pickle.number(pickle.get(segment, "total_size")));
        let mut free = 0_u64;
        let before = handed_out.len();
        for &block in blocks {
            let size = pickle.number(pickle.get(block, "size"));
            // Before 2.0 a block had no address of its own; they follow each other.
            let own = pickle.get(block, "address").map_or(address, |own| pickle.number(Some(own)));
            address = own.saturating_add(size);
            match pickle.text(pickle.get(block, "state")) {
                "active_allocated" => {
                    let bytes = requested(pickle, block).unwrap_or(size);
                    sum.allocated = sum.allocated.saturating_add(size);
                    sum.requested = sum.requested.saturating_add(bytes);
                    handed_out.push(Block { address: own, bytes, frames: frames(pickle, block) });
                }
                "active_pending_free" | "active_awaiting_free" => {
                    sum.pending = sum.pending.saturating_add(size);
                }
                _ => {
                    free = free.saturating_add(size);
                    sum.largest_free = sum.largest_free.max(size);
                }
            }
        }
        if handed_out.len() > before {
            sum.pieces = sum.pieces.saturating_add(free);
        }
    }
    (handed_out, sum)
}

fn requested(pickle: &Pickle<'_>, block: Id) -> Option<u64> {
    let told = pickle.get(block, "requested_size").map(|size| pickle.number(Some(size)));
    told.filter(|bytes| *bytes > 0)
}

/// Of the block, or of the last event in its history (1.13, 2.0).
fn frames(pickle: &Pickle<'_>, block: Id) -> Option<Id> {
    let own = pickle.get(block, "frames").filter(|frames| !pickle.list(Some(*frames)).is_empty());
    let last = || pickle.list(pickle.get(block, "history")).first().copied();
    own.or_else(|| last().and_then(|entry| pickle.get(entry, "frames")))
}
