//! Listening to the tracked processes: who comes, what they say, who ends.
//!
//! The one invariant: rings are emptied in time. Nothing here waits for a disk, compresses or resolves a stack; that is
//! for [`super::keep`], in a thread of its own, because a ring that fills up costs the target time. What was taken is
//! understood at once or, on a machine that is busy, a little later ([`super::patience`]).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;

use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::peer::peer_pid;
use nilometer_kernel::sys::poll::PollMany;
use nilometer_ring::clock;
use nilometer_ring::event::Level;
use nilometer_ring::hello::Hello;
use nilometer_ring::reader::{Book, Error, Introduction, Process as Ring, receive};
use nilometer_rules::FrameRules;
use nilometer_trace::allocs::{Amount, Process, Step};
use rustc_hash::FxHashMap;

use super::clock::Clock;
use super::curve::Curve;
use super::events::Events;
use super::inherit::{Inherited, Seed};
use super::keep::{Ended, Keeper, NewSite};
use super::living::Living;
use super::meaning::Meanings;
use super::patience::Patience;
use super::site::{Own, Site};
use super::stacks::Pages;
use super::tracked::{Sums, Tracked};
use super::window::{Act, Told, Window};

/// Forked children that have not spoken yet, of which we keep what they inherited.
const MOST_SEEDS: usize = 16;
const MOST_CALLERS: usize = 4096;
/// The curve gets a point for each such stretch, also where it is understood late; of a stretch in which we stood still
/// (job control) it gets so many.
const POINT_NS: u64 = 20_000_000;
const MOST_POINTS: u64 = 256;

/// How thorough a turn is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// What was taken may wait.
    Usual,
    /// All that happened before the turn is understood.
    Whole,
    /// Nothing is held back: the targets have ended, or are not waited for.
    Last,
}

/// A process image that was or is tracked.
#[derive(Debug, Clone)]
pub struct Row {
    pub process: Process,
    pub own: Own,
    pub book: u64,
}

/// What a window has, and the names of its stacks where they are needed.
#[derive(Debug)]
pub struct Answer {
    pub told: Told,
    pub sites: Vec<Site>,
    pub book: Option<Pages>,
}

/// Everything that was heard.
#[derive(Debug)]
pub struct Hearing {
    listener: UnixListener,
    poll: PollMany,
    /// Connected, and not yet introduced.
    callers: Vec<UnixStream>,
    living: Vec<Living>,
    pub rows: Vec<Row>,
    pub sums: Sums,
    books: FxHashMap<u64, Arc<Book>>,
    /// By process id of the child.
    seeds: VecDeque<(i32, u32, Seed)>,
    pub clock: Clock,
    pub curve: Curve,
    pub events: Option<Events>,
    /// The level that a switch asked for; later processes get it as well.
    switched: Option<Level>,
    pub tracker_bytes: u64,
    /// Sites that the keeper knows of.
    announced: usize,
    /// Connections without a message: processes that could not make their files.
    refused: u64,
    /// Forked children that could not even connect, by the book that they share with who is heard.
    unconnected: FxHashMap<u64, u64>,
    /// What frames mean.
    rules: Option<Arc<FrameRules>>,
    patience: Patience,
    /// Something was taken and left for later by the last turn.
    is_waiting: bool,
    /// Until when all is understood.
    understood_ns: u64,
    /// Marked, and not yet reached: number, and when.
    steps: Vec<(u64, u64)>,
}

impl Hearing {
    pub fn new(listener: UnixListener, events: Option<Events>) -> Self {
        Self {
            rules: FrameRules::built_in().ok().map(Arc::new),
            listener,
            poll: PollMany::default(),
            callers: Vec::new(),
            living: Vec::new(),
            rows: Vec::new(),
            sums: Sums::new(),
            books: FxHashMap::default(),
            seeds: VecDeque::new(),
            clock: Clock::start(),
            curve: Curve::default(),
            events,
            switched: None,
            tracker_bytes: 0,
            announced: 0,
            refused: 0,
            unconnected: FxHashMap::default(),
            patience: Patience::read(),
            is_waiting: false,
            understood_ns: monotonic_ns(),
            steps: Vec::new(),
        }
    }

