//! Charts of what the profiler's script draws: a bar for each category, its bytes and share beside it, one chart a log or
//! all in a square.

use nilometer_analysis::tagged::{Category, Tagged};

use crate::plot::{Bar, SIZE, bars};
use crate::scene::{Ink, Scene};

/// How charts are drawn.
#[derive(Debug, Clone, Default)]
pub struct Charting {
    /// Beside the title.
    pub title: String,
    /// Categories of this share and less are left out.
    pub min_percent: f64,
}

/// One log, the largest category first; nothing where nothing is left to draw.
pub fn chart(tagged: &Tagged, charting: &Charting) -> Option<Scene> {
    draw(&model(&tagged.name), tagged, tagged.categories.iter(), charting)
}

/// All logs in a square, by name, categories in one order everywhere.
pub fn chart_together(all: &[Tagged], charting: &Charting) -> Option<Scene> {
    let mut sorted: Vec<&Tagged> = all.iter().collect();
    sorted.sort_by(|a, b| a.name.cmp(&b.name));
    let scenes: Vec<Scene> = sorted.iter().filter_map(|tagged| in_order(tagged, charting)).collect();
    let side = (1..=scenes.len()).find(|side| side * side >= scenes.len())?;
    let most = |of: fn(&Scene) -> f64| scenes.iter().map(of).fold(0.0, f64::max);
    let (width, height) = (most(|it| it.width), most(|it| it.height));
    let rows = scenes.len().div_ceil(side);
    let mut whole = Scene::new(width * side as f64, height * rows as f64, "Memory profiles");
    for (place, scene) in scenes.into_iter().enumerate() {
        whole.place(scene, width * (place % side) as f64, height * (place / side) as f64);
    }
    Some(whole)
}

fn in_order(tagged: &Tagged, charting: &Charting) -> Option<Scene> {
    let mut categories: Vec<&Category> = tagged.categories.iter().collect();
    categories.sort_by(|a, b| a.key.cmp(&b.key));
    draw(&tagged.name, tagged, categories.into_iter(), charting)
}

fn draw<'a>(
    model: &str,
    tagged: &Tagged,
    categories: impl Iterator<Item = &'a Category>,
    charting: &Charting,
) -> Option<Scene> {
    let shown = categories.filter(|it| charting.min_percent <= 0.0 || it.percent > charting.min_percent);
    let drawn: Vec<Bar> = (0..).zip(shown).map(|(place, category)| bar(place, category)).collect();
    let own = Some(&charting.title).filter(|title| !title.is_empty());
    let own = own.map_or_else(String::new, |title| format!(", {title}"));
    let total = tagged.totals.allocated_bytes as f64 / f64::from(1 << 20);
    bars(&format!("Memory profile: {model}{own} · total allocation {total:.2} MB"), &drawn, SIZE)
}

fn bar(place: usize, category: &Category) -> Bar {
    Bar {
        name: category.name.clone(),
        bytes: category.bytes as f64,
        ink: Ink::Series(place),
        from: 0.0,
        note: format!(" ({:.2}%)", category.percent),
    }
}

/// Guessed from the name of the log.
fn model(name: &str) -> String {
    let lower = name.to_lowercase();
    let known = [("rnn", "RNN"), ("conv", "CONVOLUTIONAL"), ("tran", "TRANSFORMER")];
    known
        .iter()
        .find(|(part, _)| lower.contains(part))
        .map_or(lower.clone(), |(_, model)| (*model).to_owned())
}
