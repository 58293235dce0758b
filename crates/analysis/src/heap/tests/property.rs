//! Random graphs against naive answers.

use nilometer_trace::heap::{
    Backing, Extent, Graph, Holder, Kind, NO_OBJECT, Nature, ObjectId, Part, Payload, Root, Special,
};
use nilometer_trace::record::HeapTable;
use proptest::prelude::*;

use super::super::dominator::Dominators;
use super::super::model::{Anchor, By};
use super::super::path;
use super::super::reach::UNREACHED;
use super::super::referrer::Referrers;
use super::super::{Filter, Grouping, Heap, Set, cycle, diff, sample, since};

/// Added to the distance of what only weak anchors reach.
const WEAK: u64 = 1 << 30;

fn graphs(objects: usize) -> impl Strategy<Value = Graph> {
    (1..objects).prop_flat_map(|objects| {
        let edge = (0..objects as u32, 0..objects as u32);
        let edges = proptest::collection::vec(edge, 0..3 * objects);
        let roots = proptest::collection::vec(0..objects as u32, 0..4);
        (edges, roots).prop_map(move |(edges, roots)| sample::from_pairs(objects, &edges, &roots))
    })
}

/// Objects of every nature and root of every holder, with buffers and extents: nothing fits anything.
fn wild_graphs() -> impl Strategy<Value = Graph> {
    let changes = proptest::collection::vec((any::<u32>(), 0..NATURES.len(), 0..1u64 << 40), 1..20);
    (graphs(40), changes, any::<bool>()).prop_map(|(mut graph, changes, labelled)| {
        let count = graph.len() as u32;
        graph.kinds = NATURES.iter().map(|nature| kind_of(*nature)).collect();
        for (object, nature, bytes) in changes {
            let object = object % count;
            graph.objects.kind[object as usize] = nature as u32;
            let holder = HOLDERS[bytes as usize % HOLDERS.len()];
            graph.roots.push(Root { object, holder, name: format!("file.py:{bytes} f() x") });
            if bytes % 2 == 0 {
                graph.payloads.push(payload(object, bytes));
            }
            if bytes % 3 == 0 {
                graph.extents.push(Extent { object, elements: bytes, bytes: bytes * 4, ..Extent::default() });
            }
        }
        graph.payloads.sort_by_key(|it| it.owner);
        graph.extents.sort_by_key(|it| it.object);
        graph.extents.dedup_by_key(|it| it.object);
        if !labelled {
            graph.edges.label.clear();
        }
        graph
    })
}

const NATURES: [Nature; 10] = [
    Nature::Instance,
    Nature::Dict,
    Nature::List,
    Nature::Tuple,
    Nature::Type,
    Nature::Module,
    Nature::Function,
    Nature::Array,
    Nature::Tensor,
    Nature::Storage,
];

const HOLDERS: [Holder; 7] = [
    Holder::Modules,
    Holder::Sys,
    Holder::Builtins,
    Holder::Frame,
    Holder::Interpreter,
    Holder::StaticType,
    Holder::Native,
];

fn kind_of(nature: Nature) -> Kind {
    Kind { name: format!("{nature:?}").to_lowercase(), module: "m".into(), nature }
}

fn payload(owner: ObjectId, bytes: u64) -> Payload {
    Payload {
        owner,
        address: bytes,
        bytes,
        resident_bytes: bytes.is_multiple_of(4).then_some(bytes),
        backing: Backing::Memory,
        elements: None,
        element: None,
    }
}

/// What can be reached from the roots when one object is taken out.
fn reached_without(graph: &Graph, without: Option<ObjectId>) -> Vec<bool> {
    let mut seen = vec![false; graph.len()];
    let mut open: Vec<ObjectId> = graph.roots.iter().map(|root| root.object).collect();
    while let Some(object) = open.pop() {
        if Some(object) != without && !std::mem::replace(&mut seen[object as usize], true) {
            open.extend(graph.referents(object));
        }
    }
    seen
}

