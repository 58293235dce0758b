//! Steps from the target's own output (`--steps REGEX`): a process of ours stands between the target and
//! where its output goes, copies every byte, and writes a mark for each line that names a step.
//!
//! It outlives `nilo`: the target never gets EIO or SIGPIPE because we died. A terminal stays a terminal
//! (pseudo-terminal, its size follows), a pipe a pipe; streams that lead to the same place share one.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::companion::fork_companion;
use nilometer_kernel::sys::poll::PollSet;
use nilometer_kernel::sys::pty::{self, StandIn};
use nilometer_kernel::sys::signals::{self, Mask, SignalFd};
use regex::bytes::Regex;

use crate::hook;

const HINT: &str =
    r"--steps 'step (\d+)', --steps torch, keras, tqdm, sklearn or jax; a literal bracket is \(";
/// A line longer than this is copied, but not searched as a whole.
const LONGEST_LINE: usize = 64 << 10;
const SIGWINCH: i32 = 28;

/// What the target writes to instead of our standard output and error.
#[derive(Debug)]
pub struct Relay {
    pub pid: i32,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
}

/// Ready-made expressions.
pub fn preset(name: &str) -> Option<&'static str> {
    match name {
        "tqdm" => Some(r"(?:\|\s*|\s|^)(\d+)/\d+ \["),
        "keras" => Some(r"^\s*(\d+)/\d+ "),
        _ => None,
    }
}

/// Letters and commas alone: meant as a name, and as an expression it would find no number.
fn is_name(word: &str) -> bool {
    word.chars().all(|c| c.is_alphanumeric() || matches!(c, ',' | '_' | '-'))
}

/// How steps are told: by lines of the output, by a hook in the target's Pythons, or by marks alone.
#[derive(Debug, Clone)]
pub struct Steps {
    expression: Option<Regex>,
    /// Look at a line before it ends: progress bars write theirs whole and end it with the next one.
    unfinished_too: bool,
    hook: Option<String>,
}

impl Steps {
    /// From names of libraries (`torch`, or several by commas), `marks`, or a regular expression.
    pub fn new(word: &str) -> Result<Self, String> {
        let is_hooked = word.split(',').all(|part| hook::LIBRARIES.contains(&part));
        if !is_hooked && word != "marks" && is_name(word) {
            return Err(format!("no library of that name is known\n\nhint: {HINT}"));
        }
        let pattern = if is_hooked { word.split(',').find_map(preset) } else { Some(word) };
        let expression = pattern.filter(|word| *word != "marks").map(Regex::new).transpose();
        let expression = expression.map_err(|e| format!("no regular expression: {e}\n\nhint: {HINT}"))?;
        Ok(Self { expression, unfinished_too: is_hooked, hook: is_hooked.then(|| word.to_owned()) })
    }

    /// Why there may be none, and what to try, in a few words.
    pub fn none_seen(&self) -> String {
        match (&self.hook, &self.expression) {
            (Some(libraries), _) => {
                format!(
                    "none: no Python of the command told one by {libraries}   → --steps 'step (\\d+)' of its output"
                )
            }
            (None, Some(_)) => {
                "none: no line of the output fits --steps   → --steps torch, or tqdm".to_owned()
            }
            (None, None) => "none was marked   → echo \"step 3\" >> $NILO_MARKS".to_owned(),
        }
    }

    /// Libraries that a hook is to listen to.
    pub fn hook(&self) -> Option<&str> {
        self.hook.as_deref()
    }

    /// The output must be read.
    pub fn is_in_output(&self) -> bool {
        self.expression.is_some()
    }
}

impl Relay {
    /// Starts the relay; the signals are blocked. It only uses what is its own: metrics may be told by threads of ours
    /// meanwhile.
    pub fn start(steps: &Steps, marks: &Path, mask: &Mask) -> std::io::Result<Self> {
        let announcement = hook::announcement(marks);
        let marks = OpenOptions::new().append(true).open(marks)?;
        let (out, err) = (std::io::stdout(), std::io::stderr());
        let shared = pty::are_same(out.as_fd(), err.as_fd());
        let first = StandIn::like(out.as_fd())?;
        let second = if shared { None } else { Some(StandIn::like(err.as_fd())?) };
        let stdout = first.target_end;
        let stderr = match &second {
            Some(second) => pty::duplicate(second.target_end.as_fd())?,
            None => pty::duplicate(stdout.as_fd())?,
        };
        let mut kept = vec![marks.into(), first.our_end, pty::duplicate(out.as_fd())?];
        if let Some(second) = second {
            kept.extend([second.our_end, pty::duplicate(err.as_fd())?]);
        }
        let pid = fork_companion(kept, |kept| copy_until_end(steps, &announcement, mask, kept))?;
        Ok(Self { pid, stdout, stderr })
    }
}

