//! Which setting fits.

use nilometer_analysis::sweep::model::Sweep;

use super::Page;
use super::markup::{self, Markup};
use super::view::{Badge, View, figure, findings};
use crate::plot;
use crate::sweep::{cells, group_lines, heads, part};

const QUESTION: &str = "Which batch size fits?";

/// What the memory of each parameter set is made of, where that was recorded.
fn parts(sweep: &Sweep) -> Markup {
    let Some((heads, rows)) = part::cells(sweep) else { return Markup::default() };
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    markup::table(&heads, &rows, heads.len().saturating_sub(1))
}

pub(super) fn view(page: &Page<'_>) -> View {
    let Some(sweep) = page.sweep else {
        let command = "nilo sweep --set batch=16,32,64 -- python train.py --batch {batch}";
        return View::absent(
            "sweep",
            QUESTION,
            "this is one run; several that differ in a setting tell",
            command,
        );
    };
    let lines: Vec<_> = sweep.groups.iter().flat_map(|group| group_lines(sweep, group)).collect();
    let told = lines.iter().find(|line| line.label == "fits").or_else(|| lines.first());
    let sentence =
        told.map_or_else(|| "Runs that differ in a setting.".into(), |line| format!("{}.", line.text));
    let rows: Vec<Vec<String>> = cells(sweep);
    let heads = heads(sweep);
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let body = [
        figure("chart-sweep", plot::sweep(sweep, plot::SIZE).as_ref()),
        findings(&lines),
        markup::table(&heads, &rows, heads.len().saturating_sub(1)),
        parts(sweep),
    ];
    View {
        id: "sweep",
        question: QUESTION,
        sentence,
        badge: Badge::Measured,
        body: body.into_iter().collect(),
    }
}
