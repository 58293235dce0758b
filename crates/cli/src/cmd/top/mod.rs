//! `nilo top`: the live view. This file waits (for keys, signals, the next look) and lets others do the rest: what is shown
//! is `nilometer_analysis::live`, what was chosen and how it looks is `nilometer_report::top`.

mod key;
mod list;
mod screen;
mod snapshot;
#[cfg(test)]
mod tests;
mod watch;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::anyhow;
use nilometer_capture::Error;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::poll::PollSet;
use nilometer_kernel::sys::signals::{self, Mask, SignalFd};
use nilometer_report::top::{Content, Effect, State, draw};
use ratatui::crossterm::event;

use super::heap::recorder;
use super::{exit, load};
use crate::args::top::TopArgs;
use crate::talk::{self, Failure};
use list::List;
use screen::Screen;
use snapshot::Snapshot;
use watch::Watch;

const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGQUIT: i32 = 3;
const SIGTERM: i32 = 15;
const SIGCONT: i32 = 18;
const SIGTSTP: i32 = 20;
const SIGWINCH: i32 = 28;
const STDIN: i32 = 0;
/// A snapshot that is under way is asked for so often.
const SOON_NS: u64 = 100_000_000;
/// A terminal that is ready so often and has nothing to say has gone away.
const MOST_EMPTY: u32 = 100;

pub fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    if !screen::is_there() {
        return Err(match args.target.as_deref().map(str::parse::<i32>) {
            Some(Ok(pid)) if !Path::new("/proc").join(pid.to_string()).exists() => {
                super::run::failure(Error::NoProcess { pid })
            }
            _ => no_terminal(args.target.as_deref()),
        });
    }
    let source = Source::open(args)?;
    // From here on signals are taken when we look for them, so that none finds the terminal in our hands.
    let mask = Mask::of(&[SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGCONT, SIGTSTP, SIGWINCH]);
    mask.block()?;
    let signals = SignalFd::new(&mask)?;
    let mut top = Top {
        state: source.state(),
        source,
        screen: Screen::enter()?,
        snapshot: Snapshot::default(),
        interval: args.interval,
        single: args.single,
        empty: 0,
    };
    let ended = top.live(&signals);
    drop(top); // the terminal is given back before anything is said
    ended.map(ExitCode::from)
}

fn no_terminal(target: Option<&str>) -> Failure {
    let failure = Failure::from(anyhow!("nilo top needs a terminal, for its screen and its keys"));
    failure.exiting(exit::NOT_AVAILABLE).hint(match target {
        None => "my Python processes as a list:  nilo".to_owned(),
        Some(pid) if pid.parse::<i32>().is_ok() => format!("nilo attach {pid} --duration 10s"),
        Some(run) => format!("nilo report {run}"),
    })
}

/// What is looked at.
#[derive(Debug)]
enum Source {
    List(Box<List>),
    Watch(Box<Watch>),
}

impl Source {
    fn open(args: &TopArgs) -> Result<Self, Failure> {
        match args.target.as_deref() {
            None => Ok(Self::List(Box::default())),
            Some(word) => match word.parse() {
                Ok(pid) => Self::process(pid, args.interval, args.single),
                Err(_) => Ok(Self::Watch(Box::new(Watch::run(&load::resolve(Some(word))?)?))),
            },
        }
    }

    /// A process that is recorded is followed by its log, which knows more.
    fn process(pid: i32, interval: Duration, single: bool) -> Result<Self, Failure> {
        let recorded = recorder::recording_of(pid).filter(|_| !single);
        let watch = match recorded.and_then(|directory| Watch::run(&directory).ok()) {
            Some(watch) => watch,
            None => Watch::process(pid, interval, single)?,
        };
        Ok(Self::Watch(Box::new(watch)))
    }

    fn state(&self) -> State {
        match self {
            Self::List(_) => State::of_list(),
            Self::Watch(_) => State::default(),
        }
    }

    /// True when there is something new to show. While the screen stands still (`show` is false), records are taken
    /// all the same.
    fn look(&mut self, show: bool) -> Result<bool, Failure> {
        match self {
            Self::List(_) if !show => Ok(false),
            Self::List(list) => {
                list.look();
                Ok(true)
            }
            Self::Watch(watch) => watch.look(show),
        }
    }