/// One stream: from the target to where it was meant to go.
struct Stream {
    from: OwnedFd,
    to: OwnedFd,
    lines: Lines,
}

/// What a hook tells counts: then the output is only copied.
fn copy_until_end(steps: &Steps, announcement: &Path, mask: &Mask, kept: Vec<OwnedFd>) {
    let Some(expression) = &steps.expression else { return };
    let mut kept = kept.into_iter();
    let Some(mut marks) = kept.next().map(File::from) else { return };
    let mut streams = Vec::new();
    while let (Some(from), Some(to)) = (kept.next(), kept.next()) {
        streams.push(Stream { from, to, lines: Lines::new(steps.unfinished_too) });
    }
    signals::ignore_sigpipe(); // the target shall learn of a closed reader, not we
    let Ok(signals) = SignalFd::new(mask) else { return };
    let mut counter = StepCounter::default();
    let mut buffer = vec![0u8; 64 << 10];
    while !streams.is_empty() {
        let ready = wait(&signals, &streams);
        follow_window(&signals, &streams);
        let mut position = 0;
        streams.retain_mut(|stream| {
            let (readable, unread) = (ready[position], ready[position + 1]);
            position += 2;
            !unread
                && (!readable
                    || stream.copy(&mut buffer, |line| {
                        if !announcement.exists() {
                            counter.look(expression, line, &mut marks);
                        }
                    }))
        });
    }
}

/// Two for each stream: there is something to read, nobody reads it any more.
fn wait(signals: &SignalFd, streams: &[Stream]) -> [bool; 4] {
    let mut poll = PollSet::default();
    poll.add(signals::raw(signals));
    for stream in streams {
        poll.add(stream.from.as_raw_fd());
        poll.add_output(stream.to.as_raw_fd());
    }
    let hour_ns = 3_600_000_000_000;
    let mut ready = [false; 4];
    poll.wait_until(monotonic_ns() + hour_ns).filter(|at| *at > 0).for_each(|at| ready[at - 1] = true);
    ready
}

fn follow_window(signals: &SignalFd, streams: &[Stream]) {
    while let Some(signal) = signals.next() {
        let resized = signal.number == SIGWINCH;
        let news =
            streams.iter().filter(|s| resized && pty::copy_window_size(s.to.as_fd(), s.from.as_fd())).count();
        if news > 0 {
            // The target may have got its own signal before its terminal had the new size.
            let _ = signals::send(0, SIGWINCH);
        }
    }
}

impl Stream {
    /// False at the end of the stream, or when nobody reads it any more (the target is told by the closed end).
    fn copy(&mut self, buffer: &mut [u8], see: impl FnMut(&[u8])) -> bool {
        let read = pty::read_some(self.from.as_fd(), buffer);
        if read == 0 || pty::write_all(self.to.as_fd(), &buffer[..read]).is_err() {
            return false;
        }
        self.lines.feed(&buffer[..read], see);
        true
    }
}

/// Cuts a stream into lines; progress bars end theirs with a carriage return.
struct Lines {
    carried: Vec<u8>,
    unfinished_too: bool,
}

impl Lines {
    fn new(unfinished_too: bool) -> Self {
        Self { carried: Vec::new(), unfinished_too }
    }

    fn feed(&mut self, bytes: &[u8], mut see: impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|b| matches!(b, b'\n' | b'\r')) {
            self.carried.extend_from_slice(piece);
            let whole = piece.ends_with(b"\n") || piece.ends_with(b"\r");
            if whole || self.carried.len() > LONGEST_LINE {
                see(&plain(&self.carried));
                self.carried.clear();
            }
        }
        if self.unfinished_too && !self.carried.is_empty() {
            see(&plain(&self.carried));
        }
    }
}

