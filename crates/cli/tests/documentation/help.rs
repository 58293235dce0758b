//! What `--help` of each verb begins with.

use std::process::Command;

fn help(words: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_nilo")).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Indented words that begin the lines of a section.
fn verbs(help: &str) -> Vec<String> {
    let section =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let rows = section.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    rows.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}

#[test]
fn every_help_opens_with_examples() {
    let all = verbs(&help(&[]));
    assert!(all.len() > 15, "{all:?}");
    for verb in &all {
        let help = help(&[verb]);
        let examples = help.find("Examples:").unwrap_or_else(|| panic!("{verb}: no examples\n{help}"));
        let usage = help.find("Usage:").unwrap_or_else(|| panic!("{verb}: no usage\n{help}"));
        assert!(examples < usage, "{verb}: the examples come after the usage\n{help}");
        let example = help[examples..].lines().nth(1).unwrap_or_default();
        assert!(example.contains("nilo "), "{verb}: {example}");
    }
}

#[test]
fn every_verb_is_in_the_readme_and_has_a_page() {
    let readme = std::fs::read_to_string(crate::root().join("README.md")).unwrap();
    for verb in verbs(&help(&[])) {
        assert!(readme.contains(&format!("nilo {verb}")), "{verb} is not in README.md");
    }
}

#[test]
fn a_wrong_command_line_is_answered_with_an_example() {
    for (words, example) in [
        (vec!["heap"], "nilo heap 4711"),
        (vec!["heap", "diff", "a.heap"], "nilo heap diff a.heap b.heap"),
        (vec!["heap", "dif", "a.heap", "b.heap"], "nilo heap diff a.heap b.heap"),
        (vec!["heap", "pathes", "a.heap"], "nilo heap paths 4711 --row 0"),
        (vec!["export", "@last"], "nilo export @last --format csv > run.csv"),
        (vec!["run"], "nilo run -- python train.py --epochs 3"),
        (vec!["leak", "--no-such-option"], "nilo leak -- python train.py"),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_nilo")).args(&words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.ends_with(&format!("hint: for example:  {example}\n")), "{words:?}: {said}");
    }
}

#[test]
fn a_misspelt_word_of_a_verb_is_answered_with_the_one_that_was_meant() {
    for (words, meant) in [(["dif", "a.heap"], "'diff'"), (["pathes", "a.heap"], "'paths'")] {
        let output = Command::new(env!("CARGO_BIN_EXE_nilo")).arg("heap").args(words).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("similar subcommand exists") && said.contains(meant), "{said}");
        assert_eq!(output.status.code(), Some(2));
    }
    let other = Command::new(env!("CARGO_BIN_EXE_nilo")).args(["heap", "a.heap", "b.heap"]).output().unwrap();
    assert!(!String::from_utf8(other.stderr).unwrap().contains("similar"));
}
