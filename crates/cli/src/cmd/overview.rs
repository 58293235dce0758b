//! `nilo` alone: my Python processes by size, and what can be asked.

use std::cmp::Reverse;
use std::fmt::Write as _;
use std::process::ExitCode;

use nilometer_capture::privacy::mask_arguments;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::limits::ticks_per_s;
use nilometer_kernel::sys::process::own_pid;
use nilometer_report::{Style, text};

use crate::args;
use crate::talk;

const MOST: usize = 10;
/// Where nobody says how wide it may be.
const PLAIN_WIDTH: usize = 80;

/// Question, verb, command. Only rows whose verb exists are shown.
const QUESTIONS: &[(&str, &str, &str)] = &[
    ("how high, will it fit, does it grow?", "run", "nilo run -- python train.py"),
    ("the same for a process that runs", "attach", "nilo attach PID"),
    ("what is happening now?", "top", "nilo top [PID | RUN]"),
    ("which objects, held by whom?", "heap", "nilo heap PID"),
    ("why is RSS larger than my tensors?", "where", "nilo where PID"),
    ("which code owns the memory?", "mode", "nilo run --allocs -- …; nilo mode all"),
    ("does it leak, where, how fast?", "leak", "nilo leak -- python train.py"),
    ("which batch size fits?", "sweep", "nilo sweep --set batch=16,32 -- …"),
    ("how much is really touched?", "pages", "nilo pages PID"),
    ("what does the machine do?", "record", "nilo record --duration 1h"),
    ("what changed between two runs?", "compare", "nilo compare A B"),
    ("show a run again, with charts", "report", "nilo report [RUN]"),
    ("show it to others: a page, a picture", "report", "nilo report [RUN] --html"),
    ("one chart as a picture", "plot", "nilo plot -o run.svg"),
    ("the samples, for other tools", "export", "nilo export RUN --format csv"),
    ("which of my ranks? many in few tables", "merge", "nilo report JOB; nilo merge JOB"),
    ("read a log of another tool", "import", "nilo import FILE"),
    ("which runs are here?", "list", "nilo list"),
    ("what works on this machine?", "doctor", "nilo doctor"),
    ("complete its words in my shell", "completions", "nilo completions bash"),
    ("the man page of a verb", "man", "nilo man VERB | man -l -"),
    ("see how a leak looks", "demo", "nilo demo"),
];

pub fn run() -> ExitCode {
    let mut style = talk::stdout_style();
    if style.whole {
        style.width = PLAIN_WIDTH;
    }
    talk::data(&processes(&Proc::default(), &style));
    let questions = questions(args::has_verb);
    talk::data(&if style.unicode { questions } else { text::ascii(&questions) });
    ExitCode::SUCCESS
}

/// A process as shown here.
#[derive(Debug)]
struct Shown {
    pid: i32,
    mine: bool,
    rss_kib: u64,
    anon_kib: Option<u64>,
    lived_s: Option<f64>,
    command: String,
}

fn processes(proc: &Proc, style: &Style) -> String {
    let mut found = find(proc);
    if found.is_empty() {
        return "No Python process runs here.\n\n".into();
    }
    found.sort_by_key(|shown| (!shown.mine, Reverse(shown.rss_kib)));
    let count = found.len();
    let heading = if count > MOST {
        format!("Python processes ({MOST} of {count})")
    } else {
        "Python processes".into()
    };
    let rows: String = found.iter().take(MOST).map(|shown| row(shown, style)).collect();
    format!("{heading}\n{:>8} {:>9} {:>9} {:>9}  command\n{rows}\n", "pid", "RSS", "anon", "running")
}

fn row(shown: &Shown, style: &Style) -> String {
    const BEFORE: usize = 40;
    let size = |kib: u64| text::bytes(kib.saturating_mul(1024));
    let other = if shown.mine { "" } else { "(another user's) " };
    let command =
        style.shorten(&style.safe(&format!("{other}{}", shown.command)), style.width.saturating_sub(BEFORE));
    format!(
        "{:>8} {:>9} {:>9} {:>9}  {command}\n",
        shown.pid,
        size(shown.rss_kib),
        shown.anon_kib.map_or_else(|| "-".into(), size),
        shown.lived_s.map_or_else(|| "-".into(), text::duration),
    )
}

