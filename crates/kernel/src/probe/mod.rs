//! What works on this machine, and what would make more work.
//!
//! [`Facts`] are gathered below a root ([`Facts::read`]), completed on a real machine by harmless attempts
//! ([`Facts::try_out`]); every decision is a pure function of them: [`ptrace_access`], [`judge_all`]. So each
//! policy that this machine does not have is tested from facts.

mod access;
mod capability;
mod facts;
mod gather;
mod install;
mod page;
mod software;
mod trial;

pub use access::{Relation, Verdict, ptrace_access};
pub use capability::{Capability, Level, Section, judge_all};
pub use facts::{
    Allocator, Cap, Capabilities, Cgroup, Damon, Facts, File, Graphics, Outcome, Python, Trials,
};
