//! The life of the tracker in one process image.
//!
//! ```text
//!            no NILO_TRACKER, nobody listens, files refused
//!   loaded ------------------------------------------------> idle (for ever)
//!      |
//!      | files made, recorder told
//!      v
//!   recording <-----------------------------+
//!      |    |                               | first event of the child: own control file, same book
//!      |    +--- fork, raw clone ---> child (marked by a wiped page)
//!      |                                    | nobody listens
//!      | exec: a new image, loaded afresh   +------------------> idle
//!      | exit, _exit, a signal: nothing to do, all is in the files
//! ```
//!
//! `vfork` is no state: the child borrows its parent's memory and is taken for it.

use core::cell::UnsafeCell;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, AtomicU64};

use nilometer_ring::book::{Backing, Book};
use nilometer_ring::clock;
use nilometer_ring::hello::Hello;
use nilometer_ring::layout::{
    BOOK_FILE, BOOK_FIXED, CONTROL_FILE, CONTROL_FIXED, CONTROL_MAGIC, Control, VERSION, degraded,
};

use super::settings::{PATH, Settings};
use super::{headroom, native, python, real, sys, thread, tls};

/// A control page that says "off", for processes that are not recorded.
struct Idle(UnsafeCell<[u64; 512]>);

// SAFETY: only reached as `Control`, whose fields are atomics.
unsafe impl Sync for Idle {}

static IDLE: Idle = Idle(UnsafeCell::new([0; 512]));
static CONTROL: AtomicPtr<Control> = AtomicPtr::new(IDLE.0.get().cast());
/// The same page where the allocator is libc's, else the idle one: a block that is passed over needs no guard there.
/// For the ways past the hooks (`entry`); what they jump to is known before this is set.
pub static QUIET_CONTROL: AtomicPtr<Control> = AtomicPtr::new(IDLE.0.get().cast());

/// This process's control page. Always valid; idle ones are never switched on.
#[inline(always)]
pub fn control() -> &'static Control {
    // SAFETY: points to `IDLE` or to a mapping; none is ever unmapped, not even a parent's in its child.
    unsafe { &*CONTROL.load(Relaxed) }
}

fn set_control(page: *mut Control) {
    let quiet = if real::is_quiet() { page } else { IDLE.0.get().cast() };
    CONTROL.store(page, Release);
    QUIET_CONTROL.store(quiet, Release);
}

pub fn is_idle() -> bool {
    CONTROL.load(Acquire) == IDLE.0.get().cast()
}

/// A file of ours. Targets close descriptors they do not know: the number may be somebody else's by now.
pub struct File {
    fd: AtomicI32,
    inode: AtomicU64,
}

impl File {
    const fn none() -> Self {
        Self { fd: AtomicI32::new(-1), inode: AtomicU64::new(0) }
    }

    fn set(&self, fd: i32) {
        self.inode.store(sys::inode(fd), Relaxed);
        self.fd.store(fd, Release);
    }

    /// The descriptor, if it is still ours.
    pub fn get(&self) -> Option<i32> {
        let fd = self.fd.load(Acquire);
        (fd >= 0 && sys::inode(fd) == self.inode.load(Relaxed)).then_some(fd)
    }

    fn close(&self) {
        if let Some(fd) = self.get() {
            sys::close(fd);
        }
        self.fd.store(-1, Release);
    }
}

impl Backing for File {
    fn back(&self, offset: u64, length: u64) -> bool {
        if !headroom::allows(length) {
            return false; // and counted
        }
        let backed = self.get().is_some_and(|fd| sys::back(fd, offset, length));
        if !backed {
            control().counters.refused.fetch_add(1, Relaxed);
        }
        backed
    }

    fn release(&self, offset: u64, length: u64) {
        if let Some(fd) = self.get() {
            sys::punch(fd, offset, length);
        }
    }

    fn map(&self, offset: u64, length: u64) -> *mut u8 {
        self.get().map_or(null_mut(), |fd| sys::map_file(fd, offset, length))
    }
}

pub static CONTROL_FD: File = File::none();
pub static BOOK_FD: File = File::none();
pub static BOOK: Book = Book::new();

static RING_BUDGET: AtomicU64 = AtomicU64::new(0);
static WAIT_NS: AtomicU64 = AtomicU64::new(0);
static MEAN: AtomicU64 = AtomicU64::new(0);
static EXACT: AtomicU64 = AtomicU64::new(0);
static FORK_TICKS: AtomicU64 = AtomicU64::new(0);
/// A page that is zero in a forked child. Null: the kernel cannot do that.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(null_mut());
static REBIRTH: AtomicU32 = AtomicU32::new(0);

struct Address(UnsafeCell<[u8; PATH]>, AtomicU32);

// SAFETY: written once, before the process has a second thread that could read it.
unsafe impl Sync for Address {}

static SOCKET: Address = Address(UnsafeCell::new([0; PATH]), AtomicU32::new(0));

