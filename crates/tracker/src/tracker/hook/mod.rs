//! The functions that the target finds instead of libc's, and the constructor that wakes them.
//!
//! | hook | real function | told |
//! |---|---|---|
//! | `heap` | required: looked up at the first call | blocks |
//! | `mapping` | `mmap` and kin: the system call itself; `brk`, `sbrk`: libc | mappings |
//! | `thread` | `pthread_create`, `fork` | stack bounds; forks |
//! | `library` | `dlopen`, `dlclose` | libraries that went away |
//!
//! C++ `new` and `delete` are not hooked: the C++ library's call `malloc` and `free`. Allocators that bring their
//! own are told of what is asked from C only; a hook of the operators would be found before those of libraries
//! that are loaded locally, and break them.
//!
//! A hook asks for the guard, calls, records. What is recorded, and whether, is decided in `record`.

mod heap;
mod library;
mod mapping;
mod thread;

use core::ffi::{CStr, c_char};
use core::sync::atomic::Ordering::Relaxed;

use nilometer_ring::event::{Level, Mode};

use super::guard::Hold;
use super::process::{self, control};
use super::settings::Settings;
use super::{native, python, real};

/// The mode, unless nothing is recorded.
#[inline(always)]
fn active() -> Option<Mode> {
    let mode = Mode(control().mode.load(Relaxed));
    (mode.level() != Level::Off).then_some(mode)
}

#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: unsafe extern "C" fn() = enter;

super::entry::entry! {
    /// Called by the dynamic linker: who calls it tells where its loop over initialisers is.
    enter(), "rdi", "rsi" => construct
}

extern "C" fn construct(entry: usize, _frame: usize) {
    real::resolve();
    let Some(settings) = settings() else { return };
    process::bound_main_stack(entry);
    let Ok(_hold) = Hold::take(entry) else { return };
    native::begin();
    real::recognise(native::are_of_one_object);
    // SAFETY: our return address.
    native::set_initialiser(unsafe { (entry as *const usize).read() });
    thread::watch();
    process::start(&settings);
    if settings.mode.level() == Level::Deep && !process::is_idle() {
        python::allocator::wrap();
    }
}

/// What the launcher asks for. Nothing on systems other than glibc's: there we only pass calls on.
fn settings() -> Option<Settings> {
    if real::visible(c"gnu_get_libc_version").is_null() {
        return None;
    }
    // SAFETY: the name ends with a zero; the environment is not changed while we read.
    let text: *const c_char = unsafe { libc::getenv(c"NILO_TRACKER".as_ptr()) };
    if text.is_null() {
        return None;
    }
    // SAFETY: a string of the environment.
    Settings::parse(unsafe { CStr::from_ptr(text) }.to_bytes())
}
