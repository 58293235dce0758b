//! The same for people: what was found, then each capability by section, then what to do next.

use nilometer_kernel::parse::kmsg::OomKill;
use nilometer_kernel::probe::{Cap, Capability, Facts, Level, Python, Section};
use nilometer_kernel::read::cgroup::Version;
use nilometer_report::{Style, text};

use super::document;

/// Wider lines are hard to read.
const WIDEST: usize = 80;
const LABEL: usize = 12;
/// Level, name and the gaps around them.
const LEFT: usize = 33;
const COMMAND_INDENT: usize = 10;
/// How many interpreters, and of the latest OOM kills, are shown.
const PYTHONS: usize = 6;
const KILLS: usize = 3;
const NEXT: &str = "nilo run -- python train.py";

pub fn render(facts: &Facts, capabilities: &[Capability], style: &Style) -> String {
    let screen = Screen { style, width: style.width.min(WIDEST) };
    let mut out = screen.paint(&format!("nilo doctor: {}", headline(facts)), "1") + "\n\n";
    for (label, sentence) in found(facts) {
        out += &screen.fact(label, &sentence);
    }
    for section in [Section::Recording, Section::Memory, Section::Pages, Section::Machine, Section::Devices] {
        out += &screen.section(title(section), capabilities.iter().filter(|one| one.section == section));
    }
    let next = capabilities.iter().find(|capability| capability.name == "run" && !capability.works());
    let next = next.and_then(|run| run.command.as_deref()).unwrap_or(NEXT);
    out + &format!("\n{} {next}\n", screen.safe("next →"))
}

fn title(section: Section) -> &'static str {
    match section {
        Section::Recording => "Recording",
        Section::Memory => "Reading the memory of processes (heap, ledger, watchdog)",
        Section::Pages => "Pages touched and written",
        Section::Machine => "The machine (tests and experiments)",
        Section::Devices => "Graphics devices",
    }
}

struct Screen<'s> {
    style: &'s Style,
    width: usize,
}

impl Screen<'_> {
    fn paint(&self, text: &str, code: &str) -> String {
        let text = self.safe(text);
        if self.style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text }
    }

    /// What may be shown of a text from outside.
    fn safe(&self, words: &str) -> String {
        let escaped = text::escape(words);
        if self.style.unicode { escaped } else { text::ascii(&escaped) }
    }

    fn fact(&self, label: &str, sentence: &str) -> String {
        let rows = fold(&self.safe(sentence), self.width.saturating_sub(LABEL), "");
        format!("{label:<LABEL$}{}\n", rows.join(&format!("\n{:LABEL$}", "")))
    }

    fn section<'c>(&self, title: &str, capabilities: impl Iterator<Item = &'c Capability>) -> String {
        let lines: String = capabilities.map(|capability| self.capability(capability)).collect();
        format!("\n{}\n{lines}", self.paint(title, "1"))
    }

    fn capability(&self, capability: &Capability) -> String {
        let code = match capability.level {
            Level::Works => "32",
            Level::Limited => "33",
            Level::Cannot => "31",
        };
        let level = self.paint(&format!("{:<6}", document::level(capability.level)), code);
        let sentence = [&capability.how, &capability.why].into_iter().flatten().map(String::as_str);
        let sentence = self.safe(&sentence.collect::<Vec<_>>().join("; "));
        let rows = fold(&sentence, self.width.saturating_sub(LEFT), "");
        let name = capability.name;
        let line = format!("  {level}  {name:<21}  {}\n", rows.join(&format!("\n{:LEFT$}", "")));
        line + &capability.command.as_ref().map_or(String::new(), |command| self.command(command))
    }

    fn command(&self, command: &str) -> String {
        let rows = fold(&self.safe(command), self.width.saturating_sub(COMMAND_INDENT + 2), " \\");
        let indent = format!("\n{:1$}", "", COMMAND_INDENT + 2);
        format!("{:COMMAND_INDENT$}{} {}\n", "", self.arrow(), rows.join(&indent))
    }

    fn arrow(&self) -> &'static str {
        if self.style.unicode { "→" } else { ">" }
    }
}

