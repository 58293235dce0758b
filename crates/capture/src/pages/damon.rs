//! By DAMON: regions in which accesses were sampled. Nearly free for the target, and never exact.

use std::ops::{Range, RangeInclusive};
use std::path::Path;
use std::time::Duration;

use nilometer_kernel::read::damon::{Attributes, Damon, Region};
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::limits::page_bytes;
use nilometer_kernel::sys::pagemap::{PageRun, PageState, Pagemap};
use nilometer_trace::pages::{Process, Span};

use super::backend::Backend;
use super::table::Table;
use super::{Error, Filters};

/// Samples in one window.
const SAMPLES: u32 = 20;
/// A region for each so many bytes of what DAMON looks at: more regions are what buys accuracy.
const REGION_BYTES: u64 = 1 << 20;
const REGIONS: RangeInclusive<u64> = 10..=1000;
/// Above it are no mappings of the process, only the page of old system calls that all share.
const USER_END: u64 = 1 << 63;

/// One process. Each window is one aggregation.
#[derive(Debug)]
pub(super) struct Regions {
    pid: i32,
    damon: Damon,
    filters: Filters,
}

impl Regions {
    pub fn start(pid: i32, window: Duration, filters: &Filters) -> std::io::Result<Self> {
        let mut mappings = Vec::new();
        // Of a process that is gone DAMON itself says so.
        let _ = Proc::default().read_maps(pid, |mapping| mappings.push(mapping.start..mapping.end));
        let attributes = Attributes {
            sample: (window / SAMPLES).max(Duration::from_millis(1)),
            aggregation: window.max(Duration::from_millis(SAMPLES.into())),
            fewest_regions: (watched(&mappings) / REGION_BYTES).clamp(*REGIONS.start(), *REGIONS.end()),
            most_regions: *REGIONS.end() * 2,
        };
        Ok(Self { pid, damon: Damon::start(Path::new("/"), pid, &attributes)?, filters: filters.clone() })
    }
}

/// Bytes that DAMON divides among its regions: from the first mapping to the last, without the two widest gaps. It is not
/// the resident memory: between a program and its heap alone may lie a gigabyte.
fn watched(mappings: &[Range<u64>]) -> u64 {
    let mappings: Vec<_> = mappings.iter().filter(|mapping| mapping.end <= USER_END).collect();
    let (Some(first), Some(last)) = (mappings.first(), mappings.last()) else { return 0 };
    let gaps = mappings.windows(2).map(|pair| pair[1].start.saturating_sub(pair[0].end));
    let mut gaps: Vec<u64> = gaps.collect();
    gaps.sort_unstable_by(|a, b| b.cmp(a));
    last.end.saturating_sub(first.start) - gaps.iter().take(2).sum::<u64>()
}

impl Backend for Regions {
    /// An aggregation forgets the one before by itself.
    fn mark(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn look(&mut self, table: &mut Table) -> Result<Process, Error> {
        let (pid, page) = (self.pid, page_bytes());
        let failed = |error| Error::of_io(pid, error);
        let regions = self.damon.read().map_err(failed)?;
        let mut mappings = Vec::new();
        let read = Proc::default().read_maps(pid, |mapping| {
            if !mapping.name.starts_with(b"[v") {
                let keeps = self.filters.keeps(mapping, page);
                mappings.push((mapping.start..mapping.end, keeps, table.number(pid, mapping)));
            }
        });
        read.map_err(|error| Error::of(pid, error))?;
        // Opened anew: a new program has its own.
        let map = Pagemap::open(pid).map_err(failed)?;
        let mut process = Process { pid, ..Process::default() };
        for (range, keeps, mapping) in mappings {
            let mut runs = Vec::new();
            map.read_runs(range.clone(), &mut runs).map_err(failed)?;
            runs.retain(|run| matches!(run.state, PageState::Own | PageState::File));
            let bytes = present(&runs, &range);
            process.rss_bytes += bytes;
            if keeps {
                let spans = spans(&regions, &runs, &range, page);
                process.spans.extend(spans.map(|span| Span { mapping, ..span }));
            } else {
                process.skipped_bytes += bytes;
            }
        }
        Ok(process)
    }
}

/// The regions of one mapping. Of one that was touched, all that is there counts.
fn spans(
    regions: &[Region],
    runs: &[PageRun],
    mapping: &Range<u64>,
    page: u64,
) -> impl Iterator<Item = Span> {
    let first = regions.partition_point(|region| region.end <= mapping.start);
    let within = regions[first..].iter().take_while(|region| region.start < mapping.end);
    within.filter_map(move |region| {
        let part = region.start.max(mapping.start)..region.end.min(mapping.end);
        let (first, pages) = (part.start / page, (part.end - part.start) / page);
        let resident = present(runs, &part) / page;
        let touched = if region.accesses > 0 { resident } else { 0 };
        (pages > 0).then_some(Span { first, pages, resident, touched, mapping: 0 })
    })
}

/// Bytes of `range` in these runs.
fn present(runs: &[PageRun], range: &Range<u64>) -> u64 {
    let first = runs.partition_point(|run| run.end <= range.start);
    let within = runs[first..].iter().take_while(|run| run.start < range.end);
    within.map(|run| run.end.min(range.end) - run.start.max(range.start)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As of a program that is not position-independent: itself, its heap, the mapped area, the stack.
    #[test]
    fn what_is_watched_is_the_span_without_the_two_widest_gaps() {
        let mappings = [0x40..0x50, 0x90..0xa0, 0x1000..0x1100, 0x1180..0x1200, 0x9000..0x9010];
        assert_eq!(watched(&mappings), (0xa0 - 0x40) + (0x1200 - 0x1000) + 0x10);
        let with_system_calls = [0x1000..0x3000, 0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000];
        assert_eq!(watched(&with_system_calls), 0x2000);
        assert_eq!(watched(&[]), 0);
    }

    #[test]
    fn of_a_region_counts_what_is_there() {
        let run = |start, end| PageRun { start, end, state: PageState::Own };
        let region = |start, end, accesses| Region { start, end, accesses };
        let regions = [region(0, 40, 3), region(40, 60, 0), region(60, 200, 1)];
        let runs = [run(10, 30), run(50, 80), run(90, 100)];
        let found: Vec<_> = spans(&regions, &runs, &(20..100), 10)
            .map(|span| (span.first, span.pages, span.resident, span.touched))
            .collect();
        assert_eq!(found, [(2, 2, 1, 1), (4, 2, 1, 0), (6, 4, 3, 3)]);
    }
}
