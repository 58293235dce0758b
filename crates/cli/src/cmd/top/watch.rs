//! A run that is looked at: records come from its log or from the process itself, and become what is shown.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use nilometer_analysis::allocs::model::{By, What};
use nilometer_analysis::allocs::{self, Options as AllocOptions};
use nilometer_analysis::live::{Live, View};
use nilometer_capture::observe::Observer;
use nilometer_capture::{Options, ledger_watch::Ledgers};
use nilometer_trace::allocs::ALLOCS_FILE;
use nilometer_trace::{Follower, Manifest};

use super::super::run::failure;
use crate::cmd;
use crate::path::AtPath as _;
use crate::talk::Failure;

/// Share of one core that page-table walks of the process may use, in percent.
const BUDGET_PERCENT: f64 = 0.3;
/// What takes long (trends, sites) is done anew when so many times its own cost have passed: a third of a percent.
const SHARE: u32 = 300;
/// Places in the code that are shown.
const SITES: usize = 200;
/// While a run goes on, larger files of them are not read.
const MOST_SITES_BYTES: u64 = 8 << 20;

#[derive(Debug)]
pub struct Watch {
    feed: Feed,
    live: Live,
    pub view: View,
    lost: Option<String>,
    /// Trends are not judged again before.
    judge: Option<Instant>,
    /// There are records that the view does not show.
    stale: bool,
}

#[derive(Debug)]
enum Feed {
    Process(Box<Observer>),
    Log { follower: Box<Follower>, manifest: Box<Manifest>, directory: PathBuf, sites: Sites },
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
        let manifest = Manifest::read(directory).reading(directory)?;
        let follower = Follower::open(directory).reading(directory)?;
        let live = Live::new(&manifest);
        let feed = Feed::Log {
            follower: Box::new(follower),
            manifest: Box::new(manifest),
            directory: directory.to_owned(),
            sites: Sites::default(),
        };
        Ok(Self::new(feed, live))
    }

    fn new(feed: Feed, live: Live) -> Self {
        let view = live.view(None);
        Self { feed, live, view, lost: None, judge: None, stale: true }
    }

    /// Takes what is new; true when there is something new to show, and it is to be shown.
    pub fn look(&mut self, show: bool) -> Result<bool, Failure> {
        if self.live.has_ended() && !self.stale {
            return Ok(false);
        }
        self.take_records()?;
        let news = show && self.stale;
        if news {
            self.judge();
            self.make_view();
        }
        Ok(news)
    }

    fn judge(&mut self) {
        let ended = self.live.has_ended() || self.lost.is_some();
        if ended || self.judge.is_none_or(|next| Instant::now() >= next) {
            let begin = Instant::now();
            self.live.judge();
            self.judge = Some(begin + begin.elapsed() * SHARE);
        }
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
            Feed::Log { follower, manifest, directory, sites } => {
                // Asked before the last look: what it wrote until then is read.
                let gone = self.lost.is_none() && !is_recorded_by(manifest.pid);
                follower.look(|record| {
                    *stale = true;
                    live.push(record);
                })?;
                *stale |= sites.look(live, directory, follower.has_ended());
                if gone && !follower.has_ended() && !follower.is_behind() {
                    self.lost = Some("no longer recorded: nilo is gone".into());
                    *stale = true;
                }
            }
        }
        Ok(())
    }

    /// There is more to be taken at once.
    pub fn is_behind(&self) -> bool {
        matches!(&self.feed, Feed::Log { follower, .. } if follower.is_behind())
    }

    fn make_view(&mut self) {
        self.view = self.live.view(self.lost.as_deref());
        self.view.run.saved = match &self.feed {
            Feed::Process(_) => None,
            Feed::Log { directory, .. } => Some(cmd::load::short_path(directory)),
        };
        self.stale = false;
    }
}

/// The process that writes a log is there, and is one of ours.
fn is_recorded_by(pid: i32) -> bool {
    let name = |pid: &str| std::fs::read(format!("/proc/{pid}/comm")).ok();
    name(&pid.to_string()).is_some_and(|theirs| name("self").is_some_and(|ours| ours == theirs))
}

/// The places that allocated: their recorder stores them now and then, and at the end.
#[derive(Debug, Default)]
struct Sites {
    stored: Option<SystemTime>,
    /// Not looked at again before.
    next: Option<Instant>,
}

impl Sites {
    /// True when there are new ones.
    fn look(&mut self, live: &mut Live, directory: &Path, ended: bool) -> bool {
        let Ok(file) = std::fs::metadata(directory.join(ALLOCS_FILE)) else { return false };
        let stored = file.modified().ok();
        let early = self.next.is_some_and(|next| Instant::now() < next) || file.len() > MOST_SITES_BYTES;
        if stored == self.stored || (early && !ended) {
            return false;
        }
        self.stored = stored;
        let begin = Instant::now();
        let read = read_sites(live, directory, stored);
        self.next = Some(begin + begin.elapsed() * SHARE);
        read
    }
}

fn read_sites(live: &mut Live, directory: &Path, stored: Option<SystemTime>) -> bool {
    let Ok(Some((recording, names))) = nilometer_tables::read_allocs(directory) else { return false };
    let options =
        AllocOptions { by: By::Line, what: What::Live, top: Some(SITES), ..AllocOptions::default() };
    let since = stored.and_then(|stored| stored.duration_since(SystemTime::UNIX_EPOCH).ok());
    let at_ns = since.map_or(0, |since| since.as_nanos() as u64);
    live.allocated(&allocs::build(&recording, &names, &options), at_ns);
    true
}
