//! A `nilo run` of our own for one recording of many (`sweep`, `compare --rev`): its own process, so that each run starts
//! from a small launcher, and a signal ends it as it would end any run.

use std::fs::File;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::Context as _;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::poll::PollSet;
use nilometer_kernel::sys::signals::{self, Mask, SignalFd};

use crate::path::AtPath as _;
use crate::talk::Failure;

const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGTERM: i32 = 15;
const SIGHUP: i32 = 1;
const SIGTSTP: i32 = 20;
const HOUR_NS: u64 = 3_600_000_000_000;

/// What a run is made with.
#[derive(Debug)]
pub struct Recording<'a> {
    pub directory: &'a Path,
    /// Where the command's output goes.
    pub output: &'a Path,
    /// Options of `nilo run`.
    pub options: &'a [String],
    pub argv: &'a [String],
    pub environment: &'a [(String, String)],
    pub working_directory: Option<&'a Path>,
}

/// Starts runs, and knows whether somebody asked us to end.
#[derive(Debug)]
pub struct Runner {
    mask: Mask,
    inherited: Mask,
    signals: SignalFd,
    /// The signal that asked.
    pub interrupted: Option<i32>,
}

impl Runner {
    /// From here on signals are read, not suffered, so that what was begun is tidied up.
    pub fn new() -> Result<Self, Failure> {
        let mask = Mask::taken();
        let inherited = mask.block().context("signals cannot be blocked")?;
        let signals = SignalFd::new(&mask).context("signals cannot be read")?;
        Ok(Self { mask, inherited, signals, interrupted: None })
    }

    /// Runs to the end; false where `nilo run` could not start the command, with its words in the output.
    pub fn run(&mut self, recording: &Recording<'_>) -> Result<Option<i32>, Failure> {
        let mut command = Command::new(std::env::current_exe().context("nilo does not find itself")?);
        let output = || File::options().create(true).append(true).mode(0o600).open(recording.output);
        let output = output().writing(recording.output)?;
        command
            .args(["run", "-q", "--force", "-o"])
            .arg(recording.directory)
            .args(recording.options)
            .arg("--")
            .args(recording.argv);
        // Ours is the launcher of this one: it is no rank, whoever launched us.
        command.env(nilometer_capture::rank::RANK_VARIABLE, "none");
        command.envs(recording.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        if let Some(directory) = recording.working_directory {
            command.current_dir(directory);
        }
        self.run_command(&mut command)
    }

    /// Runs any command to its end; what ends us is passed on to it.
    pub fn run_command(&mut self, command: &mut Command) -> Result<Option<i32>, Failure> {
        // A child inherits the mask: it gets the one that we were given.
        self.inherited.restore();
        let child = command.spawn();
        self.mask.block().context("signals cannot be blocked")?;
        let mut child = child.with_context(|| format!("cannot start {}", command.get_program().display()))?;
        loop {
            if let Some(status) = child.try_wait().context("cannot wait for it")? {
                self.take_signals(0);
                return Ok(status.code());
            }
            let mut poll = PollSet::default();
            poll.add(signals::raw(&self.signals));
            poll.wait_until(monotonic_ns() + HOUR_NS).for_each(drop);
            self.take_signals(child.id() as i32);
        }
    }

    /// The terminal's own reach the child too, as it is of our group; others are passed on.
    fn take_signals(&mut self, child: i32) {
        while let Some(received) = self.signals.next() {
            match received.number {
                SIGTSTP => signals::stop_by(SIGTSTP),
                number @ (SIGINT | SIGQUIT | SIGTERM | SIGHUP) => {
                    self.interrupted.get_or_insert(number);
                    if child > 0 && !received.from_kernel {
                        let _ = signals::send(child, number);
                    }
                }
                _ => {}
            }
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.inherited.restore();
    }
}
