//! What is said beside the lines: the largest of each, what is not resident, what was left out.

use std::collections::BTreeMap;

use nilometer_cpython::Footprint;
use nilometer_trace::heap::{Graph, Holder, Nature};
use nilometer_trace::ledger::{Ledger, Line, Named, PythonHeap};

use super::count::Counted;
use super::ground::Ground;
use super::holder::Holders;
use super::named;
use super::sight::Vma;

/// So many are named of a line.
const MOST: usize = 5;

/// Names the largest of each line and closes the ledger.
pub(super) fn finish(ledger: &mut Ledger, of: (&[Vma], &[Ground], &[Counted])) {
    for line in [Line::Files, Line::SharedMemory, Line::OtherMaps] {
        let named = ledger.parts.iter().any(|part| part.name == line && !part.detail.is_empty());
        if !named {
            set(ledger, line, largest(of, line));
        }
    }
    let by = |bytes: fn(&nilometer_trace::ledger::Library) -> u64| -> Vec<Named> {
        let mut all: Vec<Named> = ledger.libraries.iter().map(|l| named(l.name.clone(), bytes(l))).collect();
        all.sort_by_key(|named| std::cmp::Reverse(named.bytes));
        all.truncate(MOST);
        all.retain(|named| named.bytes > 0);
        all
    };
    let (code, variables) = (by(|library| library.code_bytes), by(|library| library.data_bytes));
    set(ledger, Line::Code, code);
    set(ledger, Line::LibraryData, variables);
    let names = ledger.allocators.join(", ");
    let anonymous = ledger.bytes(Line::OtherAllocator);
    set(ledger, Line::OtherAllocator, vec![named(names, anonymous)]);
    tell_arrays(ledger);
    tell_held(ledger);
    tell_untouched(ledger);
    if ledger.swap_bytes > 0 {
        ledger.beside.push(named("swapped out", ledger.swap_bytes));
    }
    ledger.close();
}

fn set(ledger: &mut Ledger, line: Line, detail: Vec<Named>) {
    if let Some(part) = ledger.parts.iter_mut().find(|part| part.name == line) {
        part.detail = detail;
    }
}

/// The largest mappings of a line by name; those without one by address.
fn largest((vmas, _, counted): (&[Vma], &[Ground], &[Counted]), line: Line) -> Vec<Named> {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (vma, counted) in vmas.iter().zip(counted) {
        let bytes = counted.lines[line as usize];
        if bytes > 0 {
            *sums.entry(name(vma)).or_default() += bytes;
        }
    }
    most(sums.into_iter())
}

/// Other maps by the library that holds them, where that is known.
pub(super) fn name_holders(ledger: &mut Ledger, holders: &Holders, (vmas, counted): (&[Vma], &[Counted])) {
    let mut sums: BTreeMap<String, u64> = BTreeMap::new();
    for (vma, counted) in vmas.iter().zip(counted) {
        let bytes = counted.lines[Line::OtherMaps as usize];
        if bytes > 0 {
            let holder = holders.get(&vma.start).map(|package| held_by(package));
            *sums.entry(holder.unwrap_or_else(|| name(vma))).or_default() += bytes;
        }
    }
    set(ledger, Line::OtherMaps, most(sums.into_iter()));
}

/// Chunks of malloc's by the library that holds them.
pub(super) fn name_chunks(ledger: &mut Ledger, held: Vec<(String, u64)>) {
    set(ledger, Line::MallocInUse, most(held.into_iter().map(|(package, bytes)| (held_by(&package), bytes))));
}

fn held_by(package: &str) -> String {
    format!("held by {package}")
}

fn most(sums: impl Iterator<Item = (String, u64)>) -> Vec<Named> {
    let mut all: Vec<Named> = sums.map(|(name, bytes)| named(name, bytes)).collect();
    all.sort_by_key(|named| std::cmp::Reverse(named.bytes));
    all.truncate(MOST);
    all
}

fn name(vma: &Vma) -> String {
    match vma.name.as_slice() {
        b"" => format!("{:#x}-{:#x}", vma.start, vma.end),
        name => String::from_utf8_lossy(name).into_owned(),
    }
}