/// Called once, when the image is loaded.
pub fn start(settings: &Settings) {
    remember(settings);
    headroom::begin();
    let Some(socket) = dial() else { return };
    if open_book(settings).is_some() && open_control(0).is_some() && introduce(socket, 0) {
        mark();
        thread::set_up();
        python::find();
        control().mode.store(settings.mode.0, Release);
    } else {
        give_up();
    }
    sys::close(socket);
}

fn remember(settings: &Settings) {
    RING_BUDGET.store(settings.budget_bytes / 2, Relaxed);
    WAIT_NS.store(settings.wait_ms * 1_000_000, Relaxed);
    MEAN.store(settings.mean_bytes, Relaxed);
    EXACT.store(settings.exact_bytes, Relaxed);
    native::set_depth(settings.depth);
    // SAFETY: the constructor runs before the program; nobody reads this yet.
    unsafe { *SOCKET.0.get() = settings.socket };
    SOCKET.1.store(settings.socket_length as u32, Release);
}

fn dial() -> Option<i32> {
    let length = SOCKET.1.load(Acquire) as usize;
    // SAFETY: all zero is a valid address; the path is written before the length is.
    let (mut address, path) = unsafe { (core::mem::zeroed::<libc::sockaddr_un>(), &*SOCKET.0.get()) };
    address.sun_family = libc::AF_UNIX as u16;
    for (to, from) in address.sun_path.iter_mut().zip(path.iter().take(length)) {
        *to = from.cast_signed();
    }
    let is_abstract = path.first() == Some(&0);
    sys::connect(&address, 2 + length + usize::from(!is_abstract))
}

fn open_book(settings: &Settings) -> Option<()> {
    BOOK_FD.set(sys::sealed_file(c"nilo-book", BOOK_FILE)?);
    let fixed = BOOK_FD.back(0, BOOK_FIXED).then(|| BOOK_FD.map(0, BOOK_FIXED))?;
    if fixed.is_null() {
        return None;
    }
    // SAFETY: the first bytes of a fresh file, backed and mapped, never unmapped.
    unsafe { BOOK.open(fixed, settings.budget_bytes / 2) };
    Some(())
}

/// A fresh control file for this process; recording begins when its mode is set.
fn open_control(forked_from: u32) -> Option<()> {
    CONTROL_FD.set(sys::sealed_file(c"nilo-control", CONTROL_FILE)?);
    let page = CONTROL_FD.back(0, CONTROL_FIXED).then(|| CONTROL_FD.map(0, CONTROL_FIXED))?;
    if page.is_null() {
        return None;
    }
    let page = page.cast::<Control>();
    // SAFETY: mapped, zeroed, and all atomics.
    let control = unsafe { &*page };
    control.version.store(VERSION, Relaxed);
    control.pid.store(sys::process_id(), Relaxed);
    control.forked_from.store(forked_from, Relaxed);
    control.mean_bytes.store(MEAN.load(Relaxed), Relaxed);
    control.exact_bytes.store(EXACT.load(Relaxed), Relaxed);
    control.used_bytes.store(CONTROL_FIXED, Relaxed);
    control.book.store(BOOK_FD.inode.load(Relaxed), Relaxed);
    control.start_ticks.store(clock::ticks(), Relaxed);
    control.start_ns.store(sys::monotonic_ns(), Relaxed);
    set_control(page);
    Some(())
}

/// Sends the descriptors to the recorder. False if nobody takes them.
fn introduce(socket: i32, fork_ticks: u64) -> bool {
    let control = control();
    control.recorder.store(sys::peer(socket), Relaxed);
    if fork_ticks != 0 {
        control.start_ticks.store(fork_ticks, Relaxed);
    }
    // The recorder may look at once: what it needs is in place, the lanes come later.
    control.magic.store(CONTROL_MAGIC, Release);
    let hello = Hello {
        pid: control.pid.load(Relaxed),
        forked_from: control.forked_from.load(Relaxed),
        start_ticks: control.start_ticks.load(Relaxed),
        control_inode: CONTROL_FD.inode.load(Relaxed),
        book_inode: BOOK_FD.inode.load(Relaxed),
    };
    let Some(control_fd) = CONTROL_FD.get() else { return false };
    send_files(socket, &hello, control_fd, BOOK_FD.get())
}

#[repr(C, align(8))]
struct Rights {
    length: usize,
    level: i32,
    kind: i32,
    files: [i32; 2],
}

fn send_files(socket: i32, hello: &Hello, control: i32, book: Option<i32>) -> bool {
    let mut bytes = hello.to_bytes();
    let mut part = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let count = 1 + usize::from(book.is_some());
    let mut rights = Rights {
        length: 16 + 4 * count,
        level: libc::SOL_SOCKET,
        kind: libc::SCM_RIGHTS,
        files: [control, book.unwrap_or(-1)],
    };
    // SAFETY: all zero is a valid message; what is put in lives until the call is over.
    unsafe {
        let mut message: libc::msghdr = core::mem::zeroed();
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = (&raw mut rights).cast();
        message.msg_controllen = rights.length;
        sys::send(socket, &message)
    }
}

/// Nothing is recorded in this process.
fn give_up() {
    set_control(IDLE.0.get().cast());
    CONTROL_FD.close();
}

