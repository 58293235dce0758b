//! The findings of a run as sentences: the same on the verdict screen and at the head of the report.

use nilometer_analysis::ledger::Badge;
use nilometer_analysis::ledger::run::Moment;
use nilometer_analysis::model::{
    Cause, Device, GrowthClass, GrowthUnit, Limit, MadeOf, Outlives, Repeats, Run, Workers,
};

use crate::hint::{self, Finding};
use crate::layout::{Line, Style, Tone};
use crate::ledger::run::{distance as distance_of, terms};
use crate::text;

/// Parts smaller than this share are put together.
const SMALL_PART: f64 = 0.02;
/// A ledger of less than this share of the peak does not tell what the peak was made of.
const MOST_OF_PEAK: f64 = 0.75;
const DOUBTS: usize = 3;
const GROUPS: usize = 2;

pub(crate) fn headline(run: &Run, style: &Style) -> String {
    let subject = if has_target(run) { run.command.join(" ") } else { "the machine".to_owned() };
    let subject = style.shorten(&style.safe(&subject), style.columns() / 2);
    let mut parts = vec![format!("nilo: {subject}")];
    parts.extend(has_target(run).then(|| ending(run)));
    parts.push(text::duration(run.duration_s));
    if run.processes_seen > 0 {
        parts.push(text::counted(run.processes_seen, "process", "processes"));
    }
    parts.join(" · ")
}

/// `nilo record` looks at the machine alone.
fn has_target(run: &Run) -> bool {
    run.about.verb != "record"
}

pub(crate) fn ending(run: &Run) -> String {
    let exit = &run.exit;
    let cause = match exit.cause {
        Cause::CgroupOom => "out of memory (cgroup limit)",
        Cause::SystemOom => "out of memory (machine)",
        Cause::Watchdog => "stopped by the watchdog",
        Cause::Enough => "enough seen",
        Cause::UnknownKiller => "killed by somebody",
        Cause::NotSeen if run.about.verb == "import" => "imported",
        Cause::NotSeen if run.about.verb == "attach" => "attached",
        Cause::NotSeen => "end not seen",
        Cause::Running => "still running",
        Cause::Exited | Cause::Signal => "",
    };
    let told = match (exit.signal, exit.code) {
        (Some(signal), _) => text::signal(signal),
        (None, Some(code)) => format!("exit {code}"),
        (None, None) => String::new(),
    };
    let inferred = if exit.inferred && exit.cause != Cause::NotSeen { ", inferred" } else { "" };
    match (told.is_empty(), cause.is_empty()) {
        (true, _) => format!("{cause}{inferred}"),
        (false, true) => told,
        (false, false) => format!("{told}, {cause}{inferred}"),
    }
}

/// All findings that there is data for.
pub(crate) fn findings(run: &Run) -> Vec<Line> {
    let mut lines = Vec::new();
    lines.extend(cause(run));
    lines.extend(peak(run));
    lines.extend(run.limit.as_ref().filter(|_| run.peak.is_some()).map(limit_line));
    lines.extend(run.peak.as_ref().map(|_| growth(run)));
    lines.extend(by_ledger(run).or_else(|| by_mappings(run)));
    lines.extend(run.workers.iter().take(GROUPS).map(workers));
    lines.extend(run.system.devices.iter().filter(|device| device.tree_max_bytes > 0).map(device));
    lines.extend(machine(run));
    // What several runs left behind together says more than the difference of single counters.
    lines.extend(run.repeats.as_ref().map(repeats).or_else(|| after(run)));
    lines.extend(doubts(run));
    lines.extend(cost(run));
    lines.extend(saved(run));
    lines
}

fn cause(run: &Run) -> Option<Line> {
    // The machine's OOM kills may be anybody's; after a success they stay in the long report.
    let killing = run.exit.code != Some(0) && run.system.oom_kills.unwrap_or(0) > 0;
    let expected = run.about.verb != "run"
        || matches!(run.exit.cause, Cause::Exited | Cause::Signal | Cause::Running) && !killing;
    let told = !expected && !run.exit.evidence.is_empty();
    told.then(|| Line { tone: Tone::Bad, ..Line::new("cause", run.exit.evidence.join(" · ")) })
}

