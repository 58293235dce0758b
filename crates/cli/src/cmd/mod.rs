//! One file per verb; each turns its arguments into a call and an exit code.

pub mod allocs;
pub mod attach;
mod child;
pub mod compare;
pub mod demo;
pub mod doctor;
pub mod exit;
pub mod export;
pub mod heap;
pub mod import;
pub mod leak;
pub mod ledger;
pub mod list;
pub mod load;
mod metrics;
pub mod mode;
pub mod overview;
pub mod page;
pub mod pages;
pub mod plot;
mod progress;
pub mod report;
pub mod run;
pub mod sweep;
pub mod tell;
pub mod top;
pub mod tracker;