    fn is_behind(&self) -> bool {
        matches!(self, Self::Watch(watch) if watch.is_behind())
    }

    fn content(&self) -> Content<'_> {
        match self {
            Self::List(list) => Content::List(&list.candidates),
            Self::Watch(watch) => Content::Run(&watch.view),
        }
    }
}

#[derive(Debug)]
struct Top {
    screen: Screen,
    source: Source,
    state: State,
    snapshot: Snapshot,
    interval: Duration,
    single: bool,
    empty: u32,
}

impl Top {
    /// Until somebody wants it to end; the exit code.
    fn live(&mut self, signals: &SignalFd) -> Result<u8, Failure> {
        let mut due_ns = monotonic_ns();
        self.draw()?;
        loop {
            let mut news = false;
            if monotonic_ns() >= due_ns {
                news |= self.source.look(!self.state.paused)?;
                let pause_ns = if self.source.is_behind() { 0 } else { self.interval.as_nanos() as u64 };
                due_ns = monotonic_ns() + pause_ns;
            }
            if news {
                self.draw()?;
            }
            let wake_ns = if self.snapshot.is_out() { due_ns.min(monotonic_ns() + SOON_NS) } else { due_ns };
            let mut poll = PollSet::default();
            poll.add(STDIN);
            poll.add(signals::raw(signals));
            let mut ready = [false; 2];
            poll.wait_until(wake_ns).for_each(|position| ready[position] = true);
            if ready[1]
                && let Some(code) = self.take_signals(signals)?
            {
                return Ok(code);
            }
            if ready[0] && self.take_keys()? {
                return Ok(0);
            }
            if let Some(told) = self.snapshot.done() {
                self.state.message = Some(told);
                self.draw()?;
            }
        }
    }

    fn draw(&mut self) -> Result<(), Failure> {
        let (state, content, style) = (&self.state, self.source.content(), talk::stdout_style());
        self.screen.show(|frame| draw(frame, state, &content, style))?;
        Ok(())
    }

    /// The exit code, where a signal asks us to end.
    fn take_signals(&mut self, signals: &SignalFd) -> Result<Option<u8>, Failure> {
        while let Some(received) = signals.next() {
            match received.number {
                SIGTSTP => self.suspend()?,
                SIGWINCH | SIGCONT => {
                    self.screen.canvas.autoresize()?;
                    self.draw()?;
                }
                number => return Ok(Some(exit::SIGNAL_BASE.wrapping_add(number as u8))),
            }
        }
        Ok(None)
    }

    /// Stops as any program does, with the terminal given back meanwhile.
    fn suspend(&mut self) -> Result<(), Failure> {
        self.screen.aside(|| signals::stop_by(SIGTSTP))?;
        self.draw()
    }

    /// True when a key ends it.
    fn take_keys(&mut self) -> Result<bool, Failure> {
        let mut any = false;
        while event::poll(Duration::ZERO)? {
            any = true;
            let Some(key) = key::of_event(&event::read()?) else { continue };
            let effect = self.state.update(key, &self.source.content());
            if self.act(effect)? {
                return Ok(true);
            }
        }
        self.empty = if any { 0 } else { self.empty + 1 };
        Ok(self.empty > MOST_EMPTY)
    }

    /// True to end.
    fn act(&mut self, effect: Effect) -> Result<bool, Failure> {
        match effect {
            Effect::Nothing => return Ok(false),
            Effect::Quit => return Ok(true),
            Effect::Suspend => self.suspend()?,
            Effect::DrawAll => self.screen.forget()?,
            Effect::Draw => {}
            Effect::Look(pid) => self.look_at(pid),
            Effect::Back => self.go_back()?,
            Effect::Snapshot(pid) => self.state.message = Some(self.snapshot.begin(pid)),
        }
        self.draw()?;
        Ok(false)
    }

    fn look_at(&mut self, pid: i32) {
        match Source::process(pid, self.interval, self.single) {
            Ok(mut source) => {
                // What cannot be read now is told at the next look.
                let _ = source.look(true);
                self.state = State { from_list: true, ..source.state() };
                self.source = source;
            }
            Err(failure) => self.state.message = Some(failure.error.to_string()),
        }
    }

    fn go_back(&mut self) -> Result<(), Failure> {
        self.source = Source::List(Box::default());
        self.state = self.source.state();
        self.source.look(true).map(drop)
    }
}
