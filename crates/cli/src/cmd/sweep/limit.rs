//! `--limit`: a size, or a share of what is free here now.

use std::path::Path;

use nilometer_capture::system::System;
use nilometer_kernel::read::cgroup::Chain;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::process::own_pid;
use nilometer_report::text;

use super::plan::usage;
use crate::args::sweep::SweepArgs;
use crate::args::value::parse_amount;
use crate::talk::{self, Failure};
use nilometer_capture::watchdog::Amount;

/// What a search may use where nothing was said.
const USUAL_PERCENT: f64 = 90.0;

pub fn bytes(args: &SweepArgs) -> Result<Option<u64>, Failure> {
    let amount = match &args.limit {
        Some(word) => parse_amount(word).map_err(|why| usage(format!("--limit {word}: {why}")))?,
        None if args.find.is_some() => Amount::Percent(USUAL_PERCENT),
        None => return Ok(None),
    };
    match amount {
        Amount::Bytes(bytes) => Ok(Some(bytes)),
        Amount::Percent(percent) => share(percent).map(Some),
    }
}

/// Of the room under the limit that binds, the machine's or a cgroup's.
fn share(percent: f64) -> Result<u64, Failure> {
    let mut system = System::open(Chain::of(Path::new("/proc"), Path::new("/"), own_pid()))?;
    system.read(monotonic_ns(), None, 0, true);
    let (room, limit) = (system.binding().headroom, system.limit());
    let bytes = (room as f64 * percent / 100.0) as u64;
    talk::say(&format!(
        "limit {}: {percent} % of {} free now ({})",
        text::bytes(bytes),
        text::bytes(room),
        limit.source
    ));
    Ok(bytes)
}