/// Rows of at most `width` columns, broken at spaces; all but the last end with `mark`.
fn fold(text: &str, width: usize, mark: &str) -> Vec<String> {
    let room = width.saturating_sub(mark.len()).max(1);
    let mut rows = vec![String::new()];
    for word in text.split(' ') {
        let row = rows.len() - 1;
        if !rows[row].is_empty() && rows[row].chars().count() + 1 + word.chars().count() > room {
            rows[row].push_str(mark);
            rows.push(word.to_owned());
        } else {
            if !rows[row].is_empty() {
                rows[row].push(' ');
            }
            rows[row].push_str(word);
        }
    }
    rows
}

fn headline(facts: &Facts) -> String {
    let user = if facts.is_root() { "root".to_owned() } else { format!("user {}", facts.euid) };
    let place =
        facts.host.container.as_ref().map_or(String::new(), |kind| format!(", in a {kind} container"));
    format!("Linux {}, {user}{place}", facts.host.kernel)
}

fn found(facts: &Facts) -> Vec<(&'static str, String)> {
    let mut lines = vec![
        ("machine", machine(facts)),
        ("rights", rights(facts)),
        ("policy", policy(facts)),
        ("cgroup", cgroup(facts)),
        ("kernel", settings(facts)),
        ("OOM kills", oom_kills(facts)),
    ];
    let recent = facts.recent_oom_kills.as_deref().unwrap_or_default();
    lines.extend(recent.iter().rev().take(KILLS).map(|kill| ("", oom_kill(facts, kill))));
    lines.push(("Python", pythons(&facts.pythons)));
    lines.push(("malloc", allocators(facts)));
    lines
}

fn machine(facts: &Facts) -> String {
    let host = &facts.host;
    let swap = if host.swap_bytes == 0 {
        "no swap".to_owned()
    } else {
        format!("{} swap", text::bytes(host.swap_bytes))
    };
    let huge = if host.transparent_hugepages.is_empty() { "none" } else { &host.transparent_hugepages };
    let cpus = text::counted(host.cpus, "CPU", "CPUs");
    format!("{}, {swap}, {cpus}, huge pages {huge}", text::bytes(host.memory_bytes))
}

fn rights(facts: &Facts) -> String {
    let (held, missing): (Vec<Cap>, Vec<Cap>) = Cap::ALL.into_iter().partition(|cap| facts.has(*cap));
    let names = |caps: &[Cap]| caps.iter().map(|cap| cap.name()).collect::<Vec<_>>().join(", ");
    match (held.is_empty(), missing.is_empty()) {
        (true, _) => "no capability that matters here".to_owned(),
        (_, true) => "all capabilities that matter here".to_owned(),
        _ => format!("{}; not {}", names(&held), names(&missing)),
    }
}

fn policy(facts: &Facts) -> String {
    let mut parts = vec![match facts.yama_scope {
        Some(scope) => format!("Yama ptrace_scope {scope}"),
        None => "no Yama".to_owned(),
    }];
    parts.push(match facts.seccomp {
        0 => "no seccomp filter".to_owned(),
        1 => "seccomp strict".to_owned(),
        _ => "seccomp filter".to_owned(),
    });
    let more = [
        (facts.no_new_privileges, "no new privileges"),
        (facts.in_user_namespace, "user namespace"),
        (facts.in_pid_namespace, "pid namespace"),
    ];
    parts.extend(more.iter().filter(|(is_so, _)| *is_so).map(|(_, name)| (*name).to_owned()));
    parts.extend(facts.suid_dumpable.map(|value| format!("suid_dumpable {value}")));
    parts.extend(facts.hidepid.as_ref().map(|value| format!("hidepid={value}")));
    parts.join(", ")
}

fn cgroup(facts: &Facts) -> String {
    match &facts.cgroup {
        Some(group) if group.version == Version::V1 => format!("v1 {}", group.path),
        Some(group) => format!("v2 {}", group.path),
        None => "no memory controller visible".to_owned(),
    }
}

fn settings(facts: &Facts) -> String {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "?".to_owned());
    format!(
        "perf_event_paranoid {}, max_map_count {}, overcommit {}, core dumps to {:?}",
        shown(facts.perf_event_paranoid.map(|value| value.to_string())),
        shown(facts.max_map_count.map(|value| value.to_string())),
        facts.host.overcommit,
        facts.core_pattern,
    )
}

