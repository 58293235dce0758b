//! Heap tables of a run: which kinds grow, and how fast. One process is followed, the first that has tables.
//!
//! A kind that has no row in a table is somewhere in that table's rest: it has no level there.

use nilometer_trace::record::{HeapRow, HeapTable};
use rustc_hash::FxHashMap;

use super::model::{Growths, KindGrowth, Sum};
use crate::bounded::Thinned;
use crate::clock::Clock;
use crate::growth::{self, Axis};
use crate::model::{Growth, GrowthClass, GrowthUnit};
use crate::stats::{self, XY};

/// Kinds that are followed, and levels that are kept of each.
const KINDS: usize = 512;
const LEVELS: usize = 1_024;
/// Kinds in the model.
const LISTED: usize = 40;
const OTHER: &str = "(other kinds)";

/// When a table was taken.
#[derive(Debug, Clone, Copy)]
struct Place {
    at_ns: u64,
    step: Option<u64>,
}

#[derive(Debug)]
struct Series {
    first: HeapRow,
    last: HeapRow,
    max: HeapRow,
    levels: Thinned<(Place, u64)>,
}

#[derive(Debug, Default)]
pub(crate) struct HeapWatch {
    pid: Option<i32>,
    tables: u64,
    other_tables: u64,
    first_ns: u64,
    last_ns: u64,
    longest_ns: u64,
    pause_ns: u64,
    partial: u64,
    series: FxHashMap<String, Series>,
    unfollowed: u64,
}

impl HeapWatch {
    pub(crate) fn push(&mut self, table: &HeapTable, step: Option<u64>) {
        self.longest_ns = self.longest_ns.max(table.pause_ns);
        self.pause_ns = self.pause_ns.saturating_add(table.pause_ns);
        if *self.pid.get_or_insert(table.pid) != table.pid {
            self.other_tables += 1;
            return;
        }
        if self.tables == 0 {
            self.first_ns = table.at_ns;
        }
        self.last_ns = self.last_ns.max(table.at_ns);
        self.tables += 1;
        self.partial += u64::from(table.partial);
        let place = Place { at_ns: table.at_ns, step };
        table.rows.iter().for_each(|row| self.row(&row.kind, row, place));
        self.row(OTHER, &table.other, place);
    }

    fn row(&mut self, kind: &str, row: &HeapRow, place: Place) {
        if let Some(series) = self.series.get_mut(kind) {
            series.push(row, place);
        } else if self.series.len() < KINDS {
            self.series.insert(kind.to_owned(), Series::new(row, place));
        } else {
            self.unfollowed += 1;
        }
    }

    /// Nothing where no table was kept.
    pub(crate) fn finish(&self, clock: &Clock) -> Option<Growths> {
        let pid = self.pid?;
        let by_step = self.is_by_step();
        let series = self.series.iter().filter(|(_, series)| !series.is_empty());
        let mut kinds: Vec<KindGrowth> =
            series.map(|(kind, series)| series.model(kind, clock, by_step)).collect();
        kinds.sort_by(|a, b| rise(b).total_cmp(&rise(a)).then_with(|| a.kind.cmp(&b.kind)));
        let omitted = kinds.len().saturating_sub(LISTED) as u64;
        kinds.truncate(LISTED);
        Some(Growths {
            tables: self.tables,
            first_s: clock.seconds(self.first_ns),
            last_s: clock.seconds(self.last_ns),
            pid,
            other_tables: self.other_tables,
            pause_ms_longest: self.longest_ns as f64 / 1e6,
            pause_ms_total: self.pause_ns as f64 / 1e6,
            notes: self.notes(),
            kinds,
            kinds_omitted: omitted,
        })
    }

    /// Along steps where every table of the rest belongs to one.
    fn is_by_step(&self) -> bool {
        let levels = self.series.get(OTHER).map(|series| series.levels.items()).unwrap_or_default();
        let stepped = levels.iter().filter_map(|(place, _)| place.step);
        let mut distinct: Vec<u64> = stepped.collect();
        distinct.dedup();
        distinct.len() >= growth::LEAST_POINTS
    }

    fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.partial > 0 {
            notes.push(format!(
                "{} of {} tables are of a census that was not whole",
                self.partial, self.tables
            ));
        }
        if self.other_tables > 0 {
            notes.push(format!("{} tables of other processes are not followed", self.other_tables));
        }
        if self.unfollowed > 0 {
            notes.push(format!("kinds beyond the first {KINDS} are not followed"));
        }
        notes
    }
}

/// By how much the kind grew from its first table to its last, for the order.
fn rise(kind: &KindGrowth) -> f64 {
    let total = |sum: &Sum| sum.bytes as f64 + sum.payload_bytes as f64;
    total(&kind.last) - total(&kind.first)
}

impl Series {
    fn new(row: &HeapRow, place: Place) -> Self {
        let mut series =
            Self { first: row.clone(), last: row.clone(), max: row.clone(), levels: Thinned::new(LEVELS) };
        series.levels.push((place, row.total_bytes()));
        series
    }

