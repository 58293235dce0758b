//! The trait that every way of looking has.

use nilometer_trace::pages::Process;

use super::Error;
use super::table::Table;

/// Sees which memory of one process is touched.
pub(super) trait Backend {
    /// Forgets what was touched.
    fn mark(&mut self) -> Result<(), Error>;

    /// What was touched since the mark; can be asked again.
    fn look(&mut self, table: &mut Table) -> Result<Process, Error>;

    /// What could not be had, in sentences; each is told once.
    fn notes(&mut self) -> Vec<String> {
        Vec::new()
    }

    /// For how long threads of the target stood still since the last time this was asked.
    fn take_stopped_ns(&mut self) -> u64 {
        0
    }

    /// Leaves the target as it was found, as far as it still runs.
    fn finish(&mut self) {}
}
