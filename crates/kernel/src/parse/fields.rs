//! Tables of named numbers: `/proc/meminfo`, `/proc/vmstat`, cgroup `memory.stat` and `memory.events`.
//!
//! The set of fields differs between kernels; unknown ones are kept. A table is parsed again and again
//! with the same layout, so names are compared in place and nothing is allocated until the layout changes.

use super::scan::{lines, padded_number};

/// Names and values, in the kernel's order.
#[derive(Debug, Default, Clone)]
pub struct FieldTable {
    names: Vec<Box<[u8]>>,
    is_kib: Vec<bool>,
    values: Vec<u64>,
    /// Keep only names for which this says yes.
    wanted: Option<fn(&[u8]) -> bool>,
}

impl FieldTable {
    /// A table that keeps every field.
    pub fn all() -> Self {
        Self::default()
    }

    /// A table that keeps some fields.
    pub fn only(wanted: fn(&[u8]) -> bool) -> Self {
        Self { wanted: Some(wanted), ..Self::default() }
    }

    /// Parses `Name:   123 kB` and `name 123` lines. True when the set of fields changed.
    pub fn parse(&mut self, text: &[u8]) -> bool {
        let mut position = 0;
        let mut changed = false;
        for line in lines(text) {
            let Some((name, rest)) = split(line) else { continue };
            if self.wanted.is_some_and(|wanted| !wanted(name)) {
                continue;
            }
            let Some(value) = padded_number(rest) else { continue };
            changed |= self.put(position, name, value, rest.ends_with(b" kB"));
            position += 1;
        }
        changed |= position < self.names.len();
        self.truncate(position);
        changed
    }

    fn put(&mut self, position: usize, name: &[u8], value: u64, is_kib: bool) -> bool {
        if self.names.get(position).is_some_and(|known| **known == *name) {
            self.values[position] = value;
            return false;
        }
        self.truncate(position);
        self.names.push(name.into());
        self.is_kib.push(is_kib);
        self.values.push(value);
        true
    }

    fn truncate(&mut self, length: usize) {
        self.names.truncate(length);
        self.is_kib.truncate(length);
        self.values.truncate(length);
    }

    pub fn values(&self) -> &[u64] {
        &self.values
    }

    /// Name, value, and whether the kernel says `kB`.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], u64, bool)> {
        self.names.iter().zip(&self.values).zip(&self.is_kib).map(|((n, v), k)| (&**n, *v, *k))
    }

    pub fn get(&self, name: &str) -> Option<u64> {
        let position = self.names.iter().position(|known| **known == *name.as_bytes())?;
        self.values.get(position).copied()
    }
}

/// The name and what follows it.
fn split(line: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = line.iter().position(|b| matches!(b, b':' | b' ' | b'\t')).filter(|end| *end > 0)?;
    let (name, rest) = line.split_at(end);
    Some((name, rest.strip_prefix(b":").unwrap_or(rest)))
}

/// The counters of `/proc/vmstat` that tell of swapping, reclaim and OOM kills.
pub fn tells_of_pressure(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 8] = [
        b"pswpin",
        b"pswpout",
        b"pgmajfault",
        b"oom_kill",
        b"pgscan_direct",
        b"workingset_refault_anon",
        b"workingset_refault_file",
        b"thp_fault_alloc",
    ];
    NAMES.contains(&name) || name.starts_with(b"allocstall_")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMINFO: &[u8] = b"MemTotal:       24682416 kB\nMemFree:        23456 kB\nHugePages_Total:       3\nActive(anon):   12 kB\n";

    #[test]
    fn every_field_is_kept_with_its_unit() {
        let mut table = FieldTable::all();
        assert!(table.parse(MEMINFO));
        assert_eq!(table.get("MemTotal"), Some(24_682_416));
        assert_eq!(table.get("Active(anon)"), Some(12));
        let units: Vec<bool> = table.iter().map(|(_, _, kib)| kib).collect();
        assert_eq!(units, [true, true, false, true]);
    }

    #[test]
    fn the_same_layout_is_no_change_and_another_is() {
        let mut table = FieldTable::all();
        table.parse(MEMINFO);
        assert!(!table.parse(MEMINFO));
        assert!(table.parse(b"MemTotal: 1 kB\nNew: 2 kB\n"));
        assert_eq!(table.values(), [1, 2]);
        assert!(table.parse(b"MemTotal: 1 kB\n"));
    }

    #[test]
    fn a_filter_keeps_what_is_wanted() {
        let mut table = FieldTable::only(tells_of_pressure);
        table.parse(b"nr_free_pages 1\npswpin 7\nallocstall_dma 2\noom_kill 1\n");
        assert_eq!(table.values(), [7, 2, 1]);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            FieldTable::all().parse(&text);
        }
    }
}
