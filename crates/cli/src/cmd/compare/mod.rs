//! `nilo compare`: what changed between runs, and gates for a build server.

mod revision;
mod source;

use std::process::ExitCode;

use nilometer_analysis::compare::gate::{Gate, Judgement};
use nilometer_analysis::compare::{Comparison, Side, compare};
use nilometer_report::compare as screen;

use super::exit;
use crate::args::compare::CompareArgs;
use crate::talk::{self, Failure};

pub fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let gates =
        args.fail_if.iter().map(|text| Gate::parse(text).map_err(|why| usage(&format!("--fail-if {why}"))));
    let gates = gates.collect::<Result<Vec<_>, _>>()?;
    let mut target_failed = false;
    let sides = if args.rev.is_empty() {
        nilometer_kernel::sys::signals::restore_sigpipe();
        read_sides(&args.sides, args.rank)?
    } else {
        match revision::sides(args)? {
            revision::Made::Sides { sides, failed } => {
                target_failed = failed;
                sides
            }
            revision::Made::Interrupted(code) => return Ok(ExitCode::from(code)),
        }
    };
    let Some((base, others)) = sides.split_first().filter(|(_, others)| !others.is_empty()) else {
        return Err(usage("a comparison needs two sides").hint("nilo compare base.nilo new.nilo"));
    };
    let comparison = compare(base, others, &gates);
    show(&comparison, args);
    let code = code(&comparison);
    Ok(ExitCode::from(if target_failed && code == 0 { exit::TARGET_FAILED } else { code }))
}

fn usage(words: &str) -> Failure {
    Failure::from(anyhow::anyhow!(words.to_owned())).exiting(exit::USAGE).hint("nilo compare --help")
}

/// What a word stands for.
pub fn side(word: &str) -> Result<Side, Failure> {
    source::read(word, None)
}

fn read_sides(words: &[String], rank: Option<u64>) -> Result<Vec<Side>, Failure> {
    words.iter().map(|word| source::read(word, rank)).collect()
}

fn show(comparison: &Comparison, args: &CompareArgs) {
    talk::data(&if args.json {
        format!("{:#}\n", screen::json(comparison))
    } else if args.markdown {
        screen::render_markdown(comparison, args.all)
    } else {
        screen::render(comparison, args.all, &talk::stdout_style())
    });
}

/// A broken gate outweighs one without evidence.
fn code(comparison: &Comparison) -> u8 {
    let any = |judgement| {
        comparison.others.iter().flat_map(|other| &other.gates).any(|judged| judged.judgement == judgement)
    };
    if any(Judgement::Broken) {
        exit::BAD
    } else if any(Judgement::NotEnoughEvidence) {
        exit::NOT_ENOUGH
    } else {
        0
    }
}
