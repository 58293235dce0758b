//! A leak verdict for people: class and rate first, then its doubt, where it grows, and the next command.

pub mod json;
pub mod junit;

use std::fmt::Write as _;

use nilometer_analysis::Run;
use nilometer_analysis::leak::Leak;
use nilometer_analysis::leak::model::{Class, Depth, Per, Place, RepeatedRun, StepsFrom, Window};

use crate::layout::{Line, Style, Tone, fold};
use crate::ledger::line_name;
use crate::sentence;
use crate::table::Table;
use crate::text;

const PLACES: usize = 8;
const RUNS: usize = 12;

/// The screen of `nilo leak`.
pub fn render(leak: &Leak, run: &Run, style: &Style) -> String {
    let rows = fold(&style.safe(&sentence::headline(run, style)), style.columns());
    let mut out = style.paint(&rows.join("\n"), Tone::Strong) + "\n";
    out.extend(lines(leak, run).iter().map(|line| line.render(style)));
    out + &runs(&leak.runs, style)
}

/// `grows: +1.80 MiB/step (95 %: 1.70–1.90)`, for a log and for build servers.
pub fn sentence_of(leak: &Leak) -> String {
    let class = leak.class.name();
    match rate(leak).filter(|_| tells_rate(leak.class)) {
        Some(rate) => format!("{class}: {rate}"),
        None => format!("{class}: {}", leak.reason),
    }
}

fn tells_rate(class: Class) -> bool {
    !matches!(class, Class::Steady | Class::Settled | Class::Sawtooth | Class::CannotTell | Class::ToBound)
}

pub(crate) fn lines(leak: &Leak, run: &Run) -> Vec<Line> {
    let mut lines = vec![verdict(leak)];
    lines.extend(seen(leak));
    lines.extend(forecast(leak));
    lines.extend(places(leak));
    lines.extend(smallest(leak));
    lines.extend(longer(leak));
    lines.extend(
        leak.missing
            .iter()
            .map(|missing| Line::new("deeper", format!("{}: {}", missing.what, missing.command))),
    );
    lines.extend(looks(leak));
    lines.extend(run.saved.clone().map(|place| Line::new("saved", place)));
    lines
}

fn verdict(leak: &Leak) -> Line {
    let tone = match leak.class {
        Class::Grows | Class::Outlives => Tone::Bad,
        Class::CannotTell => Tone::Warn,
        _ => Tone::Strong,
    };
    let rate =
        rate(leak).filter(|_| tells_rate(leak.class)).map(|rate| format!(" {rate}")).unwrap_or_default();
    let sentence = format!("{}{rate}: {}", leak.class.name().to_uppercase(), leak.reason);
    Line { tone, ..Line::new("verdict", sentence) }
}

/// Along what rates are told. Steps that were guessed may be halves or several of the program's own, and every rate says so.
pub(crate) fn unit(leak: &Leak) -> &'static str {
    match (leak.per, leak.steps_from) {
        (Per::Step, StepsFrom::Estimated) => "estimated step",
        (per, _) => per.name(),
    }
}

/// `+1.80 MiB/step (95 %: 1.70–1.90)`.
fn rate(leak: &Leak) -> Option<String> {
    let rate = leak.rate_bytes_per_step?;
    let per = unit(leak);
    let interval = leak
        .ci95
        .map(|[low, high]| format!(" (95 %: {} to {})", text::in_unit(low, rate), text::in_unit(high, rate)));
    Some(format!("{}/{per}{}", text::signed_bytes(rate as i64), interval.unwrap_or_default()))
}

/// What the verdict is about.
fn seen(leak: &Leak) -> Option<Line> {
    if leak.per == Per::Run {
        let runs = text::counted(leak.runs.len() as u64, "run", "runs");
        return (!leak.runs.is_empty())
            .then(|| Line::new("seen", format!("{runs}, the machine looked at between them")));
    }
    let window = leak.window;
    let axis = match leak.steps_from {
        StepsFrom::Marks => "steps",
        StepsFrom::Estimated => "steps (estimated from the curve)",
        StepsFrom::Nothing => "seconds",
    };
    let (from, to) = (text::count(window.from.max(0.0) as u64), text::count(last(leak)));
    let seconds = leak.rate_bytes_per_s.filter(|_| tells_rate(leak.class) && leak.per == Per::Step);
    let seconds = seconds.map(|rate| format!(", {}/s", text::signed_bytes(rate as i64))).unwrap_or_default();
    let teeth = leak.teeth.map(|teeth| {
        format!(
            ", teeth of {} every {:.0} {}",
            text::bytes(teeth.height_bytes as u64),
            teeth.period,
            unit(leak)
        )
    });
    let bound =
        leak.bound_bytes.map(|bound| format!(", on its way to {}", text::bytes(bound.max(0.0) as u64)));
    let sentence = format!(
        "{axis} {from} to {to} after warm-up, {} points{seconds}{}{}",
        window.points,
        teeth.unwrap_or_default(),
        bound.unwrap_or_default()
    );
    Some(Line::new("seen", sentence))
}

