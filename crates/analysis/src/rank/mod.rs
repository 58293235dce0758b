//! Ranks of one job side by side. Ranks do the same work: who is not like the others has a reason.
//!
//! [`of_run`] makes a row of a rank's own recording, [`RankBuilder`] makes rows of a recording of the whole tree (a launcher
//! and its ranks), [`compare()`] says who stands out. Pure.

mod collect;
pub mod model;
pub mod strip;

pub use collect::RankBuilder;
pub use model::{Comparison, Job, Pattern, Ranked};

use crate::Run;
use crate::model::{Cause, Exit, GrowthClass, GrowthUnit};
use crate::stats;

/// An outlier is this many robust deviations from the middle.
const FAR: f64 = 6.0;
/// From the median absolute deviation to a standard deviation.
const SIGMA: f64 = 1.4826;
/// And at least this share of the middle.
const LEAST_SHARE: f64 = 0.25;
/// Peaks within this share of each other are alike.
const PEAK_SHARE: f64 = 0.2;
/// Rates closer than this are alike, per step or minute.
const LEAST_RATE: f64 = 16.0 * 1024.0;
const LEAST_PEAK: f64 = 16.0 * 1024.0 * 1024.0;

/// The row of a rank that has its own recording.
pub fn of_run(rank: u64, restart: u64, node: &str, run: &Run) -> Ranked {
    let running = run.exit.cause == Cause::Running || run.exit.cause == Cause::NotSeen && !run.data_end.clean;
    Ranked {
        rank,
        node: node.to_owned(),
        restart,
        peak_bytes: run.peak.as_ref().map(|peak| peak.bytes),
        growth: run.growth.clone(),
        steps: run.steps_seen,
        duration_s: run.duration_s,
        end: if running { "no end yet".into() } else { ending(&run.exit) },
        good: running || is_good(&run.exit),
        saved: run.saved.clone(),
        course: strip::course(run),
    }
}

fn is_good(exit: &Exit) -> bool {
    exit.code == Some(0) || exit.cause == Cause::Enough
}

fn ending(exit: &Exit) -> String {
    let how = match (exit.code, exit.signal) {
        (Some(code), _) => format!("exit {code}"),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "not seen".to_owned(),
    };
    match exit.cause {
        Cause::CgroupOom | Cause::SystemOom => format!("{how}, out of memory"),
        Cause::Watchdog => format!("{how}, watchdog"),
        Cause::Enough => "enough seen".to_owned(),
        Cause::UnknownKiller => format!("{how}, killed by somebody"),
        Cause::Exited | Cause::Signal | Cause::NotSeen | Cause::Running => how,
    }
}

/// Who is not like the others.
pub fn compare(ranks: &[&Ranked]) -> Comparison {
    let per = usual_unit(ranks);
    let rated: Vec<(&Ranked, f64)> = ranks
        .iter()
        .filter(|it| it.growth.per == per)
        .filter_map(|it| Some((*it, it.growth.bytes?)))
        .collect();
    let growing: Vec<(&Ranked, f64)> = rated.iter().copied().filter(|it| grows(it.0, &rated)).collect();
    let unclear = |it: &&(&Ranked, f64)| it.0.growth.class == GrowthClass::CannotTell && !grows(it.0, &rated);
    let unknown = ranks.len() - rated.len() + rated.iter().filter(unclear).count();
    let told: Vec<(&Ranked, f64)> = rated.iter().copied().filter(|it| !unclear(&it)).collect();
    let rated = told;
    let outliers = if growing.len() == rated.len() { fastest(&rated, &growing) } else { growing.clone() };
    let none = Comparison {
        pattern: Pattern::CannotTell,
        per,
        outliers: Vec::new(),
        outlying: None,
        others: range(rated.iter().map(|it| it.1)),
        doubt: None,
        unknown,
    };
    if !outliers.is_empty() {
        return stand_out(Pattern::SomeGrow, outliers, &rated, &none);
    }
    if !growing.is_empty() {
        return Comparison { pattern: Pattern::AllGrow, ..none };
    }
    let by_peak = peaks_out(ranks);
    match by_peak {
        Some(found) => Comparison { per, unknown, ..found },
        None if rated.is_empty() => none,
        None => Comparison { pattern: Pattern::NoneGrows, ..none },
    }
}

