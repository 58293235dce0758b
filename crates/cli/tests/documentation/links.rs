//! Links between pages: files that are there, anchors that are headings, every page in the table of contents.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use regex::Regex;

use crate::{pages_found, root};

/// Pages outside docs/ that link to it, or that it links to.
const OTHERS: [&str; 6] = [
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "bench/README.md",
    "examples/README.md",
    "docs/SUMMARY.md",
];

static LINK: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\]\(([^)\s]+)\)").unwrap());
static CODE: LazyLock<Regex> = LazyLock::new(|| Regex::new("`[^`\n]*`").unwrap());

/// A page without its blocks of code.
fn prose(path: &Path) -> String {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut inside = false;
    let lines = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The anchor of a heading, as GitHub and mdBook make it.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn anchors(path: &Path) -> Vec<String> {
    let text = prose(path);
    let headings = text.lines().filter_map(|line| line.strip_prefix('#'));
    headings.map(|line| anchor(line.trim_start_matches('#').trim())).collect()
}

struct Checked {
    anchors: HashMap<PathBuf, Vec<String>>,
    broken: Vec<String>,
}

impl Checked {
    fn check(&mut self, page: &str, target: &str) {
        if target.contains("://") || target.starts_with("mailto:") {
            return;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
        let from = root().join(page);
        let path = if file.is_empty() { from.clone() } else { from.parent().unwrap().join(file) };
        let Ok(path) = path.canonicalize() else {
            self.broken.push(format!("{page}: no {file}"));
            return;
        };
        if !anchor.is_empty() {
            let known = self.anchors.entry(path.clone()).or_insert_with(|| anchors(&path));
            if !known.iter().any(|known| known == anchor) {
                self.broken.push(format!("{page}: no heading #{anchor} in {file}"));
            }
        }
    }
}

#[test]
fn every_link_leads_somewhere() {
    let mut checked = Checked { anchors: HashMap::new(), broken: Vec::new() };
    for page in pages_found().iter().map(String::as_str).chain(OTHERS) {
        let text = prose(&root().join(page));
        let text = CODE.replace_all(&text, "code");
        for link in LINK.captures_iter(&text) {
            checked.check(page, &link[1]);
        }
    }
    assert!(checked.broken.is_empty(), "{}", checked.broken.join("\n"));
}

#[test]
fn every_page_is_in_the_table_of_contents() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for page in pages_found() {
        let name = page.strip_prefix("docs/").unwrap_or("introduction.md");
        assert!(summary.contains(&format!("({name})")), "{page} is not in docs/SUMMARY.md");
    }
}

#[test]
fn anchors_are_made_as_github_makes_them() {
    assert_eq!(anchor("`nilo run`: what it prints"), "nilo-run-what-it-prints");
    assert_eq!(anchor("Steps and phases"), "steps-and-phases");
}
