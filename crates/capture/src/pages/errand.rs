//! System calls of ours in a thread of the target, which stands still meanwhile; the others run on.
//!
//! The tracer is a thread of its own that ends with the errand, so that the kernel lets go whatever it holds.

use std::time::Duration;

use nilometer_image::live::find_footing;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::inject::Lent;
use nilometer_kernel::sys::stop::Stopped;

/// A thread that does not stop within this is left alone.
const LONGEST_STOP: Duration = Duration::from_millis(100);
/// Threads that are tried.
const MOST_THREADS: usize = 8;

/// What came of it, and how long the thread stood still.
#[derive(Debug)]
pub(super) struct Done<T> {
    pub result: Result<T, String>,
    pub stopped_ns: u64,
}

/// Does `work` with a thread of `pid`.
pub(super) fn run<T: Send>(pid: i32, work: impl FnOnce(&Lent) -> T + Send) -> Done<T> {
    std::thread::scope(|scope| {
        let errand = std::thread::Builder::new().name("nilo-errand".into());
        let spawned = errand.spawn_scoped(scope, move || run_here(pid, work));
        let failed = |why: &str| Done { result: Err(why.to_owned()), stopped_ns: 0 };
        match spawned {
            Ok(handle) => handle.join().unwrap_or_else(|_| failed("it failed")),
            Err(error) => failed(&error.to_string()),
        }
    })
}

fn run_here<T>(pid: i32, work: impl FnOnce(&Lent) -> T) -> Done<T> {
    let mut done = Done { result: Err("it has no thread that can be borrowed".to_owned()), stopped_ns: 0 };
    let footing = match find_footing(pid) {
        Ok(footing) => footing,
        Err(why) => return Done { result: Err(why.to_string()), ..done },
    };
    let mut work = Some(work);
    for thread in threads(pid) {
        let stopped = stop(pid, thread);
        let began_ns = stopped.began_ns();
        match Lent::new(&stopped, &footing) {
            Ok(lent) => done.result = work.take().map(|work| work(&lent)).ok_or_else(String::new),
            Err(error) => done.result = Err(error.to_string()),
        }
        drop(stopped);
        if began_ns > 0 {
            done.stopped_ns += monotonic_ns().saturating_sub(began_ns);
        }
        if work.is_none() {
            break;
        }
    }
    done
}

fn stop(pid: i32, thread: i32) -> Stopped {
    Stopped::stop(&[pid], |_| vec![thread], monotonic_ns() + LONGEST_STOP.as_nanos() as u64)
}

/// Threads that run come first: they wait in no call that a stop could end early. The first thread is always among them: its
/// stack is known to be one.
fn threads(pid: i32) -> Vec<i32> {
    let mut threads = Proc::default().list_threads(pid).unwrap_or_default();
    let is_running = |thread: &i32| {
        let state = Proc::default().read_stat(*thread, &mut Vec::new()).map(|stat| stat.state);
        state.is_ok_and(|state| state == b'R')
    };
    threads.truncate(64);
    threads.sort_by_cached_key(|thread| !is_running(thread));
    threads.truncate(MOST_THREADS);
    if !threads.contains(&pid) {
        threads.push(pid);
    }
    threads
}
