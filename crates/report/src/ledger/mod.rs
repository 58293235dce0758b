//! The ledger of a process or a tree for people and tools: accounts in, text and JSON out.
//!
//! The one invariant: the numbers of a screen are those of the document, and a list that is cut says so.

pub mod json;

mod line;
pub mod run;
mod words;

use nilometer_analysis::ledger::{Account, Badge, Ledger, Library, PauseMode, Tree};

use crate::layout::{Line as Labelled, Style, Tone, fold};
use crate::table::Table;
use crate::text;

pub use line::render_line;
pub(crate) use words::name as line_name;

/// Libraries that are listed by themselves.
const LIBRARIES: usize = 30;

/// One process: the equation, its lines, what to do.
pub fn render(account: &Account, style: &Style) -> String {
    let mut out = head(&account.ledger, style);
    out += &table(account, style);
    out += &tail(account, style);
    out
}

/// Several processes: each in a row, then the lines of all, each memory once.
pub fn render_tree(accounts: &[Account], tree: &Tree, style: &Style) -> String {
    let mut out = accounts.first().map_or_else(String::new, |first| render(first, style));
    if accounts.len() < 2 {
        return out;
    }
    out.push('\n');
    let head = format!(
        "the tree: {}, {} counted once (PSS); its RSS figures add up to {}, which is no total",
        text::counted(tree.processes, "process", "processes"),
        text::bytes(tree.pss_bytes),
        text::bytes(tree.rss_sum_bytes),
    );
    out += &style.paint(&fold(&style.safe(&head), style.columns()).join("\n"), Tone::Strong);
    out.push('\n');
    out += &processes(accounts, style);
    for Account { ledger, .. } in accounts.iter().skip(1) {
        if let Some(text) = ledger.unshared.as_ref().and_then(words::unshared) {
            out += &Labelled::new("fork", format!("{}: {text}", ledger.pid)).render(style);
        }
    }
    out += &tree_lines(tree, style);
    out
}

/// `RSS 1,434 MiB = …, 4711: python train.py (exact, stopped 48 ms; kernel's counter 1,434 MiB)`.
fn head(ledger: &Ledger, style: &Style) -> String {
    let mut how = vec![badge(ledger)];
    if let Some(counter) = ledger.kernel_rss_bytes.filter(|counter| *counter != ledger.rss_bytes) {
        how.push(format!("the kernel's counter says {}", words::mib(counter)));
    }
    if let (Some(pss), Some(uss)) = (ledger.pss_bytes, ledger.uss_bytes) {
        how.push(format!("PSS {}, USS {}", words::mib(pss), words::mib(uss)));
    }
    let command = style.shorten(&style.safe(&ledger.command), 60);
    let sentence =
        format!("RSS {} of {} {command} ({})", words::mib(ledger.rss_bytes), ledger.pid, how.join("; "));
    style.paint(&fold(&style.safe(&sentence), style.columns()).join("\n"), Tone::Strong) + "\n"
}

fn badge(ledger: &Ledger) -> String {
    let stopped = || format!("stopped {}", text::duration(ledger.pause.stopped_ns as f64 / 1e9));
    match (ledger.badge, ledger.pause.mode) {
        (Badge::Exact, _) => format!("exact, {}", stopped()),
        (Badge::Estimated, PauseMode::Off) => "estimated: read while it ran".into(),
        (Badge::Estimated, _) => format!("estimated, {}", stopped()),
        (Badge::Mappings, _) => "by kinds of mappings: its memory was not read".into(),
        (Badge::Counters, _) => "by three counters: its mappings were not read".into(),
    }
}

fn table(account: &Account, style: &Style) -> String {
    let ledger = &account.ledger;
    let mut table = Table::new(&["MiB", "%", "PSS", "="]);
    for part in &ledger.parts {
        table.row(vec![
            words::mebi(part.bytes as i64),
            words::share(part.bytes as i64, ledger.rss_bytes),
            part.pss_bytes.map_or_else(String::new, |pss| words::mebi(pss as i64)),
            words::row(part, ledger),
        ]);
    }
    table.row(vec![
        words::mebi(ledger.residual_bytes),
        words::share(ledger.residual_bytes, ledger.rss_bytes),
        String::new(),
        "residual".into(),
    ]);
    table.render(style)
}

