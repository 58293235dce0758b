//! A thread's state: its lane, what its encoder remembers, its last stacks.
//!
//! The state is private memory that a fork wipes, so that a child cannot write into its parent's rings even
//! when it was made behind libc's back. It belongs to the lane and is used again by the lane's next thread.

use core::ptr::null_mut;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64};

use nilometer_ring::Encoder;
use nilometer_ring::book::Backing;
use nilometer_ring::clock;
use nilometer_ring::cursor::Cursor;
use nilometer_ring::event::Mode;
use nilometer_ring::lane::Producer;
use nilometer_ring::layout::{CONTROL_FILE, LANE_SIZES, LaneHeader, MAX_LANES, PAGE, degraded};

use super::process::{self, CONTROL_FD, control};
use super::real::REAL;
use super::tls::{DEAD, Tls};
use super::{headroom, sys};
use super::{native, python};

/// Events between two times told.
const TICK_EVERY: u32 = 16;
/// With so many lanes, some may belong to threads that are no more.
const MANY: usize = 64;
/// A full ring is looked at so often while it is waited for.
const NAP_NS: i64 = 60_000;

#[repr(C)]
pub struct Thread {
    lane: Producer,
    /// Not zero while the state is in use; zero in a forked child.
    ready: u32,
    index: u32,
    class: u32,
    tid: u32,
    serial: u32,
    since_tick: u32,
    mode: u32,
    generation: u32,
    /// Zero while the lane has not been told that this thread has it, for want of room.
    begun: u32,
    /// The recorder's beat at the last time told.
    ticked: u64,
    /// Events dropped since the ring was last seen full; 0 while all is well.
    dropped: u64,
    /// The recorder's beat when the first of them was dropped, and when that was.
    beat: u64,
    dropped_ns: u64,
    /// Not zero once the state may use all of its memory.
    full: u32,
    encoder: Encoder,
    pub python: python::Memory,
    /// Last: its end is only touched by threads that allocate much.
    pub native: native::Memory,
}

static LANES: [AtomicPtr<u8>; MAX_LANES] = [const { AtomicPtr::new(null_mut()) }; MAX_LANES];
static THREADS: [AtomicPtr<Thread>; MAX_LANES] = [const { AtomicPtr::new(null_mut()) }; MAX_LANES];
static COUNT: AtomicU32 = AtomicU32::new(0);
static SERIAL: AtomicU32 = AtomicU32::new(1);
/// Where the last free lane was found.
static HINT: AtomicU32 = AtomicU32::new(0);
static ORPHANS: AtomicPtr<Thread> = AtomicPtr::new(null_mut());
static ORPHANS_BUSY: AtomicU32 = AtomicU32::new(0);
static KEY: AtomicU32 = AtomicU32::new(u32::MAX);
/// The serial of the thread that recorded the last Python event.
static LAST_PYTHON: AtomicU32 = AtomicU32::new(0);

/// The lane for threads without one: unknown, refused, or already ended.
pub fn set_up() {
    ORPHANS_BUSY.store(0, Relaxed);
    let orphans = claim(u32::MAX, 1).map_or(null_mut(), |lane| occupy(&lane, 0));
    ORPHANS.store(orphans, Release);
}

/// The key whose destructor tells that a thread ends. Only the first 32 keys are stored without allocating.
pub fn make_key(destructor: unsafe extern "C" fn(*mut libc::c_void)) {
    let mut key = 0;
    // Before glibc 2.34 a program without threads does not have these functions.
    let Some(create) = REAL.pthread_key_create.get() else { return };
    // SAFETY: called once, from the constructor.
    if unsafe { create(&raw mut key, Some(destructor)) } == 0 && key < 32 {
        KEY.store(key, Release);
    }
}

/// Sets the value that the destructor gets.
pub fn set_key(value: usize) {
    let key = KEY.load(Acquire);
    if let (true, Some(set)) = (key != u32::MAX, REAL.pthread_setspecific.get()) {
        // SAFETY: a key of ours, below 32: stored in the thread itself.
        unsafe { set(key, value as *const libc::c_void) };
    }
}

