//! Which processes belong to the run.
//!
//! Only a member that runs can make a process. Then the newest pid of the machine (`ns_last_pid`) tells cheaply
//! whether anything was made since the last look; only then the new pids themselves are examined, one by one. A
//! slower scan of all of `/proc` catches what that misses (pids chosen out of order, wrap-around). A process belongs
//! to the tree when its parent does, or when it became ours because its parent died (we are a subreaper).

use std::collections::HashSet;
use std::path::Path;

use nilometer_kernel::parse::environ;
use nilometer_kernel::read::proc::{LastPid, Proc};
use nilometer_kernel::read::system::has_tickless_processors;
use nilometer_kernel::sys::clock::process_cpu_ns;
use nilometer_kernel::sys::process::session_of;
use nilometer_trace::record::{Process, ProcessEnd, ProcessUpdate, Record, Waited};

use crate::member::{Care, Look, Member};
use crate::role::{self, DATA_WORKER_COMM, Evidence, RANK_VARIABLES};

/// More new pids than this are looked up by one scan instead of one by one.
const MOST_PROBES: i32 = 512;
/// How often all of `/proc` is scanned.
const FULL_SCAN_NS: u64 = 15_000_000_000;
/// How often the newest pid is asked while as many threads are on the machine as before, and no member did so much more
/// than it uses to that it can have made a process.
const NEWEST_PACE_NS: u64 = 1_000_000_000;
/// How often a member's command line is read again, for an `exec` that kept the short name and, where addresses are not
/// random, the place of the stack.
const REREAD_NS: u64 = 30_000_000_000;

#[derive(Debug)]
pub struct Tree {
    proc: Proc,
    members: Vec<Member>,
    pids: HashSet<i32>,
    /// Ourselves and our helpers.
    own: Vec<i32>,
    /// The process whose descendants these are: our child, or the one attached to.
    root: i32,
    /// Sessions of members that no member began.
    sessions: Vec<i32>,
    single: bool,
    adopts: bool,
    /// How closely members are looked at, at the next tick and later.
    pub care: Care,
    /// It may be asked how long a process has run: the numbers in `/proc` are those of system calls.
    has_clocks: bool,
    next_index: u32,
    workers: u32,
    last_pid_file: Option<LastPid>,
    last_pid: Option<i32>,
    /// When that was asked, and how many threads there were on the machine then or later.
    asked_ns: u64,
    threads: Option<u16>,
    /// Since then a member has ended, or has done enough to have made another.
    stirred: bool,
    foreign: HashSet<i32>,
    /// Numbers given out that had no process at the last look: ended, or a `fork` that was not done.
    unborn: Vec<i32>,
    scanned_ns: u64,
    reread_ns: u64,
    buffer: Vec<u8>,
    /// Records that the log has not got yet, oldest first.
    pending: Vec<Record>,
    /// Members that ended since they were last taken.
    ended: Vec<Member>,
    /// A look since the last tick found a sample that is not what it was.
    changed: bool,
}

impl Tree {
    /// `own` are the pids of this program; `adopts` when orphans of the tree are re-parented to it.
    pub fn new(proc: Proc, root: i32, own: Vec<i32>, single: bool, adopts: bool) -> Self {
        let last_pid_file = proc.open_last_pid();
        // Where a processor has no tick, the clock of what runs on it stands for a second.
        let has_clocks = proc.shows_our_namespace() && !has_tickless_processors(Path::new("/sys"));
        Self {
            proc,
            members: Vec::new(),
            pids: HashSet::new(),
            own,
            root,
            sessions: Vec::new(),
            single,
            adopts,
            care: Care::at_interval(0),
            has_clocks,
            next_index: 0,
            workers: 0,
            last_pid_file,
            last_pid: None,
            asked_ns: 0,
            threads: None,
            stirred: false,
            foreign: HashSet::new(),
            unborn: Vec::new(),
            scanned_ns: 0,
            reread_ns: 0,
            buffer: Vec::with_capacity(8192),
            pending: Vec::new(),
            ended: Vec::new(),
            changed: false,
        }
    }

    pub fn members(&self) -> &[Member] {
        &self.members
    }

    pub fn members_mut(&mut self) -> &mut [Member] {
        &mut self.members
    }

