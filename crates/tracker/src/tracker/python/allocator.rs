//! Python's own allocator, wrapped through the interface made for it.
//!
//! Blocks up to 512 bytes never reach `malloc`; the wrapper tells of them. Larger ones go on to the `malloc`
//! hook. The wrapper adds nothing to a block, so it can be put in and taken out at any time under the lock
//! that these domains need anyway.

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::mem::MaybeUninit;
use core::sync::atomic::AtomicU32;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use nilometer_ring::event::{Level, Mode, Source};

use crate::tracker::entry::entry;
use crate::tracker::guard::Hold;
use crate::tracker::process::control;
use crate::tracker::real;
use crate::tracker::record::{self, Caller};

/// Above this Python asks `malloc`.
const SMALL: usize = 512;

/// `PyMemAllocatorEx`, unchanged since 3.5.
#[repr(C)]
#[derive(Clone, Copy)]
struct Allocator {
    context: *mut c_void,
    malloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void,
    calloc: unsafe extern "C" fn(*mut c_void, usize, usize) -> *mut c_void,
    realloc: unsafe extern "C" fn(*mut c_void, *mut c_void, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void, *mut c_void),
}

type Exchange = unsafe extern "C" fn(c_int, *mut Allocator);

/// The allocators behind ours, by domain (1: mem, 2: obj).
struct Originals(UnsafeCell<[MaybeUninit<Allocator>; 3]>);

// SAFETY: written before the interpreter starts or under its lock, read by its users under the same lock.
unsafe impl Sync for Originals {}

static ORIGINALS: Originals = Originals(UnsafeCell::new([const { MaybeUninit::uninit() }; 3]));
static WRAPPED: AtomicU32 = AtomicU32::new(0);

pub fn is_wrapped() -> bool {
    WRAPPED.load(Acquire) != 0
}

/// Puts the wrapper in. The caller holds the interpreter's lock, or there is no interpreter yet.
pub fn wrap() {
    let (get, set) = (real::visible(c"PyMem_GetAllocator"), real::visible(c"PyMem_SetAllocator"));
    if get.is_null() || set.is_null() {
        return;
    }
    // SAFETY: the functions of these names have this type.
    let (get, set) = unsafe {
        let get: Exchange = core::mem::transmute(get);
        let set: Exchange = core::mem::transmute(set);
        (get, set)
    };
    for domain in [1, 2] {
        let original = ORIGINALS.0.get().cast::<Allocator>().wrapping_add(domain);
        // SAFETY: `original` is one of the three places; the lock is held (see above).
        unsafe {
            let mut now = MaybeUninit::<Allocator>::uninit();
            get(domain as c_int, now.as_mut_ptr());
            let now = now.assume_init();
            if now.malloc as usize == malloc as *const () as usize {
                continue; // ours is there
            }
            original.write(now);
            let mut ours = Allocator { context: original.cast(), malloc, calloc, realloc, free };
            set(domain as c_int, &raw mut ours);
        }
    }
    WRAPPED.store(1, Release);
}

/// Puts the wrapper in if the mode asks for it and this thread has the interpreter's lock.
#[cold]
pub fn wrap_if_asked() {
    let check = real::visible(c"PyGILState_Check");
    let ready = real::visible(c"Py_IsInitialized");
    if is_wrapped() || check.is_null() || ready.is_null() || mode().level() != Level::Deep {
        return;
    }
    // SAFETY: the functions of these names have these types.
    let allowed = unsafe {
        let check: unsafe extern "C" fn() -> c_int = core::mem::transmute(check);
        let ready: unsafe extern "C" fn() -> c_int = core::mem::transmute(ready);
        ready() != 0 && check() == 1
    };
    if allowed {
        wrap();
    }
}

#[inline(always)]
fn mode() -> Mode {
    Mode(control().mode.load(Relaxed))
}

