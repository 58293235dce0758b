//! Skips: the lines that tests append to `$NILO_SKIPS`, and whether the machine excuses them.
//!
//! A line is `skipped: needs CAPABILITY: reason`. A skip is an error where `nilo doctor` says that the
//! capability works, and where it gives no reason.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// Exit code of `nilo` for usage errors, hence also for a verb that it does not have.
const USAGE_ERROR: i32 = 2;

/// The lines written by the tests.
pub fn read(path: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Lists the skips with their counts; false when one of them has no excuse.
pub fn judge(lines: &[String], nilo: &Path) -> Result<bool> {
    for (line, times) in count_equal(lines) {
        println!("{times:>4} × {line}");
    }
    let capabilities = read_capabilities(nilo)?;
    if capabilities.is_none() {
        println!("`nilo doctor` does not exist yet: the skips are listed, not judged");
    }
    let faults = find_faults(lines, capabilities.as_ref());
    for fault in &faults {
        println!("error: {fault}");
    }
    Ok(faults.is_empty())
}

fn count_equal(lines: &[String]) -> BTreeMap<&str, usize> {
    lines.iter().fold(BTreeMap::new(), |mut counts, line| {
        *counts.entry(line.as_str()).or_default() += 1;
        counts
    })
}

/// The capability that a skip line names; none when the line is not of the agreed form.
fn parse_capability(line: &str) -> Option<&str> {
    let (capability, reason) = line.strip_prefix("skipped: needs ")?.split_once(": ")?;
    (!capability.trim().is_empty() && !reason.trim().is_empty()).then_some(capability.trim())
}

fn find_faults(lines: &[String], capabilities: Option<&BTreeMap<String, bool>>) -> Vec<String> {
    let fault = |line: &str| match parse_capability(line) {
        None => Some(format!("not of the form `skipped: needs CAPABILITY: reason`: {line}")),
        Some(name) if capabilities.is_some_and(|known| known.get(name) == Some(&true)) => {
            Some(format!("`nilo doctor` says that {name} works here, yet a test skipped: {line}"))
        }
        Some(_) => None,
    };
    count_equal(lines).into_keys().filter_map(fault).collect()
}

/// What the doctor says works here; none when `nilo` has no doctor.
fn read_capabilities(nilo: &Path) -> Result<Option<BTreeMap<String, bool>>> {
    let output = Command::new(nilo)
        .args(["doctor", "--json"])
        .output()
        .with_context(|| format!("cannot start {}", nilo.display()))?;
    if output.status.code() == Some(USAGE_ERROR) {
        return Ok(None);
    }
    let document: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("nilo doctor --json ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim())
    })?;
    parse_capabilities(&document).map(Some)
}

fn parse_capabilities(document: &Value) -> Result<BTreeMap<String, bool>> {
    let Some(list) = document["capabilities"].as_array() else {
        bail!("nilo doctor --json has no list `capabilities`");
    };
    list.iter()
        .map(|entry| {
            let name = entry["name"].as_str().context("a capability without `name`")?;
            let works =
                entry["works"].as_bool().with_context(|| format!("capability {name} without `works`"))?;
            Ok((name.to_owned(), works))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lines(all: &[&str]) -> Vec<String> {
        all.iter().map(|&line| line.to_owned()).collect()
    }

    #[test]
    fn the_capability_is_the_word_between_needs_and_the_colon() {
        assert_eq!(
            parse_capability("skipped: needs cgroup-delegation: not root: no systemd"),
            Some("cgroup-delegation")
        );
        assert_eq!(parse_capability("skipped: needs root"), None);
        assert_eq!(parse_capability("skipped"), None);
    }

    #[test]
    fn a_skip_is_an_error_only_where_the_capability_works() {
        let known = parse_capabilities(&json!({"capabilities": [
            {"name": "pidfd", "works": true}, {"name": "cgroup", "works": false}]}));
        let known = known.unwrap();
        let skips = lines(&["skipped: needs pidfd: old kernel", "skipped: needs cgroup: read-only"]);
        let faults = find_faults(&skips, Some(&known));
        assert_eq!(faults.len(), 1);
        assert!(faults[0].contains("pidfd works here"));
    }

    #[test]
    fn without_a_doctor_only_the_form_is_judged() {
        let skips = lines(&["skipped: needs pidfd: old kernel", "skipped because"]);
        assert_eq!(find_faults(&skips, None).len(), 1);
    }

    #[test]
    fn equal_lines_are_counted_once() {
        let skips = lines(&["skipped", "skipped", "skipped"]);
        assert_eq!(count_equal(&skips), BTreeMap::from([("skipped", 3)]));
        assert_eq!(find_faults(&skips, None).len(), 1);
    }
}