fn oom_kills(facts: &Facts) -> String {
    let uptime = text::duration(facts.uptime_s as f64);
    let count = match facts.oom_kills {
        None => "not counted by this kernel".to_owned(),
        Some(0) => format!("none since the start {uptime} ago"),
        Some(count) => format!("{} since the start {uptime} ago", text::count(count)),
    };
    match facts.recent_oom_kills {
        None => format!("{count}; whom: sudo dmesg | grep -i killed (the log is not readable)"),
        Some(_) => count,
    }
}

fn oom_kill(facts: &Facts, kill: &OomKill) -> String {
    let ago = text::duration(facts.uptime_s.saturating_sub(kill.at_us / 1_000_000) as f64);
    let size = kill.rss_bytes.map_or(String::new(), |bytes| format!(" with {}", text::bytes(bytes)));
    let by = match kill.cgroup.as_deref() {
        None => "the machine was full".to_owned(),
        Some("") => "by its control group".to_owned(),
        Some(group) => format!("by control group {group}"),
    };
    format!("{ago} ago: {} ({}){size}, {by}", kill.process, kill.pid)
}

/// Those that run first.
fn pythons(pythons: &[Python]) -> String {
    if pythons.is_empty() {
        return "none on the path, none running".to_owned();
    }
    let mut sorted: Vec<&Python> = pythons.iter().collect();
    sorted.sort_by_key(|python| std::cmp::Reverse(python.pids.len()));
    let name = |python: &&Python| {
        let version = if python.version.is_empty() {
            python.path.display().to_string()
        } else {
            python.version.clone()
        };
        match python.pids.len() {
            0 => version,
            running => format!("{version} ({running} running)"),
        }
    };
    let shown: Vec<String> = sorted.iter().take(PYTHONS).map(name).collect();
    let more = sorted.len().saturating_sub(PYTHONS);
    let rest = if more == 0 { String::new() } else { format!(" and {more} more (--json)") };
    format!("{}{rest}", shown.join(", "))
}

fn allocators(facts: &Facts) -> String {
    let libc =
        facts.glibc.as_ref().map_or("C library unknown".to_owned(), |version| format!("glibc {version}"));
    let others = facts.allocators.iter().map(|allocator| {
        let count = text::counted(allocator.pids.len() as u64, "process", "processes");
        format!("{} in {count}", allocator.name)
    });
    std::iter::once(libc).chain(others).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Style = Style { width: 80, color: false, unicode: true, whole: false };

    fn cannot(command: &str) -> Capability {
        Capability {
            name: "read-memory-other-uid",
            section: Section::Memory,
            level: Level::Cannot,
            how: None,
            why: Some("a reason that is long enough to need more than one row of the right column".into()),
            command: Some(command.into()),
        }
    }

    #[test]
    fn sentences_stay_in_their_column_and_commands_can_be_pasted() {
        let words = "echo kernel.yama.ptrace_scope=1 | sudo tee /etc/sysctl.d/99-ptrace.conf && sudo reboot";
        let text = render(&Facts::default(), &[cannot(words)], &PLAIN);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("\n  cannot  read-memory-other-uid  a reason that is"));
        let command: Vec<&str> = text.lines().skip_while(|line| !line.contains('→')).take(2).collect();
        let pasted = command.join("\n").replace("\\\n", "").replace('→', "");
        assert_eq!(pasted.split_whitespace().collect::<Vec<_>>().join(" "), words);
    }

    #[test]
    fn the_last_line_is_the_next_command() {
        let text = render(&Facts::default(), &[], &PLAIN);
        assert!(text.ends_with("\nnext → nilo run -- python train.py\n"));
        let ascii = render(&Facts::default(), &[cannot("x")], &Style { unicode: false, ..PLAIN });
        assert!(ascii.is_ascii(), "{ascii}");
    }

    #[test]
    fn a_kill_says_whom_and_by_what() {
        let facts = Facts { uptime_s: 100, ..Facts::default() };
        let mut kill = OomKill {
            at_us: 40_000_000,
            pid: 812,
            process: "python".into(),
            cgroup: Some("/jobs/a".into()),
            rss_bytes: Some(2 << 30),
        };
        let by_group = oom_kill(&facts, &kill);
        assert!(
            by_group.ends_with("ago: python (812) with 2.00 GiB, by control group /jobs/a"),
            "{by_group}"
        );
        kill.cgroup = None;
        assert!(oom_kill(&facts, &kill).ends_with("the machine was full"));
    }
}