    fn push(&mut self, row: &HeapRow, place: Place) {
        self.last.clone_from(row);
        if row.total_bytes() > self.max.total_bytes() {
            self.max.clone_from(row);
        }
        self.levels.push((place, row.total_bytes()));
    }

    fn is_empty(&self) -> bool {
        self.max.total_bytes() == 0
    }

    fn model(&self, kind: &str, clock: &Clock, by_step: bool) -> KindGrowth {
        KindGrowth {
            kind: kind.to_owned(),
            first: sum(&self.first),
            last: sum(&self.last),
            max: sum(&self.max),
            growth: self.growth(clock, by_step),
        }
    }

    fn growth(&self, clock: &Clock, by_step: bool) -> Growth {
        let levels = self.levels.items().iter();
        let x = |place: &Place| {
            if by_step { place.step.map(|step| step as f64) } else { Some(clock.seconds(place.at_ns)) }
        };
        let points: Vec<XY> = levels.filter_map(|(place, level)| Some((x(place)?, *level as f64))).collect();
        let mut trend = growth::trend(&points, 0.0);
        // A census counts, so few tables have a rate as well, though no verdict.
        if trend.class == GrowthClass::CannotTell && trend.slope.is_none() {
            trend.slope = stats::slope(&points);
        }
        let per = if by_step { GrowthUnit::Step } else { GrowthUnit::Minute };
        let last_x = points.last().map_or(0.0, |point| point.0);
        growth::model(&trend, Axis { per, numbered: by_step, last_x }, None)
    }
}

fn sum(row: &HeapRow) -> Sum {
    Sum { count: row.count, bytes: row.bytes, payload_bytes: row.payload_bytes, resident_payload_bytes: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn table(at_s: u64, nodes: u64, pid: i32) -> HeapTable {
        let row = |kind: &str, count, bytes| HeapRow { kind: kind.into(), count, bytes, payload_bytes: 0 };
        HeapTable {
            at_ns: at_s * 1_000_000_000,
            pid,
            rows: vec![row("Node", nodes, nodes * MIB), row("dict", 7, 7 * MIB)],
            other: row("", 100, 5 * MIB),
            pause_ns: at_s * 1_000_000,
            partial: at_s == 3,
            ..HeapTable::default()
        }
    }

    fn watch(tables: u64, step: impl Fn(u64) -> Option<u64>) -> Growths {
        let mut watch = HeapWatch::default();
        for at in 0..tables {
            watch.push(&table(at, 10 + 2 * at, 11), step(at));
        }
        watch.push(&table(50, 1, 12), None);
        watch.finish(&Clock::default()).unwrap()
    }

    #[test]
    fn a_growing_kind_comes_first_with_its_rate_per_step() {
        let found = watch(20, |at| Some(100 + 10 * at));
        assert_eq!((found.tables, found.other_tables, found.pid), (20, 1, 11));
        let node = &found.kinds[0];
        assert_eq!((node.kind.as_str(), node.first.count, node.last.count), ("Node", 10, 48));
        assert_eq!((node.growth.class, node.growth.per), (GrowthClass::Grows, GrowthUnit::Step));
        assert!((node.growth.bytes.unwrap() - 0.2 * MIB as f64).abs() < 1.0);
        assert!(found.kinds[1..].iter().all(|kind| kind.growth.class == GrowthClass::Flat));
        assert_eq!((found.pause_ms_longest, found.kinds_omitted), (50.0, 0));
        assert_eq!(found.notes.len(), 2);
    }

    #[test]
    fn without_steps_the_rate_is_per_minute_and_few_tables_give_no_verdict() {
        let found = watch(20, |_| None);
        let growth = &found.kinds[0].growth;
        assert_eq!((growth.per, growth.class), (GrowthUnit::Minute, GrowthClass::Grows));
        assert!((growth.bytes.unwrap() - 120.0 * MIB as f64).abs() < 1.0);
        let few = watch(4, |_| None);
        assert_eq!(few.kinds[0].growth.class, GrowthClass::CannotTell);
        assert!((few.kinds[0].growth.bytes.unwrap() - 120.0 * MIB as f64).abs() < 1.0);
    }

    #[test]
    fn no_tables_no_model_and_kinds_are_bounded() {
        assert_eq!(HeapWatch::default().finish(&Clock::default()), None);
        let mut watch = HeapWatch::default();
        for kind in 0..1_000 {
            let row =
                HeapRow { kind: format!("kind {kind}"), count: 1, bytes: kind, payload_bytes: u64::MAX };
            watch.push(&HeapTable { rows: vec![row], ..HeapTable::default() }, None);
        }
        let found = watch.finish(&Clock::default()).unwrap();
        assert_eq!((found.kinds.len(), found.kinds_omitted), (LISTED, KINDS as u64 - 1 - LISTED as u64));
    }
}