fn peak(run: &Run) -> Option<Line> {
    let peak = run.peak.as_ref()?;
    let step = peak.step.map(|step| format!(", step {}", text::count(step))).unwrap_or_default();
    let method = peak.method.trim_end_matches(", bounds");
    let precision = match (peak.exact, peak.low_bytes == peak.high_bytes) {
        (true, _) => exactness(run.about.counter_slack_bytes),
        (false, true) => String::new(),
        (false, false) => format!("; {}", text::range(peak.low_bytes, peak.high_bytes)),
    };
    let size = text::bytes(peak.bytes);
    Some(Line::new("peak", format!("{size} at {}{step} ({method}{precision})", text::duration(peak.at_s))))
}

fn exactness(slack_bytes: u64) -> String {
    if slack_bytes == 0 { ", exact".into() } else { format!(", exact to {}", text::bytes(slack_bytes)) }
}

fn limit_line(limit: &Limit) -> Line {
    let size = text::bytes(limit.bytes);
    let share = text::percent(limit.headroom_share.abs());
    let headroom = text::bytes(limit.headroom_bytes.unsigned_abs());
    let (room, tone) = match limit.headroom_bytes {
        below if below < 0 => (format!("peak above it by {headroom}"), Tone::Bad),
        _ if limit.headroom_share < 0.1 => (format!("headroom {headroom} ({share})"), Tone::Warn),
        _ => (format!("headroom {headroom} ({share})"), Tone::Plain),
    };
    let free = limit.least_free_bytes.filter(|free| others_matter(*free, limit.headroom_bytes));
    let free = free.map(|free| format!(" · least free {}", text::bytes(free))).unwrap_or_default();
    let sentence = format!("{size} ({}) · {room}{free}", limit.source);
    Line { tone, ..Line::new("limit", sentence) }
}

/// Others under the same limit took a tenth or more of what the tree left.
fn others_matter(free: u64, headroom_bytes: i64) -> bool {
    (free as f64) < 0.9 * headroom_bytes as f64
}

fn growth(run: &Run) -> Line {
    let growth = &run.growth;
    let (Some(rate), Some(low), Some(high)) = (growth.bytes, growth.low_bytes, growth.high_bytes) else {
        return Line::new("growth", format!("cannot tell: {}", growth.reason));
    };
    let per = if growth.per == GrowthUnit::Step { "step" } else { "min" };
    match growth.class {
        GrowthClass::Grows => Line {
            hint: Some(hint::command(Finding::Growth)),
            tone: Tone::Warn,
            ..Line::new(
                "growth",
                format!("{}{}{}", rate_text(rate, low, high, per), since(run), reaches(run)),
            )
        },
        GrowthClass::Flat if high < 0.0 => {
            Line::new("growth", format!("none: it falls, {}{}", rate_text(rate, low, high, per), since(run)))
        }
        GrowthClass::Flat => Line::new("growth", format!("flat: {}{}", below(low, high, per), since(run))),
        GrowthClass::CannotTell => Line::new("growth", format!("cannot tell: {}", growth.reason)),
    }
}

/// What a rise that is no growth is at most. Below a byte nothing moved at all, and there is no bound to tell.
fn below(low: f64, high: f64, per: &str) -> String {
    match high.abs().max(low.abs()).ceil() as u64 {
        0 => "it did not move".into(),
        bound => format!("below {}/{per}", text::bytes(bound)),
    }
}

/// `+1.80 MiB/step ± 0.10`, both in one unit.
fn rate_text(rate: f64, low: f64, high: f64, per: &str) -> String {
    let error = text::in_unit((high - low) / 2.0, rate);
    format!("{}/{per} ± {error}", text::signed_bytes(rate as i64))
}

fn since(run: &Run) -> String {
    match (run.growth.since_step, run.growth.since_s) {
        (Some(step), _) => format!(" since step {}", text::count(step)),
        (None, Some(seconds)) => format!(" since {}", text::duration(seconds)),
        (None, None) => String::new(),
    }
}

fn reaches(run: &Run) -> String {
    match (run.growth.limit_at_step, run.growth.limit_at_s) {
        (Some(step), _) => format!(": reaches the limit at step ≈ {}", text::count(round(step))),
        (None, Some(seconds)) => format!(": reaches the limit at ≈ {}", text::duration(seconds)),
        (None, None) => String::new(),
    }
}

