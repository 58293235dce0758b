//! A snapshot of any content is refused, or can be asked everything.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_analysis::heap::Heap;
use nilometer_trace::heap;

fuzz_target!(|bytes: &[u8]| {
    let Ok(graph) = heap::read(nilometer_fuzz::seal(bytes).as_slice()) else { return };
    let heap = Heap::new(&graph);
    let all = heap.all();
    let _ = (heap.summary(), heap.stacks(), heap.sum(&all), heap.retained(&all));
    let _ = (heap.paths(&all, 8), heap.referrers(&all, 8), heap.referents(&all, 8));
    let _ = (heap.retainers(&all, 8), heap.cycles(8), heap.arrays(&all, 8));
});
