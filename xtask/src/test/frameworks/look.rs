//! A training that stands still, looked at from outside: `heap`, `where`, `pages`.

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::check::{Check, Limit};
use super::stage::{Dialogue, Play};
use super::{Arrays, Framework};

/// Of what is read over and over besides the array itself: interpreter, framework, stacks. 2 to 8 MiB were seen beside the 64 of
/// the array; the one that nobody reads has twice as much, so that it could not hide in it.
const BESIDE_HOT: f64 = 0.25;

pub fn all(play: &Play<'_>, framework: &Framework) -> Result<Vec<Check>> {
    let mut training = play.hold()?;
    let truth = training.ask("truth")?;
    let mut checks = heap(play, &training, framework, &truth)?;
    checks.extend(ledger(play, &mut training, framework)?);
    checks.extend(pages(play, &mut training)?);
    training.end()?;
    Ok(checks)
}

fn number(value: &Value, name: &str) -> Result<f64> {
    value[name].as_f64().with_context(|| format!("no {name} in {value}"))
}

fn heap(play: &Play<'_>, training: &Dialogue, framework: &Framework, truth: &Value) -> Result<Vec<Check>> {
    let kind = truth["kind"].as_str().context("no kind")?;
    let types = play.ask_nilo(&["heap", &training.pid, "--by", "type", "--top", "all"])?;
    let rows = types["rows"].as_array().context("no rows")?;
    let of_kind = rows.iter().filter(|row| row["kind"].as_str().is_some_and(|name| name.ends_with(kind)));
    // Of several types of that name (`inspect.Parameter`), the framework's own.
    let told = of_kind.map(|row| row["count"].as_f64().unwrap_or(0.0));
    let wanted = number(truth, "count")?;
    let nearest = told.min_by(|a, b| (a - wanted).abs().total_cmp(&(b - wanted).abs())).unwrap_or_default();
    let how = "objects of that type in the collector's list, or the framework's own list of arrays";
    let mut checks = vec![Check::count("heap", &format!("objects of type `{kind}`"), nearest, wanted, how)];
    if framework.arrays != Arrays::Owned {
        let why = "only C++ knows where its arrays are and how large";
        checks.push(Check::cannot_tell("heap", "bytes of the training's arrays", why));
        return Ok(checks);
    }
    let of = play.ask_nilo(&["heap", &training.pid, "--of", "__main__.training"])?["of"]["arrays"].clone();
    let how = "each array or storage below the training once, as the program walks them: nbytes";
    let (bytes, buffers) = (number(truth, "array_bytes")?, number(truth, "array_buffers")?);
    let told = number(&of, "unique_bytes")?;
    checks.push(Check::bytes("heap", "bytes of the training's arrays", told, bytes, Limit::Within(0.0), how));
    checks.push(Check::count("heap", "buffers of the training", number(&of, "buffers")?, buffers, how));
    Ok(checks)
}

/// The sum of a ledger's lines.
fn line(ledger: &Value, names: &[&str]) -> f64 {
    let parts = ledger["parts"].as_array().into_iter().flatten();
    let chosen = parts.filter(|part| names.is_empty() || names.iter().any(|name| part["name"] == *name));
    chosen.filter_map(|part| part["bytes"].as_f64()).sum()
}

fn ledger(play: &Play<'_>, training: &mut Dialogue, framework: &Framework) -> Result<Vec<Check>> {
    let pid = training.pid.clone();
    let look = || play.ask_nilo(&["where", &pid, "--single"]);
    let truth = training.ask("truth")?;
    let found = look()?;
    let rss = number(&found, "rss_bytes")?;
    let residual = number(&found, "residual_bytes")?;
    let bytes =
        |what: &str, told, truth, limit, how: &str| Check::bytes("where", what, told, truth, limit, how);
    let mut checks = vec![
        bytes(
            "lines and residual, summed",
            line(&found, &[]) + residual,
            rss,
            Limit::Within(0.0),
            "RSS as told",
        ),
        bytes("residual", residual.abs(), 0.0, Limit::UpTo(rss * 0.02), "none; at most 2 % of RSS"),
        bytes("RSS", rss, number(&truth, "rss_bytes")?, Limit::Within(0.01), "the program's own VmRSS"),
    ];
    if let Some(in_use) = truth["malloc_in_use_bytes"].as_f64() {
        let malloc = &found["malloc"];
        let told = number(malloc, "in_use_bytes")? + number(malloc, "mapped_bytes")?;
        checks.push(bytes(
            "malloc, handed out",
            told,
            in_use,
            Limit::Within(0.01),
            "the C library's own mallinfo2",
        ));
    }
    training.ask("more")?;
    let before = look()?;
    let made = number(&training.ask("go on")?, "bytes")?;
    let after = look()?;
    let how = "nbytes of three arrays that are made between two looks";
    let (name, limit) = match framework.arrays {
        Arrays::Owned => ("arrays", Limit::Within(0.0)),
        Arrays::Native => ("malloc_in_use", Limit::Within(0.01)),
        Arrays::Pooled => {
            let why = "tensors lie in regions that TensorFlow's own pool has taken before";
            checks.push(Check::cannot_tell("where", "three more arrays", why));
            return Ok(checks);
        }
    };
    let told = line(&after, &[name]) - line(&before, &[name]);
    checks.push(bytes(&format!("three more arrays, in the line `{name}`"), told, made, limit, how));
    Ok(checks)
}

fn pages(play: &Play<'_>, training: &mut Dialogue) -> Result<Vec<Check>> {
    let truth = training.ask("touch")?;
    let (hot, cold) = (number(&truth, "hot_bytes")?, number(&truth, "cold_bytes")?);
    let pid = training.pid.clone();
    let plain = play.ask_nilo(&["pages", &pid, "--window", "1s", "--duration", "3s", "--no-names"])?;
    let split =
        play.ask_nilo(&["pages", &pid, "--split", "--window", "1s", "--duration", "3s", "--no-names"])?;
    training.say("enough")?;
    let median = number(&plain["wss_by_window_s"][0], "median_bytes")?;
    let untouched = number(&split["cold"][0], "bytes")?;
    let windows = split["windows"].as_array().context("no windows")?;
    let rss = number(windows.last().context("no window")?, "rss_bytes")?;
    // The ends of the array share their pages with others.
    let cold = cold - 8192.0;
    Ok(vec![
        Check::bytes(
            "pages",
            "touched within a second",
            median,
            hot,
            Limit::UpTo(hot * (1.0 + BESIDE_HOT)),
            "an array that the program reads over and over; the interpreter and the framework are touched beside it",
        ),
        Check::bytes(
            "pages",
            "not touched (`--split`)",
            untouched,
            cold,
            Limit::UpTo(rss - hot),
            "an array that nobody reads, at least; at most all that is resident but the one that is read",
        ),
    ])
}
