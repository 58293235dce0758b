//! `cargo xtask docs`: the pages that benchmarks write (`docs/accuracy.md`, `docs/overhead.md`, `docs/frameworks.md`), and the book of all pages.
//!
//! A page is made from `data.json` of the newest folder of each benchmark, so it never says more than was measured.

mod book;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::test::frameworks;
use crate::workspace;

/// A benchmark and what its bars are about.
struct Topic {
    bench: &'static str,
    title: &'static str,
    /// What is measured, and against what truth.
    how: &'static str,
}

struct Page {
    name: &'static str,
    title: &'static str,
    /// Said before all tables.
    intro: &'static str,
    topics: &'static [Topic],
}

const PAGES: [Page; 2] = [
    Page {
        name: "accuracy",
        title: "Accuracy",
        intro: "Is what `nilo` says true? Each figure is compared with a truth that was obtained in another way.",
        topics: &[
            Topic {
                bench: "ledger",
                title: "The ledger: `nilo where`",
                how: "Programs that know their own arrays and ask the C library for its own account (`mallinfo2`); trees against the \
                      counter of their control group. Its cost stands here too.",
            },
            Topic {
                bench: "leaks",
                title: "The verdict: `nilo leak`",
                how: "Programs with a planted leak, or none, and a known rate (`bench/leaks`), and generated curves.",
            },
            Topic {
                bench: "sweep",
                title: "Laws: `nilo sweep`",
                how: "Sizes that the law was not given, run afterwards.",
            },
            Topic {
                bench: "gate",
                title: "Gates: `nilo compare`",
                how: "Unchanged code compared with itself a hundred times, and code that needs a tenth more.",
            },
            Topic {
                bench: "harmless",
                title: "Harmlessness: `nilo heap`",
                how: "A training under a thousand censuses must have the same losses, to the last bit.",
            },
        ],
    },
    Page {
        name: "overhead",
        title: "Overhead",
        intro: "What does watching cost, beside other tools on the same programs, in interleaved rounds?",
        topics: &[
            Topic {
                bench: "sampler",
                title: "Recording: `nilo run`",
                how: "Trees of 1, 10 and 200 processes, the kernel's own account of the sampler's threads; mprof and psrecord on the same trees.",
            },
            Topic {
                bench: "heap",
                title: "A census: `nilo heap`",
                how: "The same heap for every tool, a fresh process for each look; guppy3 and Pympler inside it.",
            },
            Topic {
                bench: "allocs",
                title: "Allocations: `nilo run --allocs`",
                how: "Extra CPU of the program; memray and heaptrack on the same programs.",
            },
            Topic {
                bench: "pages",
                title: "Touched pages: `nilo pages`",
                how: "Processes of 1 and 10 GiB, and trainings with and without it.",
            },
            Topic {
                bench: "live",
                title: "`nilo top`, and metrics",
                how: "In a terminal, on lists, trees and runs; metrics beyond plain recording.",
            },
            Topic {
                bench: "report",
                title: "The page: `nilo report --html`",
                how: "Of a long run, beside memray's; how fast it answers in a browser.",
            },
            Topic {
                bench: "soak",
                title: "Hours of `nilo run --heap --allocs`",
                how: "A training in torch; the recorder is looked at from outside.",
            },
            Topic { bench: "build", title: "Building it", how: "A cold release build with two jobs." },
        ],
    },
];

/// Writes the pages, or says which differ, and builds the book.
pub fn run(check: bool) -> Result<bool> {
    let good = if check { check_pages()? } else { write_pages()? };
    Ok(book::build()? && good)
}

/// After a benchmark, and by hand.
pub fn write_pages() -> Result<bool> {
    for (path, text) in render_all()? {
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        println!("wrote {}", path.display());
    }
    Ok(true)
}

fn check_pages() -> Result<bool> {
    let mut good = true;
    for (path, text) in render_all()? {
        if fs::read_to_string(&path).unwrap_or_default() != text {
            println!("{} is not what the benchmarks say: cargo xtask docs", path.display());
            good = false;
        }
    }
    Ok(good)
}