/// The last step of the window. Where it ends the next one would begin, but none did.
fn last(leak: &Leak) -> u64 {
    let Window { from, to, .. } = leak.window;
    let last = if leak.per == Per::Step { (to.ceil() - 1.0).max(from) } else { to };
    last.max(0.0) as u64
}

fn forecast(leak: &Leak) -> Option<Line> {
    let forecast = leak.forecast.as_ref()?;
    let when = forecast.in_s.map(|seconds| format!(", in {}", text::duration(seconds))).unwrap_or_default();
    let unit = if leak.per == Per::Second { "second" } else { unit(leak) };
    let sentence = format!(
        "{} ({}) is reached at {unit} ≈ {}{when}",
        text::bytes(forecast.limit_bytes),
        forecast.limit_source,
        text::count(forecast.at.max(0.0) as u64),
    );
    Some(Line { tone: Tone::Warn, ..Line::new("forecast", sentence) })
}

fn places(leak: &Leak) -> Vec<Line> {
    let mut listed: Vec<&Place> = leak.places.iter().collect();
    listed.sort_by_key(|place| place.depth);
    listed
        .iter()
        .take(PLACES)
        .enumerate()
        .map(|(number, place)| {
            Line::new(if number == 0 { "where" } else { "" }, place_sentence(place, unit(leak)))
        })
        .collect()
}

pub(crate) fn place_sentence(place: &Place, per: &str) -> String {
    let name = place.line.map_or_else(|| place.name.clone(), |line| line_name(line).to_owned());
    let rate = place.rate_bytes_per_step.map(|rate| format!(" {}/{per}", text::signed_bytes(rate as i64)));
    let count = place.rate_count_per_step.filter(|count| *count > 0.005);
    let count = count.map(|count| format!(", {} objects/{per}", text::digits(count))).unwrap_or_default();
    let share = place.share.filter(|share| *share > 0.0 && place.depth != Depth::Machine);
    let share = share.map(|share| format!(" ({})", text::percent(share.min(1.0)))).unwrap_or_default();
    let path = place.path.as_ref().map(|path| format!(" · {path}")).unwrap_or_default();
    let path = place.category.as_ref().map(|category| format!(" · {category}")).unwrap_or_default() + &path;
    let what = match place.depth {
        Depth::Machine => "left on the machine:",
        Depth::Process => "process",
        Depth::Memory => "memory:",
        Depth::Kind => "objects:",
        Depth::Holder => "held by",
        Depth::Site => "allocated by",
    };
    format!("{what} {name}{}{count}{share}{path}", rate.unwrap_or_default())
}

fn smallest(leak: &Leak) -> Option<Line> {
    let smallest = leak.smallest_detectable?;
    let size = text::bytes(smallest.max(0.0) as u64);
    let sentence =
        format!("a leak of {size}/{} or more would have been seen (by {})", unit(leak), leak.smallest_by);
    Some(Line { tone: Tone::Faint, ..Line::new("doubt", sentence) })
}

fn longer(leak: &Leak) -> Option<Line> {
    let longer = leak.longer_s?;
    if let Some(last) = leak.runs.last().filter(|last| last.start_s + last.seconds > 0.0) {
        let runs = leak.runs.len() as f64 * longer / (last.start_s + last.seconds);
        return Some(Line::new("to tell", format!("run it more often: --repeat {}", runs.ceil())));
    }
    Some(Line::new("to tell", format!("watch it for about {}", text::duration(longer))))
}

fn looks(leak: &Leak) -> Option<Line> {
    let looks = leak.looks;
    let sentence = format!(
        "{} and {}, {:.0} ms of pauses in all, {:.0} ms the longest",
        text::counted(looks.heap, "census", "censuses"),
        text::counted(looks.ledger, "ledger", "ledgers"),
        looks.pause_ms_total,
        looks.pause_ms_longest,
    );
    (looks.heap + looks.ledger > 0).then(|| Line { tone: Tone::Faint, ..Line::new("looks", sentence) })
}

