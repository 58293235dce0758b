//! By `clear_refs` and `Referenced` of smaps: exact numbers of touched pages in each mapping, or in each chunk where
//! mappings were split.

use nilometer_kernel::parse::maps::Mapping;
use nilometer_kernel::parse::smaps::Usage;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::limits::page_bytes;
use nilometer_trace::pages::{Process, Span};

use super::around::Around;
use super::backend::Backend;
use super::filter::Filters;
use super::split::Splitter;
use super::table::Table;
use super::{Error, PageOptions};

/// One process.
#[derive(Debug)]
pub(super) struct Referenced {
    pid: i32,
    proc: Proc,
    page_bytes: u64,
    filters: Filters,
    splitter: Option<Splitter>,
    around: Around,
    buffer: Vec<u8>,
    /// Huge pages of hugetlbfs, which no counter of the kernel's tells.
    hugetlb_bytes: u64,
}

impl Referenced {
    /// With a splitter mappings are split before each mark.
    pub fn new(pid: i32, options: &PageOptions, splitter: Option<Splitter>) -> Self {
        let (proc, filters) = (Proc::default(), options.filters.clone());
        let (around, buffer) = (Around::default(), Vec::new());
        Self { pid, proc, page_bytes: page_bytes(), filters, splitter, around, buffer, hugetlb_bytes: 0 }
    }

    /// What files have before the first mark.
    fn count_files(&mut self) -> Result<(), Error> {
        let (around, filters, page) = (&mut self.around, &self.filters, self.page_bytes);
        around.begin();
        let see = |mapping: &Mapping<'_>, usage: &Usage| {
            if filters.keeps(mapping, page) {
                around.see(mapping, usage);
            }
        };
        let read = self.proc.read_smaps(self.pid, &mut self.buffer, see);
        read.map_err(|error| Error::of(self.pid, error))
    }
}

impl Backend for Referenced {
    fn mark(&mut self) -> Result<(), Error> {
        if let Some(splitter) = &mut self.splitter {
            splitter.split();
        }
        if self.around.is_new() {
            self.count_files()?;
        }
        self.around.mark();
        self.proc.clear_referenced(self.pid).map_err(|error| Error::of(self.pid, error))
    }

    fn look(&mut self, table: &mut Table) -> Result<Process, Error> {
        let (pid, page) = (self.pid, self.page_bytes);
        let mut process = Process { pid, ..Process::default() };
        let mut hugetlb = 0;
        let (filters, splitter, around) = (&self.filters, &mut self.splitter, &mut self.around);
        around.begin();
        self.proc
            .read_smaps(pid, &mut self.buffer, |mapping, usage| {
                let bytes = |kib: u64| kib.saturating_mul(1024);
                process.rss_bytes += bytes(usage.rss);
                hugetlb += bytes(usage.shared_hugetlb + usage.private_hugetlb);
                if usage.rss == 0 {
                    return;
                }
                if !filters.keeps(mapping, page) {
                    process.skipped_bytes += bytes(usage.rss);
                    return;
                }
                let touched = bytes(usage.referenced.min(usage.rss));
                process.shared_bytes += touched.min(bytes(usage.shared_clean + usage.shared_dirty));
                process.huge_bytes += touched.min(bytes(usage.anon_huge + usage.shmem_pmd + usage.file_pmd));
                around.see(mapping, usage);
                let pages = mapping.bytes() / page;
                process.spans.push(Span {
                    first: mapping.start / page,
                    pages,
                    resident: (bytes(usage.rss) / page).min(pages),
                    touched: (touched / page).min(pages),
                    mapping: table.number(pid, mapping),
                });
                if let Some(splitter) = splitter {
                    splitter.see(mapping, bytes(usage.rss));
                }
            })
            .map_err(|error| Error::of(pid, error))?;
        self.hugetlb_bytes = self.hugetlb_bytes.max(hugetlb);
        process.around_bytes = self.around.bytes();
        Ok(process)
    }

    fn notes(&mut self) -> Vec<String> {
        let mut notes = self.splitter.as_mut().map(Splitter::take_notes).unwrap_or_default();
        if self.hugetlb_bytes > 0 {
            let mib = self.hugetlb_bytes >> 20;
            notes.push(format!("{mib} MiB of hugetlbfs are in no window: the kernel does not tell"));
        }
        notes
    }

    fn take_stopped_ns(&mut self) -> u64 {
        self.splitter.as_mut().map_or(0, Splitter::take_stopped_ns)
    }

    fn finish(&mut self) {
        if let Some(splitter) = &mut self.splitter {
            splitter.join();
        }
    }
}