    pub fn contains(&self, pid: i32) -> bool {
        self.pids.contains(&pid)
    }

    /// New, changed and ended processes, to be logged before the samples that mention them.
    pub fn take_records(&mut self) -> std::vec::Drain<'_, Record> {
        self.pending.drain(..)
    }

    pub fn take_ended(&mut self) -> std::vec::Drain<'_, Member> {
        self.ended.drain(..)
    }

    /// Adds the root itself.
    pub fn begin(&mut self, now_ns: u64) -> bool {
        self.add(self.root, 0, now_ns);
        self.contains(self.root)
    }

    /// Another run of the same command: its child is the root from now on.
    pub fn begin_again(&mut self, root: i32, now_ns: u64) -> bool {
        self.root = root;
        self.begin(now_ns)
    }

    /// One more process of ours that is not the target's.
    pub fn add_own(&mut self, pid: Option<i32>) {
        self.own.extend(pid);
    }

    /// One tick: new processes, and the fast counters of every member. `ran`: any of them, since the last tick; `threads`:
    /// how many there are on the machine. True when anything is not as it was.
    pub fn turn(&mut self, now_ns: u64, ran: bool, threads: Option<u16>) -> bool {
        let scan_is_due = !self.single && now_ns.saturating_sub(self.scanned_ns) >= FULL_SCAN_NS;
        let forks = ran && self.may_have_forked(now_ns, threads);
        let forked = (forks || scan_is_due || !self.unborn.is_empty()) && self.discover(now_ns);
        let alone = Care { closely: self.care.closely || !self.has_clocks, ..self.care };
        let together = self.members.iter().any(|member| member.is_full_due(now_ns, alone));
        let care = Care { together, ..alone };
        self.look_at_all(now_ns, care, forked);
        std::mem::take(&mut self.changed) || !self.pending.is_empty() || !self.ended.is_empty()
    }

    /// Did any member run since the last tick?
    pub fn note_cpu(&mut self) -> bool {
        let mut ran = !self.has_clocks;
        for member in self.members.iter_mut().filter(|_| self.has_clocks) {
            ran |= member.note_cpu();
            self.stirred |= member.has_ended() || member.may_have_forked();
        }
        ran
    }

    /// A process that is there at this tick and was not at the last one is one thread more, unless another ended in
    /// between. If that was a member, as where commands follow each other, we know; and who makes a process works for it.
    /// What is left (a thread that ended somewhere, and a member to which its work is not seen) is found when the number of
    /// threads next moves, or after [`NEWEST_PACE_NS`]. To ask for the newest pid at every tick would cost a
    /// tenth of it.
    fn may_have_forked(&mut self, now_ns: u64, threads: Option<u16>) -> bool {
        let as_many = threads.is_some() && threads == std::mem::replace(&mut self.threads, threads);
        let is_old = now_ns.saturating_sub(self.asked_ns) >= NEWEST_PACE_NS;
        !as_many || is_old || self.stirred || !self.has_clocks
    }

    /// Finds processes made since the last call. True when any were made on this machine, or that cannot be told.
    pub fn discover(&mut self, now_ns: u64) -> bool {
        (self.asked_ns, self.stirred) = (now_ns, false);
        let newest = self.last_pid_file.as_ref().and_then(LastPid::read);
        let given_out = newest.is_none() || newest != self.last_pid;
        if !self.single {
            self.find(newest, now_ns);
        }
        self.last_pid = newest;
        given_out
    }

    /// Looks at every process once more, also those that were known to belong to others: one whose parent came and went
    /// while we looked was taken for such.
    pub fn discover_anew(&mut self, now_ns: u64) {
        self.discover(now_ns);
        if !self.single {
            self.foreign.clear();
            self.scan(now_ns);
        }
    }

    fn find(&mut self, newest: Option<i32>, now_ns: u64) {
        let span = match (self.last_pid, newest) {
            (Some(before), Some(now)) => {
                now.checked_sub(before).filter(|span| (0..=MOST_PROBES).contains(span))
            }
            _ => None,
        };
        for pid in std::mem::take(&mut self.unborn) {
            self.consider(pid, now_ns);
        }
        self.unborn.clear();
        match span {
            Some(0) => {}
            Some(span) => self.probe(newest.unwrap_or(0) - span + 1, span, now_ns),
            None => self.scan(now_ns),
        }
        if now_ns.saturating_sub(self.scanned_ns) >= FULL_SCAN_NS {
            self.scan(now_ns);
        }
    }

    fn probe(&mut self, first: i32, count: i32, now_ns: u64) {
        for pid in first..first.saturating_add(count) {
            self.consider(pid, now_ns);
        }
    }

    /// Looks at every visible process not known to belong to others.
    fn scan(&mut self, now_ns: u64) {
        self.scanned_ns = now_ns;
        let Ok(mut pids) = self.proc.list_pids() else { return };
        pids.sort_unstable(); // parents before children, mostly
        self.foreign.retain(|pid| pids.binary_search(pid).is_ok());
        let mut found = true;
        while std::mem::take(&mut found) {
            for pid in pids.iter().copied() {
                if !self.foreign.contains(&pid) {
                    found |= self.consider(pid, now_ns);
                }
            }
        }
        // Of one that could not be looked at nobody knows whose it is.
        let is_foreign = |pid: &i32| !self.pids.contains(pid) && !self.unborn.contains(pid);
        self.foreign = pids.into_iter().filter(is_foreign).collect();
    }

    /// Adds `pid` if it belongs to the tree; true if it was added.
    fn consider(&mut self, pid: i32, now_ns: u64) -> bool {
        if self.pids.contains(&pid) || self.own.contains(&pid) {
            return false;
        }
        // Asked first, because it costs a fiftieth: most numbers are of threads, or of processes that have ended.
        if self.has_clocks && process_cpu_ns(pid).is_none() {
            self.unborn.push(pid);
            return false;
        }
        if self.has_clocks && self.is_of_foreign_session(pid) {
            return false;
        }
        let Ok(status) = self.proc.read_status(pid, &mut self.buffer) else {
            self.unborn.push(pid);
            return false;
        };
        let orphan = self.adopts && self.own.first() == Some(&status.ppid);
        let ours = status.is_thread_leader() && (self.pids.contains(&status.ppid) || orphan);
        if ours {
            self.add(pid, status.ppid, now_ns);
        }
        ours
    }

    /// A process has the session of its parent until it begins one, which is named after it: nobody of the tree is in
    /// the session of a process that is not of the tree, but for those that a member was found in.
    fn is_of_foreign_session(&self, pid: i32) -> bool {
        session_of(pid).is_some_and(|leader| {
            leader != pid && self.foreign.contains(&leader) && !self.sessions.contains(&leader)
        })
    }

    fn note_session(&mut self, pid: i32) {
        let session = session_of(pid).filter(|leader| !self.pids.contains(leader));
        if !session.is_none_or(|leader| self.sessions.contains(&leader)) {
            self.sessions.extend(session);
        }
    }

    fn add(&mut self, pid: i32, parent_pid: i32, now_ns: u64) {
        let Ok(mut member) = Member::open(&self.proc, self.next_index, pid, now_ns, &mut self.buffer) else {
            return;
        };
        if member.parent_pid == 0 {
            member.parent_pid = parent_pid; // it ended while we looked: the kernel has forgotten
        }
        self.next_index += 1;
        self.tell_role(&mut member);
        self.pids.insert(pid);
        self.note_session(pid);
        self.foreign.remove(&pid);
        self.pending.push(Record::Process(Process {
            index: member.index,
            pid,
            parent_pid: member.parent_pid,
            parent: self.index_of(member.parent_pid),
            start_ticks: member.start_ticks,
            seen_ns: now_ns,
            comm: member.comm.to_text(),
            command: member.command(),
            role: member.role.clone(),
        }));
        self.members.push(member);
    }

    fn index_of(&self, pid: i32) -> Option<u32> {
        self.members.iter().find(|m| m.pid == pid).map(|m| m.index)
    }

    fn tell_role(&mut self, member: &mut Member) {
        let rank = self.own_rank(member.pid, member.parent_pid);
        let comm = member.comm.to_text();
        let parent = self.members.iter().find(|m| m.pid == member.parent_pid);
        member.role = role::tell(&Evidence {
            parent_pid: member.parent_pid,
            is_direct_child: member.pid == self.root,
            comm: &comm,
            arguments: &member.arguments,
            parent_arguments: parent.map(|p| p.arguments.as_slice()),
            own_rank: rank.as_ref().map(|(name, value)| (*name, value.as_str())),
            workers_before: self.workers,
        });
        if comm == DATA_WORKER_COMM {
            self.workers += 1;
        }
    }

    /// A rank variable that the process has and its parent has not (or has with another value).
    fn own_rank(&self, pid: i32, parent: i32) -> Option<(&'static str, String)> {
        let environment = self.proc.read_environment(pid).ok()?;
        let parents = self.proc.read_environment(parent).unwrap_or_default();
        let (name, value) =
            RANK_VARIABLES.iter().find_map(|name| Some((*name, environ::variable(&environment, name)?)))?;
        if environ::variable(&parents, name) == Some(value) {
            return None;
        }
        Some((name, String::from_utf8_lossy(value).into_owned()))
    }

    /// Reads all there is to read of every member; members that ended are moved out.
    pub fn look(&mut self, now_ns: u64) {
        self.look_at_all(now_ns, Care { closely: true, ..self.care }, true);
    }

    /// `forked`: somebody made a process. Of our own children we want to know at once whether it was them: what
    /// `wait4` will say of their size is then perhaps a child's.
    fn look_at_all(&mut self, now_ns: u64, care: Care, forked: bool) {
        let us = self.own.first().copied();
        let reread = now_ns.saturating_sub(self.reread_ns) >= REREAD_NS;
        let mut position = 0;
        while let Some(member) = self.members.get_mut(position) {
            let closely = care.closely || (forked && us == Some(member.parent_pid));
            let look = member.look(&self.proc, now_ns, Care { closely, ..care }, &mut self.buffer);
            self.changed |= look != Look::Same;
            match look {
                Look::Gone => self.end(position, now_ns, None),
                Look::Zombie => {
                    member.zombie_since_ns.get_or_insert(now_ns);
                    position += 1;
                }
                Look::NewProgram => {
                    self.update(position, now_ns);
                    position += 1;
                }
                Look::Same | Look::Alive => {
                    if member.grows_up() || reread {
                        self.notice_exec(position, now_ns);
                    }
                    position += 1;
                }
            }
        }
        if reread {
            self.reread_ns = now_ns;
        }
    }

    fn notice_exec(&mut self, position: usize, now_ns: u64) {
        let member = &self.members[position];
        let arguments = self.proc.read_arguments(member.pid).unwrap_or_default();
        if !arguments.is_empty() && arguments != member.arguments {
            self.update(position, now_ns);
        }
    }

    fn update(&mut self, position: usize, now_ns: u64) {
        let mut member = self.members.remove(position);
        member.arguments = self.proc.read_arguments(member.pid).unwrap_or_default();
        member.forget_walk(); // another program shares other pages
        self.tell_role(&mut member);
        self.pending.push(Record::ProcessUpdate(ProcessUpdate {
            index: member.index,
            at_ns: now_ns,
            comm: member.comm.to_text(),
            command: member.command(),
            role: member.role.clone(),
        }));
        self.members.insert(position, member);
    }

    /// A child of ours was waited for: the direct child or an adopted orphan.
    pub fn reaped(&mut self, pid: i32, waited: Waited, now_ns: u64) {
        if let Some(position) = self.members.iter().position(|m| m.pid == pid) {
            self.end(position, now_ns, Some(waited));
        }
    }

    fn end(&mut self, position: usize, now_ns: u64, waited: Option<Waited>) {
        let member = self.members.remove(position);
        self.stirred = true;
        self.pids.remove(&member.pid);
        self.pending.push(Record::ProcessEnd(ProcessEnd {
            index: member.index,
            at_ns: member.zombie_since_ns.unwrap_or(now_ns),
            waited,
            hwm_kib: member.hwm_kib,
        }));
        self.ended.push(member);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::process::{Child, ChildStdout, Command, Stdio};

    use nilometer_kernel::sys::clock::monotonic_ns;

    use super::*;

    const SCRIPT: &str = "while read order pid; do case $order in
        fork) sleep 60 & pids=\"$pids $!\"; echo $!;;
        toil) n=0; while [ $n -lt 3000 ]; do n=$((n+1)); done; sleep 60 & pids=\"$pids $!\"; echo $!;;
        end) kill $pid; wait $pid; echo $pid;;
        esac; done; kill $pids 2>/dev/null; wait";

    /// A shell that starts a process, and ends it, when it is told to; with its input all end.
    struct Shell {
        child: Child,
        answers: BufReader<ChildStdout>,
    }

    impl Shell {
        fn start() -> Self {
            let mut shell = Command::new("sh");
            shell.args(["-c", SCRIPT]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = shell.spawn().unwrap();
            let answers = BufReader::new(child.stdout.take().unwrap());
            Self { child, answers }
        }

        /// The pid of a new child.
        fn fork(&mut self) -> i32 {
            self.order("fork")
        }

        fn order(&mut self, order: &str) -> i32 {
            let mut line = String::new();
            writeln!(self.child.stdin.as_ref().unwrap(), "{order}").unwrap();
            self.answers.read_line(&mut line).unwrap();
            line.trim().parse().unwrap()
        }
    }

    impl Drop for Shell {
        fn drop(&mut self) {
            drop(self.child.stdin.take());
            self.child.wait().unwrap();
        }
    }

    /// A tree that has just asked for the newest pid, when there were 100 threads.
    fn tree_of(shell: &Shell) -> (Tree, u64) {
        let mut tree = Tree::new(Proc::default(), shell.child.id() as i32, Vec::new(), false, false);
        let now_ns = monotonic_ns();
        assert!(tree.begin(now_ns));
        tree.turn(now_ns, true, Some(100));
        tree.turn(now_ns, true, Some(100));
        tree.unborn.clear(); // threads of other tests, which would be looked for
        (tree, now_ns)
    }

    #[test]
    fn a_thread_more_or_less_on_the_machine_is_a_reason_to_look_for_new_processes() {
        let mut shell = Shell::start();
        let (mut tree, now_ns) = tree_of(&shell);
        for threads in [101, 100] {
            let child = shell.fork();
            assert!(tree.turn(now_ns, true, Some(threads)));
            assert!(tree.contains(child));
        }
    }

    #[test]
    fn as_many_threads_as_before_are_believed_for_a_second() {
        let mut shell = Shell::start();
        let (mut tree, now_ns) = tree_of(&shell);
        let child = shell.fork();
        // Another ended in the meantime, somewhere.
        tree.turn(now_ns + NEWEST_PACE_NS - 1, true, Some(100));
        assert!(!tree.contains(child));
        tree.turn(now_ns + NEWEST_PACE_NS, false, Some(100));
        assert!(!tree.contains(child), "nobody ran: nobody can have forked");
        tree.turn(now_ns + NEWEST_PACE_NS, true, Some(100));
        assert!(tree.contains(child));
    }

    #[test]
    fn where_the_number_of_threads_is_not_known_every_tick_looks() {
        let mut shell = Shell::start();
        let (mut tree, now_ns) = tree_of(&shell);
        let child = shell.fork();
        tree.turn(now_ns, true, None);
        assert!(tree.contains(child));
    }

    /// A thread may have ended somewhere meanwhile.
    #[test]
    fn who_worked_more_than_it_uses_to_is_looked_at() {
        let mut shell = Shell::start();
        let (mut tree, now_ns) = tree_of(&shell);
        tree.note_cpu();
        tree.stirred = false;
        let child = shell.order("toil");
        tree.turn(now_ns, true, Some(100));
        assert!(!tree.contains(child));
        // The clock of one that still runs is late.
        while tree.proc.read_stat(shell.child.id() as i32, &mut tree.buffer).unwrap().state != b'S' {}
        tree.note_cpu();
        tree.turn(now_ns, true, Some(100));
        assert!(tree.contains(child));
    }

    /// As where a script runs one command after the other.
    #[test]
    fn the_end_of_a_member_hides_no_birth() {
        let mut shell = Shell::start();
        let (mut tree, now_ns) = tree_of(&shell);
        let first = shell.fork();
        tree.turn(now_ns, true, Some(101));
        assert!(tree.contains(first));
        shell.order(&format!("end {first}"));
        let second = shell.fork();
        let ran = tree.note_cpu();
        tree.turn(now_ns, ran, Some(101));
        assert!(tree.contains(second) && !tree.contains(first));
    }
}
