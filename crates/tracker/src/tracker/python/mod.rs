//! Python stacks: the allocating thread reads its own frames.
//!
//! No profile function, no lock, one call into the interpreter (a `pthread_getspecific`). Only the thread
//! itself changes its chain of frames, and frames keep their code objects alive.

pub mod allocator;
mod code;
pub mod evaluation;
mod layout;

use core::ffi::{CStr, c_char, c_void};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32};

use nilometer_ring::book::{Frame, special};
use nilometer_ring::layout::degraded;

use super::process::control;
use super::{node, real, sys};
use layout::{FrameKind, Layout, SHIM};

/// Frames that can be kept of a Python stack.
const MAX_DEPTH: usize = 256;

/// One frame: what decides its node.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
struct Position {
    code: usize,
    /// An address or a number, as the version has it; the top bit says "first of its evaluation".
    at: usize,
}

const ENTRY: usize = 1 << 63;

/// What a thread remembers between two walks.
#[repr(C)]
pub struct Memory {
    length: usize,
    /// The last stack, outermost first, and the node of each frame.
    known: [Position; MAX_DEPTH],
    nodes: [u32; MAX_DEPTH],
    /// The walk under way, innermost first.
    fresh: [Position; MAX_DEPTH],
}

impl Memory {
    pub fn forget(&mut self) {
        self.length = 0;
    }
}

type ThreadState = unsafe extern "C" fn() -> *const u8;

static LAYOUT: AtomicPtr<Layout> = AtomicPtr::new(core::ptr::null_mut());
static THREAD_STATE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
static CODE_TYPE: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());
/// `PY_VERSION_HEX >> 16`.
static VERSION: AtomicU32 = AtomicU32::new(0);
static STATE: AtomicU32 = AtomicU32::new(UNSEEN);
/// No frame has been walked yet: the first one is checked.
const UNSEEN: u32 = 0;
const TRUSTED: u32 = 1;

/// Looks for an interpreter among the loaded libraries. Safe to repeat: until there is one.
pub fn find() {
    if VERSION.load(Relaxed) != 0 {
        return;
    }
    let (version, state) = (real::visible(c"Py_GetVersion"), real::visible(c"PyGILState_GetThisThreadState"));
    let code_type = real::visible(c"PyCode_Type");
    if version.is_null() || state.is_null() || code_type.is_null() {
        return;
    }
    // SAFETY: the function of that name returns a constant string.
    let text = unsafe {
        let version: unsafe extern "C" fn() -> *const c_char = core::mem::transmute(version);
        CStr::from_ptr(version()).to_bytes()
    };
    let Some(minor) = minor_version(text) else { return };
    VERSION.store((3 << 8) | minor, Relaxed);
    tell_version();
    let is_usual = !text.windows(14).any(|part| part == b"free-threading");
    match layout::of(minor).filter(|_| is_usual) {
        Some(layout) => {
            CODE_TYPE.store(code_type, Relaxed);
            THREAD_STATE.store(state, Relaxed);
            LAYOUT.store((&raw const *layout).cast_mut(), Release);
        }
        None => refuse(),
    }
}

/// Writes into this process's header which interpreter there is.
pub fn tell_version() {
    control().python.store(VERSION.load(Relaxed), Relaxed);
    let eval = real::visible(c"_PyEval_EvalFrameDefault");
    control().eval.store(eval as u64, Relaxed);
    evaluation::tell();
}

/// Frames of this interpreter cannot be read: native stacks only.
fn refuse() {
    LAYOUT.store(core::ptr::null_mut(), Release);
    control().degraded.fetch_or(degraded::PYTHON_UNKNOWN, Relaxed);
}

/// `3.12.1 (main, …)` gives 12.
fn minor_version(text: &[u8]) -> Option<u32> {
    let rest = text.strip_prefix(b"3.")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
    Some(digits.fold(0, |number, &digit| number * 10 + u32::from(digit - b'0')))
}

/// # Safety
/// The word can be read.
#[inline(always)]
unsafe fn word(base: usize, offset: u16) -> usize {
    // SAFETY: by the caller's promise.
    unsafe { ((base + offset as usize) as *const usize).read() }
}

/// The Python stack of this thread, as a node; none outside Python.
#[inline(always)]
pub fn walk(memory: &mut Memory) -> u32 {
    let layout = LAYOUT.load(Acquire);
    if layout.is_null() {
        return special::NONE;
    }
    // SAFETY: one of the statics of `layout`.
    let layout = unsafe { &*layout };
    let innermost = innermost(layout);
    if innermost == 0 || (STATE.load(Relaxed) != TRUSTED && !check(layout, innermost)) {
        return special::NONE;
    }
    let (count, whole) = collect(memory, layout, innermost);
    intern(memory, layout, count, whole)
}

/// This thread's state; it is set together with the layout.
#[inline(always)]
fn thread_state() -> Option<usize> {
    let state = THREAD_STATE.load(Relaxed);
    // SAFETY: the function of that name has this type.
    let state = unsafe { core::mem::transmute::<*mut c_void, ThreadState>(state)() } as usize;
    (state != 0).then_some(state)
}

#[inline(always)]
fn innermost(layout: &Layout) -> usize {
    let Some(state) = thread_state() else { return 0 };
    // SAFETY: the state of a thread is its own: it is not freed while the thread is here. Null fields end the search.
    unsafe {
        let frame = word(state, layout.thread_frame);
        match layout.c_frame {
            Some(_) if frame == 0 => 0,
            Some(offset) => word(frame, offset),
            None => frame,
        }
    }
}

