//! In the steady state a tick allocates nothing.
// A counting allocator is the only way to see an allocation, and `GlobalAlloc` is an unsafe trait.
#![allow(unsafe_code)]
#![allow(clippy::expect_used)] // as in any test

use std::alloc::{GlobalAlloc, Layout, System as Allocator};
use std::cell::Cell;
use std::io::Read;
use std::process::{Child, Command, Stdio};

use nilometer_capture::Options;
use nilometer_capture::recorder::Recorder;
use nilometer_capture::system::System;
use nilometer_capture::tree::Tree;
use nilometer_kernel::read::cgroup::Chain;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

fn count() {
    let _ = ALLOCATIONS.try_with(|counter| counter.set(counter.get() + 1));
}

// SAFETY: every call is handed on unchanged to the system's allocator; counting touches a thread-local integer
// that needs neither allocation nor destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those of the system's allocator.
        unsafe { Allocator.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { Allocator.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: as above.
        unsafe { Allocator.realloc(memory, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A shell and its children, all waiting for the end of the shell's input.
struct Sleepers(Child);

impl Sleepers {
    fn start() -> Self {
        let script = "exec 3<&0; for n in 1 2 3 4 5 6 7 8; do cat <&3 & done; echo ready; wait";
        let mut shell = Command::new("sh");
        let mut child =
            shell.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
        let mut ready = [0; 6];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut ready).expect("ready");
        Self(child)
    }
}

impl Drop for Sleepers {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().expect("wait");
    }
}

/// Ticks on a tree of nine; the allocations of each of the last 200 during which nobody on this machine started
/// a process (such a one has to be looked at).
fn allocations(single: bool, members: usize) -> Vec<u64> {
    let sleepers = Sleepers::start();
    let root = sleepers.0.id() as i32;
    let directory = tempfile::tempdir().expect("a directory");
    let options = Options { slow: false, single, ..Options::default() };
    let system = System::open(Chain::of("/proc".as_ref(), "/".as_ref(), root)).expect("system");
    let tree = Tree::new(Proc::default(), root, Vec::new(), single, false);
    let mut recorder = Recorder::start(directory.path(), &options, tree, system).expect("recorder");
    assert!(recorder.tree.begin(monotonic_ns()));
    let newest = Proc::default().open_last_pid().expect("newest pid");
    let mut quiet = Vec::with_capacity(200);
    for tick in 0..400 {
        let pid = newest.read();
        recorder.tick(); // looks at what came up since the last round,
        recorder.tick(); // and once more at what was not there yet
        let before = ALLOCATIONS.get();
        recorder.tick();
        let allocated = ALLOCATIONS.get() - before;
        if tick >= 200 && newest.read() == pid {
            quiet.push(allocated);
        }
    }
    assert_eq!(recorder.tree.members().len(), members);
    assert!(quiet.len() >= 20, "only {} of 200 ticks were undisturbed", quiet.len());
    quiet
}

#[test]
fn counting_counts() {
    let before = ALLOCATIONS.get();
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(ALLOCATIONS.get() - before, 1);
}

#[test]
fn a_tick_of_one_process_allocates_nothing() {
    assert_eq!(allocations(true, 1).iter().sum::<u64>(), 0);
}

#[test]
fn a_tick_of_a_tree_allocates_nothing() {
    assert_eq!(allocations(false, 9).iter().sum::<u64>(), 0);
}
