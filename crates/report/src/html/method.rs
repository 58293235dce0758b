//! How it all was measured, what is missing and why, and the data for other tools.

use super::Page;
use super::markup::Markup;
use super::view::{Badge, View, findings};
use crate::term::method_lines;

const QUESTION: &str = "How was it measured, and what did that cost?";

pub(super) fn view(page: &Page<'_>) -> View {
    let run = page.run;
    let mut lines = method_lines(run);
    lines.extend(run.quality.iter().map(|doubt| crate::layout::Line::new("doubt", doubt.clone())));
    let cost = crate::sentence::findings(run).into_iter().find(|line| line.label == "cost");
    let sentence = cost.map_or_else(
        || "What the recorder itself cost is not known.".to_owned(),
        |line| format!("The recorder took {}.", line.text),
    );
    lines.push(crate::layout::Line::new("command", run.command.join(" ")));
    lines.push(crate::layout::Line::new("directory", run.about.directory.clone()));
    let kept = if page.redacted {
        "redacted: arguments, paths, host and names of files were left out"
    } else {
        "it holds command lines, paths and the host's name: --redact leaves them out"
    };
    lines.push(crate::layout::Line::new("sharing", kept.to_owned()));
    let export = format!("nilo export {} --format csv", page.name());
    let data = [
        Markup::element("p", &[("id", "download")], Markup::default()),
        Markup::element("p", &[("class", "how")], Markup::tagged("code", &[], &export)),
    ];
    let body = std::iter::once(findings(&lines)).chain(data).collect();
    View { id: "method", question: QUESTION, sentence, badge: Badge::Measured, body }
}
