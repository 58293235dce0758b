//! What resident memory is made of: the ledger nearest to the peak as a waterfall, and all of them over time.

use nilometer_analysis::ledger::run::{Ledgers, Moment};
use nilometer_analysis::ledger::{Account, Badge as Known};
use nilometer_analysis::model::{MadeOf, Run};

use super::Page;
use super::markup::{self, Markup};
use super::view::{Badge, View, figure};
use crate::ledger::line_name;
use crate::ledger::run::distance;
use crate::plot::{self, Bar};
use crate::scene::Ink;
use crate::sentence::tells_peak;
use crate::text;

const ID: &str = "where";
const QUESTION: &str = "Why is RSS larger than my tensors?";

pub(super) fn view(page: &Page<'_>) -> View {
    let run = page.run;
    let ledger = run.ledgers.as_ref().and_then(|all| Some((all, all.curve.get(all.nearest)?)));
    match (ledger, &run.made_of) {
        (Some((ledgers, moment)), made_of) if made_of.is_none() || tells_peak(run, moment) => {
            let (sentence, badge, body) = by_ledger(ledgers, moment);
            View { id: ID, question: QUESTION, sentence, badge, body }
        }
        (ledger, Some(made_of)) => {
            let mut view = by_mappings(made_of);
            if let Some((ledgers, moment)) = ledger {
                let (sentence, _, body) = by_ledger(ledgers, moment);
                view.body.push(Markup::tagged(
                    "p",
                    &[],
                    &format!("A ledger of less than the peak: {sentence}"),
                ));
                view.body.push(body);
            }
            view
        }
        _ => {
            let why = format!("no ledger was taken, no process reached 64 MiB{}", ended(run));
            View::absent(ID, QUESTION, &why, "nilo run --ledger=exact -- COMMAND")
        }
    }
}

fn ended(run: &Run) -> &'static str {
    if run.duration_s < 1.0 { " or it ended at once" } else { "" }
}

fn by_ledger(ledgers: &Ledgers, moment: &Moment) -> (String, Badge, Markup) {
    let mut parts = moment.parts.clone();
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    let largest: Vec<String> = parts
        .iter()
        .take(3)
        .map(|part| format!("{} {}", line_name(part.name), text::bytes(part.bytes)))
        .collect();
    let sentence = format!(
        "{} resident in process {}, {}: mostly {}; residual {}.",
        text::bytes(moment.rss_bytes),
        moment.pid,
        distance(moment.from_peak_s),
        largest.join(", "),
        text::signed_bytes(moment.residual_bytes),
    );
    let badge = match moment.badge {
        Known::Exact => Badge::Measured,
        Known::Estimated => Badge::Estimated("read while it ran".into()),
        Known::Mappings | Known::Counters => Badge::Estimated("its memory was not read".into()),
    };
    let account = ledgers.accounts.get(ledgers.nearest);
    let body = [
        figure("chart-where", plot::ledger(moment, plot::SIZE).as_ref()),
        account.map(hints).unwrap_or_default(),
    ];
    (sentence, badge, body.into_iter().collect())
}

/// What to do, with its bytes and a way to check it.
fn hints(account: &Account) -> Markup {
    let hint = |hint: &nilometer_analysis::ledger::Hint| {
        let check = Markup::tagged("span", &[("class", "faint")], &format!(" To check: {}", hint.check));
        Markup::element("li", &[], [Markup::text(&format!("{}.", hint.what)), check].into_iter().collect())
    };
    if account.hints.is_empty() {
        return Markup::default();
    }
    Markup::element("ul", &[("class", "hints")], account.hints.iter().map(hint).collect())
}

fn by_mappings(made_of: &MadeOf) -> View {
    let total = made_of.total_bytes as f64;
    let mut from = 0.0;
    let mut rows = Vec::new();
    for (number, part) in made_of.parts.iter().enumerate() {
        let bytes = part.bytes as f64;
        rows.push(Bar {
            name: part.name.clone(),
            bytes,
            ink: Ink::Series(number),
            from,
            note: String::new(),
        });
        from += bytes;
    }
    let residual = made_of.residual_bytes as f64;
    rows.push(Bar { name: "residual".into(), bytes: residual, ink: Ink::Limit, from, note: String::new() });
    rows.push(Bar { name: "the tree".into(), bytes: total, ink: Ink::Faint, from: 0.0, note: String::new() });
    let largest = made_of.parts.iter().max_by_key(|part| part.bytes);
    let largest = largest.map(|part| format!(": mostly {} {}", part.name, text::bytes(part.bytes)));
    let sentence = format!(
        "{} by kinds of mappings{}; residual {}.",
        text::bytes(made_of.total_bytes),
        largest.unwrap_or_default(),
        text::signed_bytes(made_of.residual_bytes)
    );
    let mappings: Vec<Vec<String>> = made_of
        .largest
        .iter()
        .take(12)
        .map(|one| vec![text::bytes(one.rss_bytes), text::bytes(one.pss_bytes), one.name.clone()])
        .collect();
    let table = if mappings.is_empty() {
        Markup::default()
    } else {
        markup::table(&["RSS", "PSS", "largest mappings"], &mappings, 2)
    };
    let body = [figure("made-of", plot::bars("Memory of the tree", &rows, plot::SIZE).as_ref()), table];
    let badge = Badge::Estimated("by kinds of mappings; nilo where PID says more".into());
    View { id: ID, question: QUESTION, sentence, badge, body: body.into_iter().collect() }
}