/// Collects positions, innermost first. Their number, and whether the chain ended.
#[inline(always)]
fn collect(memory: &mut Memory, layout: &Layout, innermost: usize) -> (usize, bool) {
    let at = layout.frame.position;
    let first = |is_first: bool| if is_first { ENTRY } else { 0 };
    // SAFETY: fields of a frame of this thread's live chain; `check` has verified the layout on one.
    let byte = |frame: usize, offset: u16| unsafe { ((frame + offset as usize) as *const u8).read() };
    // A loop for each kind: deep stacks are walked for nearly nothing else.
    match layout.frame.kind {
        FrameKind::Object { unit } => collect_by(memory, layout, innermost, |frame, _| {
            // SAFETY: as above.
            let index = unsafe { ((frame + at as usize) as *const i32).read() };
            Some((index.max(0).cast_unsigned() * unit) as usize | ENTRY)
        }),
        FrameKind::Flagged { entry } => collect_by(memory, layout, innermost, |frame, _| {
            // SAFETY: as above.
            Some(unsafe { word(frame, at) } | first(byte(frame, entry) != 0))
        }),
        FrameKind::Shimmed { owner } => collect_by(memory, layout, innermost, |frame, previous| {
            let is_shim = |frame: usize| byte(frame, owner) >= SHIM;
            // SAFETY: as above.
            (!is_shim(frame)).then(|| unsafe { word(frame, at) } | first(previous == 0 || is_shim(previous)))
        }),
    }
}

/// `position` is asked of each frame, with the one outwards of it; what has none is passed over.
#[inline(always)]
fn collect_by(
    memory: &mut Memory,
    layout: &Layout,
    innermost: usize,
    position: impl Fn(usize, usize) -> Option<usize>,
) -> (usize, bool) {
    let mut frame = innermost;
    let mut count = 0;
    while frame != 0 {
        // SAFETY: as in `collect`.
        let (code, previous) = unsafe {
            (layout.executable(word(frame, layout.frame.code)), word(frame, layout.frame.previous))
        };
        if let Some(at) = position(frame, previous) {
            let Some(place) = memory.fresh.get_mut(count) else { return (count, false) };
            *place = Position { code, at };
            count += 1;
        }
        frame = previous;
    }
    (count, true)
}

#[inline(always)]
fn intern(memory: &mut Memory, layout: &Layout, count: usize, whole: bool) -> u32 {
    let Memory { length, known, nodes, fresh } = memory;
    let same = if whole {
        let pairs = known[..*length].iter().zip(fresh[..count].iter().rev());
        pairs.take_while(|(known, fresh)| known == fresh).count()
    } else {
        control().counters.stacks_cut.fetch_add(1, Relaxed);
        0
    };
    let root = if whole { special::NONE } else { special::CUT };
    let mut node = if same > 0 { nodes[same - 1] } else { root };
    for at in same..count {
        let position = fresh[count - 1 - at];
        node = node::child(node, place(layout, position));
        known[at] = position;
        nodes[at] = node;
    }
    *length = if whole { count } else { 0 };
    node
}

#[inline(always)]
fn place(layout: &Layout, position: Position) -> u64 {
    let at = position.at & !ENTRY;
    let offset = match layout.code.instructions {
        0 => at,
        start => at.wrapping_sub(position.code + start as usize),
    };
    Frame::python(code::id(layout, position.code), offset as u32, position.at & ENTRY != 0)
}

/// The first frames are read with care: are they what this version should have?
#[cold]
fn check(layout: &Layout, innermost: usize) -> bool {
    let mut frame = innermost;
    for _ in 0..3 {
        let reach = layout.frame.code.max(layout.frame.previous).max(layout.frame.position) as usize;
        if frame == 0 {
            break;
        }
        if !sys::readable(frame) || !sys::readable(frame + reach) {
            refuse();
            return false;
        }
        // SAFETY: both ends of the fields used are readable, and a frame is smaller than a page.
        let (code, previous) =
            unsafe { (word(frame, layout.frame.code), word(frame, layout.frame.previous)) };
        let is_shim = match layout.frame.kind {
            // SAFETY: as above.
            FrameKind::Shimmed { owner } => unsafe { ((frame + owner as usize) as *const u8).read() >= SHIM },
            _ => false,
        };
        if !is_shim && !is_code(layout.executable(code)) {
            refuse();
            return false;
        }
        frame = previous;
    }
    STATE.store(TRUSTED, Relaxed);
    true
}

fn is_code(object: usize) -> bool {
    let reaches = object != 0 && sys::readable(object + 8) && sys::readable(object + 136);
    // SAFETY: the word was found readable.
    reaches && unsafe { word(object, 8) } == CODE_TYPE.load(Relaxed) as usize
}

/// In a forked child nothing is under way here.
pub fn forked() {
    code::forked();
    evaluation::forked();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(minor_version(b"3.12.1 (main, Jan 1 2024) [GCC]"), Some(12));
        assert_eq!(minor_version(b"2.7.18"), None);
        assert!(layout::of(7).is_none() && layout::of(8).is_some());
        assert!(layout::of(15).is_some() && layout::of(16).is_none());
    }
}
