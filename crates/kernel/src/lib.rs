//! Every kernel interface that Nilometer reads.
//!
//! `parse` turns bytes into values and knows no files; `read` opens files below a root that tests can
//! replace; `sys` holds the system calls. Nothing here decides anything: policy lives in `capture`.

pub mod parse;
pub mod probe;
pub mod read;
pub mod sys;

mod error;

pub use error::Error;
