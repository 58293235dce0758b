//! From a verdict to an exit code.

use nilometer_analysis::Run;
use nilometer_analysis::leak::Leak;
use nilometer_analysis::leak::model::{Class, Per};

use super::exit;
use crate::args::leak::{Allowance, Condition, LeakArgs, Unit};

/// A leak that was found is told even if the target failed because of it.
pub fn exit_code(leak: &Leak, run: &Run, args: &LeakArgs, guarded: bool) -> u8 {
    let leaks = match &args.allow {
        Some(allowed) => exceeds(leak, allowed),
        None => leak.class.is_leak(),
    };
    if leaks || args.fail_if.iter().any(|condition| holds(condition, leak, run)) {
        exit::BAD
    } else if let Some(code) = failure(run, guarded) {
        code
    } else if leak.class == Class::CannotTell {
        exit::NOT_ENOUGH
    } else {
        0
    }
}

/// The run did not end well, whatever its memory did.
pub fn failure(run: &Run, guarded: bool) -> Option<u8> {
    let failed = run.exit.code.is_some_and(|code| code != 0) || run.exit.signal.is_some();
    let code = if guarded { exit::WATCHDOG } else { exit::TARGET_FAILED };
    (guarded || failed).then_some(code)
}

/// The lower bound is above what is allowed. A finding without a rate cannot be allowed.
fn exceeds(leak: &Leak, allowed: &Allowance) -> bool {
    let Some([low, _]) = leak.ci95 else { return leak.class.is_leak() };
    match in_unit(leak, low, allowed.per) {
        Some(low) => low > allowed.bytes,
        None => leak.class.is_leak(),
    }
}

/// A rate of the verdict in another unit, where that is known.
fn in_unit(leak: &Leak, rate: f64, unit: Unit) -> Option<f64> {
    match (unit, leak.per) {
        (Unit::Step, Per::Step) | (Unit::Run, Per::Run) | (Unit::Second, Per::Second) => Some(rate),
        (Unit::Second, _) => Some(rate * leak.rate_bytes_per_s? / leak.rate_bytes_per_step?),
        _ => None,
    }
}

fn holds(condition: &Condition, leak: &Leak, run: &Run) -> bool {
    match condition {
        Condition::Class(class) => leak.class == *class,
        Condition::Rate(allowed) => exceeds(leak, allowed),
        Condition::Peak(bytes) => run.peak.as_ref().is_some_and(|peak| peak.low_bytes > *bytes),
    }
}
