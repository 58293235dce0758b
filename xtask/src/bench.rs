//! `cargo xtask bench`: measurements kept as a ledger, one dated folder each, losses included.
//!
//! A folder holds `README.md` (machine, versions, commands, tables, bars) and `data.json` (every reading).

pub mod allocs;
mod bar;
pub mod build;
pub mod gate;
pub mod harmless;
pub mod heap;
pub mod leaks;
pub mod ledger;
pub mod live;
pub(crate) mod machine;
pub mod pages;
mod process;
pub mod report;
pub mod sampler;
pub mod soak;
pub mod sweep;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::{docs, workspace};

/// Writes the page and the raw readings, and says where.
fn write_folder(out: Option<PathBuf>, name: &str, page: &str, readings: &Value) -> Result<()> {
    let listed = out.is_none();
    let folder = match out {
        Some(folder) => folder,
        None => workspace::root().join("bench").join(format!("{}-{name}", machine::read_date()?)),
    };
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    fs::write(folder.join("README.md"), page)?;
    fs::write(folder.join("data.json"), format!("{readings:#}\n"))?;
    println!("\nwritten: {}", folder.display());
    if listed {
        docs::write_pages()?;
    }
    Ok(())
}
