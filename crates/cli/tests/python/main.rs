//! The Python side with real interpreters: the package, the hook, the pytest plugin, the notebook.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // as in any test

#[path = "../process/harness.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod harness;

mod api;
mod hook;
mod interpreter;
mod notebook;
mod plugin;
mod trainers;
mod wheel;
