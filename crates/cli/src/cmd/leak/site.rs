//! Which code allocates what grew: the live bytes of each line at the steps, where the run recorded allocations.

use std::path::Path;

use nilometer_analysis::Run;
use nilometer_analysis::allocs::courses;
use nilometer_analysis::leak::{Leak, LeakBuilder, Line, add_sites};

use super::super::allocs;

/// Adds code where the run has allocations and it leaks. What cannot be read adds nothing.
pub fn add(leak: &mut Leak, evidence: &LeakBuilder, run: &Run, directory: &Path) {
    if !leak.class.is_leak() || !directory.join(nilometer_trace::allocs::ALLOCS_FILE).exists() {
        return;
    }
    let (Ok(read), Ok(rules)) = (allocs::read(directory), allocs::rules(None)) else { return };
    let about = &read.recording.about;
    let xs: Vec<Option<f64>> = about.steps.iter().map(|step| evidence.place_of(step.at_ns, run)).collect();
    let noise_bytes = if about.mode == "sampled" { about.mean_bytes as f64 } else { 0.0 };
    let lines = courses(&read.recording, read.names.symbols(), &rules).into_iter().map(|course| {
        let points = xs.iter().zip(&course.bytes).filter_map(|(x, bytes)| Some(((*x)?, *bytes))).collect();
        Line { name: course.name, callers: course.callers, category: course.category, points, noise_bytes }
    });
    add_sites(leak, &lines.collect::<Vec<_>>());
}
