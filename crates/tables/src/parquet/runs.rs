//! `runs`: one row with the facts of the manifest and how the log ended.

use nilometer_trace::{Ending, Manifest};

use super::{
    Place,
    sheet::{Cell, Field, TIME, Unfinished, flag, float, int, maybe, text},
};
use crate::{Error, outline::Outline};

pub(super) fn write(
    place: &Place<'_>,
    outline: &Outline,
    manifest: &Manifest,
    ending: Ending,
) -> Result<Unfinished, Error> {
    let texts = Texts {
        command: manifest.command.join(" "),
        ending: ending.to_string(),
        manifest: serde_json::to_string(manifest)?,
    };
    let mut sheet = place.sheet("runs.parquet", &fields())?;
    let start = start_cells(outline, manifest, &texts);
    let end = end_cells(manifest, ending == Ending::Clean, &texts);
    sheet.row(start.into_iter().chain(host_cells(manifest)).chain(end))?;
    sheet.close()
}

/// Made for the row, so that its cells can borrow them.
struct Texts {
    command: String,
    ending: String,
    manifest: String,
}

fn fields() -> Vec<Field> {
    vec![
        maybe(int(TIME)),
        maybe(int("mono_ns")),
        maybe(float("started_seconds")),
        maybe(float("exited_seconds")),
        text("name"),
        text("verb"),
        text("command"),
        text("directory"),
        text("started"),
        text("nilo_version"),
        int("format_version"),
        int("nilo_pid"),
        int("target_pid"),
        float("interval_s"),
        text("host"),
        text("kernel"),
        int("cpus"),
        int("memory_bytes"),
        int("swap_bytes"),
        maybe(text("container")),
        int("counter_slack_bytes"),
        maybe(int("limit_bytes")),
        maybe(text("limit_source")),
        maybe(float("duration_s")),
        maybe(int("exit_code")),
        maybe(int("exit_signal")),
        maybe(float("interval_achieved_s")),
        maybe(int("ticks")),
        maybe(int("missed_ticks")),
        maybe(float("cost_cpu_s")),
        maybe(int("cost_rss_bytes")),
        maybe(int("cost_written_bytes")),
        maybe(float("cost_pause_s")),
        flag("complete"),
        text("ending"),
        text("manifest"),
    ]
}

fn start_cells<'a>(outline: &Outline, manifest: &'a Manifest, texts: &'a Texts) -> [Cell<'a>; 14] {
    let header = outline.header.as_ref();
    let seconds = |at_ns: Option<u64>| at_ns.map(|at_ns| outline.clock.seconds(at_ns));
    [
        header.map(|header| header.realtime_ns).into(),
        header.map(|header| header.mono_ns).into(),
        seconds(outline.started_ns).into(),
        seconds(outline.exited_ns).into(),
        (&manifest.name).into(),
        (&manifest.verb).into(),
        (&texts.command).into(),
        (&manifest.directory).into(),
        (&manifest.started).into(),
        (&manifest.nilo_version).into(),
        manifest.format_version.into(),
        manifest.pid.into(),
        manifest.target_pid.into(),
        (manifest.options.interval_ms / 1e3).into(),
    ]
}

fn host_cells(manifest: &Manifest) -> [Cell<'_>; 9] {
    let host = &manifest.host;
    let limit = manifest.limit.as_ref();
    [
        (&host.name).into(),
        (&host.kernel).into(),
        host.cpus.into(),
        host.memory_bytes.into(),
        host.swap_bytes.into(),
        host.container.as_ref().into(),
        host.counter_slack_bytes.into(),
        limit.map(|limit| limit.bytes).into(),
        limit.map(|limit| &limit.source).into(),
    ]
}

fn end_cells<'a>(manifest: &Manifest, complete: bool, texts: &'a Texts) -> [Cell<'a>; 13] {
    let end = manifest.end.as_ref();
    let exit = end.and_then(|end| end.exit.as_ref());
    [
        end.map(|end| end.duration_s).into(),
        exit.and_then(|exit| exit.code).into(),
        exit.and_then(|exit| exit.signal).into(),
        end.map(|end| end.interval_achieved_ms / 1e3).into(),
        end.map(|end| end.ticks).into(),
        end.map(|end| end.missed_ticks).into(),
        end.map(|end| end.cost.cpu_s).into(),
        end.map(|end| end.cost.rss_bytes).into(),
        end.map(|end| end.cost.written_bytes).into(),
        end.map(|end| end.cost.pause_s).into(),
        complete.into(),
        (&texts.ending).into(),
        (&texts.manifest).into(),
    ]
}
