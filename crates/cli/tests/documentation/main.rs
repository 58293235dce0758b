//! The documentation is run: every `console` block of README.md and docs/ is typed into a shell, page by page, and what is
//! printed is compared with what the page says (`mask.rs` tells what may differ).
//!
//! A block that no test runs says so in its fence (```` ```console illustrative ````). `<!-- run: COMMANDS -->` before a block
//! prepares what the reader has anyway: a training, a process that runs. In commands 4711 stands for its id.
//! `NILO_DOCS=write` puts what was printed into the pages instead.
#![allow(clippy::expect_used, clippy::unwrap_used, clippy::panic)] // as in any test

mod help;
mod links;
mod mask;
mod page;
mod session;

use std::path::{Path, PathBuf};

use page::Page;

/// Whether a block's language is one of these is checked, so that no block of commands hides under another name.
const LANGUAGES: [&str; 9] = ["console", "sh", "python", "sql", "toml", "yaml", "json", "csv", "text"];

macro_rules! pages {
    ($($name:ident: $path:literal,)*) => {
        const PAGES: &[&str] = &[$($path),*];
        $(#[test] fn $name() { run_page($path) })*
    };
}

pages! {
    readme: "README.md",
    accuracy: "docs/accuracy.md",
    allocs: "docs/allocs.md",
    attach: "docs/attach.md",
    compare: "docs/compare.md",
    concepts: "docs/concepts.md",
    demo: "docs/demo.md",
    doctor: "docs/doctor.md",
    export: "docs/export.md",
    fleet: "docs/fleet.md",
    frameworks: "docs/frameworks.md",
    heap: "docs/heap.md",
    import: "docs/import.md",
    introduction: "docs/introduction.md",
    leak: "docs/leak.md",
    metrics: "docs/metrics.md",
    mode: "docs/mode.md",
    notebook: "docs/notebook.md",
    overhead: "docs/overhead.md",
    pages: "docs/pages.md",
    permissions: "docs/permissions.md",
    pytest: "docs/pytest.md",
    python: "docs/python.md",
    ranks: "docs/ranks.md",
    recipes: "docs/recipes.md",
    report: "docs/report.md",
    run: "docs/run.md",
    sweep: "docs/sweep.md",
    top: "docs/top.md",
    touched_memory: "docs/touched-memory/README.md",
    tutorials: "docs/tutorials/README.md",
    tutorial_categories: "docs/tutorials/categories.md",
    tutorial_choke: "docs/tutorials/choke.md",
    tutorial_ledger: "docs/tutorials/ledger.md",
    tutorial_tree_lstm: "docs/tutorials/tree-lstm.md",
    tutorial_working_set: "docs/tutorials/working-set.md",
    whence: "docs/where.md",
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Every page of the tree that a reader is sent to.
fn pages_found() -> Vec<String> {
    let mut found = vec!["README.md".to_owned()];
    let mut folders = vec![PathBuf::from("docs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                folders.push(path);
            } else if path.ends_with("SUMMARY.md") {
                // the table of contents: see links.rs
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

fn run_page(path: &str) {
    let page = Page::read(&root().join(path));
    if page.steps().next().is_none() {
        return;
    }
    let Some(results) = session::run(&page) else { return };
    if std::env::var_os("NILO_DOCS").is_some_and(|word| word == "write") {
        page.write_outputs(&results);
        return;
    }
    let wrong: Vec<String> = page.steps().zip(&results).filter_map(|(step, done)| step.judge(done)).collect();
    assert!(wrong.is_empty(), "{path} says what is not so:\n{}", wrong.join("\n"));
}

#[test]
fn every_page_is_run() {
    let mut listed: Vec<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
    listed.sort();
    assert_eq!(listed, pages_found(), "the list above, and the pages that are there");
}

/// What a page about a verb tells, in this order; other sections may stand between.
const SHAPE: [&str; 7] = ["Question", "Command", "Output", "Cost", "Caveats", "How it works", "Permissions"];

const VERBS: [&str; 17] = [
    "allocs", "attach", "compare", "demo", "doctor", "export", "fleet", "heap", "import", "leak", "metrics",
    "mode", "pages", "report", "run", "sweep", "top",
];

#[test]
fn pages_of_verbs_have_one_shape() {
    for verb in VERBS.iter().chain(&["where"]) {
        let text = std::fs::read_to_string(root().join(format!("docs/{verb}.md"))).unwrap();
        let sections = text.lines().filter_map(|line| line.strip_prefix("## "));
        let found: Vec<&str> = sections.filter(|section| SHAPE.contains(section)).collect();
        assert_eq!(found, SHAPE, "docs/{verb}.md");
    }
}

#[test]
fn every_block_says_what_it_is() {
    for path in pages_found() {
        let page = Page::read(&root().join(&path));
        for block in &page.blocks {
            let known = LANGUAGES.contains(&block.language.as_str());
            assert!(known, "{path}:{}: `{}` is no language that is known here", block.line, block.language);
            let commands = block.lines.iter().any(|line| line.starts_with("$ "));
            let shown = block.language != "text" || block.illustrative;
            assert!(shown, "{path}:{}: `text` is `text illustrative`, or what a command prints", block.line);
            let is_console = block.language == "console";
            assert!(
                is_console == commands,
                "{path}:{}: a block with `$ ` is `console`, no other is",
                block.line
            );
        }
    }
}
