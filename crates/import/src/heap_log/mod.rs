//! Tables of Python objects by kind, as Heapy and Pympler print or store them: each becomes one look at a heap.
//!
//! Old tools count an array's header and not its numbers. Where a table does so it is said, and the
//! numbers are estimated only if the size of an array is told.

pub(crate) mod heapy;
pub(crate) mod muppy;

use nilometer_trace::record::{HeapRow, HeapTable};

use crate::emit::Emitter;
use crate::error::Error;

/// What an `ndarray` without its numbers takes, in all versions of numpy.
const HEADER_BYTES: std::ops::RangeInclusive<f64> = 40.0..=128.0;
const NS_PER_S: u64 = 1_000_000_000;
const NO_TIMES: &str = "the tables have no times: they are put one second apart, in their order";

/// One table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Look {
    /// Wall-clock time, where it is told.
    pub(crate) realtime_ns: Option<u64>,
    pub(crate) rows: Vec<Row>,
    /// Kinds that the table sums up or leaves out.
    pub(crate) other_kinds: u64,
    /// Objects and bytes of the whole set, where they are told.
    pub(crate) whole: Option<(u64, u64)>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Row {
    pub(crate) kind: String,
    pub(crate) count: i64,
    pub(crate) bytes: i64,
}

/// Looks in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    seen: u64,
    headers_only: Option<(i64, f64)>,
    negative: u64,
    timed: bool,
    /// Bytes of an array's numbers, as the user knows them.
    array_bytes: Option<u64>,
}

impl Looks {
    pub(crate) fn new(array_bytes: Option<u64>) -> Self {
        Self { array_bytes, ..Self::default() }
    }

    pub(crate) fn put(&mut self, look: &Look, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
        self.seen += 1;
        self.timed |= look.realtime_ns.is_some();
        let realtime = look.realtime_ns.unwrap_or(self.seen.saturating_mul(NS_PER_S));
        let at_ns = out.at(realtime)?;
        let rows: Vec<HeapRow> = look.rows.iter().map(|row| self.row(row)).collect();
        let sum = |of: fn(&HeapRow) -> u64| rows.iter().fold(0_u64, |sum, row| sum.saturating_add(of(row)));
        let (count, bytes) = (sum(|row| row.count), sum(|row| row.bytes));
        let whole = look.whole.unwrap_or((count, bytes));
        let other = HeapRow {
            count: whole.0.saturating_sub(count),
            bytes: whole.1.saturating_sub(bytes),
            ..HeapRow::default()
        };
        let table = HeapTable { at_ns, rows, other, other_kinds: look.other_kinds, ..HeapTable::default() };
        out.heap_table(table)
    }

    fn row(&mut self, row: &Row) -> HeapRow {
        self.negative += u64::from(row.count < 0 || row.bytes < 0);
        let (count, bytes) = (row.count.max(0) as u64, row.bytes.max(0) as u64);
        let each = if count == 0 { 0.0 } else { bytes as f64 / count as f64 };
        let is_array = row.kind.rsplit(['.', ' ']).next().is_some_and(|name| name.contains("ndarray"));
        let header_only = is_array && HEADER_BYTES.contains(&each);
        if header_only {
            self.headers_only = Some((row.count, each));
        }
        let payload_bytes =
            self.array_bytes.filter(|_| header_only).map_or(0, |each| count.saturating_mul(each));
        HeapRow { kind: row.kind.clone(), count, bytes, payload_bytes }
    }

    /// What is to be said at the end.
    pub(crate) fn notes(&self, out: &mut Emitter<'_, '_>) {
        if !self.timed && self.seen > 0 {
            out.note(NO_TIMES);
        }
        if self.negative > 0 {
            out.note(format!(
                "{} rows tell fewer objects than before; such a row counts as none",
                self.negative
            ));
        }
        if let Some((count, each)) = self.headers_only {
            let known = match self.array_bytes {
                Some(bytes) => {
                    format!("their numbers are estimated with {bytes} bytes an array, as you said")
                }
                None => "their numbers are not in it; tell their size: --array-bytes 800".into(),
            };
            out.note(format!(
                "the tables count arrays by their headers only (the last had {count} of {each:.0} bytes each); {known}"
            ));
        }
    }
}
