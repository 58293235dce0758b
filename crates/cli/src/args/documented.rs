//! Every `nilo …` that the pages name is understood: options that went or were renamed fail here.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Parser as _;
use clap::error::ErrorKind;

use super::Cli;

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut folders = vec![root.join("docs")];
    let mut found = vec![root.join("README.md"), root.join("examples/README.md")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    found
}

/// Lines of `sh` and `console` blocks, and what stands in backquotes elsewhere.
fn commands(text: &str) -> Vec<String> {
    let (mut fence, mut found) = (None, Vec::new());
    for line in text.lines() {
        match (line.strip_prefix("```"), fence) {
            (Some(_), Some(_)) => fence = None,
            (Some(info), None) => fence = Some(info),
            (None, Some(info)) if info.starts_with("sh") => found.push(line.to_owned()),
            (None, Some(info)) if info.starts_with("console") => {
                found.extend(line.strip_prefix("$ ").map(str::to_owned));
            }
            (None, Some(_)) => {}
            (None, None) => found.extend(line.split('`').skip(1).step_by(2).map(str::to_owned)),
        }
    }
    found
}

/// The words of the first `nilo` in a line, up to the end of its command; None where it is a pattern and no command.
fn words(line: &str) -> Option<Vec<String>> {
    let line = line.split("  #").next()?.replace("PID", "4711").replace(" N", " 3");
    let (mut all, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in line.chars() {
        match (c, quote) {
            ('\'' | '"', None) => quote = Some(c),
            (c, Some(end)) if c == end => quote = None,
            (' ', None) => all.push(std::mem::take(&mut word)),
            _ => word.push(c),
        }
    }
    all.push(word);
    let start = all.iter().position(|word| word == "nilo")?;
    let ends = ["|", "||", "&&", ">", "2>", "&", ";", ">>"];
    let words: Vec<String> =
        all[start..].iter().take_while(|word| !ends.contains(&word.as_str())).cloned().collect();
    let pattern = words
        .iter()
        .any(|word| word.contains(['…', '[', '|']) || word == "VERB" || word == "=" || word == "\\");
    (words.len() > 1 && !pattern).then(|| words.into_iter().filter(|word| !word.is_empty()).collect())
}

/// A sentence may name a verb or an option without its value.
fn is_wrong(error: &clap::Error) -> bool {
    let short =
        error.kind() == ErrorKind::MissingRequiredArgument || error.to_string().contains("none was supplied");
    error.use_stderr() && !short
}

#[test]
fn every_command_of_the_pages_is_understood() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages() {
        for line in commands(&fs::read_to_string(&page).unwrap()) {
            let Some(words) = words(&line) else { continue };
            seen += 1;
            match Cli::try_parse_from(&words) {
                Err(error) if is_wrong(&error) => wrong.push(format!("{}: {line}: {error}", page.display())),
                _ => {}
            }
        }
    }
    assert!(seen > 100, "{seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