fn render_all() -> Result<Vec<(PathBuf, String)>> {
    let root = workspace::root();
    let page =
        |page: &Page| Ok((root.join(format!("docs/{}.md", page.name)), render(page, &root.join("bench"))?));
    let mut pages: Vec<(PathBuf, String)> = PAGES.iter().map(page).collect::<Result<_>>()?;
    let found = newest(&root.join("bench"), "frameworks")?;
    pages.push((root.join("docs/frameworks.md"), frameworks::page::render(found.as_ref())));
    Ok(pages)
}

fn render(page: &Page, bench: &Path) -> Result<String> {
    let mut text = format!(
        "<!-- Written by `cargo xtask docs` from bench/*/data.json: change it there. -->\n\n# {}\n\n{}\nLosses stay in: a bar that is not \
         kept says **FAIL**.\n",
        page.title, page.intro
    );
    for topic in page.topics {
        let _ = write!(text, "\n## {}\n\n{}\n\n", topic.title, topic.how);
        match newest(bench, topic.bench)? {
            None => {
                let _ = writeln!(text, "Not measured yet: `cargo xtask bench {}`.", topic.bench);
            }
            Some((folder, data)) => text.push_str(&render_topic(&folder, &data)),
        }
    }
    Ok(text)
}

/// The folder whose date is the latest: dates sort as text.
fn newest(bench: &Path, name: &str) -> Result<Option<(String, Value)>> {
    let ending = format!("-{name}");
    let entries = fs::read_dir(bench).with_context(|| format!("cannot list {}", bench.display()))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let Some(folder) = names.filter(|folder| folder.ends_with(&ending)).max() else { return Ok(None) };
    let path = bench.join(&folder).join("data.json");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let data = serde_json::from_str(&text).with_context(|| format!("{} is not JSON", path.display()))?;
    Ok(Some((folder, data)))
}

fn render_topic(folder: &str, data: &Value) -> String {
    let mut text = String::from("| bar | limit | measured | |\n|---|---:|---:|---|\n");
    for bar in data["bars"].as_array().into_iter().flatten() {
        let word = |name: &str| bar[name].as_str().unwrap_or("–").to_owned();
        let verdict = match bar["holds"].as_bool() {
            Some(true) => "pass",
            Some(false) => "**FAIL**",
            None => "not measured",
        };
        let limit = word("limit");
        let measured = bar["measured"].as_f64().map_or("–".to_owned(), |value| figure(value, &limit));
        let _ = writeln!(text, "| {} | {limit} | {measured} | {verdict} |", word("what"));
    }
    let versions = data["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect::<Vec<_>>()
        .join("; ");
    let commit = data["commit"].as_str().map(|commit| format!("commit {commit}")).unwrap_or_default();
    let told =
        [data["date"].as_str(), data["machine"].as_str(), Some(versions.as_str()), Some(commit.as_str())];
    let told = told.into_iter().flatten().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ");
    let _ = writeln!(
        text,
        "\n{told}\n\nReadings and how they were taken: [`bench/{folder}`](../bench/{folder}/README.md)"
    );
    text
}

/// With the unit that the limit has.
fn figure(value: f64, limit: &str) -> String {
    let unit = limit
        .trim_start_matches(['≤', '≥', ' '])
        .trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let digits = if value.abs() >= 100.0 || value.fract() == 0.0 { 0 } else { 3 };
    format!("{value:.digits$}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_what_the_benchmarks_say() {
        assert!(check_pages().unwrap(), "cargo xtask docs");
    }

    #[test]
    fn a_figure_has_the_unit_of_its_limit() {
        assert_eq!(figure(0.25, "≤ 0.4 %"), "0.250 %");
        assert_eq!(figure(15.463, "≥ 20×"), "15.463×");
        assert_eq!(figure(162.04, "≤ 300 s"), "162 s");
        assert_eq!(figure(0.0, "≤ 0 B"), "0 B");
    }

    #[test]
    fn losses_stay_in() {
        let data = serde_json::json!({"date": "2026-11-16", "machine": "a", "bars": [{"what": "x", "limit": "≤ 1", "measured": 2.0, "holds": false}]});
        let text = render_topic("2026-11-16-x", &data);
        assert!(text.contains("| x | ≤ 1 | 2 | **FAIL** |") && text.contains("2026-11-16 · a"), "{text}");
    }
}