proptest! {
    #[test]
    fn dominators_are_those_without_which_an_object_is_not_reached(graph in graphs(24)) {
        let dominators = Dominators::of(&graph, &Referrers::of(&graph));
        let reached = reached_without(&graph, None);
        for object in (0..graph.len() as ObjectId).filter(|it| reached[*it as usize]) {
            let naive: Vec<ObjectId> = (0..graph.len() as ObjectId)
                .filter(|it| *it != object && !reached_without(&graph, Some(*it))[object as usize])
                .filter(|it| reached[*it as usize])
                .collect();
            let mut chain = Vec::new();
            let mut at = dominators.immediate[object as usize];
            while at != NO_OBJECT {
                chain.push(at);
                at = dominators.immediate[at as usize];
            }
            chain.sort_unstable();
            prop_assert_eq!(chain, naive);
        }
    }

    #[test]
    fn dominators_come_before_what_they_dominate(graph in graphs(60)) {
        let dominators = Dominators::of(&graph, &Referrers::of(&graph));
        let mut place = vec![usize::MAX; graph.len()];
        for (at, object) in dominators.order.iter().enumerate() {
            place[*object as usize] = at;
        }
        prop_assert_eq!(dominators.order.len(), graph.len());
        for object in 0..graph.len() {
            let above = dominators.immediate[object];
            prop_assert!(above == NO_OBJECT || place[above as usize] < place[object]);
        }
    }

    #[test]
    fn retained_by_dominators_is_retained_by_removal(graph in graphs(24)) {
        let heap = Heap::new(&graph);
        let reached = reached_without(&graph, None);
        for id in (0..graph.len() as ObjectId).filter(|it| reached[*it as usize]) {
            let naive = reached_without(&graph, Some(id));
            let gone = reached.iter().zip(naive).filter(|(before, after)| **before && !after).count() as u64;
            let index = heap.retained_index();
            prop_assert_eq!(u64::from(index.counts[id as usize]), gone);
            prop_assert_eq!(index.bytes[id as usize], gone * 16);
            prop_assert_eq!(heap.retained(&Set { ids: vec![id], selection: Vec::new() }).count, gone);
        }
    }

    #[test]
    fn circles_are_those_who_reach_each_other(graph in graphs(20)) {
        let reach: Vec<Vec<bool>> = (0..graph.len() as ObjectId).map(|it| reached_from(&graph, it)).collect();
        let mut naive: Vec<Vec<ObjectId>> = (0..graph.len())
            .filter(|it| reach[*it][*it])
            .map(|a| (0..graph.len()).filter(|b| reach[a][*b] && reach[*b][a]).map(|b| b as ObjectId).collect())
            .collect();
        naive.sort();
        naive.dedup();
        let mut found = cycle::components(&graph);
        found.sort();
        prop_assert_eq!(found, naive);
    }

    #[test]
    fn paths_end_at_their_object(graph in graphs(24)) {
        let heap = Heap::new(&graph);
        let reached = reached_without(&graph, None);
        for id in 0..graph.len() as ObjectId {
            let paths = heap.paths(&Set { ids: vec![id], selection: Vec::new() }, 4).unwrap();
            prop_assert_eq!(paths.paths[0].anchor != Anchor::Nothing, reached[id as usize]);
            for path in &paths.paths {
                let last = path.segments.last().unwrap();
                prop_assert_eq!(&last.address, &paths.object.address);
            }
        }
    }

    #[test]
    fn distances_are_the_smallest_and_routes_have_that_length(graph in graphs(24)) {
        let heap = Heap::new(&graph);
        let naive = distances(&graph);
        for id in 0..graph.len() as ObjectId {
            let distance = heap.reach().distance[id as usize];
            prop_assert_eq!(u64::from(distance).min(FAR), naive[id as usize]);
            let Some(route) = path::shortest(&heap, id) else {
                prop_assert_eq!(distance, UNREACHED);
                continue;
            };
            let weak = if route.anchor.strong { 0 } else { WEAK };
            let length: u64 = route.objects.windows(2).map(|pair| step(&graph, pair[0], pair[1]).unwrap()).sum();
            prop_assert_eq!(length + weak, u64::from(distance));
        }
    }

    #[test]
    fn nothing_panics_and_all_tables_close(graph in graphs(40), other in graphs(40)) {
        graph.check().unwrap();
        let (heap, later) = (Heap::new(&graph), Heap::new(&other));
        for by in [By::Kind, By::Type, By::Module, By::Size, By::Owner, By::Attribute] {
            let grouping = Grouping { by, ..Grouping::default() };
            let table = heap.table(&heap.all(), grouping).unwrap();
            prop_assert_eq!(table.rows.iter().map(|row| row.bytes).sum::<u64>(), graph.len() as u64 * 16);
            let drilled = heap.row(&heap.all(), grouping, 0).unwrap();
            prop_assert_eq!(drilled.len() as u64, table.rows[0].count);
            let found = diff(&heap, &later, grouping).unwrap();
            let change = other.len() as i64 - graph.len() as i64;
            prop_assert_eq!((found.total.count, found.total.bytes), (change, change * 16));
            let total = &found.total;
            let parts = total.new.bytes as i64 - total.gone.bytes as i64 + total.resized.bytes;
            prop_assert_eq!(parts + total.regrouped.bytes, total.bytes);
        }
        heap.cycles(5);
        heap.arrays(&heap.all(), 5);
        heap.summary();
        heap.retainers(&heap.all(), 5);
        heap.referrers(&heap.all(), 5).unwrap();
        heap.referents(&heap.all(), 5).unwrap();
        since(&heap, &later);
        let filter = Filter { unreachable: true, min_bytes: 8, ..Filter::default() };
        heap.select(heap.all(), &filter).unwrap();
    }

    #[test]
    fn wild_graphs_are_read_without_panic_and_their_tables_close(graph in wild_graphs(), other in wild_graphs()) {
        graph.check().unwrap();
        let (heap, later) = (Heap::new(&graph), Heap::new(&other));
        let payload: u64 = graph.payloads.iter().map(|it| it.bytes).sum();
        let head = heap.summary();
        prop_assert_eq!((head.bytes, head.payload_bytes), (graph.len() as u64 * 16, payload));
        prop_assert_eq!(heap.plain_amounts().total(), heap.plain_amounts().sum(&heap.all().ids));
        let told = heap.amounts_among(&heap.all().ids);
        prop_assert_eq!(told.total(), told.sum(&heap.all().ids));
        for by in [By::Kind, By::Type, By::Module, By::Size, By::Owner, By::Attribute] {
            let grouping = Grouping { by, ..Grouping::default() };
            let Ok(table) = heap.table(&heap.all(), grouping) else {
                prop_assert!(by == By::Attribute && !heap.is_labelled());
                continue;
            };
            let sums = table.rows.iter().fold((0, 0), |sum, row| (sum.0 + row.bytes, sum.1 + row.payload_bytes));
            prop_assert_eq!(sums, (graph.len() as u64 * 16, payload));
            let row = heap.row(&heap.all(), grouping, 0).unwrap();
            prop_assert_eq!(heap.sum(&row).payload_bytes, table.rows[0].payload_bytes);
            drop(diff(&heap, &later, grouping));
        }
        for id in 0..graph.len() as ObjectId {
            let set = Set { ids: vec![id], selection: Vec::new() };
            if let Ok(paths) = heap.paths(&set, 3) {
                paths.paths.iter().for_each(|path| drop(heap.of(&path.text)));
            }
        }
        heap.summary();
        heap.cycles(3);
        heap.arrays(&heap.all(), 3);
        heap.retainers(&heap.all(), 3);
        HeapTable::of(&graph, 1, 2, 3);
    }

    #[test]
    fn any_text_is_a_path_or_refused(text in "[a-z_.\\[\\]{}'0-9# <>x]{0,24}") {
        let graph = sample::story();
        let heap = Heap::new(&graph);
        drop(heap.find(&text));
        drop(heap.of(&format!("train{text}")));
    }
}

