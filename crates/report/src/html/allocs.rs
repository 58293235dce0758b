//! Which code owned the memory: the stacks at the peak as an icicle, and the largest of them as a table.

use nilometer_analysis::allocs::model::{Allocs, Category, Site};

use super::Page;
use super::markup::{self, Markup};
use super::view::{Badge, View, figure, findings};
use crate::plot;
use crate::stacks::Stacks;
use crate::text;

const QUESTION: &str = "Which code owned it at the peak?";
const ROWS: usize = 15;

pub(super) fn view(page: &Page<'_>, stacks: Option<&Stacks>) -> View {
    let (Some(allocs), Some(stacks)) = (page.allocs, stacks) else {
        let command = format!("nilo run --allocs -- {}", page.run.command.join(" "));
        return View::absent("allocs", QUESTION, "the run was recorded without --allocs", &command);
    };
    let top = allocs.sites.iter().max_by_key(|site| site.amounts.peak_bytes);
    let top =
        top.map(|site| format!("; largest: {} in {}", text::bytes(site.amounts.peak_bytes), innermost(site)));
    let sentence = format!("{}{}.", crate::allocs::peak_sentence(allocs), top.unwrap_or_default());
    let badge = match &allocs.sampling {
        None => Badge::Measured,
        Some(sampling) => Badge::Estimated(format!("one sample in {}", text::bytes(sampling.mean_bytes))),
    };
    let scene = plot::allocs(stacks, "Live at the peak, callers above", (plot::SIZE.0, 0.0));
    let body = [
        figure("chart-allocs", scene.as_ref()),
        figures(allocs),
        table(allocs),
        categories(&allocs.by_category),
        doubts(allocs, stacks),
    ];
    View { id: "allocs", question: QUESTION, sentence, badge, body: body.into_iter().collect() }
}

/// Live, cumulative and temporary bytes are different numbers and stay apart.
fn figures(allocs: &Allocs) -> Markup {
    findings(crate::allocs::lines(allocs).iter().skip(1))
}

fn innermost(site: &Site) -> String {
    site.stack.first().map(|frame| plot::frame_label(frame)).unwrap_or_default()
}

fn table(allocs: &Allocs) -> Markup {
    let mut largest: Vec<&Site> = allocs.sites.iter().collect();
    largest.sort_by_key(|site| std::cmp::Reverse(site.amounts.peak_bytes));
    let row = |site: &&Site| {
        let amounts = &site.amounts;
        let callers: Vec<String> = site.stack.iter().take(4).map(|frame| plot::frame_label(frame)).collect();
        vec![
            text::bytes(amounts.peak_bytes),
            text::bytes(amounts.live_end_bytes),
            text::bytes(amounts.cumulative_bytes),
            text::count(amounts.count),
            callers.join(" ← "),
        ]
    };
    let rows: Vec<Vec<String>> = largest.iter().take(ROWS).map(row).collect();
    let summary = Markup::tagged(
        "summary",
        &[],
        &format!("largest stacks ({} of {})", rows.len(), text::count(allocs.sites_seen)),
    );
    let heads = ["at the peak", "at the end", "ever", "blocks", "allocated by"];
    Markup::element("details", &[], [summary, markup::table(&heads, &rows, 4)].into_iter().collect())
}

/// Weights, activations and so on, where rules named them.
fn categories(all: &[Category]) -> Markup {
    let scene = plot::categories(all, plot::SIZE);
    scene.map(|scene| figure("chart-categories", Some(&scene))).unwrap_or_default()
}

fn doubts(allocs: &Allocs, stacks: &Stacks) -> Markup {
    let folded = (stacks.folded > 0).then(|| {
        format!(
            "down-sampled: the smallest {} are drawn as one",
            text::counted(stacks.folded, "stack", "stacks")
        )
    });
    let all: Vec<String> = allocs.quality.iter().cloned().chain(folded).collect();
    let item = |doubt: &String| Markup::tagged("li", &[], doubt);
    if all.is_empty() {
        return Markup::default();
    }
    Markup::element("ul", &[("class", "doubts")], all.iter().map(item).collect())
}
