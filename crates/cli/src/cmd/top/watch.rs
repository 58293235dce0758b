//! A run that is looked at: records come from its log or from the process itself, and become what is shown.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use nilometer_analysis::allocs::model::By;
use nilometer_analysis::allocs::{self, Options as AllocOptions};
use nilometer_analysis::live::{Live, View};
use nilometer_capture::observe::Observer;
use nilometer_capture::{Options, ledger_watch::Ledgers};
use nilometer_trace::{Follower, Manifest};

use super::super::run::failure;
use crate::cmd;
use crate::talk::Failure;

/// Share of one core that page-table walks of the process may use, in percent.
const BUDGET_PERCENT: f64 = 0.3;
/// The model is made anew when so many times its own cost have passed.
const VIEW_SHARE: u32 = 300;
/// Places in the code that are shown.
const SITES: usize = 200;

#[derive(Debug)]
pub struct Watch {
    feed: Feed,
    live: Live,
    pub view: View,
    lost: Option<String>,
    /// When the view was made, and how long that took.
    made: Instant,
    took: Duration,
    /// There are records that it does not show.
    stale: bool,
}

#[derive(Debug)]
enum Feed {
    Process(Box<Observer>),
    Log { follower: Box<Follower>, manifest: Box<Manifest>, directory: std::path::PathBuf },
}

impl Watch {
    /// One process and what it starts, read from outside.
    pub fn process(pid: i32, interval: Duration, single: bool) -> Result<Self, Failure> {
        let options = Options {
            interval,
            single,
            budget_percent: BUDGET_PERCENT,
            ledgers: Ledgers::None,
            ..Options::default()
        };
        let observer = Observer::start(&options, pid).map_err(failure)?;
        let live = Live::new(&observer.manifest);
        Ok(Self::new(Feed::Process(Box::new(observer)), live))
    }

    /// A run directory, finished or not.
    pub fn run(directory: &Path) -> Result<Self, Failure> {
        let unreadable = || format!("cannot read {}", directory.display());
        let manifest = Manifest::read(directory).with_context(unreadable)?;
        let follower = Follower::open(directory).with_context(unreadable)?;
        let live = Live::new(&manifest);
        let feed = Feed::Log {
            follower: Box::new(follower),
            manifest: Box::new(manifest),
            directory: directory.to_owned(),
        };
        Ok(Self::new(feed, live))
    }

    fn new(feed: Feed, live: Live) -> Self {
        let view = live.view(None);
        Self { feed, live, view, lost: None, made: Instant::now(), took: Duration::ZERO, stale: true }
    }

    /// Takes what is new; true when there is something new to show, and it is to be shown.
    pub fn look(&mut self, show: bool) -> Result<bool, Failure> {
        if self.live.has_ended() && !self.stale {
            return Ok(false);
        }
        self.take_records()?;
        let due = self.took.is_zero() || self.made.elapsed() >= self.took * VIEW_SHARE;
        if show && self.stale && (due || self.live.has_ended()) {
            self.make_view();
            return Ok(true);
        }
        Ok(false)
    }

    fn take_records(&mut self) -> Result<(), Failure> {
        let (live, stale) = (&mut self.live, &mut self.stale);
        match &mut self.feed {
            Feed::Process(observer) => {
                for record in observer.look() {
                    *stale = true;
                    live.push(&record);
                }
            }
            Feed::Log { follower, manifest, directory } => {
                // Asked before the last look: what it wrote until then is read.
                let gone = self.lost.is_none() && !is_recorded_by(manifest.pid);
                follower.look(|record| {
                    *stale = true;
                    live.push(record);
                })?;
                if follower.has_ended() && *stale {
                    read_sites(live, directory);
                } else if gone && !follower.has_ended() {
                    self.lost = Some("no longer recorded: nilo is gone".into());
                    *stale = true;
                }
            }
        }
        Ok(())
    }

    fn make_view(&mut self) {
        let begin = Instant::now();
        self.view = self.live.view(self.lost.as_deref());
        self.view.run.saved = match &self.feed {
            Feed::Process(_) => None,
            Feed::Log { directory, .. } => Some(cmd::load::short_path(directory)),
        };
        self.took = begin.elapsed();
        self.made = Instant::now();
        self.stale = false;
    }
}

/// The process that writes a log is there, and is one of ours.
fn is_recorded_by(pid: i32) -> bool {
    let name = |pid: &str| std::fs::read(format!("/proc/{pid}/comm")).ok();
    name(&pid.to_string()).is_some_and(|theirs| name("self").is_some_and(|ours| ours == theirs))
}

/// The recorder of allocations stores them at the end.
fn read_sites(live: &mut Live, directory: &Path) {
    if let Ok(Some((recording, _))) = nilometer_tables::read_allocs(directory) {
        let names = nilometer_native::symbol::Store::open(directory);
        let options = AllocOptions { by: By::Line, top: Some(SITES), ..AllocOptions::default() };
        live.allocated(&allocs::build(&recording, names.symbols(), &options));
    }
}