const FAR: u64 = UNREACHED as u64;

/// The cheapest edge between two objects: the own dict of an object is no step, a nameless member is five.
fn step(graph: &Graph, from: ObjectId, to: ObjectId) -> Option<u64> {
    let edges = graph.edges.range(from).filter(|edge| graph.edges.to[*edge] == to);
    let height = |edge: usize| match graph.edges.label[edge].part() {
        Some(Part::Special(Special::Dict)) => 0,
        Some(Part::Member) => 5,
        _ => 1,
    };
    edges.map(height).min()
}

/// Every edge is tried until nothing gets shorter.
fn distances(graph: &Graph) -> Vec<u64> {
    let mut distance = vec![FAR; graph.len()];
    for root in &graph.roots {
        let weak = if root.holder == Holder::Frame { 0 } else { WEAK };
        distance[root.object as usize] = distance[root.object as usize].min(weak);
    }
    for _ in 0..graph.len() {
        for from in (0..graph.len() as ObjectId).filter(|it| !graph.edges.range(*it).is_empty()) {
            for to in graph.referents(from) {
                let through = distance[from as usize] + step(graph, from, *to).unwrap();
                distance[*to as usize] = distance[*to as usize].min(through);
            }
        }
    }
    distance.into_iter().map(|it| it.min(FAR)).collect()
}

fn reached_from(graph: &Graph, start: ObjectId) -> Vec<bool> {
    let mut seen = vec![false; graph.len()];
    let mut open: Vec<ObjectId> = graph.referents(start).to_vec();
    while let Some(object) = open.pop() {
        if !std::mem::replace(&mut seen[object as usize], true) {
            open.extend(graph.referents(object));
        }
    }
    seen
}

/// Every edge followed in turn, as deep as there are objects: no stack of ours is that deep.
#[test]
fn a_chain_of_half_a_million_is_no_problem() {
    let count = 500_000;
    let edges: Vec<(u32, u32)> = (1..count).map(|to| (to - 1, to)).collect();
    let graph = sample::from_pairs(count as usize, &edges, &[0]);
    let heap = Heap::new(&graph);
    let last = Set { ids: vec![count - 1], selection: Vec::new() };
    let paths = heap.paths(&last, 3).unwrap();
    assert_eq!(paths.paths.len(), 1);
    assert!(paths.paths[0].text.len() < 500, "{}", paths.paths[0].text.len());
    assert_eq!(heap.retainers(&heap.all(), 1).retainers[0].retained.count, u64::from(count));
    assert_eq!(heap.cycles(1).cycles_total, 0);
    let by = Grouping { by: By::Attribute, ..Grouping::default() };
    heap.table(&heap.all(), by).unwrap();
}

/// Each object holds the one before and the one after it: the search for a second way has much to walk, and ends.
#[test]
fn a_doubly_linked_list_does_not_hold_up_the_search_for_paths() {
    let count = 100_000;
    let edges: Vec<(u32, u32)> = (1..count).flat_map(|to| [(to - 1, to), (to, to - 1)]).collect();
    let graph = sample::from_pairs(count as usize, &edges, &[0]);
    let heap = Heap::new(&graph);
    let paths = heap.paths(&Set { ids: vec![count / 2], selection: Vec::new() }, 5).unwrap();
    assert_eq!(paths.paths.len(), 1);
    assert_eq!(heap.cycles(1).cycles[0].own.count, u64::from(count));
}
