//! Who holds what grew: two censuses that the recording kept, compared.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use nilometer_analysis::Run;
use nilometer_analysis::heap::Heap;
use nilometer_analysis::leak::{Leak, LeakBuilder, Snapshot, add_holders};
use nilometer_capture::heap_watch::{LOOK_PREFIX, LOOK_SUFFIX};
use nilometer_trace::heap::Graph;

/// Adds holders and paths where the run has two censuses. What cannot be read adds nothing.
pub fn add(leak: &mut Leak, evidence: &LeakBuilder, run: &Run, directory: &Path) {
    let kept = kept(directory);
    let (Some(first), Some(last)) = (kept.first(), kept.last()) else { return };
    if first.0 == last.0 || !leak.class.is_leak() {
        return;
    }
    let (Some(before), Some(after)) = (read(&first.1), read(&last.1)) else { return };
    let place = |at_ns: u64| evidence.place_of(at_ns, run);
    if let (Some(before_x), Some(after_x)) = (place(first.0), place(last.0)) {
        let (before, after) = (Heap::new(&before), Heap::new(&after));
        let before = Snapshot { heap: &before, x: before_x };
        add_holders(leak, before, Snapshot { heap: &after, x: after_x });
    }
}

/// Files `look-NANOSECONDS.heap`, oldest first.
fn kept(directory: &Path) -> Vec<(u64, PathBuf)> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<(u64, PathBuf)> = entries
        .filter_map(|entry| {
            let name = entry.file_name().into_string().ok()?;
            let at_ns = name.strip_prefix(LOOK_PREFIX)?.strip_suffix(LOOK_SUFFIX)?.parse().ok()?;
            Some((at_ns, entry.path()))
        })
        .collect();
    found.sort();
    found
}

fn read(path: &Path) -> Option<Graph> {
    nilometer_trace::heap::read(BufReader::new(File::open(path).ok()?)).ok()
}
