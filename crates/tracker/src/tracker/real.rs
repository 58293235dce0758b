//! The functions behind the hooks: what the target would have called without us.
//!
//! Those that come after ours are taken, so that another preloaded allocator stays in charge. What is asked for while
//! they are looked up comes from a small arena and is never given to a real `free`.

use core::cell::UnsafeCell;
use core::ffi::{CStr, c_int, c_void};
use core::marker::PhantomData;
use core::ptr::null_mut;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

use super::sample;
pub use super::symbol::{next, visible};

/// A function found at run time, or not.
pub struct Slot<F>(AtomicPtr<c_void>, PhantomData<F>);

impl<F: Copy> Slot<F> {
    const fn empty() -> Self {
        Self(AtomicPtr::new(null_mut()), PhantomData)
    }

    #[inline(always)]
    pub fn get(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let address = self.0.load(Relaxed);
        // SAFETY: the slot holds null or the address of a function that the table below says has type `F`.
        (!address.is_null()).then(|| unsafe { core::mem::transmute_copy(&address) })
    }

    pub fn address(&self) -> *mut c_void {
        self.0.load(Relaxed)
    }

    fn find(&self, name: &CStr) {
        self.0.store(next(name), Relaxed);
    }
}

macro_rules! functions {
    ($($field:ident: $type:ty = $name:literal),* $(,)?) => {
        /// One slot per function that we stand in front of.
        pub struct Real { $(pub $field: Slot<$type>),* }

        pub static REAL: Real = Real { $($field: Slot::empty()),* };

        fn find_all() { $(REAL.$field.find($name);)* }
    };
}

pub type Start = extern "C" fn(*mut c_void) -> *mut c_void;
pub type Destructor = unsafe extern "C" fn(*mut c_void);
pub type Create =
    unsafe extern "C" fn(*mut libc::pthread_t, *const libc::pthread_attr_t, Start, *mut c_void) -> c_int;

functions! {
    malloc: unsafe extern "C" fn(usize) -> *mut c_void = c"malloc",
    calloc: unsafe extern "C" fn(usize, usize) -> *mut c_void = c"calloc",
    realloc: unsafe extern "C" fn(*mut c_void, usize) -> *mut c_void = c"realloc",
    free: unsafe extern "C" fn(*mut c_void) = c"free",
    posix_memalign: unsafe extern "C" fn(*mut *mut c_void, usize, usize) -> c_int = c"posix_memalign",
    aligned_alloc: unsafe extern "C" fn(usize, usize) -> *mut c_void = c"aligned_alloc",
    memalign: unsafe extern "C" fn(usize, usize) -> *mut c_void = c"memalign",
    valloc: unsafe extern "C" fn(usize) -> *mut c_void = c"valloc",
    pvalloc: unsafe extern "C" fn(usize) -> *mut c_void = c"pvalloc",
    brk: unsafe extern "C" fn(*mut c_void) -> c_int = c"brk",
    sbrk: unsafe extern "C" fn(isize) -> *mut c_void = c"sbrk",
    pthread_create: Create = c"pthread_create",
    pthread_key_create: unsafe extern "C" fn(*mut libc::pthread_key_t, Option<Destructor>) -> c_int
        = c"pthread_key_create",
    pthread_setspecific: unsafe extern "C" fn(libc::pthread_key_t, *const c_void) -> c_int
        = c"pthread_setspecific",
    pthread_attr_getstacksize: unsafe extern "C" fn(*const libc::pthread_attr_t, *mut usize) -> c_int
        = c"pthread_attr_getstacksize",
    dlopen: unsafe extern "C" fn(*const libc::c_char, c_int) -> *mut c_void = c"dlopen",
    dlclose: unsafe extern "C" fn(*mut c_void) -> c_int = c"dlclose",
}

static STATE: AtomicU32 = AtomicU32::new(UNKNOWN);
const UNKNOWN: u32 = 0;
const LOOKING: u32 = 1;
const KNOWN: u32 = 2;

static QUIET: AtomicU32 = AtomicU32::new(0);

/// True if the allocator is libc's own: it asks the kernel for memory without passing our hooks.
#[inline(always)]
pub fn is_quiet() -> bool {
    QUIET.load(Relaxed) != 0
}

/// Finds out whether the allocator is libc's. Once, in the constructor.
pub fn recognise(is_same_object: impl Fn(usize, usize) -> bool) {
    let libc = visible(c"gnu_get_libc_version") as usize;
    let functions = [&REAL.malloc.0, &REAL.calloc.0, &REAL.realloc.0, &REAL.free.0];
    let is_of_libc = |function: &AtomicPtr<c_void>| is_same_object(function.load(Relaxed) as usize, libc);
    let quiet = libc != 0 && functions.into_iter().all(is_of_libc);
    QUIET.store(u32::from(quiet), Relaxed);
}

