//! The watchdog at work: last words at 90 %, and ending the run's own tree when a limit is crossed.

use std::time::Duration;

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::signals;
use nilometer_trace::record::{EventKind, Exit};

use crate::member::Member;
use crate::recorder::nanoseconds;
use crate::session::Session;
use crate::stacks::read_stacks;
use crate::standstill::Standstill;
use crate::watchdog::{Crossing, View, crossing, needs_walk, next_look_ns};

/// The whole post-mortem, from the stop to the release, takes no longer.
const POST_MORTEM_NS: u64 = 5_000_000_000;
/// Walks that decide whether the tree has crossed a limit.
const WALK_NS: u64 = 1_000_000_000;
/// Python processes whose stacks are kept in a post-mortem, and how long we look for them.
const MOST_STACKS: usize = 8;
const STACKS_NS: u64 = 1_000_000_000;
/// How long we try to bring every thread to a stop.
const STOP_NS: u64 = 1_000_000_000;
/// After SIGKILL the tree is gone within this, or stuck in the kernel.
const KILL_NS: u64 = 5_000_000_000;
/// Between two looks while we wait for the tree to end.
const LOOK_NS: u64 = 10_000_000;
/// A tree that goes on growing by this factor after SIGTERM does not get the rest of its grace.
const RUNAWAY: f64 = 1.1;
/// Last words are said when this share of the binding limit is used.
const LAST_WORDS_SHARE: f64 = 0.9;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

impl Session {
    /// Judges the last tick.
    pub fn guard(&mut self) {
        if self.recorder.system_is_new {
            self.last_words();
        }
        if !self.options.limits.any() {
            return;
        }
        let mut view = self.view();
        if needs_walk(&self.options.limits, &view) && self.may_walk() {
            // Not under the budget of the ordinary walks, which may be used up or off: a limit was asked for.
            self.recorder.walk_all(monotonic_ns() + WALK_NS);
            view = self.view();
        }
        if let Some(crossing) = crossing(&self.options.limits, &view) {
            self.enforce(&crossing);
        }
    }

    /// Walks that settle a doubt take no more than a tenth of our time.
    fn may_walk(&self) -> bool {
        let members = self.recorder.tree.members();
        let cost_ns: u64 = members.iter().map(|m| m.walk_cost_ns).sum();
        let last_ns = members.iter().map(|m| m.walked_ns).max().unwrap_or(0);
        monotonic_ns().saturating_sub(last_ns) >= cost_ns * 9
    }

    pub fn next_look_ns(&self) -> u64 {
        let interval_ns = self.recorder.interval_ns();
        if self.options.limits.any() {
            next_look_ns(&self.options.limits, &self.view(), interval_ns)
        } else {
            interval_ns
        }
    }

    fn view(&self) -> View {
        let tree = &self.recorder.tree;
        let largest = tree.members().iter().max_by_key(|m| m.sample.rss_kib());
        let system = &self.recorder.system;
        let kib = |name| system.meminfo_kib(name);
        View {
            tree: self.recorder.last_tree,
            largest_index: largest.map(|m| m.index),
            largest_rss_kib: largest.map_or(0, |m| m.sample.rss_kib()),
            swap_kib: tree.members().iter().map(|m| m.sample.swap_kib).sum(),
            total_kib: kib("MemTotal"),
            available_kib: kib("MemAvailable"),
            system_swap_kib: kib("SwapTotal").saturating_sub(kib("SwapFree") + kib("SwapCached")),
            cgroup: system.tightest_cgroup_kib(),
            psi_some_centi: system.pressure_centi(),
        }
    }

    /// At 90 % of what binds: who holds what, saved now because later may be too late. Nothing is stopped.
    fn last_words(&mut self) {
        let binding = self.recorder.system.binding();
        let used = binding.limit.saturating_sub(binding.headroom);
        let near = used as f64 >= binding.limit as f64 * LAST_WORDS_SHARE;
        let news = used as f64 > self.last_words_bytes as f64 * 1.02;
        if !near || !news {
            return;
        }
        self.last_words_bytes = used;
        self.recorder.walk_now();
        self.note_stacks(1);
        let limit = self.recorder.system.limit();
        self.recorder.event(
            monotonic_ns(),
            EventKind::Limit {
                limit: limit.source,
                value_bytes: used,
                limit_bytes: binding.limit,
                index: self.view().largest_index,
                action: "last words saved".to_owned(),
            },
        );
    }

    /// Stop, look, ask to end, insist. Only processes of the run's own tree are touched.
    fn enforce(&mut self, crossing: &Crossing) {
        let Crossing { option, value_bytes, limit_bytes, index } = *crossing;
        let action = "the run was ended".to_owned();
        let limit = option.to_owned();
        let at_ns = monotonic_ns();
        let crossed = self.describe_crossing(crossing, at_ns);
        self.recorder.event(at_ns, EventKind::Limit { limit, value_bytes, limit_bytes, index, action });
        let words = match self.post_mortem_then_ask_to_end() {
            Some(error) => format!("{crossed}; not stopped for its post-mortem: {error}"),
            None => crossed,
        };
        let runaway_kib = (self.recorder.last_tree.high_kib as f64 * RUNAWAY) as u64;
        let grace_ns = nanoseconds(self.options.grace);
        self.wait_for_end(grace_ns, |session| session.recorder.last_tree.low_kib > runaway_kib);
        self.insist();
        let ended_by = Some(words);
        self.exit = Some(Exit { ended_by, ..self.exit.take().unwrap_or_default() });
    }

