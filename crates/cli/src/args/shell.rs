//! The words of `nilo completions` and `nilo man`, and what both make from the words of all verbs.
//!
//! Nothing of it is stored anywhere: what is said by `--help` is what shells complete and man pages tell.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Args, Command, CommandFactory as _, ValueEnum};
use clap_complete::{Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use super::Cli;

/// Print what completes verbs and options in a shell
///
/// It is a script for that shell, made from the words of this very nilo.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  eval \"$(nilo completions bash)\"                     in this shell; for all of them in ~/.bashrc
  nilo completions bash > ~/.local/share/bash-completion/completions/nilo
  nilo completions zsh > ~/.zfunc/_nilo               with fpath+=~/.zfunc before compinit
  nilo completions fish > ~/.config/fish/completions/nilo.fish")]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: Complete,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Complete {
    Bash,
    Zsh,
    Fish,
}

/// Print a man page, or write all of them
///
/// Pages are made from what --help says.
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo man | man -l -                      of nilo itself
  nilo man run | man -l -                  of one verb
  nilo man -o ~/.local/share/man/man1      all of them; then: man nilo-run")]
pub struct ManArgs {
    /// A verb [default: nilo itself]
    #[arg(value_name = "VERB", conflicts_with = "output")]
    pub verb: Option<String>,
    /// Write the pages of all verbs into this directory
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
}

/// The script for one shell.
pub fn render_completions(shell: Complete) -> Vec<u8> {
    let shell = match shell {
        Complete::Bash => Shell::Bash,
        Complete::Zsh => Shell::Zsh,
        Complete::Fish => Shell::Fish,
    };
    let mut script = Vec::new();
    generate(shell, &mut Cli::command(), "nilo", &mut script);
    script
}

/// A man page and the name of its file.
#[derive(Debug)]
pub struct Page {
    pub verb: String,
    pub file: String,
    pub text: Vec<u8>,
}

/// All pages; the first one is that of `nilo` itself, whose verb is empty.
pub fn render_pages() -> std::io::Result<Vec<Page>> {
    let mut nilo = Cli::command();
    nilo.build();
    let mut pages = vec![page("", &nilo)?];
    for verb in nilo.get_subcommands().filter(|verb| !verb.is_hide_set()) {
        pages.push(page(verb.get_name(), verb)?);
    }
    Ok(pages)
}

fn page(verb: &str, command: &Command) -> std::io::Result<Page> {
    let source = concat!("nilometer ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(source).manual("Nilometer");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    for (title, lines) in parse_sections(&around(command)) {
        section(&title, &lines).to_writer(&mut text)?;
    }
    Ok(Page { verb: verb.to_owned(), file: man.get_filename(), text })
}

/// What `--help` says before and after the options.
fn around(command: &Command) -> String {
    let mut text = String::new();
    let long = |long: Option<&clap::builder::StyledStr>, short: Option<&clap::builder::StyledStr>| {
        long.or(short).map(ToString::to_string).unwrap_or_default()
    };
    let before = long(command.get_before_long_help(), command.get_before_help());
    let after = long(command.get_after_long_help(), command.get_after_help());
    let _ = write!(text, "{before}\n\n{after}");
    text
}

/// Paragraphs with their titles: `Examples` is one, everything else is `NOTES`.
fn parse_sections(text: &str) -> Vec<(String, Vec<String>)> {
    let mut sections: Vec<(String, Vec<String>)> = Vec::new();
    for paragraph in text.split("\n\n").map(str::trim_end).filter(|text| !text.trim().is_empty()) {
        let (title, body) = match paragraph.trim_start_matches('\n').split_once('\n') {
            Some((title, body)) if title.starts_with("Examples") => ("EXAMPLES", body),
            _ => ("NOTES", paragraph),
        };
        let lines = body.lines().map(str::to_owned);
        match sections.iter_mut().find(|(known, _)| known == title) {
            Some((_, known)) => known.extend([String::new()].into_iter().chain(lines)),
            None => sections.push((title.to_owned(), lines.collect())),
        }
    }
    sections
}

/// A section whose lines stay as they are.
fn section(title: &str, lines: &[String]) -> Roff {
    let mut roff = Roff::new();
    roff.control("SH", [title]).control("nf", []);
    for line in lines {
        roff.text([roman(line.as_str())]);
    }
    roff.control("fi", []);
    roff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_are_found_before_and_after_the_options() {
        let sections = parse_sections("Examples:\n  nilo a\n  nilo b\n\nExit code: 0\n\nThen:\n  x");
        let expected =
            [("EXAMPLES", vec!["  nilo a", "  nilo b"]), ("NOTES", vec!["Exit code: 0", "", "Then:", "  x"])];
        let told: Vec<(&str, Vec<&str>)> = sections
            .iter()
            .map(|(title, lines)| (title.as_str(), lines.iter().map(String::as_str).collect()))
            .collect();
        assert_eq!(told, expected);
        assert!(parse_sections("\n\n").is_empty());
    }

    #[test]
    fn each_verb_has_a_page_with_its_examples_and_options() {
        let pages = render_pages().unwrap();
        let names: Vec<&str> = pages.iter().map(|page| page.verb.as_str()).collect();
        assert_eq!(names[0], "");
        assert_eq!(names[1..], super::super::verbs()[..]);
        for page in &pages {
            let text = String::from_utf8(page.text.clone()).unwrap();
            assert!(text.contains(".SH EXAMPLES"), "{}", page.file);
            assert!(text.contains(".SH OPTIONS"), "{}", page.file);
        }
    }
}
