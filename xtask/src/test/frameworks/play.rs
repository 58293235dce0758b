//! A training from its first step to its last under `nilo`: `run`, `run --allocs`, `leak`.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::check::{Check, Limit};
use super::stage::Play;
use super::{Arrays, Framework, Site};

fn number(value: &Value, name: &str) -> Result<f64> {
    value[name].as_f64().with_context(|| format!("no {name} in {value}"))
}

/// Its own peak; which release it is becomes part of the result.
pub fn peak(play: &Play<'_>, result: &mut Value) -> Result<Check> {
    let (code, truth) = play.under_nilo(&["run", "-q", "-o", "plain.nilo"], "run")?;
    ensure!(code == 0, "the training ends with {code} under nilo run");
    result["version"] = truth["version"].clone();
    result["python"] = truth["python"].clone();
    let report = play.ask_nilo(&["report", "plain.nilo"])?;
    let told = number(&report["largest_process"], "hwm_bytes")?;
    let truth = number(&truth, "peak_bytes")?;
    let how = "the program's own VmHWM as its last word";
    Ok(Check::bytes("run", "peak of the process", told, truth, Limit::Within(0.01), how))
}

/// A known array at its line, and categories that the framework itself tells.
pub fn allocs(play: &Play<'_>, framework: &Framework) -> Result<Vec<Check>> {
    let (code, truth) = play.under_nilo(&["run", "--allocs=all", "-q", "-o", "allocs.nilo"], "allocs")?;
    ensure!(code == 0, "the training ends with {code} under nilo run --allocs");
    let found = play.ask_nilo(&["report", "allocs.nilo", "--view", "allocs", "--top", "all"])?;
    let lost = number(&found, "lost_events")?;
    let mut checks = vec![Check::count("run --allocs", "events lost", lost, 0.0, "none")];
    let known = number(&truth, "known_bytes")?;
    let what = "an array of known size, at the line that makes it";
    checks.push(match framework.site {
        Site::Told => {
            let how = "nbytes of an array that one function makes";
            Check::bytes("run --allocs", what, known_site(&found), known, Limit::Within(0.0), how)
        }
        Site::Elsewhere => Check::cannot_tell("run --allocs", what, elsewhere(framework)),
    });
    for (name, share) in framework.categories {
        let category =
            found["by_category"].as_array().into_iter().flatten().find(|it| it["category"] == *name);
        let told = category.and_then(|it| it["kept_bytes"].as_f64()).unwrap_or(0.0);
        let mut truth = number(&truth["categories"], name)?;
        if *name == "train state" {
            truth += known; // it lives from step to step, too
        }
        let how = "bytes of the framework's own tensors of that kind";
        checks.push(Check::bytes("run --allocs", name, told, truth, Limit::Within(*share), how));
    }
    if framework.categories.is_empty() {
        checks.push(Check::cannot_tell(
            "run --allocs",
            "parameters, gradients, optimizer state",
            uncategorised(framework),
        ));
    }
    Ok(checks)
}

fn elsewhere(framework: &Framework) -> &'static str {
    match framework.arrays {
        Arrays::Pooled => "the framework's own pool hands it out",
        Arrays::Owned | Arrays::Native => "it is handed out later, on a thread without Python",
    }
}

fn uncategorised(framework: &Framework) -> &'static str {
    match framework.arrays {
        Arrays::Pooled => "the regions of the pool hold all of them together",
        Arrays::Native => "not checked here",
        Arrays::Owned => "the library itself tells no such bytes",
    }
}

/// The largest block that was handed out below the function whose array is known.
fn known_site(found: &Value) -> f64 {
    let below = |site: &&Value| {
        let frames = site["stack"].as_array().into_iter().flatten();
        frames.into_iter().any(|frame| frame["function"] == "known_array")
    };
    let sites = found["sites"].as_array().into_iter().flatten().filter(below);
    sites.filter_map(|site| site["peak_bytes"].as_f64()).fold(0.0, f64::max)
}

/// A leak that is planted is found with its rate; without it there is none.
pub fn leak(play: &Play<'_>) -> Result<Vec<Check>> {
    let words = |file| ["leak", "-q", "--force", "-o", "leak.nilo", file];
    let (_, truth) = play.under_nilo(&words("--json=leak.json"), "leak")?;
    let found = play.read_document("leak.json")?;
    let (_, _) = play.under_nilo(&words("--json=fixed.json"), "fixed")?;
    let fixed = play.read_document("fixed.json")?;
    let grows = |verdict: &Value| f64::from(u8::from(verdict["class"] == "grows"));
    let rate = number(&truth, "leaked_bytes_per_step")?;
    let told = found["rate_bytes_per_step"].as_f64().unwrap_or(0.0);
    let how = |verdict: &Value, what: &str| {
        format!("{what}; verdict: *{}*", verdict["class"].as_str().unwrap_or("none"))
    };
    let kept = how(&found, "one array is kept in each step");
    let gone = how(&fixed, "the same program, which lets it go");
    Ok(vec![
        Check::count("leak", "says that it leaks (1: yes)", grows(&found), 1.0, &kept),
        Check::bytes(
            "leak",
            "bytes a step",
            told,
            rate,
            Limit::Within(0.1),
            "nbytes of what it keeps, over its steps",
        ),
        Check::count("leak", "says that the fixed one leaks", grows(&fixed), 0.0, &gone),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_known_line_is_found_by_its_function() {
        let site = |function: &str, bytes: u32| json!({"stack": [{"function": "ones"}, {"function": function}], "peak_bytes": bytes});
        let found = json!({"sites": [site("known_array", 12), site("known_array", 3), site("step", 99)]});
        assert!((known_site(&found) - 12.0).abs() < 1e-9);
    }
}
