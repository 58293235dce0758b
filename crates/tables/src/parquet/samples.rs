//! The tables with rows for ticks: `samples`, `system`, `tree`.

use nilometer_trace::record::{Columns, ProcessSample, Tick, Unit};

use super::{
    Context, Place,
    sheet::{Cell, Field, Sheet, TIME, Unfinished, float, int, maybe, text},
};
use crate::{Error, csv::phase_name, json::bytes, layout::Layout, outline::Outline};

pub(super) struct TickTables {
    samples: Sheet,
    system: Sheet,
    tree: Sheet,
    layout: Layout,
}

impl TickTables {
    pub(super) fn create(place: &Place<'_>, outline: &Outline) -> Result<Self, Error> {
        Ok(Self {
            samples: place.sheet("samples.parquet", &sample_fields())?,
            system: place.sheet("system.parquet", &system_fields(outline))?,
            tree: place.sheet("tree.parquet", &tree_fields())?,
            layout: Layout::default(),
        })
    }

    pub(super) fn columns(&mut self, context: &Context<'_>, columns: &Columns) {
        self.layout.set(columns, &context.outline.union);
    }

    pub(super) fn tick(&mut self, context: &Context<'_>, tick: &Tick) -> Result<(), Error> {
        let moment = Moment::of(context, tick);
        for sample in &tick.processes {
            self.samples.row(sample_row(context, &moment, sample))?;
        }
        if !tick.system.is_empty() {
            let values = self.layout.spread(&tick.system).iter();
            let values = values.map(|value| value.and_then(|it| i64::try_from(it).ok()).into());
            self.system.row(moment.with_phase().into_iter().chain(values))?;
        }
        if let Some(tree) = tick.tree {
            let bounds = [bytes(tree.low_kib).into(), bytes(tree.high_kib).into()];
            self.tree.row(moment.with_phase().into_iter().chain(bounds))?;
        }
        Ok(())
    }

    pub(super) fn close(self) -> Result<Vec<Unfinished>, Error> {
        Ok(vec![self.samples.close()?, self.system.close()?, self.tree.close()?])
    }
}

/// What all rows of one tick have in common.
struct Moment {
    unix_ns: i64,
    seconds: f64,
    step: Option<u64>,
    phase: &'static str,
}

impl Moment {
    fn of(context: &Context<'_>, tick: &Tick) -> Self {
        Self {
            unix_ns: context.unix_ns(tick.at_ns),
            seconds: context.seconds(tick.at_ns),
            step: context.outline.step(tick),
            phase: phase_name(tick.phase),
        }
    }

    fn with_phase(&self) -> [Cell<'static>; 4] {
        [self.unix_ns.into(), self.seconds.into(), self.step.into(), self.phase.into()]
    }
}

fn phase_fields() -> Vec<Field> {
    vec![int(TIME), float("seconds"), maybe(int("step")), text("phase")]
}

fn tree_fields() -> Vec<Field> {
    let mut fields = phase_fields();
    fields.extend([int("low_bytes"), int("high_bytes")]);
    fields
}

fn system_fields(outline: &Outline) -> Vec<Field> {
    let mut fields = phase_fields();
    let columns = outline.union.columns().iter();
    fields.extend(columns.map(|column| maybe(int(&column.name)).in_units_of(unit_name(column.unit))));
    fields
}

fn unit_name(unit: Unit) -> &'static str {
    match unit {
        Unit::Kib => "kB",
        Unit::Bytes => "bytes",
        Unit::Count => "count",
        Unit::Us => "us",
        Unit::CentiPercent => "1/100 %",
    }
}

fn sample_fields() -> Vec<Field> {
    vec![
        int(TIME),
        float("seconds"),
        maybe(int("step")),
        maybe(int("pid")),
        int("index"),
        int("anon_bytes"),
        int("file_bytes"),
        int("shmem_bytes"),
        int("swap_bytes"),
        int("hwm_bytes"),
        int("minor_faults"),
        int("major_faults"),
        int("child_minor_faults"),
        int("child_major_faults"),
        float("user_s"),
        float("system_s"),
        float("child_user_s"),
        float("child_system_s"),
        int("threads"),
    ]
}

fn sample_row(context: &Context<'_>, moment: &Moment, it: &ProcessSample) -> [Cell<'static>; 19] {
    [
        moment.unix_ns.into(),
        moment.seconds.into(),
        moment.step.into(),
        context.pids.of(it.index).into(),
        it.index.into(),
        bytes(it.anon_kib).into(),
        bytes(it.file_kib).into(),
        bytes(it.shmem_kib).into(),
        bytes(it.swap_kib).into(),
        bytes(it.hwm_kib).into(),
        it.minor_faults.into(),
        it.major_faults.into(),
        it.child_minor_faults.into(),
        it.child_major_faults.into(),
        context.outline.cpu_s(it.user_ticks).into(),
        context.outline.cpu_s(it.system_ticks).into(),
        context.outline.cpu_s(it.child_user_ticks).into(),
        context.outline.cpu_s(it.child_system_ticks).into(),
        it.threads.into(),
    ]
}