    /// Waits for news, at most this long. Ends of processes are taken note of.
    pub fn wait(&mut self, nanoseconds: u64) {
        self.poll.clear();
        self.poll.add(self.listener.as_raw_fd());
        for living in &self.living {
            self.poll.add(living.end.as_ref().map_or(-1, AsRawFd::as_raw_fd));
        }
        if self.poll.wait(nanoseconds) {
            for (position, living) in self.living.iter_mut().enumerate() {
                living.is_over |= self.poll.is_ready(position + 1);
            }
        }
    }

    /// One look at everybody. Returns the bytes that were there to be understood.
    pub fn turn(&mut self, keeper: &Keeper, effort: Effort) -> usize {
        let (now_ns, now_ticks) = (monotonic_ns(), clock::ticks());
        self.accept();
        self.hear_callers(keeper, now_ns);
        self.collect(now_ns);
        let there = self.waiting_bytes();
        self.is_waiting = effort == Effort::Usual && self.can_wait(there, now_ns);
        if self.is_waiting {
            return there;
        }
        let last = effort == Effort::Last;
        self.living.iter_mut().for_each(Living::begin_turn);
        for (at_ns, step) in self.moments(now_ns) {
            let cutoff = match at_ns {
                past if past < now_ns => self.clock.ticks(past).min(now_ticks),
                _ if last => u64::MAX,
                _ => now_ticks,
            };
            self.understand(cutoff, now_ns, last, keeper);
            if let Some(number) = step {
                self.reach_step(number, at_ns);
            }
            self.curve.add(at_ns, self.sums.sites.live.bytes);
        }
        self.understood_ns = now_ns;
        // Ends only after all were heard: what one had stands beside what the rest did while it lived.
        let mut index = 0;
        while index < self.living.len() {
            if self.can_be_buried(index, now_ns, last) {
                self.bury(index, now_ns, keeper);
            } else {
                index += 1;
            }
        }
        self.announce(keeper);
        there
    }