/// In a forked child: the parent's lanes are not ours.
pub fn forget_lanes() {
    let count = (COUNT.swap(0, AcqRel) as usize).min(MAX_LANES);
    for (index, lane) in LANES.iter().enumerate().take(count) {
        let start = lane.swap(null_mut(), AcqRel);
        let size = control_entry(index).map_or(0, |entry| (entry.load(Relaxed) >> 32) * PAGE);
        if !start.is_null() {
            // SAFETY: a mapping of the parent's lane; its users' states were wiped by the fork.
            unsafe { sys::unmap(start, size as usize) };
        }
    }
    HINT.store(0, Relaxed);
    LAST_PYTHON.store(0, Relaxed);
}

struct Lane {
    index: usize,
    start: *mut u8,
    bytes: u64,
    class: usize,
}

fn control_entry(index: usize) -> Option<&'static AtomicU64> {
    let page = (&raw const *control()).cast::<u8>();
    // SAFETY: the directory follows the first page of the control file, which is mapped with it.
    (index < MAX_LANES).then(|| unsafe { &*page.add(PAGE as usize + index * 8).cast::<AtomicU64>() })
}

/// A lane of at least this class for a thread: a free one, or a new one.
fn claim(tid: u32, class: usize) -> Option<Lane> {
    let count = (COUNT.load(Acquire) as usize).min(MAX_LANES);
    let hint = HINT.load(Relaxed) as usize;
    let from_hint = |n: usize| (n + hint) % count;
    (0..count)
        .map(from_hint)
        .find_map(|index| take_free(index, tid, class))
        .or_else(|| {
            (0..if count < MANY { 0 } else { 4 }).map(from_hint).find_map(|n| take_from_dead(n, tid, class))
        })
        .or_else(|| new_lane(tid, class))
        .or_else(|| (0..count).find_map(|index| take_from_dead(index, tid, class)))
}

fn take_free(index: usize, tid: u32, class: usize) -> Option<Lane> {
    take_lane(index, class, |owner| (owner == 0).then_some(tid))
}

/// A thread that ended without its destructor (a raw `exit`) leaves its lane owned. Looked at a few at a time,
/// and only when there are many lanes: it costs a system call.
#[cold]
fn take_from_dead(index: usize, tid: u32, class: usize) -> Option<Lane> {
    let pid = sys::process_id();
    take_lane(index, class, |owner| (owner != u32::MAX && !sys::thread_exists(pid, owner)).then_some(tid))
}

fn take_lane(index: usize, class: usize, new_owner: impl Fn(u32) -> Option<u32>) -> Option<Lane> {
    let start = LANES.get(index)?.load(Acquire);
    let bytes = (control_entry(index)?.load(Acquire) >> 32) * PAGE;
    let class = LANE_SIZES.iter().position(|&size| size == bytes).filter(|&found| found >= class)?;
    if start.is_null() {
        return None;
    }
    // SAFETY: a mapped lane starts with its header, which is all atomics.
    let header = unsafe { &*start.cast::<LaneHeader>() };
    let owner = header.owner.load(Relaxed);
    let new = new_owner(owner)?;
    HINT.store(index as u32 + 1, Relaxed);
    header.owner.compare_exchange(owner, new, AcqRel, Relaxed).ok()?;
    Some(Lane { index, start, bytes, class })
}