fn runs(runs: &[RepeatedRun], style: &Style) -> String {
    if runs.is_empty() {
        return String::new();
    }
    let swapped = runs.iter().any(|run| run.left_in_swap_bytes.is_some_and(|bytes| bytes != 0));
    let mut heads = vec!["run", "start", "took", "exit", "peak", "machine", "in swap", "left by name"];
    heads.retain(|head| swapped || *head != "in swap");
    let mut table = Table::new(&heads);
    let stride = runs.len().div_ceil(RUNS).max(1);
    for run in runs.iter().step_by(stride) {
        let change = |bytes: Option<i64>| bytes.map_or_else(|| "-".into(), text::signed_bytes);
        let mut cells = vec![
            text::count(run.n),
            text::duration(run.start_s),
            text::duration(run.seconds),
            run.exit.to_string(),
            run.peak_bytes.map_or_else(|| "-".into(), text::bytes),
            change(run.left_behind_bytes),
        ];
        cells.extend(swapped.then(|| change(run.left_in_swap_bytes)));
        let named = |what: &String| format!("{} {what}", text::bytes(run.remains_bytes));
        cells.push(run.remains.as_ref().map_or_else(|| "-".into(), named));
        table.row(cells);
    }
    let shown = runs.len().div_ceil(stride);
    let title = format!("Runs ({shown} of {})", text::count(runs.len() as u64));
    style.paint(&style.safe(&title), Tone::Strong) + "\n" + &table.render(style)
}

/// `run.log`: one line a run, for spreadsheets.
pub fn render_csv(runs: &[RepeatedRun]) -> String {
    let mut out = String::from("n,start,seconds,exit,peak_bytes,left_behind_bytes\n");
    for run in runs {
        let peak = run.peak_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let left = run.left_behind_bytes.map(|bytes| bytes.to_string()).unwrap_or_default();
        let _ = writeln!(out, "{},{},{:.3},{},{peak},{left}", run.n, run.start, run.seconds, run.exit);
    }
    out
}

#[cfg(test)]
mod tests {
    use nilometer_analysis::leak::model::Looks;

    use super::*;
    use crate::tests::example::leaking;

    fn grows(steps_from: StepsFrom) -> Leak {
        Leak {
            class: Class::Grows,
            reason: "it rises".into(),
            per: Per::Step,
            steps_from,
            rate_bytes_per_step: Some(1_048_576.0),
            ci95: Some([1_000_000.0, 1_100_000.0]),
            rate_bytes_per_s: Some(2_097_152.0),
            smallest_detectable: Some(65_536.0),
            smallest_by: "resident memory",
            forecast: None,
            window: Window { from: 1.2, to: 61.0, points: 60, ..Window::default() },
            teeth: None,
            bound_bytes: None,
            longer_s: None,
            places: Vec::new(),
            evidence: Vec::new(),
            missing: Vec::new(),
            looks: Looks::default(),
            runs: Vec::new(),
        }
    }

    fn line(leak: &Leak, label: &str) -> String {
        let found = lines(leak, &leaking()).into_iter().find(|line| line.label == label);
        found.map(|line| line.text).unwrap_or_default()
    }

    #[test]
    fn rates_per_step_that_was_guessed_say_so() {
        let leak = grows(StepsFrom::Estimated);
        let verdict = line(&leak, "verdict");
        assert!(verdict.starts_with("GROWS +1.00 MiB/estimated step (95 %: "), "{verdict}");
        assert!(sentence_of(&leak).contains("+1.00 MiB/estimated step"), "{}", sentence_of(&leak));
        assert!(line(&leak, "doubt").contains("64.0 KiB/estimated step"), "{}", line(&leak, "doubt"));
        let marked = line(&grows(StepsFrom::Marks), "verdict");
        assert!(marked.starts_with("GROWS +1.00 MiB/step (95 %: "), "{marked}");
    }

    /// 60 steps, numbered from 1: the last one ends where a 61st would begin.
    #[test]
    fn no_step_is_seen_that_did_not_begin() {
        let seen = |to: f64| {
            let window = Window { from: 1.2, to, points: 60, ..Window::default() };
            line(&Leak { window, ..grows(StepsFrom::Marks) }, "seen")
        };
        assert!(seen(61.0).starts_with("steps 1 to 60 after warm-up"), "{}", seen(61.0));
        assert!(seen(60.4).starts_with("steps 1 to 60 after warm-up"), "{}", seen(60.4));
    }
}
