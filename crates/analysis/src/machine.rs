//! Every series that the kernel told of the machine in bytes, for the view of the system.
//!
//! Apart from [`RunBuilder`](crate::RunBuilder), because fifty series are made only where somebody looks at them.

use nilometer_trace::record::{EventKind, Record, Tick, Unit};

use crate::clock::Clock;
use crate::column::{Layout, View};
use crate::curve::Series;
use crate::model::NamedSeries;
use crate::unit::kib;

const MEMINFO: &str = "meminfo.";
const BUCKETS: u64 = 1_024;
/// A log may say anything about its columns.
const MOST: usize = 256;

/// Feed all records in the order of the log, then [`finish`](Self::finish).
#[derive(Debug, Default)]
pub struct MachineBuilder {
    clock: Clock,
    layout: Layout,
    /// Name of each series, and the series.
    series: Vec<(String, Series)>,
    /// Which series the column at a place goes to, and whether it is in KiB.
    places: Vec<Option<(usize, bool)>>,
}

impl MachineBuilder {
    pub fn push(&mut self, record: &Record) {
        match record {
            Record::Header(header) => self.clock.header(header.mono_ns),
            Record::Event(event) if event.what == EventKind::Started => self.clock.started(event.at_ns),
            Record::Columns(columns) => {
                self.layout = Layout::new(columns);
                self.places =
                    columns.columns.iter().map(|column| self.place(&column.name, column.unit)).collect();
            }
            Record::Tick(tick) => self.tick(tick),
            _ => {}
        }
    }

    fn place(&mut self, name: &str, unit: Unit) -> Option<(usize, bool)> {
        let name = name.strip_prefix(MEMINFO).filter(|_| matches!(unit, Unit::Kib | Unit::Bytes))?;
        Some((self.named(name)?, unit == Unit::Kib))
    }

    fn named(&mut self, name: &str) -> Option<usize> {
        let known = self.series.iter().position(|(known, _)| known == name);
        known.or_else(|| {
            let room = self.series.len() < MOST;
            room.then(|| self.series.push((name.to_owned(), Series::new(BUCKETS))))?;
            Some(self.series.len() - 1)
        })
    }

    fn tick(&mut self, tick: &Tick) {
        self.clock.saw(tick.at_ns);
        for (place, value) in self.places.iter().zip(&tick.system) {
            if let Some((series, in_kib)) = place.filter(|_| *value != u64::MAX) {
                self.series[series].1.push(tick.at_ns, if in_kib { kib(*value) } else { *value });
            }
        }
        let derived =
            |view: View<'_>| [("used_less_buffers_cache", view.in_use()), ("swap", view.swap_used())];
        for (name, value) in self.layout.view(tick).map(derived).into_iter().flatten() {
            if let Some((value, series)) = value.and_then(|value| Some((value, self.named(name)?))) {
                self.series[series].1.push(tick.at_ns, value);
            }
        }
    }

    pub fn finish(&self) -> Vec<NamedSeries> {
        let named = |(name, series): &(String, Series)| NamedSeries {
            name: name.clone(),
            series: series.model(&self.clock),
        };
        self.series.iter().map(named).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_trace::record::{Column, Columns};

    #[test]
    fn the_kernels_fields_and_ours_become_series_in_bytes() {
        let kib = |name: &str| Column { name: name.into(), unit: Unit::Kib };
        let fields = ["MemTotal", "MemFree", "Buffers", "Cached", "SwapTotal", "SwapFree"];
        let mut columns: Vec<Column> = fields.iter().map(|name| kib(&format!("meminfo.{name}"))).collect();
        columns.push(Column { name: "meminfo.HugePages_Free".into(), unit: Unit::Count });
        let mut builder = MachineBuilder::default();
        builder.push(&Record::Columns(Columns { columns }));
        for at in 0..10 {
            let tick = Tick {
                at_ns: at * 1_000_000_000,
                system: vec![100, 40 - at, 5, 5, 8, 6, 3],
                ..Tick::default()
            };
            builder.push(&Record::Tick(tick));
        }
        let found = builder.finish();
        let last = |name: &str| {
            let one = found.iter().find(|one| one.name == name).unwrap_or_else(|| panic!("{name}"));
            one.series.points.last().map(|point| (point.at_s, point.max))
        };
        assert_eq!(last("MemFree"), Some((9.0, 31 * 1024)));
        assert_eq!(last("used_less_buffers_cache"), Some((9.0, 59 * 1024)));
        assert_eq!(last("swap"), Some((9.0, 2 * 1024)));
        assert_eq!(found.len(), 8, "a count is no series of bytes");
    }
}