#[cold]
fn new_lane(tid: u32, class: usize) -> Option<Lane> {
    let bytes = *LANE_SIZES.get(class)?;
    let control = control();
    if COUNT.load(Relaxed) as usize >= MAX_LANES || process::is_idle() {
        return None;
    }
    let offset = control.used_bytes.fetch_add(bytes, Relaxed);
    let allowed = offset + bytes <= process::ring_budget().min(CONTROL_FILE);
    let start =
        if allowed && CONTROL_FD.back(offset, bytes) { CONTROL_FD.map(offset, bytes) } else { null_mut() };
    if start.is_null() {
        control.used_bytes.fetch_sub(bytes, Relaxed);
        return None;
    }
    // SAFETY: the lane's fresh, zeroed pages.
    unsafe { (*start.cast::<LaneHeader>()).owner.store(tid, Relaxed) };
    let index = COUNT.fetch_add(1, AcqRel) as usize;
    LANES.get(index)?.store(start, Release);
    control_entry(index)?.store((offset / PAGE) | ((bytes / PAGE) << 32), Release);
    control.lanes.fetch_max(index as u32 + 1, AcqRel);
    Some(Lane { index, start, bytes, class })
}

/// Puts a thread's state on a lane it has won. Null if there is no memory for it.
fn occupy(lane: &Lane, tid: u32) -> *mut Thread {
    let Some(place) = THREADS.get(lane.index) else { return null_mut() };
    let mut at = place.load(Acquire);
    if at.is_null() {
        at = new_state();
        place.store(at, Release);
    }
    if at.is_null() {
        return at;
    }
    // SAFETY: the lane is ours, and so is its state: zeroed or left by the last owner, valid either way.
    let thread = unsafe { &mut *at };
    // SAFETY: the lane was won by `claim` and is mapped.
    thread.lane = unsafe { Producer::take(lane.start, lane.bytes) };
    thread.index = lane.index as u32;
    thread.class = lane.class as u32;
    thread.tid = tid;
    thread.dropped = 0;
    thread.native.forget();
    thread.set_busy(false);
    thread.python.forget();
    thread.ready = 1;
    thread.begin();
    at
}

fn new_state() -> *mut Thread {
    let length = size_of::<Thread>().next_multiple_of(4096);
    let small = length - native::LARGE_BYTES;
    if !headroom::allows(small as u64) {
        return null_mut();
    }
    let at = sys::map_private(length);
    if !at.is_null() {
        // SAFETY: our own fresh memory; zeros are a valid state ("not ready").
        unsafe { sys::advise(at, length, libc::MADV_WIPEONFORK) };
        control().counters.private_bytes.fetch_add(small as u64, Relaxed);
    }
    at.cast()
}

/// Runs `act` with this thread's own state, if it has one.
#[inline(always)]
pub fn peek(tls: *mut Tls, act: impl FnOnce(&Thread)) {
    // SAFETY: this thread's bytes; the state behind the pointer is its own while it holds the guard.
    unsafe {
        let at = (*tls).thread;
        if !at.is_null() && at != DEAD {
            act(&*at);
        }
    }
}

/// Runs `act` with this thread's state: its own, or that of the orphans.
#[inline(always)]
pub fn with(tls: *mut Tls, act: impl FnOnce(&mut Thread)) {
    // SAFETY: this thread's bytes; the state behind the pointer is its own while it holds the guard.
    unsafe {
        let at = (*tls).thread;
        if !at.is_null() && at != DEAD && (*at).ready != 0 {
            return act(&mut *at);
        }
        with_new(&mut *tls, act);
    }
}

#[cold]
#[inline(never)]
fn with_new(tls: &mut Tls, act: impl FnOnce(&mut Thread)) {
    if process::is_child() {
        if tls.thread != DEAD {
            tls.thread = null_mut(); // wiped by the fork
        }
        tls.random = 0; // the child draws its own samples
        if !process::reborn() {
            return;
        }
    }
    if tls.thread.is_null() {
        tls.thread = claim(sys::thread_id(), 0).map_or(null_mut(), |lane| occupy(&lane, sys::thread_id()));
        set_key(1);
    }
    if tls.thread.is_null() || tls.thread == DEAD {
        if tls.thread.is_null() {
            process::degrade(degraded::RING_REFUSED);
        }
        return with_orphans(act);
    }
    // SAFETY: just made, and ours.
    act(unsafe { &mut *tls.thread });
}

