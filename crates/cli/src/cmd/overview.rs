//! `nilo` alone: what can be asked.

use std::process::ExitCode;

use crate::{args, talk};

pub fn run() -> ExitCode {
    talk::data(&args::help());
    ExitCode::SUCCESS
}
