//! The head of every reading.

use std::cmp::Reverse;

use nilometer_trace::heap::{self, Backing, Graph, NO_OBJECT};

use super::array::backing;
use super::model::{BackingSum, Frame, PauseMode, Quality, Source, Stack, Summary};
use super::{Heap, Set};
use crate::unit::share;

pub(super) fn summary(heap: &Heap<'_>) -> Summary {
    let graph = heap.graph();
    let origin = &graph.origin;
    let all = heap.plain_amounts().total();
    let storages = heap.fold().tellers();
    let native = storages.iter().filter(|row| row.1 == NO_OBJECT).map(|row| row.0).collect();
    let sum = super::model::Sum::from(all);
    Summary {
        python: origin.python.clone(),
        pid: origin.pid,
        command: origin.command.clone(),
        source: match origin.source {
            heap::Source::Live => Source::Live,
            heap::Source::Core => Source::Core,
        },
        taken_realtime_ns: origin.realtime_ns,
        objects: sum.count - storages.len() as u64,
        bytes: sum.bytes,
        payload_bytes: sum.payload_bytes,
        resident_payload_bytes: sum.resident_payload_bytes,
        payload_by_backing: by_backing(graph),
        native_only: heap.sum(&Set { ids: native, selection: Vec::new() }),
        edges: graph.edges.to.len() as u64,
        kinds: graph.kinds.len() as u64,
        interpreters: origin.interpreters,
        pause_ms: origin.pause.stopped_ns as f64 / 1e6,
        pause_mode: pause_mode(origin.pause.mode),
        threads: origin.pause.threads,
        copied_bytes: origin.copied_bytes,
        excluded_bytes: origin.excluded_bytes,
        rss_bytes: origin.rss_bytes,
        partial: !origin.partial.is_empty(),
        partial_reasons: origin.partial.clone(),
        limits: origin.limits.clone(),
        quality: quality(&graph.quality),
        labelled: heap.is_labelled(),
    }
}

fn pause_mode(mode: heap::PauseMode) -> PauseMode {
    match mode {
        heap::PauseMode::Copy => PauseMode::Copy,
        heap::PauseMode::Fork => PauseMode::Fork,
        heap::PauseMode::Off => PauseMode::Off,
        heap::PauseMode::Dead => PauseMode::Dead,
    }
}

fn quality(quality: &heap::Quality) -> Quality {
    let checked = quality.refcount_checked;
    Quality {
        refcount_exact_share: (checked > 0).then(|| share(quality.refcount_exact as f64, checked as f64)),
        refcount_checked: checked,
        unreached: quality.unreached,
        dangling: quality.dangling,
        pools: quality.pools,
        pools_rejected: quality.pools_rejected,
    }
}

fn by_backing(graph: &Graph) -> Vec<BackingSum> {
    let kinds = [Backing::Memory, Backing::File, Backing::Shared, Backing::Device];
    let mut sums: Vec<BackingSum> = kinds.iter().map(|kind| of_backing(graph, *kind)).collect();
    sums.retain(|sum| sum.bytes > 0);
    sums.sort_by_key(|sum| Reverse(sum.bytes));
    sums
}

fn of_backing(graph: &Graph, kind: Backing) -> BackingSum {
    let payloads = graph.payloads.iter().filter(|it| it.backing == kind);
    let resident = payloads.clone().map(|it| it.resident_bytes.or((it.bytes == 0).then_some(0)));
    BackingSum {
        backing: backing(kind),
        bytes: payloads.map(|it| it.bytes).sum(),
        resident_bytes: resident.sum(),
    }
}

pub(super) fn stacks(graph: &Graph) -> Vec<Stack> {
    graph.threads.iter().map(stack).collect()
}

fn stack(thread: &heap::ThreadStack) -> Stack {
    let frames = thread.frames.iter().map(|frame| Frame {
        file: frame.file.clone(),
        function: frame.function.clone(),
        line: frame.line,
    });
    Stack {
        native_id: thread.native_id,
        name: thread.name.clone(),
        holds_gil: thread.holds_gil,
        frames: frames.collect(),
        cut: thread.cut.clone(),
    }
}
