//! What files cannot tell, tried on this machine: each attempt leaves everything as it was.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};

use super::facts::{Facts, Outcome, Trials};
use crate::read::device::Devices;
use crate::sys::trial::{self, Kin, Page};

impl Facts {
    /// Completes facts about this machine (`root` was `/`).
    pub fn try_out(&mut self) {
        let devices = Devices::here();
        let reason = devices.notes().iter().find_map(|note| note.strip_prefix("no NVIDIA devices: "));
        self.graphics.nvml = Some(match reason {
            Some(reason) => Err(reason.to_owned()),
            None => Ok(devices.nvidia()),
        });
        self.trials = try_all();
    }
}

fn try_all() -> Trials {
    let read = |kin| trial::read_memory(kin).map(outcome);
    Trials {
        read_child: read(Kin::Child),
        read_sibling: read(Kin::Sibling),
        read_other_user: read(Kin::OtherUser),
        stop_child: Some(outcome(trial::stop_child())),
        mount: Some(outcome(trial::mount_tmpfs())),
        namespaces: Some(outcome(trial::unshare(false))),
        user_namespaces: Some(outcome(trial::unshare(true))),
        swapon: Some(outcome(trial::swapon())),
        userfaultfd: Some(trial::userfaultfd().map_err(|e| errno(&e))),
        perf: Some(outcome(trial::perf_faults())),
        pagemap_scan: Some(outcome(std::fs::File::open(PAGEMAP).and_then(|file| trial::pagemap_scan(&file)))),
        pagemap_pfn: page_entry_of_a_fresh_page().map(|entry| entry & PFN_MASK != 0),
        clear_refs: Some(outcome(clear_refs(b"1"))),
        soft_dirty: Some(has_soft_dirty().unwrap_or(false)),
        psi_trigger: Some(outcome(psi_trigger("some 150000 2000000\0"))),
        psi_trigger_short: Some(outcome(psi_trigger("some 150000 1000000\0"))),
    }
}

const PAGEMAP: &str = "/proc/self/pagemap";
/// Documentation/admin-guide/mm/pagemap.rst: bits 0–54 the frame, 0 for those who may not see it; bit 55.
const PFN_MASK: u64 = (1 << 55) - 1;
const SOFT_DIRTY: u64 = 1 << 55;

fn outcome(result: io::Result<()>) -> Outcome {
    result.map_err(|e| errno(&e))
}

fn errno(error: &io::Error) -> i32 {
    error.raw_os_error().unwrap_or(libc::EIO)
}

fn page_entry_of_a_fresh_page() -> Option<u64> {
    page_entry(&Page::touched().ok()?).ok()
}

fn page_entry(page: &Page) -> io::Result<u64> {
    let mut entry = [0; 8];
    std::fs::File::open(PAGEMAP)?.read_exact_at(&mut entry, page.number() * 8)?;
    Ok(u64::from_ne_bytes(entry))
}

/// Our own bits, which nobody else uses.
fn clear_refs(what: &[u8]) -> io::Result<()> {
    OpenOptions::new().write(true).open("/proc/self/clear_refs")?.write_all(what)
}

/// Clean after clearing, dirty after a write. A kernel without it accepts the clearing and never sets the bit.
fn has_soft_dirty() -> io::Result<bool> {
    let page = Page::touched()?;
    clear_refs(b"4")?;
    let before = page_entry(&page)?;
    page.write();
    let after = page_entry(&page)?;
    Ok(before & SOFT_DIRTY == 0 && after & SOFT_DIRTY != 0)
}

/// The trigger ends with its descriptor, that is at once.
fn psi_trigger(trigger: &str) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file =
        options.read(true).write(true).custom_flags(libc::O_NONBLOCK).open("/proc/pressure/memory")?;
    file.write_all(trigger.as_bytes())
}
