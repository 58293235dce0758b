//! Pages that nobody touched and that look touched: a read of a file's page that is not mapped yet maps its neighbours
//! too (`do_fault_around`, mm/memory.c), and on x86 all of them are born with the accessed bit.
//!
//! Only pages that became resident since the mark can be of that kind; the one invariant: never fewer are told.

use std::collections::HashMap;

use nilometer_kernel::parse::maps::Mapping;
use nilometer_kernel::parse::smaps::Usage;

/// `fault_around_bytes` of the kernel, unless somebody changed it in debugfs, in pages of 4 KiB: of so many, one is touched.
const AROUND: u64 = 16;

/// Resident pages of files, by name, in KiB.
type Resident = HashMap<Vec<u8>, u64>;

/// What files had at the mark, and since.
#[derive(Debug, Default)]
pub(super) struct Around {
    at_mark: Resident,
    latest: Resident,
    touched: Resident,
    /// Something was counted before the first mark.
    knows: bool,
}

impl Around {
    /// Nothing was counted yet: what is resident must be told with [`Self::see`] before the first mark.
    pub fn is_new(&self) -> bool {
        !self.knows
    }

    /// A look begins.
    pub fn begin(&mut self) {
        self.knows = true;
        self.latest.clear();
        self.touched.clear();
    }

    pub fn see(&mut self, mapping: &Mapping<'_>, usage: &Usage) {
        let resident = usage.rss.saturating_sub(usage.anonymous);
        if mapping.inode == 0 || resident == 0 {
            return;
        }
        let add = |map: &mut Resident, kib: u64| match map.get_mut(mapping.name) {
            Some(sum) => *sum += kib,
            None => drop(map.insert(mapping.name.to_vec(), kib)),
        };
        add(&mut self.latest, resident);
        add(&mut self.touched, usage.referenced.min(resident));
    }

    pub fn mark(&mut self) {
        std::mem::swap(&mut self.at_mark, &mut self.latest);
    }

    /// At most so many bytes look touched and were not, since the mark.
    pub fn bytes(&self) -> u64 {
        let of = |(name, resident): (&Vec<u8>, &u64)| {
            let new = resident.saturating_sub(self.at_mark.get(name).copied().unwrap_or(0));
            let new = new.min(self.touched.get(name).copied().unwrap_or(0));
            new * (AROUND - 1) / AROUND
        };
        self.latest.iter().map(of).sum::<u64>().saturating_mul(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_kernel::parse::maps::parse_header;

    #[test]
    fn only_what_files_have_more_since_the_mark_is_doubtful() {
        let file = parse_header(b"1000-900000 r--p 0 00:01 7 /weights").unwrap();
        let own = parse_header(b"900000-a00000 rw-p 0 00:00 0 ").unwrap();
        let usage = |rss, referenced| Usage { rss, referenced, ..Usage::default() };
        let mut around = Around::default();
        let mut look = |resident: u64, touched: u64| {
            around.begin();
            around.see(&file, &usage(resident, touched));
            around.see(&own, &usage(resident, touched));
            let told = around.bytes();
            around.mark();
            told
        };
        look(64, 64);
        assert_eq!(look(64, 32), 0, "nothing is new");
        assert_eq!(look(64 + 640, 640), 600 * 1024);
        assert_eq!(look(704, 704), 0, "it was there at the mark");
        assert_eq!(look(2000, 16), 15 * 1024, "no more than what looks touched");
    }
}