/// Processes come and go: whatever cannot be read is left out.
fn find(proc: &Proc) -> Vec<Shown> {
    let mut buffer = Vec::new();
    let own = own_pid();
    let me = proc.read_status(own, &mut buffer).map(|status| status.euid).ok();
    let uptime_s = read_uptime(proc);
    let pids = proc.list_pids().unwrap_or_default();
    pids.into_iter()
        .filter(|pid| *pid != own)
        .filter_map(|pid| look(proc, pid, me, uptime_s, &mut buffer))
        .collect()
}

fn look(
    proc: &Proc,
    pid: i32,
    me: Option<u32>,
    uptime_s: Option<f64>,
    buffer: &mut Vec<u8>,
) -> Option<Shown> {
    let arguments = proc.read_arguments(pid).ok().filter(|arguments| !arguments.is_empty())?;
    let program = proc.read_exe(pid).map(|exe| exe.display().to_string()).unwrap_or_default();
    if !is_python(&program) && !is_python(&arguments[0]) {
        return None;
    }
    let stat = proc.read_stat(pid, buffer).ok()?;
    let status = proc.read_status(pid, buffer).ok()?;
    let lived_s = uptime_s.map(|now| (now - stat.starttime as f64 / ticks_per_s() as f64).max(0.0));
    Some(Shown {
        pid,
        mine: me == Some(status.euid),
        rss_kib: status.vm_rss_kib?,
        anon_kib: status.rss_anon_kib,
        lived_s,
        command: command_line(&arguments),
    })
}

/// Secrets masked, and the program without its directory: what it runs is of interest.
pub fn command_line(arguments: &[String]) -> String {
    let mut shown = mask_arguments(arguments);
    if let Some(program) = shown.first_mut() {
        *program = program.rsplit('/').next().unwrap_or_default().to_owned();
    }
    shown.join(" ")
}

/// `/usr/bin/python3.11`, `pypy3`; not `python-lsp`.
pub fn is_python(program: &str) -> bool {
    let name = program.trim_end_matches(" (deleted)").rsplit('/').next().unwrap_or_default();
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    version.is_some_and(|version| version.chars().all(|c| c.is_ascii_digit() || matches!(c, '.' | 't' | 'd')))
}

pub fn read_uptime(proc: &Proc) -> Option<f64> {
    let text = std::fs::read_to_string(proc.root().join("uptime")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}

fn questions(exists: impl Fn(&str) -> bool) -> String {
    let mut text = "Ask\n".to_owned();
    for (question, _, command) in QUESTIONS.iter().filter(|(_, verb, _)| exists(verb)) {
        let _ = writeln!(text, "  {question:<38} {command}");
    }
    text + "\nMore of each:  nilo VERB --help\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters_are_told_from_programs_with_alike_names() {
        for name in ["python", "/usr/bin/python3.11", "pypy3", "python3.14t", "/x/python3.12 (deleted)"] {
            assert!(is_python(name), "{name}");
        }
        for name in ["", "python-lsp", "/opt/python/bin/ruff", "ipython", "pythonw.exe"] {
            assert!(!is_python(name), "{name}");
        }
    }

    #[test]
    fn every_row_fits_80_columns_and_only_verbs_that_exist_are_named() {
        assert!(questions(|_| true).lines().all(|line| line.chars().count() <= 80));
        assert!(!questions(|verb| verb != "top").contains("nilo top"));
        assert!(questions(args::has_verb).contains("nilo import FILE"));
    }

    #[test]
    fn every_verb_has_its_question() {
        for verb in args::verbs() {
            assert!(QUESTIONS.iter().any(|(_, known, _)| *known == verb), "{verb}");
        }
    }

    #[test]
    fn a_hostile_command_line_is_escaped_and_cut() {
        let shown = Shown {
            pid: 1,
            mine: false,
            rss_kib: u64::MAX,
            anon_kib: None,
            lived_s: Some(1e9),
            command: format!("python3 \x1b]0;owned\x07 {}", "日".repeat(200)),
        };
        let style = Style { width: 80, color: false, unicode: true, whole: false };
        let row = row(&shown, &style);
        assert!(row.trim_end().chars().all(|c| !c.is_control()) && row.contains('…'), "{row}");
    }
}