/// Three significant digits: a projection is no promise.
fn round(value: u64) -> u64 {
    let unit = 10u64.pow(value.checked_ilog10().unwrap_or(0).saturating_sub(2));
    value / unit * unit
}

fn by_mappings(run: &Run) -> Option<Line> {
    let made_of = run.made_of.as_ref()?;
    let total = made_of.total_bytes as f64;
    let small = |bytes: u64| (bytes as f64) < SMALL_PART * total;
    let mut parts: Vec<String> = made_of
        .parts
        .iter()
        .filter(|part| !small(part.bytes))
        .map(|part| format!("{} {}", part.name, text::in_unit(part.bytes as f64, total)))
        .collect();
    let other: u64 = made_of.parts.iter().map(|part| part.bytes).filter(|bytes| small(*bytes)).sum();
    if other > 0 {
        parts.push(format!("other {}", text::in_unit(other as f64, total)));
    }
    let residual = text::in_unit(made_of.residual_bytes as f64, total);
    let sign = if made_of.residual_bytes < 0 { "" } else { "+" };
    parts.push(format!("residual {sign}{residual}"));
    let unit = text::scale(total.max(1024.0)).1;
    let sentence = format!("{} {unit}{}", parts.join(" · "), distance(made_of));
    Some(Line::new("made of", sentence))
}

/// Whether a ledger shows most of the peak.
pub(crate) fn tells_peak(run: &Run, moment: &Moment) -> bool {
    run.peak.as_ref().is_some_and(|peak| moment.rss_bytes as f64 >= peak.bytes as f64 * MOST_OF_PEAK)
}

/// By the ledger nearest to the peak, where it shows most of it; else by the kinds of mappings.
fn by_ledger(run: &Run) -> Option<Line> {
    let ledgers = run.ledgers.as_ref()?;
    let moment = ledgers.curve.get(ledgers.nearest).filter(|moment| tells_peak(run, moment))?;
    let total = moment.rss_bytes as f64;
    let (large, small): (Vec<_>, Vec<_>) =
        terms(moment).into_iter().partition(|(_, bytes)| *bytes as f64 >= SMALL_PART * total);
    let told = |(name, bytes): &(&str, i64)| format!("{name} {}", text::in_unit(*bytes as f64, total));
    let mut parts: Vec<String> = large.iter().map(told).collect();
    let other: i64 = small.iter().map(|(_, bytes)| bytes).sum();
    parts.extend((other > 0).then(|| told(&("other", other))));
    let sign = if moment.residual_bytes < 0 { "" } else { "+" };
    parts.push(format!("residual {sign}{}", text::in_unit(moment.residual_bytes as f64, total)));
    let unit = text::scale(total.max(1024.0)).1;
    let badge = if moment.badge == Badge::Exact { "exact" } else { "estimated" };
    let sentence = format!("{} {unit} ({badge}, {})", parts.join(" · "), distance_of(moment.from_peak_s));
    Some(Line { hint: Some(hint::command(Finding::Composition)), ..Line::new("made of", sentence) })
}

/// Nothing where the maps were read within half a second of the peak and show most of it.
fn distance(made_of: &MadeOf) -> String {
    let side = if made_of.from_peak_s < 0.0 { "before" } else { "after" };
    let shown = made_of.total_bytes as f64 - made_of.residual_bytes as f64;
    match (made_of.from_peak_s.abs() < 0.5, shown >= made_of.total_bytes as f64 * MOST_OF_PEAK) {
        (true, true) => String::new(),
        (true, false) => " (it rose too fast to be read at the peak)".into(),
        (false, _) => format!(" ({} {side} the peak)", text::duration(made_of.from_peak_s.abs())),
    }
}

fn workers(group: &Workers) -> Line {
    let private = match group.private_bytes {
        Some(bytes) => format!("{} private each", text::bytes(bytes)),
        None => "private memory not read".into(),
    };
    let growth =
        group.growth_per_step_bytes.map(|rate| format!(", {}/step", text::signed_bytes(rate as i64)));
    let restarts =
        if group.seen > group.count { format!(" ({} over the run)", group.seen) } else { String::new() };
    let sentence =
        format!("{} × {}{restarts}: {private}{}", group.count, group.role, growth.unwrap_or_default());
    Line::new("workers", sentence)
}

