//! What was live at the steps, for a view of a chosen stretch of time.
//!
//! The one invariant: the bytes of the stacks at a step are never more than what was live then; the difference is what was
//! not kept stack by stack.

use nilometer_trace::allocs::{About, Recording, Series};
use rustc_hash::FxHashMap;

use super::model::{Moments, StepLive};

/// Live bytes at the steps, by site. What a process had not given back when it ended, or became another program, is gone with it.
pub fn at_steps(recording: &Recording) -> FxHashMap<u32, Vec<u64>> {
    let ended_ns = |series: &Series| {
        let site = recording.sites.get(series.site as usize)?;
        recording.processes.get(site.process as usize)?.ended_ns
    };
    let lived = |series: &Series| {
        let until_ns = ended_ns(series).unwrap_or(u64::MAX);
        let steps = recording.about.steps.iter().map(|step| step.at_ns);
        let values = series.bytes.iter().zip(steps);
        (series.site, values.map(|(bytes, at_ns)| if at_ns < until_ns { *bytes } else { 0 }).collect())
    };
    recording.series.iter().map(lived).collect()
}

/// `series` in the order of the sites that are listed.
pub fn moments<'a>(
    about: &About,
    zero_ns: u64,
    series: impl Iterator<Item = &'a [f64]>,
    rest: &[f64],
) -> Moments {
    let seconds = |at_ns: u64| (i128::from(at_ns) - i128::from(zero_ns)) as f64 / 1e9;
    let step = |step: &nilometer_trace::allocs::Step| StepLive {
        step: step.number,
        at_s: seconds(step.at_ns),
        live_bytes: step.live_bytes,
    };
    let whole = |values: &[f64]| -> Vec<u64> { values.iter().map(|bytes| *bytes as u64).collect() };
    Moments {
        peak_at_s: seconds(about.peak_at_ns),
        steps: about.steps.iter().map(step).collect(),
        stride: about.step_stride.max(1),
        curve: about.curve.iter().map(|point| (seconds(point.at_ns), point.live_bytes)).collect(),
        series: (0..)
            .zip(series)
            .filter(|(_, one)| !one.is_empty())
            .map(|(n, one)| (n, whole(one)))
            .collect(),
        rest: whole(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_trace::allocs::{Point, Process, Site, Step};

    #[test]
    fn what_ended_has_nothing_any_more() {
        let process = |ended_ns| Process { ended_ns, ..Process::default() };
        let recording = Recording {
            about: About {
                steps: [10, 20].map(|at_ns| Step { at_ns, ..Step::default() }).to_vec(),
                ..About::default()
            },
            processes: vec![process(Some(15)), process(None)],
            sites: (0..2).map(|process| Site { process, ..Site::default() }).collect(),
            series: (0..2).map(|site| Series { site, bytes: vec![7, 7] }).collect(),
            ..Recording::default()
        };
        let found = at_steps(&recording);
        assert_eq!((&found[&0], &found[&1]), (&vec![7, 0], &vec![7, 7]));
    }

    #[test]
    fn steps_have_the_time_of_the_run_and_stacks_keep_their_place() {
        let step = |number: u64| Step { number, at_ns: number * 1_000_000_000, live_bytes: number * 10 };
        let about = About {
            steps: vec![step(1), step(3)],
            step_stride: 2,
            peak_at_ns: 2_000_000_000,
            curve: vec![Point { at_ns: 500_000_000, live_bytes: 7 }],
            ..About::default()
        };
        let series: [&[f64]; 3] = [&[], &[4.0, 5.0], &[]];
        let made = moments(&about, 1_500_000_000, series.into_iter(), &[1.0, 0.0]);
        let told: Vec<(u64, f64, u64)> =
            made.steps.iter().map(|step| (step.step, step.at_s, step.live_bytes)).collect();
        assert_eq!(told, [(1, -0.5, 10), (3, 1.5, 30)]);
        assert_eq!((made.peak_at_s, made.stride, made.curve), (0.5, 2, vec![(-1.0, 7)]));
        assert_eq!((made.series, made.rest), (vec![(1, vec![4, 5])], vec![1, 0]));
    }
}