/// The guard, when Python's allocations are wanted.
#[inline(always)]
fn enter(entry: usize) -> Option<(Hold, Mode)> {
    let mode = mode();
    if mode.level() == Level::Deep { Hold::take(entry).ok().map(|hold| (hold, mode)) } else { None }
}

/// The same when its frees are wanted: also after the mode was lowered, for the blocks told before.
#[inline(always)]
fn enter_free(entry: usize) -> Option<(Hold, Mode)> {
    let mode = mode();
    let wanted = mode.level() == Level::Deep || mode.has(Mode::ALL_FREES);
    if wanted { Hold::take(entry).ok().map(|hold| (hold, mode)) } else { None }
}

// SAFETY (all four): the arguments stay in their registers, and the inner function takes two more.
entry!(malloc(_c: *mut c_void, _n: usize) -> *mut c_void, "rdx", "rcx" => small_malloc);
entry!(calloc(_c: *mut c_void, _k: usize, _n: usize) -> *mut c_void, "rcx", "r8" => small_calloc);
entry!(realloc(_c: *mut c_void, _b: *mut c_void, _n: usize) -> *mut c_void, "rcx", "r8" => any_realloc);
entry!(free(_c: *mut c_void, _b: *mut c_void), "rdx", "rcx" => any_free);

unsafe extern "C" fn small_malloc(
    context: *mut c_void,
    bytes: usize,
    entry: usize,
    frame: usize,
) -> *mut c_void {
    // SAFETY: the context is one of ORIGINALS; the call is what Python asked for.
    unsafe {
        let original = &*context.cast::<Allocator>();
        if bytes > SMALL {
            return (original.malloc)(original.context, bytes);
        }
        let Some((hold, mode)) = enter(entry) else { return (original.malloc)(original.context, bytes) };
        record::expect(&hold, mode, Caller { entry, frame });
        let block = (original.malloc)(original.context, bytes);
        record::allocated(&hold, mode, Source::Python, block, bytes, Caller { entry, frame });
        block
    }
}

unsafe extern "C" fn small_calloc(
    context: *mut c_void,
    count: usize,
    bytes: usize,
    entry: usize,
    frame: usize,
) -> *mut c_void {
    // SAFETY: as above.
    unsafe {
        let original = &*context.cast::<Allocator>();
        let total = count.saturating_mul(bytes);
        if total > SMALL {
            return (original.calloc)(original.context, count, bytes);
        }
        let Some((hold, mode)) = enter(entry) else {
            return (original.calloc)(original.context, count, bytes);
        };
        let block = (original.calloc)(original.context, count, bytes);
        record::allocated(&hold, mode, Source::Python, block, total, Caller { entry, frame });
        block
    }
}

unsafe extern "C" fn any_realloc(
    context: *mut c_void,
    old: *mut c_void,
    bytes: usize,
    entry: usize,
    frame: usize,
) -> *mut c_void {
    // SAFETY: as above.
    unsafe {
        let original = &*context.cast::<Allocator>();
        let Some((hold, mode)) = enter_free(entry) else {
            return (original.realloc)(original.context, old, bytes);
        };
        let told = record::freeing_python(&hold, mode, old);
        let new = (original.realloc)(original.context, old, bytes);
        if new.is_null() && told {
            record::unfreed(&hold, mode, old);
        }
        let source = if bytes > SMALL { Source::Realloc } else { Source::PythonRealloc };
        if mode.level() == Level::Deep || source == Source::Realloc {
            record::allocated(&hold, mode, source, new, bytes, Caller { entry, frame });
        }
        new
    }
}

unsafe extern "C" fn any_free(context: *mut c_void, block: *mut c_void, entry: usize, _frame: usize) {
    // SAFETY: as above.
    unsafe {
        let original = &*context.cast::<Allocator>();
        let Some((hold, mode)) = enter_free(entry) else { return (original.free)(original.context, block) };
        record::freeing_python(&hold, mode, block);
        (original.free)(original.context, block);
    }
}
