//! Does it leak, where, how much per step.

use nilometer_analysis::leak::Leak;
use nilometer_analysis::leak::model::{Class, Place, StepsFrom};

use super::Page;
use super::markup::{self, Markup};
use super::view::{Badge, View, figure, findings};
use crate::leak::{lines, place_sentence, unit};
use crate::plot;
use crate::text;

const QUESTION: &str = "Does it leak, where, how much per step?";

pub(super) fn view(page: &Page<'_>) -> View {
    let Some(leak) = page.leak else {
        return View::absent("leak", QUESTION, "nothing was judged", &format!("nilo leak {}", page.name()));
    };
    let told = lines(leak, page.run);
    let sentence = told.first().map(|line| line.text.clone()).unwrap_or_default();
    let badge = match (leak.class, leak.steps_from) {
        (Class::CannotTell, _) => Badge::Estimated("cannot tell".into()),
        (_, StepsFrom::Marks) => Badge::Measured,
        (_, StepsFrom::Estimated) => Badge::Estimated("steps from the curve".into()),
        (_, StepsFrom::Nothing) => Badge::Estimated("by time, no steps were marked".into()),
    };
    let rest = told.iter().skip(1).filter(|line| !matches!(line.label, "where" | "" | "saved"));
    let body = [
        figure("chart-leak", plot::leak(page.run, leak, plot::SIZE).as_ref()),
        places(leak),
        findings(rest),
        evidence(leak),
    ];
    View { id: "leak", question: QUESTION, sentence, badge, body: body.into_iter().collect() }
}

/// Where it grows, from the outside in.
fn places(leak: &Leak) -> Markup {
    let mut listed: Vec<&Place> = leak.places.iter().collect();
    listed.sort_by_key(|place| place.depth);
    let item = |place: &&Place| Markup::tagged("li", &[], &place_sentence(place, unit(leak)));
    if listed.is_empty() {
        return Markup::default();
    }
    Markup::element("ol", &[("class", "places")], listed.iter().map(item).collect())
}

fn evidence(leak: &Leak) -> Markup {
    let row = |one: &nilometer_analysis::leak::model::Evidence| {
        let rate = one.rate_bytes_per_step.map_or_else(|| "–".into(), |rate| text::signed_bytes(rate as i64));
        let smallest =
            one.smallest_detectable.map_or_else(|| "–".into(), |size| text::bytes(size.max(0.0) as u64));
        vec![
            rate,
            smallest,
            one.points.to_string(),
            one.course.to_owned(),
            one.what.clone(),
            one.reason.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = leak.evidence.iter().map(row).collect();
    if rows.is_empty() {
        return Markup::default();
    }
    let per = format!("rate/{}", unit(leak));
    let heads = [per.as_str(), "smallest seen", "points", "course", "by", "why"];
    let summary = Markup::tagged("summary", &[], "what each way of looking says");
    Markup::element("details", &[], [summary, markup::table(&heads, &rows, 3)].into_iter().collect())
}