/// By its own course; or, where that alone does not tell, because its peers do the same work and it rises far beyond them.
fn grows(it: &Ranked, rated: &[(&Ranked, f64)]) -> bool {
    match it.growth.class {
        GrowthClass::Grows => true,
        GrowthClass::Flat => false,
        GrowthClass::CannotTell => {
            let peers: Vec<f64> =
                rated.iter().filter(|peer| peer.0.rank != it.rank).map(|peer| peer.1).collect();
            let (middle, far) = spread(&peers, LEAST_SHARE, LEAST_RATE);
            !peers.is_empty() && it.growth.low_bytes.is_some_and(|low| low > 0.0 && low > middle + far)
        }
    }
}

fn usual_unit(ranks: &[&Ranked]) -> GrowthUnit {
    let steps =
        ranks.iter().filter(|it| it.growth.per == GrowthUnit::Step && it.growth.bytes.is_some()).count();
    let minutes =
        ranks.iter().filter(|it| it.growth.per == GrowthUnit::Minute && it.growth.bytes.is_some()).count();
    if steps >= minutes { GrowthUnit::Step } else { GrowthUnit::Minute }
}

/// All ranks grow: who much faster than the middle?
fn fastest<'a>(rated: &[(&'a Ranked, f64)], growing: &[(&'a Ranked, f64)]) -> Vec<(&'a Ranked, f64)> {
    let rates: Vec<f64> = rated.iter().map(|it| it.1).collect();
    let (middle, far) = spread(&rates, LEAST_SHARE, LEAST_RATE);
    let certain = |it: &Ranked| it.growth.low_bytes.is_none_or(|low| low > middle + far / 2.0);
    let found: Vec<_> =
        growing.iter().copied().filter(|(it, rate)| rate - middle > far && certain(it)).collect();
    if found.len() * 2 > rated.len() { Vec::new() } else { found }
}

/// The middle, and how far from it is far.
fn spread(values: &[f64], least_share: f64, least: f64) -> (f64, f64) {
    let middle = stats::median(&mut values.to_vec()).unwrap_or(0.0);
    let mut apart: Vec<f64> = values.iter().map(|value| (value - middle).abs()).collect();
    let deviation = stats::median(&mut apart).unwrap_or(0.0);
    (middle, (FAR * SIGMA * deviation).max(least_share * middle.abs()).max(least))
}

fn peaks_out(ranks: &[&Ranked]) -> Option<Comparison> {
    let sized: Vec<(&Ranked, f64)> =
        ranks.iter().filter_map(|it| Some((*it, it.peak_bytes? as f64))).collect();
    let (middle, far) = spread(&sized.iter().map(|it| it.1).collect::<Vec<_>>(), PEAK_SHARE, LEAST_PEAK);
    let found: Vec<_> = sized.iter().copied().filter(|it| it.1 - middle > far).collect();
    if found.is_empty() || found.len() * 2 > sized.len() {
        return None;
    }
    let empty = Comparison {
        pattern: Pattern::SomePeak,
        per: GrowthUnit::Step,
        outliers: Vec::new(),
        outlying: None,
        others: None,
        doubt: None,
        unknown: 0,
    };
    Some(stand_out(Pattern::SomePeak, found, &sized, &empty))
}

fn stand_out(
    pattern: Pattern,
    mut found: Vec<(&Ranked, f64)>,
    all: &[(&Ranked, f64)],
    base: &Comparison,
) -> Comparison {
    found.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.rank.cmp(&b.0.rank)));
    let outliers: Vec<u64> = found.iter().map(|it| it.0.rank).collect();
    let others = range(all.iter().filter(|it| !outliers.contains(&it.0.rank)).map(|it| it.1));
    let worst = found.first().map(|it| &it.0.growth);
    let doubt = worst.and_then(|growth| Some((growth.high_bytes? - growth.low_bytes?) / 2.0));
    let doubt = doubt.filter(|_| pattern == Pattern::SomeGrow);
    Comparison {
        pattern,
        outlying: range(found.iter().map(|it| it.1)),
        others,
        doubt,
        outliers,
        ..base.clone()
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<[f64; 2]> {
    values.fold(None, |range, value| match range {
        None => Some([value, value]),
        Some([low, high]) => Some([low.min(value), high.max(value)]),
    })
}

/// What the launcher promised and nobody recorded.
pub fn missing(world_size: Option<u64>, ranks: &[Ranked]) -> Vec<u64> {
    const MOST: usize = 100;
    let there: std::collections::BTreeSet<u64> = ranks.iter().map(|it| it.rank).collect();
    (0..world_size.unwrap_or(0)).filter(|rank| !there.contains(rank)).take(MOST).collect()
}

#[cfg(test)]
mod tests;