/// The line without terminal escapes (`ESC [ … letter`).
fn plain(line: &[u8]) -> Vec<u8> {
    let mut text = Vec::with_capacity(line.len());
    let mut bytes = line.iter().copied().peekable();
    while let Some(byte) = bytes.next() {
        match byte {
            0x1b if bytes.peek() == Some(&b'[') => {
                bytes.by_ref().find(u8::is_ascii_alphabetic);
            }
            b'\n' | b'\r' => {}
            _ => text.push(byte),
        }
    }
    text
}

/// Numbers of steps as the output tells them, made to count on where a new epoch begins again at the start.
#[derive(Debug, Default)]
struct StepCounter {
    base: u64,
    last: Option<u64>,
    matches: u64,
}

impl StepCounter {
    fn look(&mut self, steps: &Regex, line: &[u8], marks: &mut File) {
        if let Some(step) = self.step(steps, line) {
            // One write: the marks file is shared with the target.
            let _ = marks.write_all(format!("step {step} ns={}\n", monotonic_ns()).as_bytes());
        }
    }

    /// The step that begins with this line, if it is another than before.
    fn step(&mut self, steps: &Regex, line: &[u8]) -> Option<u64> {
        let found = steps.captures(line)?;
        let number = if let Some(text) = found.name("step").or_else(|| found.get(1)) {
            std::str::from_utf8(text.as_bytes()).ok()?.parse().ok()?
        } else {
            self.matches += 1;
            self.matches
        };
        if self.last == Some(number) {
            return None;
        }
        if let Some(last) = self.last.filter(|last| number < *last) {
            self.base = self.base.saturating_add(last);
        }
        self.last = Some(number);
        Some(self.base.saturating_add(number)) // the output may say any number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(word: &str, output: &[&str]) -> Vec<u64> {
        let steps = Steps::new(word).unwrap();
        let mut counter = StepCounter::default();
        let mut found = Vec::new();
        let mut lines = Lines::new(steps.unfinished_too);
        let expression = steps.expression.as_ref().unwrap();
        for piece in output {
            lines.feed(piece.as_bytes(), |line| found.extend(counter.step(expression, line)));
        }
        found
    }

    #[test]
    fn tqdm_lines_count_on_over_epochs() {
        let bar = |n| format!("\r {n}0%|##  | {n}/10 [00:01<00:02,  3.9it/s, loss=0.1]");
        let output: Vec<String> = [0, 1, 2, 9, 10, 0, 1].map(bar).to_vec();
        let output: Vec<&str> = output.iter().map(String::as_str).collect();
        assert_eq!(steps("tqdm", &output), [0, 1, 2, 9, 10, 10, 11]);
    }

    #[test]
    fn keras_lines_with_escapes() {
        let line = "\u{1b}[1m 3/100\u{1b}[0m \u{1b}[32m━\u{1b}[0m 1s 9ms/step\n";
        assert_eq!(steps("keras", &[line]), [3]);
    }

    #[test]
    fn an_expression_without_a_group_counts_its_matches() {
        assert_eq!(steps("^loss", &["loss 1\nlo", "ss 2\nother\nloss 3\n"]), [1, 2, 3]);
    }

    #[test]
    fn a_named_group_is_preferred() {
        assert_eq!(steps(r"epoch (\d+) it (?P<step>\d+)", &["epoch 9 it 4\n"]), [4]);
        assert!(Steps::new("(").is_err());
    }

    #[test]
    fn libraries_are_hooked_and_bars_are_read_too() {
        let told = |word| Steps::new(word).map(|steps| (steps.is_in_output(), steps.hook));
        assert_eq!(told("torch"), Ok((false, Some("torch".to_owned()))));
        assert_eq!(told("torch,tqdm"), Ok((true, Some("torch,tqdm".to_owned()))));
        assert_eq!(told("marks"), Ok((false, None)));
        for unknown in ["torch,other", "tourch", ""] {
            assert!(told(unknown).is_err_and(|why| why.contains("torch, keras, tqdm")), "{unknown}");
        }
    }

    #[test]
    fn absurd_numbers_do_not_end_the_relay() {
        let output = format!("step {0}\nstep 1\nstep {0}\nstep 2\n", u64::MAX);
        assert_eq!(steps(r"step (\d+)", &[output.as_str()]), [u64::MAX; 4]);
    }

    #[test]
    fn half_a_number_is_no_step() {
        assert_eq!(steps(r"step (\d+)", &["step 1", "2\n"]), [12]);
    }
}
