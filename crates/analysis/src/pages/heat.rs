//! When which stretch of memory was touched: rows of addresses, columns of windows, each row run-length coded.
//!
//! The one invariant: runs of a row are in order of time and have different levels; a window without a run is as the one
//! before, and a row begins with its first window.

use std::collections::BTreeMap;

/// A share of a row's resident bytes in 1/255, and whether it was there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Not mapped, or nothing of it resident.
    Absent,
    /// Touched, from 0 (not at all) to 255 (all that is resident).
    Touched(u8),
}

impl Level {
    /// Anything touched is more than nothing.
    pub fn of(touched: u64, resident: u64) -> Self {
        match (touched, resident) {
            (_, 0) => Self::Absent,
            (0, _) => Self::Touched(0),
            _ => Self::Touched(((touched as f64 / resident as f64 * 255.0).round() as u8).max(1)),
        }
    }

    pub fn share(self) -> Option<f64> {
        match self {
            Self::Absent => None,
            Self::Touched(level) => Some(f64::from(level) / 255.0),
        }
    }
}

/// A row.
#[derive(Debug, Clone, Default)]
pub struct Row {
    pub start: u64,
    pub end: u64,
    pub pid: i32,
    pub mapping: u32,
    /// As of the last window in which it was there.
    pub resident_bytes: u64,
    /// The last window in which something of it was touched.
    pub touched_in: Option<u32>,
    runs: Vec<(u32, u8, bool)>,
    seen: u32,
}

impl Row {
    fn push(&mut self, window: u32, level: Level) {
        let (level, there) = match level {
            Level::Absent => (0, false),
            Level::Touched(level) => (level, true),
        };
        if self.runs.last().is_none_or(|(_, last, was)| (*last, *was) != (level, there)) {
            self.runs.push((window, level, there));
        }
        if level > 0 {
            self.touched_in = Some(window);
        }
        self.seen = window + 1;
    }

    pub fn level(&self, window: u32) -> Level {
        let at = self.runs.partition_point(|(from, ..)| *from <= window);
        match at.checked_sub(1).and_then(|at| self.runs.get(at)) {
            Some((_, level, true)) if window < self.seen => Level::Touched(*level),
            _ => Level::Absent,
        }
    }

    /// Runs of one level, as stored.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }
}

/// All rows.
#[derive(Debug, Clone, Default)]
pub struct Heat {
    rows: BTreeMap<(i32, u64), Row>,
    windows: u32,
}

/// What of a row was touched in one window.
#[derive(Debug, Clone, Copy)]
pub struct Cell {
    pub pid: i32,
    pub start: u64,
    pub end: u64,
    pub mapping: u32,
    pub resident_bytes: u64,
    pub touched_bytes: u64,
}

impl Heat {
    /// One window; cells in any order, each row once.
    pub fn push(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let window = self.windows;
        self.windows += 1;
        for cell in cells {
            let row = self.rows.entry((cell.pid, cell.start)).or_default();
            if row.seen < window {
                row.push(row.seen, Level::Absent); // it was away
            }
            (row.start, row.end, row.pid, row.mapping) = (cell.start, cell.end, cell.pid, cell.mapping);
            row.resident_bytes = cell.resident_bytes;
            row.push(window, Level::of(cell.touched_bytes, cell.resident_bytes));
        }
    }

    pub fn windows(&self) -> u32 {
        self.windows
    }

    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.rows.values()
    }

    pub fn len(&self) -> usize {
        self.rows.len()
    }

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Rows that were there in the last window.
    pub fn present(&self) -> impl Iterator<Item = &Row> {
        self.rows.values().filter(|row| row.seen == self.windows && row.resident_bytes > 0)
    }

    /// Resident bytes of rows that were not touched in the last `windows` windows.
    pub fn cold_bytes(&self, windows: u32) -> u64 {
        self.cold(windows).map(|row| row.resident_bytes).sum()
    }

    /// Rows that are there and were not touched in the last `windows` windows.
    pub fn cold(&self, windows: u32) -> impl Iterator<Item = &Row> {
        let since = self.windows.saturating_sub(windows);
        self.present().filter(move |row| row.touched_in.is_none_or(|last| last < since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(start: u64, touched_bytes: u64) -> Cell {
        Cell { pid: 1, start, end: start + 100, mapping: 0, resident_bytes: 100, touched_bytes }
    }

    #[test]
    fn runs_tell_every_window_again() {
        let mut heat = Heat::default();
        let story = [Some(0), Some(50), Some(50), None, Some(50), Some(100), None];
        for touched in story {
            heat.push(touched.map(|touched| cell(0, touched)));
        }
        let row = heat.rows().next().unwrap();
        let told: Vec<_> = (0..8).map(|window| row.level(window).share()).collect();
        let half = Some(128.0 / 255.0);
        assert_eq!(told, [Some(0.0), half, half, None, half, Some(1.0), None, None]);
        assert_eq!((row.runs(), heat.windows(), heat.len()), (5, 7, 1));
    }

    #[test]
    fn cold_is_what_was_not_touched_for_so_many_windows() {
        let mut heat = Heat::default();
        heat.push([cell(0, 10), cell(100, 0), cell(200, 1)]);
        heat.push([cell(0, 0), cell(100, 0), cell(200, 1)]);
        assert_eq!((heat.cold_bytes(1), heat.cold_bytes(2), heat.cold_bytes(100)), (200, 100, 100));
        heat.push([cell(0, 1)]);
        assert_eq!((heat.cold_bytes(1), heat.present().count()), (0, 1));
    }

    #[test]
    fn anything_touched_is_more_than_nothing() {
        assert_eq!((Level::of(1, 1_000_000), Level::of(0, 5)), (Level::Touched(1), Level::Touched(0)));
        assert_eq!((Level::of(0, 0), Level::of(5, 5)), (Level::Absent, Level::Touched(255)));
    }
}
