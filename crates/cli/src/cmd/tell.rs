//! The words at the end of a recording.

use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use nilometer_analysis::Run;
use nilometer_capture::job::Placed;
use nilometer_capture::launch::Outcome;
use nilometer_capture::relay::Steps;
use nilometer_report::allocs::peak_size;
use nilometer_report::text::{self, escape};
use nilometer_report::{json, rank, term};
use nilometer_trace::Manifest;
use nilometer_trace::allocs::{self, ALLOCS_FILE, About};
use nilometer_trace::job as stored;

use super::{job, load};
use crate::args::{Summary, TellArgs};
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

/// How long the other ranks of a node are waited for.
const PATIENCE: Duration = Duration::from_millis(600);
/// Processes that are named when they were not tracked.
const MOST_UNTRACKED: usize = 3;

/// Reads the recording back and says what was asked for. Failing here must not change an exit code.
pub fn tell(args: &TellArgs, directory: &Path, fallback: Option<&str>) {
    tell_steps(args, directory, fallback, None);
}

/// The same, where steps were asked for.
pub fn tell_steps(args: &TellArgs, directory: &Path, fallback: Option<&str>, steps: Option<&Steps>) {
    if let Some(reason) = fallback.filter(|_| !args.quiet) {
        talk::say(&format!("{reason}; the run is in {}", directory.display()));
    }
    let silent = args.quiet && args.json.is_none();
    if !silent && let Err(problem) = summarise(args, directory, steps) {
        problem.tell();
    }
}

/// One rank of each node speaks for all of them; the others are silent. What `--json` asks of a rank, each gives.
pub fn tell_rank(args: &TellArgs, placed: &Placed, outcome: &Outcome) {
    let own = TellArgs { quiet: true, summary: args.summary, json: args.json.clone() };
    tell(&own, &outcome.directory, None);
    if let Some(reason) = &outcome.fallback {
        talk::say(&format!("rank {}: {reason}; the run is in {}", placed.rank, outcome.directory.display()));
    }
    if placed.speaks() && !args.quiet {
        wait_for_others(placed);
        match job::read(&placed.job, Some(&placed.node)) {
            Ok(found) if args.summary == Summary::Line => talk::talk(&(rank::sentence(&found) + "\n")),
            Ok(found) => talk::talk(&rank::render(&found, &talk::stderr_style())),
            Err(problem) => drop(problem.tell()),
        }
    }
}

/// The ranks of a node end at about the same time: a moment is worth their last samples.
pub fn wait_for_others(placed: &Placed) {
    let open = || {
        let here = stored::list(&placed.job).into_iter().filter(|it| it.node == placed.node);
        let goes_on = |it: &Path| {
            let manifest = Manifest::read(it);
            it.join(stored::SPOOLED_FILE).exists() || manifest.is_ok_and(|manifest| manifest.end.is_none())
        };
        here.filter(|it| goes_on(&it.path)).count()
    };
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline && open() > 0 {
        std::thread::sleep(PATIENCE / 20);
    }
}

fn summarise(args: &TellArgs, directory: &Path, steps: Option<&Steps>) -> Result<(), Failure> {
    let run = load::model(directory)?;
    match &args.json {
        Some(Some(file)) => std::fs::write(file, document(&run)).writing(file)?,
        Some(None) => talk::data(&document(&run)),
        None => {}
    }
    if !args.quiet {
        talk::talk(&match args.summary {
            Summary::Screen => term::verdict(&run, &talk::stderr_style()),
            Summary::Line => term::line(&run),
        });
        if args.summary == Summary::Screen {
            if let Some(steps) = steps.filter(|_| run.steps_seen == 0) {
                talk::talk(&format!(" steps    {}\n", steps.none_seen()));
            }
            talk::talk(&allocations(directory));
        }
    }
    Ok(())
}

/// What was recorded of allocations, in a line or two; nothing if it was not asked for.
fn allocations(directory: &Path) -> String {
    let asked = Manifest::read(directory).ok().and_then(|manifest| manifest.allocs);
    let Some(asked) = asked else { return String::new() };
    if let Some(why) = asked.why_not {
        return format!(" allocs   not recorded: the command is {}\n", escape(&why));
    }
    match File::open(directory.join(ALLOCS_FILE)).map_err(|error| error.to_string()) {
        Ok(file) => {
            allocs::read_about(file).map_or_else(|error| broken(&error.to_string()), |about| recorded(&about))
        }
        Err(error) => broken(&error),
    }
}

fn broken(why: &str) -> String {
    format!(" allocs   could not be stored: {}\n", escape(why))
}

fn recorded(about: &About) -> String {
    if about.was_never_on() {
        return " allocs   not recorded: never switched on (later)   → nilo mode all, while it runs\n".into();
    }
    let mut lost = match about.lost_events {
        0 => String::new(),
        lost => format!(" · {} lost", text::counted(lost, "event", "events")),
    };
    if about.unheard_processes > 0 {
        let who = text::counted(about.unheard_processes, "process", "processes");
        let _ = write!(lost, " · {who} could not report");
    }
    let peak = peak_size(&nilometer_analysis::allocs::peak(about));
    let live = text::bytes(about.live.bytes);
    let mode = &about.mode;
    let mut lines =
        format!(" allocs   peak {peak} · {live} left at the end{lost} ({mode})   → nilo report --allocs\n");
    for silent in about.untracked.iter().take(MOST_UNTRACKED) {
        let (name, why) = (escape(&silent.name), escape(&silent.why));
        let _ = writeln!(lines, "          not tracked: {name} ({}): {why}", silent.pid);
    }
    if about.untracked.len() > MOST_UNTRACKED {
        let _ = writeln!(lines, "          not tracked: {} more", about.untracked.len() - MOST_UNTRACKED);
    }
    lines
}

fn document(run: &Run) -> String {
    format!("{:#}\n", json::report(run))
}

#[cfg(test)]
mod tests {
    use nilometer_trace::allocs::Amount;

    use super::*;

    /// The peak is the highest of many sums, of which sampling makes some too high: its interval lies rather below it.
    #[test]
    fn the_summary_has_the_interval_of_the_report() {
        let peak = Amount { bytes: 100 << 20, count: 200, variance: (100 << 20) * 524_288 };
        let total = Amount { bytes: 1000 << 20, count: 2_000, variance: 10 * peak.variance };
        let about = About { peak, total, mode: "sampled".into(), ..About::default() };
        let told = nilometer_analysis::allocs::peak(&about);
        assert!(told.low_bytes < told.bytes && told.bytes < told.high_bytes, "{told:?}");
        let interval = text::range(told.low_bytes, told.high_bytes);
        let said = recorded(&about);
        assert!(said.contains(&format!("peak 100 MiB (95 %: {interval}) · ")), "{said}");
    }
}