/// What must stay, what could go, hints, and what must be known.
fn tail(account: &Account, style: &Style) -> String {
    let ledger = &account.ledger;
    let mut lines = Vec::new();
    if !ledger.beside.is_empty() {
        let told: Vec<String> = ledger
            .beside
            .iter()
            .map(|named| format!("{} {}", text::bytes(named.bytes), named.name))
            .collect();
        lines.push(Labelled::new("beside", told.join(" · ")));
    }
    lines.extend(ledger.unshared.as_ref().and_then(words::unshared).map(|text| Labelled::new("fork", text)));
    lines.extend(words::judgement(account).map(|text| Labelled::new("of it", text)));
    for hint in &account.hints {
        lines.push(Labelled::new("hint", format!("{}. Check: {}", hint.what, hint.check)));
    }
    for note in &ledger.notes {
        lines.push(Labelled { tone: Tone::Warn, ..Labelled::new("note", note.clone()) });
    }
    lines.iter().map(|line| line.render(style)).collect()
}

fn processes(accounts: &[Account], style: &Style) -> String {
    let mut table = Table::new(&["PSS MiB", "RSS MiB", "USS MiB", "pid", "command"]);
    for Account { ledger, .. } in accounts {
        let known = |bytes: Option<u64>| bytes.map_or_else(|| "?".into(), |bytes| words::mebi(bytes as i64));
        table.row(vec![
            known(ledger.pss_bytes),
            words::mebi(ledger.rss_bytes as i64),
            known(ledger.uss_bytes),
            ledger.pid.to_string(),
            ledger.command.clone(),
        ]);
    }
    table.render(style)
}

fn tree_lines(tree: &Tree, style: &Style) -> String {
    let mut table = Table::new(&["MiB", "%", "= all of them, by PSS"]);
    for part in &tree.parts {
        let bytes = part.pss_bytes as i64;
        table.row(vec![
            words::mebi(bytes),
            words::share(bytes, tree.pss_bytes),
            words::name(part.name).into(),
        ]);
    }
    let residual = tree.residual_bytes;
    table.row(vec![words::mebi(residual), words::share(residual, tree.pss_bytes), "residual".into()]);
    table.render(style)
}

/// Code, written data and what its modules hold per package, largest first.
pub fn render_libraries(account: &Account, style: &Style) -> String {
    let ledger = &account.ledger;
    let mut out = head(ledger, style);
    let has_held = ledger.libraries.iter().any(|library| library.held_bytes.is_some());
    let held: &[&str] = if has_held { &["modules"] } else { &[] };
    let columns = [&["MiB", "code", "written", "PSS", "own"], held, &["files", "package"]].concat();
    let mut table = Table::new(&columns);
    for library in ledger.libraries.iter().take(LIBRARIES) {
        let held = library.held_bytes.filter(|_| has_held).map(|bytes| words::mebi(bytes as i64));
        let mut row = vec![
            words::mebi(cost(library) as i64),
            words::mebi(library.code_bytes as i64),
            words::mebi(library.data_bytes as i64),
            words::mebi(library.pss_bytes as i64),
            words::mebi(library.uss_bytes as i64),
        ];
        row.extend(has_held.then(|| held.unwrap_or_default()));
        row.extend([library.files.to_string(), library.name.clone()]);
        table.row(row);
    }
    out += &table.render(style);
    out += &unlisted(ledger.libraries.get(LIBRARIES..).unwrap_or_default());
    if has_held {
        let meaning = "Python objects and buffers that a package's modules hold, each with the nearest; \
                       __main__ is the program itself";
        out += &Labelled::new("modules", meaning.into()).render(style);
    }
    out
}

/// What importing a package costs, as far as it is known.
fn cost(library: &Library) -> u64 {
    library.code_bytes + library.data_bytes + library.held_bytes.unwrap_or(0)
}

fn unlisted(more: &[Library]) -> String {
    match more.len() {
        0 => String::new(),
        packages => format!("{packages} more packages: {}\n", words::mib(more.iter().map(cost).sum())),
    }
}

#[cfg(test)]
mod tests;
