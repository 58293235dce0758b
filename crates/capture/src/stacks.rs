//! What a Python process was doing: the stacks of its threads, read from outside.
//!
//! Nothing is stopped here; the watchdog reads while its own stop lasts, last words are read as it runs.

use nilometer_cpython as cpython;
use nilometer_image::live::Peek;
use nilometer_trace::heap::ThreadStack;
use nilometer_trace::record::EventKind;

/// Threads that are told of one process, and frames of one thread: enough to see where it was.
const MOST_THREADS: usize = 16;
const MOST_FRAMES: usize = 40;

/// One event for each thread; none for a process that is no Python we can read.
pub fn read_stacks(pid: i32) -> Vec<EventKind> {
    let Ok(peek) = Peek::open(pid) else { return Vec::new() };
    let Ok(python) = cpython::locate(&peek, &peek.modules()) else { return Vec::new() };
    let stacks = cpython::stack::threads(&python, &peek);
    stacks.iter().filter(|stack| !stack.frames.is_empty()).take(MOST_THREADS).map(|s| event(pid, s)).collect()
}

fn event(pid: i32, stack: &ThreadStack) -> EventKind {
    let id = stack.native_id.map_or_else(|| "thread".to_owned(), |id| format!("thread {id}"));
    let frames = stack.frames.iter().take(MOST_FRAMES).map(|frame| {
        let line = frame.line.map_or_else(String::new, |line| format!(":{line}"));
        format!("{} ({}{line})", frame.function, frame.file)
    });
    EventKind::Stack { pid, thread: stack.name.clone().unwrap_or(id), frames: frames.collect() }
}
