//! The cases, run inside the guest by this same program: one line each, and a last one with the counts.
//!
//! Each compares what `nilo` says with what a program that knows nothing of `nilo` sees, or with what the case
//! has arranged itself.

mod group;
mod heap;
mod page;
mod place;
mod touched;
mod watchdog;
mod yama;

use std::fs;

use anyhow::Result;

use super::serial;

/// All cases, or those whose names contain the word `only=` of the kernel's command line.
pub fn run() -> Result<bool> {
    let line = fs::read_to_string("/proc/cmdline")?;
    let only = line.split_whitespace().find_map(|word| word.strip_prefix("only="));
    let mut cases = Cases { only: only.unwrap_or_default().to_owned(), passed: 0, failed: 0 };
    page::run(&mut cases);
    touched::run(&mut cases);
    group::run(&mut cases);
    // Yama's highest scope cannot be left again, so it comes last.
    for scope in yama::SCOPES {
        yama::run(&mut cases, scope);
        watchdog::run(&mut cases, scope);
        heap::run(&mut cases, scope);
    }
    println!("{}", serial::last_line(cases.passed, cases.failed));
    Ok(cases.failed == 0)
}

struct Cases {
    only: String,
    passed: u64,
    failed: u64,
}

impl Cases {
    fn run(&mut self, name: &str, body: impl FnOnce() -> Result<()>) {
        if !name.contains(&self.only) {
            return;
        }
        match body() {
            Ok(()) => {
                self.passed += 1;
                println!("ok {name}");
            }
            Err(error) => {
                self.failed += 1;
                println!("FAIL {name}: {}", one_line(&format!("{error:#}")));
            }
        }
    }
}

/// Counts lines, so a reason may not have several.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn a_case_is_counted_and_does_not_stop_the_next() {
        let mut cases = Cases { only: "yama".into(), passed: 0, failed: 0 };
        cases.run("yama-bad", || bail!("not\nso"));
        cases.run("yama-good", || Ok(()));
        cases.run("pages", || bail!("left out"));
        assert_eq!((cases.passed, cases.failed), (1, 1));
        assert_eq!(one_line("not\n  so"), "not so");
    }
}
