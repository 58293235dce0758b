//! Threads and forks: where a thread's stack is, when it ends, who was forked.

use core::ffi::{c_int, c_void};
use core::sync::atomic::AtomicUsize;
use core::sync::atomic::Ordering::Relaxed;

use super::active;
use crate::tracker::guard::Hold;
use crate::tracker::real::{self, REAL, Start};
use crate::tracker::tls::{thread_pointer, tls};
use crate::tracker::{process, python, record, thread};

/// The stack size of threads made without an attribute.
static DEFAULT_STACK: AtomicUsize = AtomicUsize::new(0);

/// What our start routine is told.
#[repr(C)]
struct Birth {
    start: Start,
    argument: *mut c_void,
    stack_bytes: usize,
}

/// Arranges to be told of ends and forks. Once, in the constructor.
pub fn watch() {
    thread::make_key(ended);
    // SAFETY: an attribute of our own, and handlers that live as long as the library.
    unsafe {
        let mut attribute = core::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
        if libc::pthread_attr_init(attribute.as_mut_ptr()) == 0 {
            DEFAULT_STACK.store(stack_of(attribute.as_ptr()), Relaxed);
            libc::pthread_attr_destroy(attribute.as_mut_ptr());
        }
    }
    watch_forks();
}

/// glibc's `pthread_atfork` is a wrapper inside each library; what it calls is looked up instead, because a
/// name that another libc does not have would keep the target from starting there.
fn watch_forks() {
    type Handler = Option<unsafe extern "C" fn()>;
    type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;
    let register = real::visible(c"__register_atfork");
    if !register.is_null() {
        // SAFETY: the function of that name has this type; the handler lives as long as the library.
        unsafe {
            let register: Register = core::mem::transmute(register);
            register(None, None, Some(forked), core::ptr::null_mut());
        }
    }
}

unsafe extern "C" fn forked() {
    process::forked();
    python::forked();
}

/// # Safety
/// `attribute` is null or initialised.
unsafe fn stack_of(attribute: *const libc::pthread_attr_t) -> usize {
    let mut bytes = 0;
    let get = real::again(&REAL.pthread_attr_getstacksize, c"pthread_attr_getstacksize");
    match get {
        // SAFETY: by the caller's promise.
        Some(get) if !attribute.is_null() && unsafe { get(attribute, &raw mut bytes) } == 0 => bytes,
        _ => DEFAULT_STACK.load(Relaxed),
    }
}

/// # Safety
/// As for the real function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    id: *mut libc::pthread_t,
    attribute: *const libc::pthread_attr_t,
    start: Start,
    argument: *mut c_void,
) -> c_int {
    let Some(real) = real::again(&REAL.pthread_create, c"pthread_create") else { return libc::EAGAIN };
    if process::is_idle() {
        // SAFETY: the target's own call.
        return unsafe { real(id, attribute, start, argument) };
    }
    let birth = real::malloc(size_of::<Birth>()).cast::<Birth>();
    if birth.is_null() {
        return libc::EAGAIN;
    }
    // SAFETY: a fresh block; the new thread frees it. The rest is the target's own call.
    unsafe {
        birth.write(Birth { start, argument, stack_bytes: stack_of(attribute) });
        let result = real(id, attribute, begin, birth.cast());
        if result != 0 {
            real::free(birth.cast());
        }
        result
    }
}

/// The first function of each thread: notes its stack, which ends where glibc keeps the thread's own record.
extern "C" fn begin(birth: *mut c_void) -> *mut c_void {
    // SAFETY: made by `pthread_create` for this thread.
    let Birth { start, argument, stack_bytes } = unsafe {
        let told = birth.cast::<Birth>().read();
        real::free(birth);
        told
    };
    // SAFETY: this thread's own bytes.
    let tls = unsafe { &mut *tls() };
    let here = &raw const argument as usize;
    let high = thread_pointer();
    if here < high && high - here < stack_bytes {
        tls.stack_high = high;
        tls.stack_low = high.saturating_sub(stack_bytes);
    }
    start(argument)
}

/// The destructors of a thread's values run in rounds; ours asks for another one until the last.
unsafe extern "C" fn ended(round: *mut c_void) {
    const ROUNDS: usize = 4; // PTHREAD_DESTRUCTOR_ITERATIONS
    if (round as usize) < ROUNDS {
        return thread::set_key(round as usize + 1);
    }
    let here = 0_usize;
    if let Ok(hold) = Hold::take(&raw const here as usize & !7) {
        hold.record();
        // SAFETY: this thread's own bytes.
        thread::end(unsafe { &mut *hold.tls() });
    }
}

/// # Safety
/// As for the real function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fork() -> libc::pid_t {
    type Fork = unsafe extern "C" fn() -> libc::pid_t;
    let real = real::next(c"fork");
    if real.is_null() {
        return -1;
    }
    // SAFETY: the function of that name has this type.
    let child = unsafe { core::mem::transmute::<*mut c_void, Fork>(real)() };
    let here = 0_usize;
    if child > 0
        && active().is_some()
        && let Ok(hold) = Hold::take(&raw const here as usize & !7)
    {
        record::forked(&hold, child as u32);
    }
    child
}
