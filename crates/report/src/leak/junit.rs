//! The verdict as one test case, in the XML that build servers read.

use nilometer_analysis::Run;
use nilometer_analysis::leak::Leak;

use super::sentence_of;

/// How the case ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    /// Not enough evidence.
    Skipped,
    /// The target failed.
    Error,
}

pub fn render(leak: &Leak, run: &Run, outcome: Outcome) -> String {
    let count = |wanted: Outcome| u8::from(outcome == wanted);
    let message = escape(&sentence_of(leak));
    let inner = match outcome {
        Outcome::Passed => format!("<system-out>{message}</system-out>"),
        Outcome::Failed => format!("<failure message=\"{message}\"/>"),
        Outcome::Skipped => format!("<skipped message=\"{message}\"/>"),
        Outcome::Error => format!("<error message=\"{message}\"/>"),
    };
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites><testsuite name=\"nilo leak\" tests=\"1\" \
         failures=\"{}\" errors=\"{}\" skipped=\"{}\"><testcase classname=\"leak\" name=\"{}\" time=\"{:.3}\">{inner}\
         </testcase></testsuite></testsuites>\n",
        count(Outcome::Failed),
        count(Outcome::Error),
        count(Outcome::Skipped),
        escape(&run.command.join(" ")),
        run.duration_s,
    )
}

/// Characters that XML 1.0 does not know are left out.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\n' | '\t' | '\r' => safe.push(' '),
            c if c < ' ' || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_and_control_characters_do_no_harm() {
        assert_eq!(escape("a<b> & \"c\"\x1b[0m\n"), "a&lt;b&gt; &amp; &quot;c&quot;[0m ");
    }
}