/// The machine, where there was no target to speak of.
fn machine(run: &Run) -> Option<Line> {
    let least = run.system.available_min_bytes.filter(|_| run.peak.is_none())?;
    let memory = run.system.memory_bytes.map(|bytes| format!(" of {}", text::bytes(bytes)));
    let swap = match run.system.swap_used_max_bytes {
        Some(0) => " · no swap in use".into(),
        Some(bytes) => format!(" · swap in use at most {}", text::bytes(bytes)),
        None => String::new(),
    };
    let sentence = format!("least available {}{}{swap}", text::bytes(least), memory.unwrap_or_default());
    Some(Line::new("machine", sentence))
}

/// From here on it is worth a colour.
const MUCH_LEFT_KIB: f64 = 1024.0;

fn repeats(repeats: &Repeats) -> Line {
    let runs = text::counted(repeats.runs, "run", "runs");
    let pace =
        repeats.seconds_per_run.map(|seconds| format!(" · {seconds:.2} s per run")).unwrap_or_default();
    let (Some(left), Some(before), Some(after)) =
        (repeats.left_per_run_kib, repeats.before_kib, repeats.after_kib)
    else {
        let sentence = format!("left behind: cannot tell, no sample before or after ({runs}){pace}");
        return Line::new("repeats", sentence);
    };
    let sentence = format!(
        "left behind per run: {} kB ({runs}), {:.3} MiB{pace} · in use without buffers and cache {} → {} kB",
        kilobytes(left),
        left / 1024.0,
        kilobytes(before),
        kilobytes(after),
    );
    let tone = if left >= MUCH_LEFT_KIB { Tone::Warn } else { Tone::Plain };
    Line { tone, ..Line::new("repeats", sentence) }
}

fn kilobytes(value: f64) -> String {
    let sign = if value <= -0.5 { "-" } else { "" };
    format!("{sign}{}", text::count(value.abs().round() as u64))
}

fn device(device: &Device) -> Line {
    let total = device.total_bytes.map(|total| format!(" of {}", text::bytes(total))).unwrap_or_default();
    let (tree, used) = (text::bytes(device.tree_max_bytes), text::bytes(device.used_max_bytes));
    Line::new("device", format!("{}: {tree}, {used} in use{total}", device.name))
}

fn after(run: &Run) -> Option<Line> {
    let bytes = run.system.outlives_process_bytes?;
    if bytes == 0 {
        let noise = run.system.outlives.iter().map(|item| item.noise_bytes).max().unwrap_or(0);
        let sentence = format!("+0 MiB outlives the process (noise {})", text::bytes(noise));
        return Some(Line::new("after", sentence));
    }
    let of = |item: &Outlives| format!("{} {}", item.name, text::bytes(item.bytes));
    let items: Vec<String> = run.system.outlives.iter().filter(|item| item.bytes > 0).map(of).collect();
    let largest = run.system.remains.iter().max_by_key(|part| part.bytes);
    let named = largest.map(|part| format!(" ({})", part.name)).unwrap_or_default();
    let sentence = format!("+{} outlives the process: {}{named}", text::bytes(bytes), items.join(", "));
    Some(Line { tone: Tone::Warn, ..Line::new("after", sentence) })
}

fn doubts(run: &Run) -> Vec<Line> {
    let line = |sentence: &String| Line { tone: Tone::Faint, ..Line::new("doubt", sentence.clone()) };
    run.quality.iter().take(DOUBTS).map(line).collect()
}

fn cost(run: &Run) -> Option<Line> {
    let cost = run.cost?;
    // Of a run that is shorter than our own start a share means nothing.
    let used = if run.duration_s < 1.0 {
        format!("{} of CPU", text::duration(cost.cpu_s))
    } else {
        format!("{} of a core", text::percent(cost.cpu_s / run.duration_s))
    };
    let pause = if cost.pause_s > 0.0 {
        format!("paused {}", text::duration(cost.pause_s))
    } else {
        "no pause".into()
    };
    let sentence = format!("{used}, {}, {pause}", text::bytes(cost.rss_bytes));
    Some(Line { tone: Tone::Faint, ..Line::new("cost", sentence) })
}

fn saved(run: &Run) -> Option<Line> {
    let place = run.saved.clone()?;
    Some(Line { hint: Some(hint::command(Finding::Saved)), ..Line::new("saved", place) })
}
