//! Ranks side by side: of the job that this run is one rank of, or of the launcher that was recorded with them.

use nilometer_analysis::rank::Job;

use super::Page;
use super::markup::{self, Markup};
use super::view::{Badge, View, figure};
use crate::plot;
use crate::rank::{cells, heads, of_one_recording, sentence, shown};
use crate::text;

const QUESTION: &str = "Do all ranks need the same?";

pub(super) fn view(page: &Page<'_>) -> View {
    let outer = of_one_recording(page.run);
    let Some(job) = page.job.or(outer.as_ref()) else {
        let command = format!("torchrun --no-python nilo run -- {}", page.run.command.join(" "));
        return View::absent(
            "ranks",
            QUESTION,
            "this is one process tree; ranks are runs of their own",
            &command,
        );
    };
    View {
        id: "ranks",
        question: QUESTION,
        sentence: format!("{}.", sentence(job)),
        badge: Badge::Measured,
        body: [strip(job), table(job)].into_iter().collect(),
    }
}

/// Who had how much when.
fn strip(job: &Job) -> Markup {
    let scene = plot::ranks(job, plot::SIZE);
    scene.map(|scene| figure("chart-ranks", Some(&scene))).unwrap_or_default()
}

fn table(job: &Job) -> Markup {
    let heads = heads(job);
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    let shown = shown(job);
    let rows: Vec<Vec<String>> = shown.iter().map(|row| cells(job, row)).collect();
    let left = job.ranks.len() - shown.len();
    let more = if left > 0 {
        format!("{} more ranks are not shown.", text::count(left as u64))
    } else {
        String::new()
    };
    let more = if more.is_empty() { Markup::default() } else { Markup::tagged("p", &[], &more) };
    [markup::table(&heads, &rows, heads.len().saturating_sub(2)), more].into_iter().collect()
}
