//! How much of the memory is really touched: working set, what would miss, owners, and the map of it all.

use nilometer_analysis::pages::model::{Pages, Window};

use super::Page;
use super::markup::{self, Markup};
use super::view::{Badge, View, figure, findings};
use crate::pages::{lines, sentence, trace};
use crate::plot;
use crate::text;

const QUESTION: &str = "How much of it is really touched?";
const WINDOWS: usize = 40;
const OWNERS: usize = 20;

pub(super) fn view(page: &Page<'_>) -> View {
    let Some(pages) = page.pages else {
        let command = format!("nilo pages -o pages.d -- {}", page.run.command.join(" "));
        let mut view = View::absent("pages", QUESTION, "no page was watched", &command);
        let then = format!("nilo report {} --html --pages pages.d", page.name());
        view.body.push(Markup::element("p", &[("class", "how")], Markup::tagged("code", &[], &then)));
        return view;
    };
    let badge = if pages.exact { Badge::Measured } else { Badge::Estimated(pages.backend.clone()) };
    let body = if pages.trace.is_some() { traced(pages) } else { looked(pages) };
    View { id: "pages", question: QUESTION, sentence: sentence(pages), badge, body }
}

fn looked(pages: &Pages) -> Markup {
    let body = [
        figure("chart-pages", plot::heat(pages, plot::SIZE).as_ref()),
        figure("chart-wss", plot::working_set(pages, plot::SIZE).as_ref()),
        misses(pages),
        findings(&lines(pages)),
        owners(pages),
        windows(pages),
    ];
    body.into_iter().collect()
}

/// A trace has no windows and no map.
fn traced(pages: &Pages) -> Markup {
    let table = markup::table(&trace::HEADS, &trace::rows(pages), 4);
    [misses(pages), findings(&lines(pages)), table].into_iter().collect()
}

/// The curve, or why there is none.
fn misses(pages: &Pages) -> Markup {
    if let Some(scene) = plot::misses(pages, plot::SIZE) {
        return figure("chart-misses", Some(&scene));
    }
    let why = pages.reuse_why_not.as_deref().unwrap_or("nothing was touched twice");
    Markup::tagged("p", &[("class", "faint")], &format!("No curve of misses: {why}."))
}

fn owners(pages: &Pages) -> Markup {
    let row = |owner: &nilometer_analysis::pages::model::Owner| {
        vec![
            text::bytes(owner.resident_bytes),
            text::bytes(owner.touched_bytes),
            text::bytes(owner.cold_bytes),
            owner.name.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = pages.owners.iter().take(OWNERS).map(row).collect();
    markup::table(&["resident", "touched", "never touched", "owner"], &rows, 3)
}

fn windows(pages: &Pages) -> Markup {
    let row = |window: &Window| {
        vec![
            text::duration(window.at_s),
            text::duration(window.effective_s),
            text::bytes(window.wss_bytes),
            text::bytes(window.rss_bytes),
            window.written_bytes.map_or_else(|| "–".into(), text::bytes),
        ]
    };
    let stride = pages.windows.len().div_ceil(WINDOWS).max(1);
    let rows: Vec<Vec<String>> = pages.windows.iter().step_by(stride).map(row).collect();
    let title = format!("windows ({} of {})", rows.len(), text::count(pages.windows.len() as u64));
    let summary = Markup::tagged("summary", &[], &title);
    let table = markup::table(&["at", "window", "touched", "resident", "written"], &rows, 5);
    Markup::element("details", &[], [summary, table].into_iter().collect())
}