/// Looks all functions up. False while that is under way: the caller takes the arena.
#[cold]
#[inline(never)]
pub fn resolve() -> bool {
    if let Err(state) = STATE.compare_exchange(UNKNOWN, LOOKING, AcqRel, Acquire) {
        return state == KNOWN;
    }
    find_all();
    STATE.store(KNOWN, Release);
    true
}

/// A function that was not there at the start (a library loaded later may have brought it).
pub fn again<F: Copy>(slot: &Slot<F>, name: &CStr) -> Option<F> {
    slot.get().or_else(|| {
        slot.find(name);
        slot.get()
    })
}

const ARENA: usize = 64 << 10;
/// Before each block of the arena stands its length.
const PREFIX: usize = 16;

#[repr(align(64))]
struct Arena(UnsafeCell<[u8; ARENA]>);

// SAFETY: bytes are handed out once, by an atomic counter.
unsafe impl Sync for Arena {}

static BYTES: Arena = Arena(UnsafeCell::new([0; ARENA]));
static TAKEN: AtomicUsize = AtomicUsize::new(0);

/// A zeroed block for what runs before the functions are found. Never given back.
#[cold]
fn early(bytes: usize) -> *mut c_void {
    let Some(size) = bytes.checked_add(PREFIX + 15) else { return null_mut() };
    let start = TAKEN.fetch_add(size & !15, Relaxed);
    if start > ARENA || size > ARENA - start {
        return null_mut();
    }
    // SAFETY: `start..start + size` lies in the arena and was handed out to us alone.
    unsafe {
        let block = BYTES.0.get().cast::<u8>().add(start);
        block.cast::<usize>().write(bytes);
        let block = block.add(PREFIX);
        sample::never_pass_over(block as u64);
        block.cast()
    }
}

/// True for blocks of [`early`].
#[inline(always)]
pub fn is_early(block: *mut c_void) -> bool {
    (block as usize).wrapping_sub(BYTES.0.get() as usize) < ARENA
}

pub fn malloc(bytes: usize) -> *mut c_void {
    match REAL.malloc.get() {
        // SAFETY: the real function, called as the target called us.
        Some(malloc) => unsafe { malloc(bytes) },
        None if resolve() && REAL.malloc.get().is_some() => malloc(bytes),
        None => early(bytes),
    }
}

pub fn calloc(count: usize, bytes: usize) -> *mut c_void {
    match REAL.calloc.get() {
        // SAFETY: as above.
        Some(calloc) => unsafe { calloc(count, bytes) },
        None if resolve() && REAL.calloc.get().is_some() => calloc(count, bytes),
        None => count.checked_mul(bytes).map_or(null_mut(), early),
    }
}

/// # Safety
/// `block` is null or a live block of the target.
pub unsafe fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    if is_early(block) {
        // SAFETY: an early block, whose length stands before it.
        return unsafe { outgrow(block, bytes) };
    }
    match REAL.realloc.get() {
        // SAFETY: by the caller's promise.
        Some(realloc) => unsafe { realloc(block, bytes) },
        // SAFETY: as above.
        None if resolve() && REAL.realloc.get().is_some() => unsafe { realloc(block, bytes) },
        None if block.is_null() => early(bytes),
        None => null_mut(),
    }
}

/// Moves an early block into the real heap.
#[cold]
unsafe fn outgrow(block: *mut c_void, bytes: usize) -> *mut c_void {
    let new = malloc(bytes);
    if !new.is_null() {
        // SAFETY: the old length stands before the block; the new block has `bytes` bytes.
        unsafe {
            let old = block.cast::<u8>().sub(PREFIX).cast::<usize>().read();
            new.cast::<u8>().copy_from_nonoverlapping(block.cast(), old.min(bytes));
        }
    }
    new
}

/// # Safety
/// `block` is null or a live block of the target.
#[inline(always)]
pub unsafe fn free(block: *mut c_void) {
    if is_early(block) {
        return;
    }
    match REAL.free.get() {
        // SAFETY: by the caller's promise.
        Some(free) => unsafe { free(block) },
        None => {
            if resolve() && REAL.free.get().is_some() {
                // SAFETY: as above.
                unsafe { free(block) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn early_blocks_are_never_taken_for_one_of_the_heap() {
        let blocks: Vec<*mut c_void> = (0..100).map(|n| early(n * 5)).collect();
        for &block in &blocks {
            assert!(is_early(block));
            for _ in 0..3 {
                assert!(sample::may_be_known(block as u64), "its free would go past the hook");
                assert!(!sample::known(block as u64), "nobody has told of it");
            }
            // SAFETY: an early block, which is never given back.
            unsafe { free(block) };
        }
    }
}