/// Makes the page that tells a child from its parent.
fn mark() {
    let page = sys::map_private(4096);
    // SAFETY: a mapping of our own; zeroing it in children is what we want.
    if page.is_null() || !unsafe { sys::advise(page, 4096, libc::MADV_WIPEONFORK) } {
        return;
    }
    // SAFETY: zeroed and aligned to a page.
    unsafe { (*page.cast::<AtomicU32>()).store(1, Relaxed) };
    MARK.store(page.cast(), Release);
}

/// True in a forked child that has not yet got its own files.
pub fn is_child() -> bool {
    let mark = MARK.load(Acquire);
    // SAFETY: mapped for ever once it is set.
    !mark.is_null() && unsafe { (*mark).load(Acquire) } == 0
}

/// In the child of a `fork`, before any other code of it. A raw clone comes to [`reborn`] without this.
pub extern "C" fn forked() {
    FORK_TICKS.store(clock::ticks(), Relaxed);
    REBIRTH.store(0, Relaxed);
    let mark = MARK.load(Acquire);
    if !mark.is_null() {
        // SAFETY: the child's own page; also where the kernel could not wipe it.
        unsafe { (*mark).store(0, Relaxed) };
    }
    native::forked();
}

/// Gives a forked child its own control file, at its first event. False: nobody listens, it is idle now.
#[cold]
pub fn reborn() -> bool {
    if REBIRTH.swap(1, AcqRel) != 0 {
        return false; // another thread of the child is at it
    }
    let before = CONTROL.load(Acquire);
    // SAFETY: the parent's page, still mapped.
    let (mode, parent) = unsafe { ((*before).mode.load(Relaxed), (*before).pid.load(Relaxed)) };
    CONTROL_FD.close();
    thread::forget_lanes();
    let told = dial().map(|socket| {
        let ticks = FORK_TICKS.swap(0, Relaxed);
        let told = open_control(parent).is_some() && introduce(socket, ticks);
        sys::close(socket);
        told
    });
    if told.is_none() {
        count_unheard(); // who connected and said nothing is counted by the recorder
    }
    let told = told.unwrap_or(false);
    if told {
        thread::set_up();
        python::tell_version();
        control().mode.store(mode, Release);
    } else {
        give_up();
    }
    let mark = MARK.load(Acquire);
    if !mark.is_null() {
        // SAFETY: as in `forked`.
        unsafe { (*mark).store(1, Release) };
    }
    REBIRTH.store(0, Release);
    told
}

/// In the book, which the family shares: somebody else of it is heard.
fn count_unheard() {
    if let Some(header) = BOOK.header() {
        header.unheard.fetch_add(1, Relaxed);
    }
}

/// How long a thread may wait for the recorder.
pub fn wait_ns() -> u64 {
    WAIT_NS.load(Relaxed)
}

/// What the tracker has taken so far: rings, book, tables.
pub fn taken_bytes() -> u64 {
    let control = control();
    let book = BOOK.header().map_or(0, |header| header.used_bytes.load(Relaxed));
    control.used_bytes.load(Relaxed) + control.counters.private_bytes.load(Relaxed) + book
}

/// Bytes that the rings may take in all.
pub fn ring_budget() -> u64 {
    RING_BUDGET.load(Relaxed)
}

/// Less is recorded from now on, and the header says why.
#[cold]
pub fn degrade(reason: u32) {
    use nilometer_ring::event::{Level, Mode};
    let control = control();
    let had = control.degraded.fetch_or(reason, Relaxed);
    let mode = Mode(control.mode.load(Relaxed));
    if had & reason != 0 || mode.level() <= Level::Sampled {
        return;
    }
    // Blocks recorded so far must not seem to live for ever.
    let flags = mode.0 & Mode::STAMP_ALL;
    let lower = Mode::new(Level::Sampled).with(Mode::ALL_FREES).with(flags);
    control.mode.store(lower.0, Relaxed);
}

/// The recorder is gone: stop.
#[cold]
pub fn recorder_gone() {
    let control = control();
    control.degraded.fetch_or(degraded::RECORDER_GONE, Relaxed);
    control.mode.store(0, Relaxed);
}

/// Where the main thread's stack is.
pub fn bound_main_stack(entry: usize) {
    // The kernel keeps at least 128 MiB below the stack free of mappings, so a smaller span is all stack.
    const SPAN: u64 = 120 << 20;
    const ABOVE_FIRST_FRAME: usize = 64;
    let high = real::visible(c"__libc_stack_end").cast::<usize>();
    // SAFETY: a variable of the dynamic linker; where it does not exist the entry's page must do. It names the
    // word that the first frame ends at. Beyond it lie argc and at least ten pairs of the auxiliary vector: they
    // belong to the stack too, else a first frame that ends on a page's end would lie outside.
    let high = if high.is_null() { entry } else { unsafe { *high + ABOVE_FIRST_FRAME } };
    let span = sys::stack_limit().clamp(64 << 10, SPAN) as usize;
    // SAFETY: this thread's own bytes.
    let tls = unsafe { &mut *tls::tls() };
    tls.stack_high = high.next_multiple_of(4096);
    tls.stack_low = tls.stack_high - span;
}
