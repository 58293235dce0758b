//! Words to the person at the terminal: everything that is not data goes to standard error through here.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use nilometer_report::Style;
use nilometer_report::text::escape;

use crate::cmd::exit;

/// One line of talk. A closed standard error is nobody's problem.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "nilo: {}", escape(line));
}

/// Replaces the line that says what takes so long by another one, or by nothing; on a terminal only.
pub fn line(what: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K{what}");
        let _ = out.flush();
    }
}

/// Prepared lines of talk.
pub fn talk(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// Data to standard output; a reader that went away (`| head`) is no error.
pub fn data(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// How to draw on standard output.
pub fn stdout_style() -> Style {
    style(std::io::stdout().is_terminal())
}

/// The same, as wide as asked.
pub fn stdout_style_of(width: Option<u16>) -> Style {
    let style = stdout_style();
    Style { width: width.map_or(style.width, usize::from), whole: style.whole && width.is_none(), ..style }
}

/// How to draw on standard error.
pub fn stderr_style() -> Style {
    style(std::io::stderr().is_terminal())
}

fn style(is_terminal: bool) -> Style {
    let terminal = || terminal_size::terminal_size().filter(|_| is_terminal).map(|(w, _)| usize::from(w.0));
    let width = asked_columns().or_else(terminal);
    Style {
        width: width.unwrap_or(100).clamp(40, 200),
        color: is_terminal && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty()),
        unicode: speaks_utf8(),
        whole: width.is_none(),
    }
}

/// `COLUMNS`, where it is set to a number.
fn asked_columns() -> Option<usize> {
    std::env::var("COLUMNS").ok()?.trim().parse().ok().filter(|columns| *columns > 0)
}

fn speaks_utf8() -> bool {
    let set = |name| std::env::var(name).ok().filter(|v| !v.is_empty());
    set("LC_ALL")
        .or_else(|| set("LC_CTYPE"))
        .or_else(|| set("LANG"))
        .is_none_or(|locale| locale.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

/// A failure of ours: what happened, and what to try.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub error: anyhow::Error,
    pub hint: Option<String>,
}

impl Failure {
    pub fn tell(&self) -> ExitCode {
        let hint = self.hint.as_ref().map_or_else(String::new, |hint| format!("\nhint: {}\n", escape(hint)));
        talk(&format!("nilo: {}\n{hint}", escape(&sentence(&self.error))));
        ExitCode::from(self.code)
    }

    /// With another exit code than [`exit::OURS`].
    pub fn exiting(self, code: u8) -> Self {
        Self { code, ..self }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

/// The chain of causes by colons; most errors of ours name their cause already.
fn sentence(error: &anyhow::Error) -> String {
    error.chain().map(ToString::to_string).fold(String::new(), |told, cause| match told.as_str() {
        "" => cause,
        _ if told.ends_with(&cause) => told,
        _ => format!("{told}: {cause}"),
    })
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self { code: exit::OURS, error: error.into(), hint: None }
    }
}
