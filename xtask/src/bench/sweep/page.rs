//! The folder's README.

use anyhow::Result;
use serde_json::{Value, json};

use super::Reading;
use crate::bench::bar::{Bar, render_bars};
use crate::bench::machine;

pub fn render(quick: bool, readings: &[Reading], bars: &[Bar]) -> Result<String> {
    let warning = if quick { "**A quick run: one training only.**\n\n" } else { "" };
    Ok(format!(
        "# Laws against held-out sizes, {date}\n\n{warning}Machine: {machine}  \nCommit: {commit}  \n\
         Repeat with: `cargo xtask bench sweep`\n\n\
         Each training is swept over five sizes (`nilo sweep --set … --repeat 3`); two others, one inside the range and one beyond it, are \
         asked of the law (`--predict`) and then run three times: the median is compared, the extremes stand beside it. `nilo sweep --find` searches the largest size under a limit.\n\n\
         ## Bars\n\n{bars}\n## Held-out sizes\n\n{held_out}\n## Searches\n\n{searches}",
        date = machine::read_date()?,
        machine = machine::read_machine()?,
        commit = machine::read_commit(),
        bars = render_bars(bars),
        held_out = held_out(readings),
        searches = searches(readings),
    ))
}

fn mib(bytes: f64) -> String {
    format!("{:.1}", bytes / f64::from(1 << 20))
}

fn spread(held_out: &super::HeldOut) -> String {
    let ends = held_out.needed.first().zip(held_out.needed.last());
    let ends = ends.map(|(low, high)| format!(" ({}–{})", mib(*low), mib(*high)));
    mib(held_out.median()) + &ends.unwrap_or_default()
}

fn held_out(readings: &[Reading]) -> String {
    let head = "| training | law of the peak | size | told MiB | 95 % MiB | needed MiB (of three) | error | inside |\n|---|---|---:|---:|---:|---:|---:|---|\n";
    let rows =
        readings.iter().flat_map(|reading| reading.held_out.iter().map(move |held_out| (reading, held_out)));
    let row = |(reading, held_out): (&Reading, &super::HeldOut)| {
        format!(
            "| {} | {} | {} | {} | {}–{} | {} | {:.2} % | {} |\n",
            reading.training,
            reading.law,
            held_out.value,
            mib(held_out.told),
            mib(held_out.low),
            mib(held_out.high),
            spread(held_out),
            held_out.error() * 100.0,
            if held_out.is_inside() { "yes" } else { "**no**" }
        )
    };
    head.to_owned() + &rows.map(row).collect::<String>()
}

fn searches(readings: &[Reading]) -> String {
    let head = "| training | limit MiB | largest | 95 % | verified with MiB | runs |\n|---|---:|---:|---:|---:|---:|\n";
    let row = |reading: &Reading| {
        let number = |name: &str| reading.find[name].as_f64();
        let plain = |name: &str| number(name).map_or_else(|| "–".to_owned(), |value| format!("{value}"));
        let size = |name: &str| number(name).map_or_else(|| "–".to_owned(), mib);
        format!(
            "| {} | {} | {} | {}–{} | {} | {} |\n",
            reading.training,
            size("limit_bytes"),
            plain("largest"),
            plain("low"),
            plain("high"),
            size("largest_bytes"),
            plain("runs")
        )
    };
    head.to_owned() + &readings.iter().map(row).collect::<String>()
}

pub fn to_json(reading: &Reading) -> Value {
    let held_out = reading.held_out.iter().map(|h| {
        json!({"size": h.value, "told_bytes": h.told, "low_bytes": h.low, "high_bytes": h.high, "needed_bytes": h.needed})
    });
    json!({
        "training": reading.training,
        "law": reading.law,
        "held_out": held_out.collect::<Vec<_>>(),
        "find": reading.find,
    })
}