    /// The tree's highest so far, as far as marks and samples tell.
    pub fn peak_kib(&self) -> u64 {
        let marks = self.recorder.tree.members().iter().map(|m| m.hwm_kib).max();
        self.recorder.last_tree.high_kib.max(marks.unwrap_or(0))
    }

    /// Ends the run's own tree when enough has been seen of it: SIGTERM, grace, SIGKILL; nothing is stopped before.
    pub fn stop_when_enough(&mut self, started_ns: u64) {
        if !self.enough.is_asked() || self.is_over() {
            return;
        }
        let now_ns = monotonic_ns();
        let elapsed = Duration::from_nanos(now_ns.saturating_sub(started_ns));
        let Some(why) = self.enough.reached(elapsed, self.recorder.ticks().0) else { return };
        self.recorder.tick(); // the last look before anything ends
        self.recorder.event(now_ns, EventKind::Note { text: format!("ended early: {why}") });
        self.signal_tree(SIGTERM);
        self.wait_for_end(nanoseconds(self.options.grace), |_| false);
        self.insist();
        self.exit = Some(Exit { enough: Some(why), ..self.exit.take().unwrap_or_default() });
    }

    /// Limit, value, process, time.
    fn describe_crossing(&self, crossing: &Crossing, at_ns: u64) -> String {
        let of = |value: u64| match crossing.option {
            "--max-psi" => format!("{:.2} %", value as f64 / 100.0),
            _ => format!("{:.1} MiB", value as f64 / f64::from(1 << 20)),
        };
        let seconds = at_ns.saturating_sub(self.started_ns) as f64 / 1e9;
        let largest = self.recorder.tree.members().iter().find(|m| Some(m.index) == crossing.index);
        let process =
            largest.map_or_else(String::new, |m| format!(", largest process {} ({})", m.pid, m.role.name));
        format!(
            "watchdog: {} {} crossed at {seconds:.1} s with {}{process}",
            crossing.option,
            of(crossing.limit_bytes),
            of(crossing.value_bytes)
        )
    }

    /// SIGKILL until nothing is left.
    fn insist(&mut self) {
        for _ in 0..3 {
            if self.tree_is_gone() {
                break;
            }
            self.signal_tree(SIGKILL);
            self.wait_for_end(KILL_NS / 3, |_| false);
        }
    }

    /// Every process of the tree stands still while its mappings are read; the kernel lets them go if we die.
    /// Where it may not be stopped (Yama) it is read as it runs, and this is why. SIGTERM is sent before the
    /// release: a fast allocator gets no moment in between.
    fn post_mortem_then_ask_to_end(&mut self) -> Option<std::io::Error> {
        self.let_go(); // one tracer at a time
        let begin_ns = monotonic_ns();
        let pids: Vec<i32> = self.recorder.tree.members().iter().map(|m| m.pid).collect();
        let mut standstill = Standstill::begin(pids, begin_ns + STOP_NS);
        self.note_stacks(MOST_STACKS);
        self.recorder.walk_all(begin_ns + POST_MORTEM_NS);
        let any_stopped = standstill.threads > 0;
        let refused = standstill.refused.take().filter(|_| !any_stopped);
        self.signal_tree(SIGTERM);
        drop(standstill);
        if any_stopped {
            self.pause_ns += monotonic_ns() - begin_ns;
        }
        if let Some(error) = &refused {
            let text = format!("the tree was not stopped for its post-mortem: {error}");
            self.recorder.event(begin_ns, EventKind::Note { text });
        }
        refused
    }

    /// Where the largest Python processes are, as far as they may be read.
    fn note_stacks(&mut self, most: usize) {
        let begin_ns = monotonic_ns();
        let mut members: Vec<_> = self.recorder.tree.members().iter().collect();
        members.sort_by_key(|m| std::cmp::Reverse(m.sample.rss_kib()));
        let pids: Vec<i32> = members.iter().map(|m| m.pid).collect();
        let stacks = pids.iter().map(|pid| read_stacks(*pid)).filter(|stacks| !stacks.is_empty());
        // A crowd of processes must not use up the time of the post-mortem.
        let in_time = stacks.take_while(|_| monotonic_ns() < begin_ns + STACKS_NS).take(most).flatten();
        for event in in_time.collect::<Vec<_>>() {
            self.recorder.event(begin_ns, event);
        }
    }

    fn signal_tree(&mut self, signal: i32) {
        let tree = &mut self.recorder.tree;
        tree.discover(monotonic_ns());
        tree.look(monotonic_ns()); // a number whose process has ended may be somebody else's by now
        for member in tree.members() {
            let _ = signals::send(member.pid, signal);
        }
    }

    fn tree_is_gone(&self) -> bool {
        self.exit.is_some() && !self.recorder.tree.members().iter().any(Member::is_alive)
    }

    /// Goes on recording until the tree has ended, `enough` says so, or the time is over.
    fn wait_for_end(&mut self, span_ns: u64, enough: impl Fn(&Self) -> bool) {
        let end_ns = monotonic_ns() + span_ns;
        while !self.tree_is_gone() && monotonic_ns() < end_ns && !enough(self) {
            self.wait_and_answer(monotonic_ns() + LOOK_NS);
            self.recorder.tick();
        }
    }
}