fn tell_arrays(ledger: &mut Ledger) {
    let Some(heap) = &ledger.python_heap else { return };
    let detail = present([
        ("weights", heap.weights_bytes),
        ("gradients", heap.gradients_bytes),
        ("optimizer state", heap.optimizer_bytes),
        ("held by C++ only", heap.native_only_bytes),
    ]);
    set(ledger, Line::Arrays, detail);
}

/// Those that are not nothing.
fn present(all: [(&str, u64); 4]) -> Vec<Named> {
    all.into_iter().filter(|(_, bytes)| *bytes > 0).map(|(name, bytes)| named(name, bytes)).collect()
}

fn tell_held(ledger: &mut Ledger) {
    let Some(malloc) = &ledger.malloc else { return };
    let detail = present([
        ("trimmable", malloc.trimmable_bytes),
        ("in arenas of threads", malloc.held_threads_bytes),
        ("in the main arena", malloc.held_main_bytes),
        ("threads' caches", malloc.tcache_bytes),
    ]);
    set(ledger, Line::MallocHeld, detail);
}

/// Asked for and not resident: never touched, or swapped out.
fn tell_untouched(ledger: &mut Ledger) {
    if let Some(heap) = &ledger.python_heap {
        let resident =
            ledger.bytes(Line::Arrays) + heap.buffers_in_files_bytes + heap.buffers_in_shared_bytes;
        let untouched = heap.buffer_bytes.saturating_sub(resident);
        if untouched > 0 {
            ledger.beside.push(named("arrays and tensors, not resident", untouched));
        }
    }
}

/// What was counted and is not in the kernel's sum.
pub(super) fn tell_over(ledger: &mut Ledger, vmas: &[Vma], over: u64) {
    let huge = vmas.iter().map(|vma| vma.usage.shared_hugetlb + vma.usage.private_hugetlb).sum::<u64>() << 10;
    if huge > 0 {
        ledger.beside.push(named("huge pages of hugetlbfs, in no RSS", huge));
    }
    let rest = over.saturating_sub(huge);
    if rest > 0 {
        ledger.beside.push(named("mapped but not counted by the kernel: zero pages, devices", rest));
    }
}

/// Python's own: storages of tensors are nodes as well.
fn objects(graph: &Graph) -> u64 {
    let is_python: Vec<bool> = graph.kinds.iter().map(|kind| kind.nature != Nature::Storage).collect();
    let python = graph.objects.kind.iter().filter(|kind| is_python.get(**kind as usize) == Some(&true));
    python.count() as u64
}

/// Sums of the interpreter; none without one and without tensors.
pub(super) fn python_heap(
    graph: &Graph,
    footprint: &Footprint,
    of: (&[Ground], &[Counted]),
) -> Option<PythonHeap> {
    let native = graph.roots.iter().filter(|root| root.holder == Holder::Native);
    let mut owners: Vec<u32> = native.map(|root| root.object).collect();
    owners.sort_unstable();
    let native_only = graph.payloads.iter().filter(|p| owners.binary_search(&p.owner).is_ok());
    let mut heap = PythonHeap {
        objects: objects(graph),
        arenas: footprint.arenas,
        pools: footprint.pools,
        buffers: graph.payloads.len() as u64,
        buffer_bytes: graph.payloads.iter().map(|payload| payload.bytes).sum(),
        native_only_bytes: native_only.map(|payload| payload.bytes).sum(),
        ..PythonHeap::default()
    };
    elsewhere(&mut heap, of);
    (!graph.is_empty()).then_some(heap)
}

/// Buffers that stand in files and in shared memory.
pub(super) fn elsewhere(heap: &mut PythonHeap, (grounds, counted): (&[Ground], &[Counted])) {
    let within = |line: Line| -> u64 {
        let all = grounds.iter().zip(counted).filter(|(ground, _)| ground.file == line);
        all.map(|(_, counted)| counted.buffers_bytes).sum()
    };
    heap.buffers_in_files_bytes = within(Line::Files);
    heap.buffers_in_shared_bytes = within(Line::SharedMemory);
}