    /// Whether the last turn left something for later.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting
    }

    /// Only while nobody comes or ends: who is there at a time is part of what is told of it.
    fn can_wait(&mut self, there: usize, now_ns: u64) -> bool {
        let stays = |living: &Living| !living.is_over && !living.tracked.inherited.is_awaited();
        there > 0
            && self.callers.is_empty()
            && self.living.iter().all(stays)
            && self.patience.lasts(there, now_ns)
    }

    /// When something is to be told between the last turn and this one: steps, points of the curve, and now.
    fn moments(&mut self, now_ns: u64) -> Vec<(u64, Option<u64>)> {
        let points = points_between(self.understood_ns, now_ns);
        let mut moments: Vec<(u64, Option<u64>)> = points.map(|at_ns| (at_ns, None)).collect();
        moments.extend(self.steps.drain(..).map(|(number, at_ns)| (at_ns, Some(number))));
        moments.sort_by_key(|(at_ns, _)| *at_ns);
        moments.push((now_ns, None));
        moments
    }

    /// Empties all rings, as long as what waits already is not too much.
    fn collect(&mut self, now_ns: u64) {
        let mut waiting = self.waiting_bytes();
        for living in &mut self.living {
            living.beat(now_ns);
            if waiting < self.patience.most_bytes() {
                waiting += living.collect(self.events.as_mut());
            }
        }
    }

    fn waiting_bytes(&self) -> usize {
        self.living.iter().map(Living::waiting_bytes).sum()
    }

    fn understand(&mut self, cutoff: u64, now_ns: u64, last: bool, keeper: &Keeper) {
        let mut index = 0;
        while index < self.living.len() {
            self.read(index, cutoff, now_ns, last);
            // What an image had is gone before its successor says the first word.
            if self.is_replaced(index) && self.can_be_buried(index, now_ns, last) {
                self.bury(index, now_ns, keeper);
            } else {
                index += 1;
            }
        }
    }

    fn can_be_buried(&self, index: usize, now_ns: u64, last: bool) -> bool {
        self.living.get(index).is_some_and(|living| living.is_over && (last || !living.awaits(now_ns)))
    }

    /// A later image of the same process is there.
    fn is_replaced(&self, index: usize) -> bool {
        let (Some(living), Some(later)) = (self.living.get(index), self.living.get(index + 1..)) else {
            return false;
        };
        living.is_over && later.iter().any(|other| other.pid == living.pid)
    }

    fn read(&mut self, index: usize, cutoff: u64, now_ns: u64, last: bool) {
        let awaits = self.living.get(index).is_some_and(|living| living.awaits(now_ns));
        let is_awaited = |living: &Living| living.tracked.inherited.is_awaited();
        if !awaits && self.living.get(index).is_some_and(is_awaited) {
            self.seed_late(index);
        }
        if awaits && !last {
            return;
        }
        while let Some(living) = self.living.get_mut(index)
            && !living.understand(&mut self.sums, cutoff)
        {
            self.collect(now_ns);
        }
        if self.living.get(index).is_some_and(|living| !living.tracked.forks.is_empty()) {
            self.note_forks(index);
        }
    }

    /// Everything that an ended process left. Returns the bytes that were there.
    fn read_rest(&mut self, index: usize, now_ns: u64) -> usize {
        let Some(living) = self.living.get_mut(index) else { return 0 };
        living.collect(self.events.as_mut());
        let there = living.waiting_bytes();
        living.begin_turn();
        self.read(index, u64::MAX, now_ns, true);
        there
    }

    fn accept(&mut self) {
        loop {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            if socket.set_nonblocking(true).is_ok() && self.callers.len() < MOST_CALLERS {
                self.callers.push(socket);
            }
        }
    }

    /// Who has connected and said who it is. One that is stopped before it can say so holds up nobody.
    fn hear_callers(&mut self, keeper: &Keeper, now_ns: u64) {
        for socket in std::mem::take(&mut self.callers) {
            match receive(socket.as_fd()) {
                Ok(introduction) => self.introduce(introduction, peer_pid(socket.as_fd()), keeper, now_ns),
                Err(Error::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.callers.push(socket);
                }
                Err(_) => self.refused += 1,
            }
        }
    }

    fn introduce(&mut self, introduction: Introduction, pid: Option<i32>, keeper: &Keeper, now_ns: u64) {
        let Introduction { hello, control, book } = introduction;
        let Ok(ring) = Ring::open(&control) else {
            self.refused += 1;
            return;
        };
        if let Some(book) = book.and_then(|file| Book::open(&file).ok())
            && !self.books.contains_key(&book.inode())
        {
            let book = Arc::new(book);
            keeper.book(&book);
            if let Some(rules) = &self.rules {
                let meanings = Meanings::new(Arc::clone(&book), Arc::clone(rules));
                self.sums.meanings.insert(book.inode(), meanings);
            }
            self.books.insert(book.inode(), book);
        }
        let pid = pid.unwrap_or(hello.pid as i32);
        // A fresh image of a known process: it has replaced itself, and what it had is gone.
        for living in self.living.iter_mut().filter(|living| living.pid == pid) {
            living.is_over = true;
        }
        self.enter(ring, pid, &hello, now_ns);
    }

    fn enter(&mut self, ring: Ring, pid: i32, hello: &Hello, now_ns: u64) {
        let parent = self.parent_of(hello);
        let process = self.rows.len() as u32;
        let mut inherited = Inherited::default();
        if hello.forked_from != 0 {
            inherited = Inherited::awaited();
            if let Some(position) = self.seeds.iter().position(|(child, ..)| *child == hello.pid as i32)
                && let Some((_, _, seed)) = self.seeds.remove(position)
            {
                inherited.seed(seed);
            }
        }
        let row = Process {
            pid,
            forked_from: parent,
            name: name_of(pid),
            started_ns: self.clock.ns(hello.start_ticks),
            ..Process::default()
        };
        self.rows.push(Row { process: row, own: Own::default(), book: hello.book_inode });
        let tracked = Tracked::new(process, hello.book_inode, inherited);
        let mut living = Living::new(ring, pid, hello.book_inode, tracked, now_ns);
        if let Some(level) = self.switched {
            living.switch(level, now_ns);
        }
        self.living.push(living);
    }

    /// The row of the process that this one was forked from: the latest of that id that began before.
    fn parent_of(&self, hello: &Hello) -> Option<u32> {
        let from = hello.forked_from as i32;
        let of_family = |row: &Row| row.process.pid == from && row.book == hello.book_inode;
        (from != 0).then(|| self.rows.iter().rposition(of_family).map(|row| row as u32)).flatten()
    }

    /// A child whose parent never said that it forked (a raw `clone`) gets what the parent has now.
    fn seed_late(&mut self, index: usize) {
        let parent = self.living.get(index).and_then(|child| self.rows.get(child.tracked.process as usize));
        let parent = parent.and_then(|row| row.process.forked_from);
        let parent = self.living.iter().find(|living| Some(living.tracked.process) == parent);
        let seed = parent.map(|parent| Seed::of(&parent.tracked.blocks, &parent.tracked.inherited));
        if let Some(child) = self.living.get_mut(index) {
            child.tracked.inherited.seed(seed.unwrap_or_else(Seed::unknown));
        }
    }

    /// Children get what their parent had when it forked.
    fn note_forks(&mut self, index: usize) {
        let Some(living) = self.living.get_mut(index) else { return };
        let (process, forks) = (living.tracked.process, std::mem::take(&mut living.tracked.forks));
        for (child, seed) in forks {
            let child = child as i32;
            let awaits = |living: &&mut Living| living.pid == child && living.tracked.inherited.is_awaited();
            match self.living.iter_mut().find(awaits) {
                Some(child) => child.tracked.inherited.seed(seed),
                None => self.seeds.push_back((child, process, seed)),
            }
            while self.seeds.len() > MOST_SEEDS {
                self.seeds.pop_front();
            }
        }
    }

    /// A process has ended: its last events, then its sums are closed and its memory is let go.
    fn bury(&mut self, index: usize, now_ns: u64, keeper: &Keeper) {
        if self.living[index].tracked.inherited.is_awaited() {
            self.seed_late(index);
        }
        while self.read_rest(index, now_ns) > 0 {}
        self.look();
        self.read_rest(index, now_ns); // frees that waited for their allocation are settled after one more turn
        self.announce(keeper);
        let mut living = self.living.remove(index);
        living.tracked.close(&mut self.sums);
        self.sums.sites.end(&mut living.tracked.own, &living.tracked.sites);
        self.describe(&mut living);
        let own = living.tracked.own;
        let is_last = !self.living.iter().any(|other| other.book == living.book);
        if let Some(row) = self.rows.get_mut(living.tracked.process as usize) {
            row.own = own;
            row.process.ended_ns = Some(now_ns);
        }
        self.seeds.retain(|(_, parent, _)| *parent != living.tracked.process || !is_last);
        if is_last {
            self.sums.meanings.remove(&living.book);
            self.books.remove(&living.book);
        }
        keeper.evaluations(living.book, living.evaluations());
        keeper.ended(Ended { book: living.book, is_last });
    }

    fn describe(&mut self, living: &mut Living) {
        if let Some(row) = self.rows.get_mut(living.tracked.process as usize) {
            living.describe(&mut row.process, &self.clock);
            row.own = living.tracked.own;
        }
    }

    /// Brings the rows of the living up to date.
    pub fn describe_all(&mut self) {
        let mut living = std::mem::take(&mut self.living);
        for living in &mut living {
            self.describe(living);
        }
        self.living = living;
    }

    /// These processes have become programs that are not tracked.
    pub fn replaced(&mut self, pids: &[i32]) {
        for living in self.living.iter_mut().filter(|living| pids.contains(&living.pid)) {
            living.is_over = true;
        }
    }

    /// Tells which code of their interpreters evaluates Python.
    pub fn tell_evaluations(&self, keeper: &Keeper) {
        for living in &self.living {
            keeper.evaluations(living.book, living.evaluations());
        }
    }

    /// The tracker's memory in all targets now (its highest is kept), and who of their children could not connect.
    pub fn look(&mut self) {
        self.clock.measure();
        self.sums.tick_scale = self.clock.scale;
        // Saturating: what targets say of themselves must not make us panic.
        let rings = self.living.iter_mut().map(Living::look).fold(0, u64::saturating_add);
        let books = self.books.values().filter_map(|book| book.size().ok()).map(|(_, used)| used);
        self.tracker_bytes = self.tracker_bytes.max(books.fold(rings, u64::saturating_add));
        self.unconnected.extend(self.books.iter().map(|(inode, book)| (*inode, book.unheard())));
    }

    /// Processes that could not report, as far as somebody is left to say so.
    pub fn unheard_processes(&self) -> u64 {
        self.unconnected.values().copied().fold(self.refused, u64::saturating_add)
    }

    /// New sites: their stacks are resolved elsewhere, also after their process's end.
    fn announce(&mut self, keeper: &Keeper) {
        let new = self.sums.sites.all.get(self.announced..).unwrap_or_default();
        if new.is_empty() {
            return;
        }
        let rows = &self.rows;
        let new = new.iter().map(|site| NewSite {
            book: rows.get(site.process as usize).map_or(0, |row| row.book),
            native: site.native,
            python: site.python,
        });
        keeper.sites(new.collect());
        self.announced = self.sums.sites.all.len();
    }

    /// A step was marked: what happened before it is understood before it counts.
    pub fn step(&mut self, number: u64, at_ns: u64) {
        self.steps.push((number, at_ns));
    }

    fn reach_step(&mut self, number: u64, at_ns: u64) {
        let step = Step { number, at_ns, live_bytes: self.sums.sites.live.bytes };
        let ticks = self.clock.ticks(at_ns);
        self.sums.sites.steps.mark(step, ticks);
    }

    pub fn switch(&mut self, level: Level) {
        self.switched = Some(level);
        let now_ns = monotonic_ns();
        self.living.iter_mut().for_each(|living| living.switch(level, now_ns));
    }

    /// Processes that are listened to now, and which programs they were when they came.
    pub fn programs(&self) -> impl Iterator<Item = (i32, PathBuf)> + '_ {
        self.living.iter().map(|living| (living.pid, living.program.clone()))
    }

    /// Opens, looks at or closes the window of a process; what it takes to tell of it. `None` where it has none.
    pub fn window(&mut self, pid: i32, act: Act, top: usize) -> Option<Answer> {
        let living = self.living.iter_mut().rev().find(|living| living.pid == pid)?;
        let window = &mut living.tracked.window;
        if act == Act::Open {
            *window = Some(Box::new(Window::open(clock::ticks())));
        }
        let told = window.as_ref()?.tell(top);
        if act == Act::Close {
            *window = None;
        }
        let site = |part: &super::window::Part| self.sums.sites.all.get(part.site as usize).copied();
        let sites = told.parts.iter().map(|part| site(part).unwrap_or_default()).collect();
        let book = self.books.get(&living.book).map(|book| Pages::new(Arc::clone(book)));
        Some(Answer { told, sites, book })
    }

    /// Events so far, and those lost.
    pub fn counts(&self) -> (u64, u64) {
        let ended = self.rows.iter().filter(|row| row.process.ended_ns.is_some());
        let ended = ended.map(|row| (row.process.events, row.process.lost_events));
        let living = self.living.iter().map(|living| (living.tracked.events, living.lost_events()));
        ended.chain(living).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1.saturating_add(one.1)))
    }

    pub fn total(&self) -> (Amount, u64, u64) {
        let mut sum = Amount::default();
        let (mut frees, mut events) = (0, 0);
        for row in &self.rows {
            super::weight::Sum::add(&mut sum, &row.process.total);
            frees += row.process.frees;
            events += row.process.events;
        }
        (sum, frees, events)
    }
}

