//! `cargo xtask guest`: what this machine's kernel may not have (Yama, cgroup v2 with memory, idle pages), tried
//! in a small kernel of our own under qemu.
//!
//! The kernel is built once and kept outside the tree; the guest's only file system is an initramfs with busybox,
//! `nilo` as the tests have it, and this program as the one that runs the cases ([`inside`]). The verdict comes over the
//! serial port: without its last line the guest has failed, whatever it said before. Always emulated, never KVM.

mod boot;
mod image;
pub mod inside;
mod kernel;
mod package;
mod serial;

use std::time::Instant;

use anyhow::Result;

use crate::workspace;
use serial::Verdict;

/// Set to anything, it keeps the guest out of `cargo xtask test`.
const WITHOUT: &str = "NILO_NO_GUEST";

#[derive(Debug)]
pub enum Outcome {
    Ran(Verdict),
    /// Why it cannot run here.
    Skipped(String),
}

/// The verb: only cases whose names contain `only`, if given.
pub fn run(only: Option<&str>) -> Result<bool> {
    match try_cases(only)? {
        Outcome::Ran(verdict) => Ok(verdict.is_good()),
        Outcome::Skipped(reason) => {
            println!("cannot run here: {reason}");
            Ok(false)
        }
    }
}

/// The step of `cargo xtask test`.
pub fn try_all() -> Result<Outcome> {
    if std::env::var_os(WITHOUT).is_some() {
        return Ok(Outcome::Skipped(format!("{WITHOUT} is set")));
    }
    try_cases(None)
}

fn try_cases(only: Option<&str>) -> Result<Outcome> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(Outcome::Skipped("the guest is for x86_64".into()));
    }
    if let Some(reason) = package::ensure(package::TO_RUN)? {
        return Ok(Outcome::Skipped(reason));
    }
    let image = match kernel::find()? {
        Some(image) => image,
        None => match kernel::build()? {
            Ok(image) => image,
            Err(reason) => return Ok(Outcome::Skipped(reason)),
        },
    };
    let initramfs = image::build(&workspace::read_target_dir()?.join("guest"))?;
    let begin = Instant::now();
    let verdict = boot::run(&image, &initramfs, only)?;
    println!("{verdict}, {:.1} s in the guest", begin.elapsed().as_secs_f64());
    Ok(Outcome::Ran(verdict))
}
