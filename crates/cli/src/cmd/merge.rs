//! `nilo merge`: the ranks of a job as a few tables.

use std::path::Path;
use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_analysis::rank::Job;
use nilometer_report::{rank, text};
use nilometer_tables::{By, MergeOptions, Merged, write_merged};
use serde_json::json;

use super::export::failure;
use super::{exit, job, load};
use crate::args::merge::{MergeArgs, MergeBy};
use crate::talk::{self, Failure};

const MERGED: &str = "merged";

pub fn run(args: &MergeArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    let path = load::resolve_any(args.job.as_deref())?;
    if !job::is_one(&path) {
        return Err(Failure::from(anyhow!("{} is one run, no job of ranks", load::short_path(&path)))
            .exiting(exit::USAGE)
            .hint(format!("its tables:  nilo export {} --format parquet", load::short_path(&path))));
    }
    let (found, parts) = job::read_parts(&path)?;
    if parts.is_empty() {
        return Err(Failure::from(anyhow!("{} has no rank with a recording", load::short_path(&path)))
            .hint(format!("what there is:  nilo report {}", load::short_path(&path))));
    }
    let base = args.output.clone().unwrap_or_else(|| path.join(MERGED));
    let merged = write_merged(&name(&path), &parts, &base, &options(args)).map_err(failure)?;
    tell(args, &found, &merged);
    Ok(ExitCode::SUCCESS)
}

fn name(path: &Path) -> String {
    let real = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let name = real.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    name.strip_suffix(nilometer_capture::rundir::SUFFIX).unwrap_or(&name).to_owned()
}

fn options(args: &MergeArgs) -> MergeOptions {
    MergeOptions {
        by: match args.by {
            MergeBy::Run => By::Run,
            MergeBy::Node => By::Node,
            MergeBy::Rank => By::Rank,
        },
        interval_ns: args.interval.map(|interval| interval.as_nanos() as u64).filter(|ns| *ns > 0),
        replace: args.force,
    }
}

fn tell(args: &MergeArgs, found: &Job, merged: &Merged) {
    if args.json {
        let document = json!({
            "directory": merged.directory,
            "files": merged.files,
            "rows": merged.rows,
            "ranks": found.last().count(),
            "sentence": rank::sentence(found),
            "clock_step_s": merged.clock_step_s,
            "step_skew_s": merged.step_skew_s,
        });
        return talk::data(&format!("{document:#}\n"));
    }
    talk::data(&format!("{}\n", rank::sentence(found)));
    talk::data(&format!(
        " wrote    {} in {} below {}\n",
        text::counted(merged.rows, "row", "rows"),
        text::counted(merged.files as u64, "file", "files"),
        load::short_path(&merged.directory),
    ));
    talk::data(&format!(" clocks   {}\n", clocks(found, merged)));
    for problem in &found.problems {
        talk::say(problem);
    }
}

fn clocks(found: &Job, merged: &Merged) -> String {
    let nodes = text::counted(found.nodes.len() as u64, "node", "nodes");
    let step = if merged.clock_step_s > 0.001 {
        format!(
            "; the wall clock moved {} between two starts on one node",
            text::duration(merged.clock_step_s)
        )
    } else {
        String::new()
    };
    let skew = match merged.step_skew_s {
        Some(skew) => {
            format!("; steps of all ranks begin within {} of the first rank's", text::duration(skew))
        }
        None => String::new(),
    };
    format!("one anchor for each of {nodes}{step}{skew}")
}
