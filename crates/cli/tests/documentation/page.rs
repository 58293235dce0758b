//! A page as its blocks and what is to be run of them. Fences stand at the beginning of a line.

use std::fmt::Write as _;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::mask;
use crate::session::Done;

const SETUP: &str = "<!-- run:";
/// `<!-- varies: made of, note -->`: lines that begin so are not compared in the next block.
const VARIES: &str = "<!-- varies:";
/// Lines that vary with the machine and its load, in every block.
const ALWAYS: [&str; 4] = ["made of", "limit", "doubt", "after"];

pub struct Page {
    path: PathBuf,
    lines: Vec<String>,
    pub blocks: Vec<Block>,
    /// What is typed, in the order of the page; not what is illustrative.
    pub script: Vec<Item>,
}

pub struct Block {
    pub line: usize,
    pub language: String,
    pub illustrative: bool,
    pub lines: Vec<String>,
}

pub enum Item {
    Setup(String),
    Step(Step),
}

/// A command and what the page says that it prints.
pub struct Step {
    pub line: usize,
    pub command: String,
    output: Vec<String>,
    place: Range<usize>,
    /// Exit codes that are right, from `exit=1` in the fence; else 0.
    exits: Vec<i32>,
    varies: Vec<String>,
}

impl Page {
    pub fn read(path: &Path) -> Self {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let mut page = Self { path: path.to_owned(), lines, blocks: Vec::new(), script: Vec::new() };
        page.parse();
        page
    }

    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.script.iter().filter_map(|item| match item {
            Item::Step(step) => Some(step),
            Item::Setup(_) => None,
        })
    }

    fn parse(&mut self) {
        let (mut at, mut varies) = (0, Vec::new());
        while let Some(line) = self.lines.get(at) {
            if let Some(heads) = line.strip_prefix(VARIES) {
                varies =
                    heads.trim_end_matches("-->").split(',').map(|head| head.trim().to_owned()).collect();
                at += 1;
            } else if let Some(info) = line.strip_prefix("```").map(str::to_owned) {
                let end = self.find(at + 1, |line| line.starts_with("```"));
                self.add_block(&info, at + 1..end, &std::mem::take(&mut varies));
                at = end + 1;
            } else if line.starts_with(SETUP) {
                let end = self.find(at, |line| line.ends_with("-->"));
                let text = self.lines[at..=end].join("\n");
                let commands = text.trim_start_matches(SETUP).trim_end_matches("-->").trim();
                self.script.push(Item::Setup(commands.to_owned()));
                at = end + 1;
            } else {
                at += 1;
            }
        }
    }

    fn find(&self, from: usize, is: impl Fn(&str) -> bool) -> usize {
        let found = self.lines[from..].iter().position(|line| is(line));
        found.map_or_else(|| panic!("{}:{from}: without end", self.path.display()), |offset| from + offset)
    }

    fn add_block(&mut self, info: &str, inside: Range<usize>, varies: &[String]) {
        let mut words = info.split([' ', ',']).map(str::to_owned);
        let language = words.next().unwrap_or_default();
        let words: Vec<String> = words.collect();
        let lines = self.lines[inside.clone()].to_vec();
        let illustrative = words.iter().any(|word| word == "illustrative");
        if language == "console" && !illustrative {
            let exits: Vec<i32> =
                words.iter().filter_map(|word| word.strip_prefix("exit=")?.parse().ok()).collect();
            self.add_steps(inside.clone(), &exits, varies);
        }
        self.blocks.push(Block { line: inside.start, language, illustrative, lines });
    }

    fn add_steps(&mut self, inside: Range<usize>, exits: &[i32], varies: &[String]) {
        let mut at = inside.start;
        while at < inside.end {
            let command = self.lines[at].strip_prefix("$ ");
            let command = command.unwrap_or_else(|| panic!("{}:{}: no `$ `", self.path.display(), at + 1));
            let (line, mut command) = (at + 1, command.to_owned());
            at += 1;
            while command.ends_with('\\') || self.lines[at].starts_with("> ") {
                let _ = write!(command, "\n{}", self.lines[at].trim_start_matches("> "));
                at += 1;
            }
            let rest = self.lines[at..inside.end].iter().position(|line| line.starts_with("$ "));
            let end = rest.map_or(inside.end, |offset| at + offset);
            let output = self.lines[at..end].to_vec();
            let (exits, varies) = (exits.to_vec(), varies.to_vec());
            self.script.push(Item::Step(Step { line, command, output, place: at..end, exits, varies }));
            at = end;
        }
    }

    /// Puts what was printed where something else stands.
    pub fn write_outputs(&self, results: &[Done]) {
        let mut lines = self.lines.clone();
        let steps: Vec<(&Step, &Done)> = self.steps().zip(results).collect();
        for (step, done) in steps.into_iter().rev() {
            if step.judge(done).is_some() {
                lines.splice(step.place.clone(), done.output.lines().map(str::to_owned));
            }
        }
        fs::write(&self.path, lines.join("\n") + "\n").unwrap();
    }
}

/// A number is a row of a table, whose columns stand apart: not `1 more row`.
fn begins_with(line: &str, head: &str) -> bool {
    let is_row = head.bytes().all(|byte| byte.is_ascii_digit());
    line.strip_prefix(head).is_some_and(|rest| !is_row || rest.starts_with("  "))
}

impl Step {
    /// A process left running: what it prints belongs to no moment.
    fn is_background(&self) -> bool {
        self.command.trim_end().ends_with('&')
    }

    /// Without the lines that vary, and what they go on with (further to the right).
    fn steady(&self, text: &str) -> String {
        let mut varies = None;
        let lines = text.lines().filter(|line| {
            let (told, indent) = (line.trim_start(), line.len() - line.trim_start().len());
            if varies.is_none_or(|head| indent <= head + 2) {
                let mut heads = self.varies.iter().map(String::as_str).chain(ALWAYS);
                varies = heads.any(|head| begins_with(told, head)).then_some(indent);
            }
            varies.is_none()
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// What is wrong, in words.
    pub fn judge(&self, done: &Done) -> Option<String> {
        let right = done.code.is_some_and(|code| code == 0 || self.exits.contains(&code));
        let (page, printed) = (self.steady(&self.output.join("\n")), self.steady(&done.output));
        let same = self.is_background() || mask::agree(&page, &printed);
        if right && same {
            return None;
        }
        let code = done.code.map_or("none".to_owned(), |code| code.to_string());
        let why = if same { String::new() } else { mask::first_difference(&page, &printed) };
        Some(format!("line {}: $ {}\nexit code {code}\n{}{why}\n", self.line, self.command, done.output))
    }
}