/// Several threads share this lane: they take turns, and do not wait long for each other.
#[cold]
fn with_orphans(act: impl FnOnce(&mut Thread)) {
    let orphans = ORPHANS.load(Acquire);
    let won = (0..10_000).any(|_| {
        core::hint::spin_loop();
        ORPHANS_BUSY.compare_exchange_weak(0, 1, Acquire, Relaxed).is_ok()
    });
    if orphans.is_null() || !won {
        control().counters.orphans_lost.fetch_add(1, Relaxed);
        if won {
            ORPHANS_BUSY.store(0, Release);
        }
        return;
    }
    // SAFETY: the state of the orphans' lane, ours while we hold the flag.
    let thread = unsafe { &mut *orphans };
    thread.since_tick = TICK_EVERY; // their times are not each other's
    act(thread);
    ORPHANS_BUSY.store(0, Release);
}

/// False if the recorder is known and gone.
fn is_recorder_there() -> bool {
    let recorder = control().recorder.load(Relaxed);
    recorder == 0 || sys::exists(recorder)
}

/// The thread ends: gives its lane back. Later events of it are an orphan's.
pub fn end(tls: &mut Tls) {
    let at = tls.thread;
    tls.thread = DEAD;
    if at.is_null() || at == DEAD {
        return;
    }
    // SAFETY: this thread's state, which it leaves now.
    let thread = unsafe { &mut *at };
    if thread.ready != 0 {
        thread.write(Encoder::end);
        thread.ready = 0;
        thread.lane.header().owner.store(0, Release);
    }
}

/// A hook was left in the middle of writing: what the encoder remembers may not be what the decoder knows.
pub fn interrupted(tls: &mut Tls) {
    let at = tls.thread;
    // SAFETY: this thread's state; its holder is gone.
    if !at.is_null() && at != DEAD && unsafe { (*at).ready } != 0 {
        // SAFETY: as above.
        let thread = unsafe { &mut *at };
        thread.lane.go_back();
        thread.native.forget();
        thread.python.forget();
        thread.begin();
    }
}

impl Thread {
    /// A thread that allocates much may remember more, if there is room for it.
    pub fn set_busy(&mut self, busy: bool) {
        let bytes = native::LARGE_BYTES as u64;
        if busy && self.full == 0 && headroom::allows(bytes) {
            self.full = 1;
            control().counters.private_bytes.fetch_add(bytes, Relaxed);
        }
        self.native.wholes.set_busy(busy && self.full != 0);
    }

    fn begin(&mut self) {
        self.serial = SERIAL.fetch_add(1, Relaxed);
        self.mode = u32::MAX; // the lane must be told
        self.since_tick = 0;
        let (tid, serial) = (self.tid, self.serial);
        let mut begun = 0;
        self.put(|encoder, out| {
            encoder.begin(out, tid, serial, clock::ticks());
            begun = 1;
        });
        self.begun = begun;
    }

    /// Writes a record, with the time if it is due.
    #[inline(always)]
    pub fn write(&mut self, encode: impl FnOnce(&mut Encoder, &mut Cursor)) {
        let mode = control().mode.load(Relaxed);
        if mode != self.mode && !self.tell_mode(mode) {
            return;
        }
        self.since_tick += 1;
        // The recorder's beat is a coarse clock that costs one load: no event's time is older than a beat.
        let beat = control().beat.load(Relaxed);
        if self.since_tick > TICK_EVERY || beat != self.ticked || mode & Mode::STAMP_ALL != 0 {
            self.since_tick = 0;
            self.ticked = beat;
            self.put(|encoder, out| {
                encoder.tick(out, clock::ticks());
                encode(encoder, out);
            });
        } else {
            self.put(encode);
        }
    }

    /// Python's events are in the order of its lock: a time at each change of thread tells it.
    #[inline(always)]
    pub fn write_python(&mut self, encode: impl FnOnce(&mut Encoder, &mut Cursor)) {
        if LAST_PYTHON.load(Relaxed) != self.serial {
            LAST_PYTHON.store(self.serial, Relaxed);
            self.since_tick = TICK_EVERY;
        }
        self.write(encode);
    }

