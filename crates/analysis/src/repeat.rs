//! Runs of one command, one after the other, and what each left behind on the machine.

use nilometer_trace::record::Phase;

use crate::column::View;
use crate::model::Repeats;

#[derive(Debug, Default)]
pub(crate) struct RepeatWatch {
    runs: u64,
    span_ns: Option<u64>,
    before: Option<u64>,
    after: Option<u64>,
}

impl RepeatWatch {
    /// The sample next to the runs counts on either side.
    pub(crate) fn tick(&mut self, phase: Phase, view: &View<'_>) {
        match phase {
            Phase::Before => self.before = view.in_use().or(self.before),
            Phase::During => {}
            Phase::After => self.after = self.after.or(view.in_use()),
        }
    }

    pub(crate) fn told(&mut self, runs: u64, span_ns: Option<u64>) {
        (self.runs, self.span_ns) = (runs, span_ns);
    }

    pub(crate) fn finish(&self) -> Option<Repeats> {
        let runs = Some(self.runs).filter(|runs| *runs > 0)?;
        let kib = |bytes: u64| bytes as f64 / 1024.0;
        let (before_kib, after_kib) = (self.before.map(kib), self.after.map(kib));
        let left = before_kib.zip(after_kib).map(|(before, after)| after - before);
        Some(Repeats {
            runs,
            left_per_run_kib: left.map(|left| left / runs as f64),
            before_kib,
            after_kib,
            seconds_per_run: self.span_ns.map(|span_ns| span_ns as f64 / 1e9 / runs as f64),
        })
    }
}

#[cfg(test)]
mod tests {
    use nilometer_trace::record::{Column, Columns, Tick, Unit};

    use super::*;
    use crate::column::Layout;

    fn watch(phase: Phase, values: &[u64], watch: &mut RepeatWatch) {
        let names = ["meminfo.MemTotal", "meminfo.MemFree", "meminfo.Buffers", "meminfo.Cached"];
        let columns = names.map(|name| Column { name: name.into(), unit: Unit::Kib }).to_vec();
        let layout = Layout::new(&Columns { columns });
        let tick = Tick { system: values.to_vec(), ..Tick::default() };
        watch.tick(phase, &layout.view(&tick).unwrap());
    }

    /// The figures that were published in 2016.
    #[test]
    fn thirty_runs_left_57169_kb_each() {
        let mut repeats = RepeatWatch::default();
        watch(Phase::Before, &[16_421_400, 13_189_492, 151_992, 1_452_364], &mut repeats);
        repeats.told(30, Some(544_000_000_000));
        watch(Phase::After, &[16_421_400, 11_468_188, 153_432, 1_457_144], &mut repeats);
        let found = repeats.finish().unwrap();
        assert_eq!((found.before_kib, found.after_kib), (Some(1_627_552.0), Some(3_342_636.0)));
        assert!((found.left_per_run_kib.unwrap() - 57_169.467).abs() < 0.001);
        assert!((found.seconds_per_run.unwrap() - 18.133).abs() < 0.001);
    }

    #[test]
    fn without_a_sample_after_nothing_is_claimed() {
        let mut repeats = RepeatWatch::default();
        watch(Phase::Before, &[4, 1, 1, 1], &mut repeats);
        repeats.told(2, None);
        let found = repeats.finish().unwrap();
        assert_eq!((found.runs, found.left_per_run_kib, found.seconds_per_run), (2, None, None));
    }

    #[test]
    fn a_recording_without_repeats_has_none() {
        assert_eq!(RepeatWatch::default().finish(), None);
    }
}