/// Moments between the two, evenly spaced.
fn points_between(from_ns: u64, until_ns: u64) -> impl Iterator<Item = u64> {
    let span_ns = until_ns.saturating_sub(from_ns);
    let every_ns = POINT_NS.max(span_ns.div_ceil(MOST_POINTS));
    (1..=span_ns / every_ns)
        .map(move |point| from_ns + point * every_ns)
        .take_while(move |at_ns| *at_ns < until_ns)
}

fn name_of(pid: i32) -> String {
    let comm = std::fs::read_to_string(Proc::default().root().join(pid.to_string()).join("comm"));
    comm.map_or(String::new(), |name| name.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_turn_has_its_points_and_a_day_of_standing_still_has_few() {
        let points = |from_ns, until_ns| points_between(from_ns, until_ns).collect::<Vec<_>>();
        assert!(points(5, 5 + POINT_NS).is_empty() && points(9, 8).is_empty());
        assert_eq!(points(5, 6 + 2 * POINT_NS), [5 + POINT_NS, 5 + 2 * POINT_NS]);
        let day_ns = 86_400_000_000_000;
        let found = points_between(7, 7 + day_ns).take(100_000).collect::<Vec<_>>();
        assert!(found.len() as u64 <= MOST_POINTS && found.len() > 200, "{}", found.len());
        assert!(found.is_sorted() && found.iter().all(|at_ns| (8..7 + day_ns).contains(at_ns)));
    }
}
