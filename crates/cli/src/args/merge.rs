//! The words of `nilo merge`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::value::parse_duration;

/// Put the ranks of a job into a few tables that any engine reads
///
/// Writes Parquet below JOB/merged: samples (one row per rank and tick, times by one clock per node) and ranks (one
/// row per recording: peak, growth, end). What is a directory (run=, node=, rank=) is no column and the other way
/// round, so the same query reads all three kinds of layout.
#[derive(Debug, Args)]
#[command(
    before_help = "\
Examples:
  nilo merge                              the newest job here
  nilo merge train.slurm-17.0.1116-0957.nilo
  nilo merge JOB --interval 10s           of every 10 s only the highest sample
  nilo merge JOB --by rank -o /data/fleet one file a rank: run=/node=/rank=",
    after_help = "Then, for example:
  duckdb -c \"SELECT rank, max(high_bytes) FROM 'JOB/merged/**/samples.parquet' GROUP BY rank ORDER BY 2 DESC\""
)]
pub struct MergeArgs {
    /// Directory of a job, or @last, @2, … (default: @last)
    pub job: Option<String>,
    /// What gets a file of its own
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = MergeBy::Run)]
    pub by: MergeBy,
    /// Of each so long stretch keep only the highest sample [default: all samples]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub interval: Option<Duration>,
    /// Directory to write below [default: JOB/merged]
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Replace the tables of an earlier merge
    #[arg(long)]
    pub force: bool,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum MergeBy {
    /// One file for all
    Run,
    /// One a node
    Node,
    /// One a rank
    Rank,
}
