//! The file around the views: policy, style, navigation, data, script.
//!
//! The policy allows this very script and this very style, by their hashes, and nothing else: no request can be made.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use nilometer_analysis::Run;
use sha2::{Digest as _, Sha256};

use super::markup::Markup;
use super::view::View;
use crate::sentence;
use crate::text;

pub(super) const SCRIPT: &str = include_str!("../../../../web/dist/report.js");
pub(super) const STYLE: &str = include_str!("../../../../web/dist/report.css");

pub(super) fn render(run: &Run, strip: Markup, views: &[View], data: Markup) -> String {
    let command = text::escape(&run.command.join(" "));
    let title = Markup::tagged("title", &[], &format!("nilo: {command}"));
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<meta name=\"generator\" content=\"nilo\">\n{}\n{}\n</head>\n<body>",
        policy(),
        title.as_str(),
        Markup::bundled("style", STYLE).as_str(),
    );
    let main = std::iter::once(strip).chain(views.iter().map(View::render)).collect();
    for piece in
        [header(run, views), Markup::element("main", &[], main), data, Markup::bundled("script", SCRIPT)]
    {
        page.push_str(piece.as_str());
    }
    page + "</body>\n</html>\n"
}

fn policy() -> String {
    let hash = |text: &str| BASE64_STANDARD.encode(Sha256::digest(text.as_bytes()));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

fn header(run: &Run, views: &[View]) -> Markup {
    let about = &run.about;
    let facts = format!(
        "{} · {} · {} · {} · nilo {}",
        sentence::ending(run),
        text::duration(run.duration_s),
        text::counted(run.processes_seen, "process", "processes"),
        about.started,
        about.nilo_version
    );
    let link = |view: &View| {
        let class = if view.is_absent() { "absent" } else { "" };
        Markup::tagged("a", &[("href", &format!("#{}", view.id)), ("class", class)], view.id)
    };
    let pieces = [
        Markup::tagged("h1", &[], &run.command.join(" ")),
        Markup::tagged("p", &[("class", "facts")], &facts),
        Markup::element("nav", &[("aria-label", "views")], views.iter().map(link).collect()),
    ];
    Markup::element("header", &[("class", "top")], pieces.into_iter().collect())
}
