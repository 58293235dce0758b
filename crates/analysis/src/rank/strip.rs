//! Ranks down, time to the right: how much each had when, as one picture that stays light for a thousand ranks.
//!
//! Times are since each rank's own start. The one invariant: a cell is the highest of what falls into it, of its rank or of
//! the neighbours that share its row.

use super::Job;
use super::model::Ranked;
use crate::model::Run;
use crate::pages::model::{Picture, PictureRow};

/// Points that a rank keeps of its curve.
const POINTS: usize = 256;
const COLUMNS: usize = 240;

/// All ranks of a job over time.
#[derive(Debug, Clone, PartialEq)]
pub struct Strip {
    /// Levels are shares of `full_bytes`.
    pub picture: Picture,
    /// The most that any rank had.
    pub full_bytes: u64,
}

/// A rank's memory over its own time, as seconds and bytes: the highest of each stretch.
pub fn course(run: &Run) -> Vec<(f64, u64)> {
    let points: Vec<(f64, u64)> =
        run.curve.tree_high.points.iter().map(|point| (point.at_s, point.max)).collect();
    thinned(&points)
}

pub(super) fn thinned(points: &[(f64, u64)]) -> Vec<(f64, u64)> {
    let stride = points.len().div_ceil(POINTS).max(1);
    let highest = |part: &[(f64, u64)]| Some((part.first()?.0, part.iter().map(|point| point.1).max()?));
    points.chunks(stride).filter_map(highest).collect()
}

impl Strip {
    /// In so many rows at the most, where neighbours share one; nothing for fewer than two ranks with a curve.
    pub fn of(job: &Job, most_rows: usize) -> Option<Self> {
        let drawn: Vec<&Ranked> = job.ranks.iter().filter(|it| !it.course.is_empty()).collect();
        let points = || drawn.iter().flat_map(|it| &it.course);
        let full_bytes = points().map(|point| point.1).max().filter(|full| *full > 0)?;
        let end_s = drawn.iter().map(|it| end(it)).fold(0.0, f64::max);
        if drawn.len() < 2 || end_s <= 0.0 {
            return None;
        }
        let restarts = job.ranks.iter().any(|it| it.restart > 0);
        let group = drawn.len().div_ceil(most_rows.max(1));
        let row = |ranks: &[&Ranked]| PictureRow {
            name: name(ranks, restarts),
            start: ranks.first().map_or(0, |it| it.rank),
            bytes: ranks.iter().filter_map(|it| it.peak_bytes).max().unwrap_or(0),
            levels: levels(ranks, end_s, full_bytes),
        };
        let times_s = (0..COLUMNS).map(|n| end_s * n as f64 / COLUMNS as f64).collect();
        let rows = drawn.chunks(group).map(row).collect();
        Some(Self { picture: Picture { times_s, end_s, rows }, full_bytes })
    }
}

/// As long as it lived, and at least to its last sample.
fn end(it: &Ranked) -> f64 {
    it.course.last().map_or(0.0, |point| point.0).max(it.duration_s)
}

fn name(ranks: &[&Ranked], restarts: bool) -> String {
    match ranks {
        [] => String::new(),
        [one] if restarts => format!("rank {} restart {}", one.rank, one.restart),
        [one] => format!("rank {}", one.rank),
        [first, .., last] => format!("ranks {}–{}", first.rank, last.rank),
    }
}

/// What a rank has holds until its next point, and until its end.
fn levels(ranks: &[&Ranked], end_s: f64, full_bytes: u64) -> Vec<Option<u8>> {
    let mut highest = vec![None; COLUMNS];
    let column = |at_s: f64| ((at_s / end_s * COLUMNS as f64) as usize).min(COLUMNS - 1);
    for it in ranks {
        let ends = it.course.iter().skip(1).map(|point| point.0).chain([end(it)]);
        for ((from, bytes), to) in it.course.iter().zip(ends) {
            let last = column(to.max(*from));
            for cell in highest.iter_mut().take(last + 1).skip(column(from.max(0.0))) {
                *cell = (*cell).max(Some(*bytes));
            }
        }
    }
    let level = |bytes: u64| (bytes as f64 / full_bytes as f64 * 255.0).round() as u8;
    highest.into_iter().map(|bytes| bytes.map(level)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::GrowthClass;
    use crate::rank::tests::ranked;

    fn job(ranks: Vec<Ranked>) -> Job {
        Job {
            name: String::new(),
            launcher: String::new(),
            id: String::new(),
            started: String::new(),
            command: Vec::new(),
            world_size: None,
            nodes: Vec::new(),
            duration_s: 0.0,
            missing: Vec::new(),
            comparison: super::super::compare(&[]),
            ranks,
            problems: Vec::new(),
            saved: None,
        }
    }

    fn with(rank: u64, course: &[(f64, u64)], duration_s: f64) -> Ranked {
        Ranked { course: course.to_vec(), duration_s, ..ranked(rank, GrowthClass::Flat, 0.0) }
    }

    #[test]
    fn a_rank_that_ends_early_has_nothing_afterwards() {
        let ranks = vec![with(0, &[(0.0, 100), (5.0, 200)], 10.0), with(1, &[(0.0, 50)], 4.0)];
        let strip = Strip::of(&job(ranks), 1_024).unwrap();
        assert_eq!(strip.full_bytes, 200);
        let levels = |row: usize| &strip.picture.rows[row].levels;
        assert_eq!(
            (levels(0)[0], levels(0)[119], levels(0)[120], levels(0)[239]),
            (Some(128), Some(128), Some(255), Some(255))
        );
        assert_eq!((levels(1)[0], levels(1)[96], levels(1)[97]), (Some(64), Some(64), None));
        assert_eq!(strip.picture.rows[1].name, "rank 1");
    }

    #[test]
    fn many_ranks_share_rows_and_none_is_lost() {
        let mut ranks: Vec<Ranked> = (0..3_000).map(|rank| with(rank, &[(0.0, 10)], 1.0)).collect();
        ranks[2_500].course[0].1 = 1_000;
        let picture = Strip::of(&job(ranks), 1_024).unwrap().picture;
        assert_eq!((picture.rows.len(), picture.rows[0].name.as_str()), (1_000, "ranks 0–2"));
        let hot: Vec<&str> = picture
            .rows
            .iter()
            .filter(|row| row.levels[0] == Some(255))
            .map(|row| row.name.as_str())
            .collect();
        assert_eq!(hot, ["ranks 2499–2501"]);
    }

    #[test]
    fn nothing_to_draw_is_nothing() {
        assert_eq!(Strip::of(&job(Vec::new()), 1_024), None);
        assert_eq!(Strip::of(&job(vec![with(0, &[(0.0, 1)], 1.0)]), 1_024), None);
        assert_eq!(Strip::of(&job(vec![with(0, &[(0.0, 0)], 1.0), with(1, &[], 1.0)]), 1_024), None);
    }

    #[test]
    fn a_long_curve_keeps_its_highest() {
        let points: Vec<(f64, u64)> =
            (0..2_048).map(|n| (f64::from(n), if n == 1_001 { 9 } else { 1 })).collect();
        let kept = thinned(&points);
        assert_eq!((kept.len(), kept[125]), (256, (1_000.0, 9)));
    }
}