    #[inline(always)]
    fn put(&mut self, encode: impl FnOnce(&mut Encoder, &mut Cursor)) {
        let mut out = match self.lane.reserve() {
            Ok(out) => out,
            Err(_) if self.make_room() => match self.lane.reserve() {
                Ok(out) => out,
                Err(_) => return,
            },
            Err(_) => return,
        };
        encode(&mut self.encoder, &mut out);
        self.lane.publish(&out);
    }

    #[cold]
    #[inline(never)]
    fn tell_mode(&mut self, mode: u32) -> bool {
        if self.begun == 0 {
            self.begin();
        }
        if self.begun == 0 {
            return false;
        }
        self.mode = mode;
        let (mean, exact) = (control().mean_bytes.load(Relaxed), control().exact_bytes.load(Relaxed));
        self.put(|encoder, out| encoder.mode(out, Mode(mode), mean, exact));
        true
    }

    /// The ring is full: a larger one, a short wait, or the event is dropped and counted.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> bool {
        if self.dropped == 0 && (self.move_to_larger() || self.wait()) {
            return true;
        }
        if self.dropped != 0 && self.lane.look() {
            return self.resume();
        }
        self.drop_one();
        false
    }

    fn move_to_larger(&mut self) -> bool {
        let wanted = self.class as usize + 1;
        if self.tid == 0 || wanted >= LANE_SIZES.len() {
            return false;
        }
        let Some(lane) = claim(self.tid, wanted) else { return false };
        // The state stays where it is and goes on with the new lane; the old lane's place gets none.
        if let (Some(here), Some(there)) = (THREADS.get(self.index as usize), THREADS.get(lane.index)) {
            let spare = there.swap(here.load(Acquire), AcqRel);
            here.store(spare, Release);
        }
        let old = self.lane.header();
        // SAFETY: the lane was won by `claim` and is mapped.
        let new = unsafe { Producer::take(lane.start, lane.bytes) };
        old.owner.store(0, Release);
        self.lane = new;
        self.index = lane.index as u32;
        self.class = lane.class as u32;
        self.begin();
        true
    }

    /// Waits for the recorder, a few milliseconds at most unless more was asked for.
    fn wait(&mut self) -> bool {
        let start = clock::ticks();
        control().counters.waits.fetch_add(1, Relaxed);
        let until = sys::monotonic_ns() + process::wait_ns();
        let mut found = false;
        while !found && sys::monotonic_ns() + NAP_NS as u64 * 2 < until && is_recorder_there() {
            sys::nap(NAP_NS);
            found = self.lane.look();
        }
        control().counters.longest_wait.fetch_max(clock::ticks() - start, Relaxed);
        found
    }

    fn drop_one(&mut self) {
        if self.dropped == 0 {
            self.beat = control().beat.load(Relaxed);
            self.dropped_ns = sys::monotonic_ns();
        }
        self.dropped += 1;
        control().counters.lost.fetch_add(1, Relaxed);
        if self.dropped.is_multiple_of(1024) {
            self.check_recorder();
        }
    }

    /// No sign of life for two seconds, or no such process.
    fn check_recorder(&mut self) {
        let silent = control().beat.load(Relaxed) == self.beat;
        let long = sys::monotonic_ns() - self.dropped_ns > 2_000_000_000;
        if silent && (long || !is_recorder_there()) {
            process::recorder_gone();
        }
    }

    /// There is room again: say what is missing.
    fn resume(&mut self) -> bool {
        let events = core::mem::take(&mut self.dropped);
        self.since_tick = TICK_EVERY;
        self.put(|encoder, out| encoder.gap(out, events));
        true
    }

    /// Remembered stacks are void after a library went away.
    #[inline(always)]
    pub fn check_generation(&mut self) {
        let generation = control().generation.load(Relaxed);
        if generation != self.generation {
            self.generation = generation;
            self.native.forget();
        }
    }
}
