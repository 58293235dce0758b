//! The tables of what is rare: `processes`, `shares`, `kinds`, `mappings`, `marks`, `events`.

use std::collections::BTreeMap;

use nilometer_trace::record::{self, Event, EventKind, KindSum, Mark, MarkKind, NamedMapping, ProcessEnd};
use serde::Serialize;
use serde_json::Value;

use super::{
    Context, Place,
    sheet::{Cell, Field, Sheet, TIME, Unfinished, float, int, maybe, text},
};
use crate::{
    Error,
    json::{bytes, in_bytes},
};

/// One row per process, written when it ended: only those that live are in memory.
pub(super) struct Processes {
    sheet: Sheet,
    alive: BTreeMap<u32, Alive>,
}

/// As known so far: `exec` changes command and role.
struct Alive {
    process: record::Process,
    updates: u64,
}

impl Processes {
    pub(super) fn create(place: &Place<'_>) -> Result<Self, Error> {
        Ok(Self { sheet: place.sheet("processes.parquet", &process_fields())?, alive: BTreeMap::new() })
    }

    pub(super) fn begin(&mut self, context: &Context<'_>, process: &record::Process) -> Result<(), Error> {
        let alive = Alive { process: process.clone(), updates: 0 };
        // An index is used once; should one come again, the first is not lost.
        match self.alive.insert(process.index, alive) {
            Some(before) => self.sheet.row(process_row(context, &before, None)),
            None => Ok(()),
        }
    }

    pub(super) fn update(&mut self, update: &record::ProcessUpdate) {
        if let Some(Alive { process, updates }) = self.alive.get_mut(&update.index) {
            process.comm.clone_from(&update.comm);
            process.command.clone_from(&update.command);
            process.role.clone_from(&update.role);
            *updates += 1;
        }
    }

    pub(super) fn end(&mut self, context: &Context<'_>, end: &ProcessEnd) -> Result<(), Error> {
        match self.alive.remove(&end.index) {
            Some(ended) => self.sheet.row(process_row(context, &ended, Some(end))),
            None => Ok(()),
        }
    }

    pub(super) fn close(mut self, context: &Context<'_>) -> Result<Unfinished, Error> {
        for left in self.alive.values() {
            self.sheet.row(process_row(context, left, None))?;
        }
        self.sheet.close()
    }
}

fn process_fields() -> Vec<Field> {
    vec![
        int(TIME),
        float("seconds"),
        int("index"),
        int("pid"),
        int("parent_pid"),
        maybe(int("parent_index")),
        int("start_ticks"),
        text("comm"),
        text("command"),
        text("role"),
        text("role_evidence"),
        int("updates"),
        maybe(int("end_ts_ns")),
        maybe(float("end_seconds")),
        maybe(int("hwm_bytes")),
        maybe(int("exit_code")),
        maybe(int("exit_signal")),
        maybe(int("maxrss_bytes")),
        maybe(float("user_s")),
        maybe(float("system_s")),
        maybe(int("minor_faults")),
        maybe(int("major_faults")),
    ]
}

fn process_row<'a>(context: &Context<'_>, alive: &'a Alive, end: Option<&ProcessEnd>) -> [Cell<'a>; 22] {
    let it = &alive.process;
    let waited = end.and_then(|end| end.waited);
    let seconds = |us: u64| us as f64 / 1e6;
    [
        context.unix_ns(it.seen_ns).into(),
        context.seconds(it.seen_ns).into(),
        it.index.into(),
        it.pid.into(),
        it.parent_pid.into(),
        it.parent.into(),
        it.start_ticks.into(),
        (&it.comm).into(),
        (&it.command).into(),
        (&it.role.name).into(),
        (&it.role.evidence).into(),
        alive.updates.into(),
        end.map(|end| context.unix_ns(end.at_ns)).into(),
        end.map(|end| context.seconds(end.at_ns)).into(),
        end.map(|end| bytes(end.hwm_kib)).into(),
        waited.and_then(|waited| waited.code).into(),
        waited.and_then(|waited| waited.signal).into(),
        waited.map(|waited| bytes(waited.maxrss_kib)).into(),
        waited.map(|waited| seconds(waited.user_us)).into(),
        waited.map(|waited| seconds(waited.system_us)).into(),
        waited.map(|waited| waited.minor_faults).into(),
        waited.map(|waited| waited.major_faults).into(),
    ]
}

/// Time, step and process of a page-table walk.
fn walk_fields() -> Vec<Field> {
    vec![int(TIME), float("seconds"), maybe(int("step")), maybe(int("pid")), int("index")]
}

fn walk_row(context: &Context<'_>, at_ns: u64, index: u32) -> [Cell<'static>; 5] {
    [
        context.unix_ns(at_ns).into(),
        context.seconds(at_ns).into(),
        context.outline.steps.at(at_ns).into(),
        context.pids.of(index).into(),
        index.into(),
    ]
}

pub(super) struct Shares(Sheet);

impl Shares {
    pub(super) fn create(place: &Place<'_>) -> Result<Self, Error> {
        let mut fields = walk_fields();
        fields.extend([
            int("rss_bytes"),
            int("pss_bytes"),
            int("uss_bytes"),
            int("private_dirty_bytes"),
            int("pss_anon_bytes"),
            int("pss_file_bytes"),
            int("pss_shmem_bytes"),
            int("swap_pss_bytes"),
            float("cost_s"),
        ]);
        place.sheet("shares.parquet", &fields).map(Self)
    }

