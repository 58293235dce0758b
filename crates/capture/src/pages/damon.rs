//! By DAMON: regions in which accesses were sampled. Nearly free for the target, and never exact.

use std::path::Path;
use std::time::Duration;

use nilometer_kernel::read::damon::{Attributes, Damon};
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::limits::page_bytes;
use nilometer_trace::pages::{Process, Span};

use super::backend::Backend;
use super::table::Table;
use super::{Error, Filters};

/// Samples in one window.
const SAMPLES: u32 = 20;
/// A region for each so many bytes: more regions are what buys accuracy.
const REGION_BYTES: u64 = 1 << 20;
const REGIONS: std::ops::RangeInclusive<u64> = 10..=1000;

/// One process. Each window is one aggregation.
#[derive(Debug)]
pub(super) struct Regions {
    pid: i32,
    damon: Damon,
    filters: Filters,
}

impl Regions {
    pub fn start(pid: i32, window: Duration, filters: &Filters) -> std::io::Result<Self> {
        let rss = Proc::default().read_status(pid, &mut Vec::new()).ok().and_then(|status| status.vm_rss_kib);
        let wanted = rss.unwrap_or(0) * 1024 / REGION_BYTES;
        let attributes = Attributes {
            sample: (window / SAMPLES).max(Duration::from_millis(1)),
            aggregation: window.max(Duration::from_millis(SAMPLES.into())),
            fewest_regions: wanted.clamp(*REGIONS.start(), *REGIONS.end()),
            most_regions: *REGIONS.end() * 2,
        };
        Ok(Self { pid, damon: Damon::start(Path::new("/"), pid, &attributes)?, filters: filters.clone() })
    }
}

impl Backend for Regions {
    /// An aggregation forgets the one before by itself.
    fn mark(&mut self) -> Result<(), Error> {
        Ok(())
    }

    fn look(&mut self, table: &mut Table) -> Result<Process, Error> {
        let (pid, page) = (self.pid, page_bytes());
        let regions = self.damon.read().map_err(|error| Error::of_io(pid, error))?;
        let mut process = Process { pid, ..Process::default() };
        let status = Proc::default().read_status(pid, &mut Vec::new());
        let status = status.map_err(|error| Error::of(pid, error))?;
        process.rss_bytes = status.vm_rss_kib.unwrap_or(0) * 1024;
        let read = Proc::default().read_maps(pid, |mapping| {
            let number = table.number(pid, mapping);
            if !self.filters.keeps(mapping, page) {
                return;
            }
            let first = regions.partition_point(|region| region.end <= mapping.start);
            for region in regions.iter().skip(first).take_while(|region| region.start < mapping.end) {
                let (start, end) = (region.start.max(mapping.start), region.end.min(mapping.end));
                let pages = (end - start) / page;
                if pages > 0 {
                    let touched = if region.accesses > 0 { pages } else { 0 };
                    let first = start / page;
                    process.spans.push(Span { first, pages, resident: pages, touched, mapping: number });
                }
            }
        });
        read.map_err(|error| Error::of(pid, error))?;
        Ok(process)
    }
}
