//! What the processes of a tree have in common: numbers of mappings, each told once before it is used, and page frames,
//! each counted once in a look.

use std::collections::{HashMap, HashSet};

use nilometer_kernel::parse::maps::Mapping;
use nilometer_trace::pages::{Line, Mapping as Told};

/// Numbers of the mappings of all processes.
#[derive(Debug, Default)]
pub(super) struct Table {
    numbers: HashMap<(i32, u64, [u8; 4], Vec<u8>), u32>,
    /// The mapping that was numbered last: pieces that follow it and are alike belong to it.
    last: Option<Last>,
    pub news: Vec<Line>,
    /// Shared frames that are counted in this look.
    frames: HashSet<u64>,
}

#[derive(Debug)]
struct Last {
    pid: i32,
    end: u64,
    perms: [u8; 4],
    name: Vec<u8>,
    number: u32,
}

impl Table {
    pub fn begin_look(&mut self) {
        self.frames.clear();
    }

    /// Whether a process of this look had this frame before.
    pub fn is_counted(&mut self, frame: u64) -> bool {
        !self.frames.insert(frame)
    }

    /// Must be asked in order of address for each process.
    pub fn number(&mut self, pid: i32, mapping: &Mapping<'_>) -> u32 {
        if let Some(last) = &mut self.last
            && last.pid == pid
            && last.end == mapping.start
            && last.perms == mapping.perms
            && last.name == mapping.name
        {
            last.end = mapping.end;
            return last.number;
        }
        let number = self.look_up(pid, mapping);
        let (end, perms, name) = (mapping.end, mapping.perms, mapping.name.to_vec());
        self.last = Some(Last { pid, end, perms, name, number });
        number
    }

    fn look_up(&mut self, pid: i32, mapping: &Mapping<'_>) -> u32 {
        let next = self.numbers.len() as u32;
        let key = (pid, mapping.start, mapping.perms, mapping.name.to_vec());
        let number = *self.numbers.entry(key).or_insert(next);
        if number == next {
            self.news.push(Line::Mapping(Told {
                id: number,
                pid,
                start: mapping.start,
                perms: String::from_utf8_lossy(&mapping.perms).into_owned(),
                name: String::from_utf8_lossy(mapping.name).into_owned(),
            }));
        }
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_kernel::parse::maps::parse_header;

    #[test]
    fn a_frame_counts_once_in_a_look() {
        let mut table = Table::default();
        assert_eq!([7, 7, 8].map(|frame| table.is_counted(frame)), [false, true, false]);
        table.begin_look();
        assert!(!table.is_counted(7));
    }

    #[test]
    fn pieces_of_one_mapping_have_one_number() {
        let mut table = Table::default();
        let mut number = |line: &str| table.number(1, &parse_header(line.as_bytes()).unwrap());
        let lines = ["1000-2000 rw-p 0 00:00 0 ", "2000-5000 rw-p 0 00:00 0 ", "5000-6000 r--p 0 00:00 0 "];
        assert_eq!(lines.map(&mut number), [0, 0, 1]);
        assert_eq!(lines.map(&mut number), [0, 0, 1]);
        assert_eq!(table.news.len(), 2);
    }
}