    pub(super) fn add(&mut self, context: &Context<'_>, it: &record::Shares) -> Result<(), Error> {
        let cells = [
            bytes(it.rss_kib).into(),
            bytes(it.pss_kib).into(),
            bytes(it.uss_kib).into(),
            bytes(it.private_dirty_kib).into(),
            bytes(it.pss_anon_kib).into(),
            bytes(it.pss_file_kib).into(),
            bytes(it.pss_shmem_kib).into(),
            bytes(it.swap_pss_kib).into(),
            (it.cost_ns as f64 / 1e9).into(),
        ];
        self.0.row(walk_row(context, it.at_ns, it.index).into_iter().chain(cells))
    }

    pub(super) fn close(self) -> Result<Unfinished, Error> {
        self.0.close()
    }
}

/// `smaps` by kind, and its largest mappings by name.
pub(super) struct KindTables {
    kinds: Sheet,
    mappings: Sheet,
}

impl KindTables {
    pub(super) fn create(place: &Place<'_>) -> Result<Self, Error> {
        let mut kinds = walk_fields();
        kinds.extend([
            text("kind"),
            int("mappings"),
            int("size_bytes"),
            int("rss_bytes"),
            int("pss_bytes"),
            int("private_bytes"),
            int("swap_bytes"),
            int("anon_huge_bytes"),
        ]);
        let mut mappings = walk_fields();
        mappings.extend([text("kind"), text("name"), int("rss_bytes"), int("pss_bytes")]);
        Ok(Self {
            kinds: place.sheet("kinds.parquet", &kinds)?,
            mappings: place.sheet("mappings.parquet", &mappings)?,
        })
    }

    pub(super) fn add(&mut self, context: &Context<'_>, it: &record::Kinds) -> Result<(), Error> {
        let walk = walk_row(context, it.at_ns, it.index);
        for sum in &it.kinds {
            let kind = name_of(&sum.kind);
            self.kinds.row(walk.into_iter().chain(kind_cells(&kind, sum)))?;
        }
        for mapping in &it.largest {
            let kind = name_of(&mapping.kind);
            self.mappings.row(walk.into_iter().chain(mapping_cells(&kind, mapping)))?;
        }
        Ok(())
    }

    pub(super) fn close(self) -> Result<[Unfinished; 2], Error> {
        Ok([self.kinds.close()?, self.mappings.close()?])
    }
}

fn kind_cells<'a>(kind: &'a str, sum: &KindSum) -> [Cell<'a>; 8] {
    [
        kind.into(),
        sum.mappings.into(),
        bytes(sum.size_kib).into(),
        bytes(sum.rss_kib).into(),
        bytes(sum.pss_kib).into(),
        bytes(sum.private_kib).into(),
        bytes(sum.swap_kib).into(),
        bytes(sum.anon_huge_kib).into(),
    ]
}

fn mapping_cells<'a>(kind: &'a str, mapping: &'a NamedMapping) -> [Cell<'a>; 4] {
    [kind.into(), (&mapping.name).into(), bytes(mapping.rss_kib).into(), bytes(mapping.pss_kib).into()]
}

/// As in the log: one spelling for all formats.
fn name_of(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}

pub(super) struct Marks(Sheet);

impl Marks {
    pub(super) fn create(place: &Place<'_>) -> Result<Self, Error> {
        let fields = vec![
            int(TIME),
            float("seconds"),
            float("error_s"),
            maybe(int("pid")),
            text("mark"),
            maybe(int("step")),
            maybe(text("text")),
        ];
        place.sheet("marks.parquet", &fields).map(Self)
    }

    pub(super) fn add(&mut self, context: &Context<'_>, it: &Mark) -> Result<(), Error> {
        let [mark, step, text] = match &it.what {
            MarkKind::Step(step) => ["step".into(), (*step).into(), Cell::Null],
            MarkKind::Phase(name) => ["phase".into(), Cell::Null, name.into()],
            MarkKind::Note(note) => ["note".into(), Cell::Null, note.into()],
        };
        self.0.row([
            context.unix_ns(it.at_ns).into(),
            context.seconds(it.at_ns).into(),
            (it.error_ns as f64 / 1e9).into(),
            it.pid.into(),
            mark,
            step,
            text,
        ])
    }

    pub(super) fn close(self) -> Result<Unfinished, Error> {
        self.0.close()
    }
}

pub(super) struct Events(Sheet);

impl Events {
    pub(super) fn create(place: &Place<'_>) -> Result<Self, Error> {
        let fields =
            vec![int(TIME), float("seconds"), text("event"), maybe(float("duration_s")), text("detail")];
        place.sheet("events.parquet", &fields).map(Self)
    }

    /// The fields differ from event to event: they stay one JSON object.
    pub(super) fn add(&mut self, context: &Context<'_>, it: &Event) -> Result<(), Error> {
        let mut detail = in_bytes(serde_json::to_value(&it.what)?);
        let name = detail.as_object_mut().and_then(|fields| fields.remove("event"));
        let detail = detail.to_string();
        let duration_s = match it.what {
            EventKind::Gap { until_ns, .. } => Some(until_ns.saturating_sub(it.at_ns) as f64 / 1e9),
            _ => None,
        };
        self.0.row([
            context.unix_ns(it.at_ns).into(),
            context.seconds(it.at_ns).into(),
            name.as_ref().and_then(Value::as_str).unwrap_or_default().into(),
            duration_s.into(),
            (&detail).into(),
        ])
    }

    pub(super) fn close(self) -> Result<Unfinished, Error> {
        self.0.close()
    }
}
