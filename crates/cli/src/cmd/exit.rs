//! Exit codes, one table for all verbs.

/// Usage errors of verbs whose exit code is their own.
pub const USAGE: u8 = 2;
/// Verdict verbs: a leak, a regression, nothing fits.
pub const BAD: u8 = 1;
/// Verdict verbs: not enough evidence.
pub const NOT_ENOUGH: u8 = 3;
/// Verdict verbs: the command failed.
pub const TARGET_FAILED: u8 = 4;
/// Not permitted, or not available here.
pub const NOT_AVAILABLE: u8 = 5;
/// Our failure (for `run` and `attach`: before the start).
pub const OURS: u8 = 125;
/// The command exists but cannot be executed.
pub const CANNOT_EXECUTE: u8 = 126;
/// The command was not found.
pub const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended the target.
pub const SIGNAL_BASE: u8 = 128;
/// The watchdog ended the run.
pub const WATCHDOG: u8 = 75;
