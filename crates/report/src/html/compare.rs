//! What changed since another run.

use nilometer_analysis::compare::{Comparison, Versus};

use super::Page;
use super::markup::{self, Markup};
use super::view::{Badge, View, figure as picture};
use crate::compare::{facts, movement, row, site_text, steps_line, verdict};
use crate::figure;
use crate::plot;
use crate::text;
use nilometer_analysis::metric::Unit;

const QUESTION: &str = "What changed?";

pub(super) fn view(page: &Page<'_>) -> View {
    let Some((comparison, other)) = page.comparison.and_then(|all| Some((all, all.others.first()?))) else {
        let command = format!("nilo report {} --html --base OTHER", page.name());
        return View::absent("compare", QUESTION, "there is no other run beside it", &command);
    };
    let sentence = sentence(comparison, other);
    let body = [
        curves(comparison, other),
        parts(other),
        changes(other),
        steps(other),
        sites(other),
        kinds(other),
        notes(other),
    ];
    View {
        id: "compare",
        question: QUESTION,
        sentence,
        badge: Badge::Measured,
        body: body.into_iter().collect(),
    }
}

fn sentence(comparison: &Comparison, other: &Versus) -> String {
    let peak = other.changes.iter().find(|change| change.metric == "peak");
    let peak = peak.map_or_else(
        || "no peak on both sides".to_owned(),
        |change| {
            let cells = row(change, "peak");
            format!(
                "peak {} → {}, {} (95 %: {}): {}",
                cells[0],
                cells[1],
                cells[2],
                cells[3],
                verdict(change)
            )
        },
    );
    format!("{} → {}: {peak}. They differ in {}.", comparison.base, other.name, facts(&other.facts).text)
}

/// By step where both sides have steps, else by time; the script offers both.
fn curves(comparison: &Comparison, other: &Versus) -> Markup {
    let pair = other.courses.first();
    let scene = pair.and_then(|pair| plot::course(pair, (&comparison.base, &other.name), plot::SIZE));
    scene.map(|scene| picture("chart-compare", Some(&scene))).unwrap_or_default()
}

fn parts(other: &Versus) -> Markup {
    let scene = other.parts.as_ref().and_then(|parts| plot::differences(parts, plot::SIZE));
    scene.map(|scene| picture("chart-parts", Some(&scene))).unwrap_or_default()
}

fn changes(other: &Versus) -> Markup {
    let rows: Vec<Vec<String>> = other.changes.iter().map(|change| row(change, &change.metric)).collect();
    markup::table(&["base", "this run", "change", "95 % of the change", "figure"], &rows, 4)
}

fn steps(other: &Versus) -> Markup {
    let line = other.steps.as_ref().map(steps_line);
    line.map(|line| Markup::tagged("p", &[], &format!("By step: {}.", line.text))).unwrap_or_default()
}

fn sites(other: &Versus) -> Markup {
    let row = |site: &nilometer_analysis::compare::site::SiteChange| {
        vec![
            text::bytes(site.base_bytes as u64),
            text::bytes(site.other_bytes as u64),
            figure::signed(Unit::Bytes, site.other_bytes - site.base_bytes),
            site_text(site),
        ]
    };
    let rows: Vec<Vec<String>> = other.sites.iter().map(row).collect();
    if rows.is_empty() {
        Markup::default()
    } else {
        markup::table(&["base", "this run", "change", "allocated at"], &rows, 3)
    }
}

fn kinds(other: &Versus) -> Markup {
    let row = |kind: &nilometer_analysis::compare::object::KindChange| {
        vec![
            text::bytes(kind.base_bytes as u64),
            text::bytes(kind.other_bytes as u64),
            figure::signed(Unit::Bytes, kind.other_bytes - kind.base_bytes),
            format!("{}: {}", kind.kind, movement(kind.what)),
        ]
    };
    let rows: Vec<Vec<String>> = other.kinds.iter().take(20).map(row).collect();
    if rows.is_empty() {
        Markup::default()
    } else {
        markup::table(&["base", "this run", "change", "kind of object"], &rows, 3)
    }
}

fn notes(other: &Versus) -> Markup {
    let item = |note: &String| Markup::tagged("li", &[], note);
    if other.notes.is_empty() {
        return Markup::default();
    }
    Markup::element("ul", &[("class", "doubts")], other.notes.iter().map(item).collect())
}
