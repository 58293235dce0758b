//! The small training program of `sample::story`, to the byte.

use nilometer_trace::heap::{Graph, GraphBuilder, Holder, Nature, Part};

use super::super::model::{Anchor, By, Row, Table};
use super::super::{Error, Filter, Grouping, Heap, Set, diff, sample, since};

fn table(graph: &Graph, by: By) -> Table {
    let heap = Heap::new(graph);
    heap.table(&heap.all(), Grouping { by, ..Grouping::default() }).unwrap()
}

fn row<'t>(table: &'t Table, kind: &str) -> &'t Row {
    let names: Vec<&str> = table.rows.iter().map(|row| row.kind.as_str()).collect();
    table.rows.iter().find(|row| row.kind == kind).unwrap_or_else(|| panic!("no {kind} in {names:?}"))
}

fn closes(table: &Table) {
    let count: u64 = table.rows.iter().map(|row| row.count).sum();
    let bytes: u64 = table.rows.iter().map(|row| row.bytes).sum();
    let payload: u64 = table.rows.iter().map(|row| row.payload_bytes).sum();
    assert_eq!((count, bytes, payload), (table.total.count, table.total.bytes, table.total.payload_bytes));
    assert_eq!(table.rows.last().unwrap().cumulative_bytes, bytes + payload);
}

/// Everything: 3 arrays of 100, one of 10 and one of 1000 doubles, 4096 + 8192 bytes of storage.
const PAYLOAD: u64 = 3 * 800 + 80 + 8000 + 4096 + 8192;

#[test]
fn every_grouping_is_a_partition_of_everything() {
    let graph = sample::story();
    graph.check().unwrap();
    for by in [By::Kind, By::Type, By::Module, By::Size, By::Owner, By::Attribute] {
        let table = table(&graph, by);
        closes(&table);
        assert_eq!(table.total.payload_bytes, PAYLOAD, "{by:?}");
        assert_eq!(table.total.bytes, graph.objects.bytes.iter().sum::<u64>(), "{by:?}");
        // One storage is told with a tensor.
        assert_eq!(table.total.count, graph.len() as u64 - 1, "{by:?}");
    }
}

#[test]
fn dicts_are_told_by_their_owners_and_storages_by_tensors() {
    let graph = sample::story();
    let table = table(&graph, By::Kind);
    assert_eq!((row(&table, "dict of train.Node").count, row(&table, "dict of train.Node").bytes), (3, 312));
    assert_eq!(row(&table, "dict of module").count, 2);
    assert_eq!(row(&table, "dict (no owner)").bytes, 1000 + 232 + 4 * 232 + 3 * 64);
    let tensor = row(&table, "torch.nn.Parameter");
    assert_eq!((tensor.count, tensor.bytes, tensor.payload_bytes), (1, 80 + 104, 4096));
    assert_eq!(row(&table, "torch.Tensor").payload_bytes, 0);
    let native = row(&table, "torch storage (held by C++ only)");
    assert_eq!((native.count, native.bytes, native.payload_bytes), (1, 104, 8192));
    let arrays = row(&table, "numpy.ndarray");
    assert_eq!((arrays.count, arrays.bytes, arrays.payload_bytes), (5, 560, 10480));
    assert_eq!(table.rows[0].kind, "numpy.ndarray");
}

#[test]
fn plain_types_and_modules() {
    let graph = sample::story();
    assert_eq!(row(&table(&graph, By::Type), "dict").count, 1 + 2 + 1 + 3 + 6 + 1);
    let modules = table(&graph, By::Module);
    assert_eq!(row(&modules, "train").count, 3 + 2);
    assert_eq!(row(&modules, "(native)").payload_bytes, 8192);
}

#[test]
fn sizes_are_powers_of_two() {
    let table = table(&sample::story(), By::Size);
    assert_eq!(row(&table, "4.00 KiB to 8.00 KiB").count, 2, "the tensor with its storage, the array");
    assert_eq!(row(&table, "512 B to 1023 B").count, 3 + 1, "three arrays and the table of modules");
}

#[test]
fn attributes_name_what_holds_the_payload() {
    let graph = sample::story();
    let table = table(&graph, By::Attribute);
    let c = row(&table, "train.Node.c");
    assert_eq!((c.count, c.payload_bytes, c.also_elsewhere), (3, 2400, Some(0)));
    let h = row(&table, "train.Node.h");
    assert_eq!((h.count, h.payload_bytes, h.also_elsewhere), (1, 80, Some(0)));
    assert_eq!(row(&table, "train.cache").bytes, 232);
    assert_eq!(row(&table, "train.cache['history']").bytes, 88);
    // The first node is also a local; locals go before items.
    assert_eq!(row(&table, "train.cache['history'][…]").count, 2);
    let local = row(&table, "train.py step() node");
    assert_eq!((local.count, local.also_elsewhere), (1, Some(1)));
    let weight = row(&table, "torch.nn.Module.weight");
    assert_eq!((weight.count, weight.payload_bytes), (1, 4096));
    assert_eq!(row(&table, "Net.layers").count, 1);
    assert_eq!(row(&table, "__main__.Out[…]").payload_bytes, 8000);
    assert_eq!(row(&table, "train.Node.__dict__").count, 3);
    assert!(table.rule.is_some());
}

#[test]
fn owners_are_sets_of_kinds() {
    let graph = sample::story();
    let table = table(&graph, By::Owner);
    assert_eq!(row(&table, "dict of train.Node").count, 4, "three arrays and the shared one");
    assert_eq!(row(&table, "(root), list").count, 1, "the node that is a local as well");
    assert_eq!(
        row(&table, "(root)").count,
        3,
        "the table of modules, the tensor of a frame, the C++ storage"
    );
    assert_eq!(row(&table, "train.Loop").count, 3);
}

#[test]
fn a_row_can_be_drilled_into_and_the_rest_is_told() {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    let grouping = Grouping { top: Some(2), ..Grouping::default() };
    let table = heap.table(&heap.all(), grouping).unwrap();
    assert_eq!((table.rows.len(), table.rest.count), (2, table.total.count - 5 - 1));
    let parameters = heap.row(&heap.all(), grouping, 2).unwrap();
    assert_eq!(parameters.len(), 2, "a tensor and its storage");
    let drilled = heap.table(&parameters, Grouping { by: By::Attribute, ..Grouping::default() }).unwrap();
    assert_eq!((drilled.rows.len(), drilled.rows[0].kind.as_str()), (1, "torch.nn.Module.weight"));
    assert_eq!(drilled.selection, ["row 2: torch.nn.Parameter"]);
    assert_eq!(heap.row(&heap.all(), grouping, 99), Err(Error::NoSuchRow { row: 99, rows: 15 }));
}

fn selected(filter: &Filter) -> (usize, u64) {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    let set = heap.select(heap.all(), filter).unwrap();
    (set.len(), heap.sum(&set).payload_bytes)
}

#[test]
fn filters() {
    let kind = |text: &str| Filter { kind: Some(text.into()), ..Filter::default() };
    assert_eq!(selected(&kind("ndarray")), (5, 10480));
    assert_eq!(selected(&kind("torch.*parameter")), (2, 4096));
    let module = Filter { module: Some("train".into()), ..Filter::default() };
    assert_eq!(selected(&module), (5, 0));
    assert_eq!(selected(&Filter { min_bytes: 4096, ..Filter::default() }), (4, 4096 + 8192 + 8000));
    assert_eq!(selected(&Filter { unreachable: true, ..Filter::default() }), (3, 0));
    let under = Filter { under: Some("train.cache['history'][0]".into()), ..Filter::default() };
    assert_eq!(selected(&under), (4, 880));
    let missing = Filter { under: Some("train.cash".into()), ..Filter::default() };
    let graph = sample::story();
    let heap = Heap::new(&graph);
    let Err(Error::NoSuchName { reached, missing, near, .. }) = heap.select(heap.all(), &missing) else {
        panic!("found");
    };
    assert_eq!(
        (reached.as_str(), missing.as_str(), near),
        ("train", ".cash", vec!["cache".to_owned(), "step".to_owned()])
    );
}

fn texts(graph: &Graph, object: &str, limit: usize) -> Vec<String> {
    let heap = Heap::new(graph);
    let paths = heap.paths(&heap.find(object).unwrap(), limit).unwrap();
    paths.paths.into_iter().map(|path| path.text).collect()
}

#[test]
fn paths_are_named_and_several() {
    let graph = sample::story();
    let shared = "train.cache['history'][1].h";
    let found = texts(&graph, shared, 10);
    assert_eq!(found[0], "train.py:33 step() node.h");
    assert!(found[1..].contains(&"train.cache['history'][0].h".to_owned()), "{found:?}");
    assert!(found.contains(&"train.cache['history'][2].h".to_owned()), "{found:?}");
    assert_eq!(found.len(), 4);
    assert_eq!(texts(&graph, shared, 2).len(), 2);
}

#[test]
fn notebooks_torch_modules_and_native_holders_have_their_names() {
    let graph = sample::story();
    assert_eq!(texts(&graph, "Out[17]", 5), ["Out[17]"]);
    assert_eq!(texts(&graph, "train.cache", 5), ["train.cache"], "not by the globals of a function or frame");
    assert_eq!(texts(&graph, "__main__.model.layers[0].weight", 5), ["__main__.model.layers[0].weight"]);
    assert_eq!(texts(&graph, "model.layers[0].weight", 5), ["__main__.model.layers[0].weight"]);
    let heap = Heap::new(&graph);
    let native = Filter { kind: Some("held by C++".into()), ..Filter::default() };
    let paths = heap.paths(&heap.select(heap.all(), &native).unwrap(), 5).unwrap();
    assert_eq!((paths.paths[0].anchor, paths.paths[0].text.as_str()), (Anchor::Native, "torch storage"));
    let out = heap.paths(&heap.find("Out[17]").unwrap(), 5).unwrap();
    assert_eq!((out.paths[0].anchor, out.paths[0].segments.len()), (Anchor::Notebook, 2));
    assert_eq!((out.object.elements, out.object.element.as_deref()), (Some(1000), Some("float64")));
}

/// An optimizer knows a parameter as the key of a dict, which is nearer, and says nothing.
#[test]
fn a_parameter_has_the_name_that_its_module_gives_it() {
    let mut it = GraphBuilder::default();
    let [instance, dict, module, tensor] = [
        ("torch.nn.Module", Nature::Instance),
        ("dict", Nature::Dict),
        ("module", Nature::Module),
        ("torch.nn.Parameter", Nature::Tensor),
    ]
    .map(|(name, nature)| it.kind(name, "", nature));
    let [main, model, layers, linear, optimizer] =
        [(1, module), (2, instance), (3, instance), (4, instance), (5, instance)]
            .map(|(address, kind)| it.object(address, kind, 64));
    let weight = it.object(6, tensor, 80);
    let mut address = 7;
    let mut dict_of = |it: &mut GraphBuilder, owner, name: &str| {
        address += 1;
        let made = it.object(address, dict, 64);
        it.attribute(owner, made, name);
        made
    };
    for (parent, name, child) in [(model, "layers", layers), (layers, "3", linear)] {
        let modules = dict_of(&mut it, parent, "_modules");
        dict_of(&mut it, parent, "_parameters");
        it.key(modules, child, name);
    }
    dict_of(&mut it, linear, "_modules");
    let parameters = dict_of(&mut it, linear, "_parameters");
    it.key(parameters, weight, "weight");
    let state = dict_of(&mut it, optimizer, "state");
    it.edge(state, weight, Part::Member);
    it.attribute(main, model, "model");
    it.attribute(main, optimizer, "optimizer");
    for name in ["__mp_main__", "__main__"] {
        it.root(main, Holder::Modules, name);
    }
    let graph = it.finish();
    assert_eq!(
        texts(&graph, "__main__.model.layers[3].weight", 2),
        ["__main__.model.layers[3].weight", "__main__.optimizer.state{torch.nn.Parameter}"]
    );
}

#[test]
fn what_no_root_reaches_says_so() {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    let lost = heap.select(heap.all(), &Filter { unreachable: true, ..Filter::default() }).unwrap();
    let paths = heap.paths(&lost, 5).unwrap();
    assert_eq!((paths.paths.len(), paths.paths[0].anchor), (1, Anchor::Nothing));
    assert!(paths.paths[0].text.starts_with("<str at 0x"), "{}", paths.paths[0].text);
}

#[test]
fn every_shortest_path_leads_back_to_its_object() {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    for id in 0..graph.len() as u32 {
        let set = Set { ids: vec![id], selection: Vec::new() };
        for path in heap.paths(&set, 9).unwrap().paths.iter().filter(|it| it.anchor != Anchor::Nothing) {
            let found = heap.find(&path.text).unwrap_or_else(|error| panic!("{}: {error}", path.text));
            assert_eq!(found.ids, [id], "{}", path.text);
        }
    }
}

#[test]
fn short_and_odd_words_for_objects() {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    let node = heap.find("train.cache['history'][0]").unwrap();
    assert_eq!(heap.find("train.py:step.node").unwrap().ids, node.ids);
    assert_eq!(heap.find("thread locals: train.py:step.node").unwrap().ids, node.ids);
    let address = format!("{:#x}", graph.objects.address[node.ids[0] as usize]);
    assert_eq!(
        heap.find(&format!("{address}.c")).unwrap().ids,
        heap.find("train.py:step.node.c").unwrap().ids
    );
    assert_eq!(heap.find("0x1234"), Err(Error::NoSuchAddress { address: "0x1234".into() }));
    assert!(matches!(heap.find("train.cache["), Err(Error::BadPath { .. })));
    assert!(matches!(heap.find("nothing.here"), Err(Error::NoSuchName { .. })));
    assert!(matches!(heap.find(""), Ok(_) | Err(_)));
}

#[test]
fn links_name_the_other_ends() {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    let shared = heap.find("train.py:step.node.h").unwrap();
    let links = heap.referrers(&shared, 2).unwrap();
    assert_eq!((links.links.len(), links.more, links.table.total.count), (2, 1, 3));
    assert_eq!(links.links[0].label, ".h");
    assert_eq!(links.links[0].path.as_deref(), Some("train.py:33 step() node.__dict__"));
    let node = heap.find("train.py:step.node").unwrap();
    let below = heap.referents(&node, 10).unwrap();
    assert_eq!((below.links.len(), below.links[0].label.as_str()), (1, ".__dict__"));
    assert!(matches!(heap.referents(&Set::default(), 3), Err(Error::NothingSelected)));
}

#[test]
fn retained_is_what_would_go() {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    // The list is not the only holder of node 0, nor of the shared array, which node 0 holds.
    let list = heap.retained(&heap.find("train.cache['history']").unwrap());
    assert_eq!((list.count, list.bytes, list.payload_bytes), (7, 88 + 2 * (48 + 104 + 112), 1600));
    let local = heap.retained(&heap.find("train.py:step.node").unwrap());
    assert_eq!((local.count, local.bytes, local.payload_bytes), (3, 48 + 104 + 112, 800));
    // Both together hold the shared array as well.
    let mut both = heap.find("train.cache['history']").unwrap();
    both.ids.extend(heap.find("train.py:step.node").unwrap().ids);
    both.ids.sort_unstable();
    assert_eq!(heap.retained(&both).payload_bytes, 2400 + 80);
    // A frame holds the same storage as the parameter.
    assert_eq!(heap.retained(&heap.find("model").unwrap()).payload_bytes, 0);
    let top = heap.retainers(&heap.all(), 3);
    assert_eq!(top.retainers.len(), 3);
    assert_eq!(top.more, graph.len() as u64 - 3);
    let whole = &top.retainers[0];
    assert_eq!(whole.path.as_deref(), Some("sys.modules"));
    assert_eq!(whole.retained.payload_bytes, 8000, "a running frame holds the dict of `train` as well");
}

#[test]
fn circles_and_garbage() {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    let cycles = heap.cycles(10);
    assert_eq!((cycles.cycles_total, cycles.unreachable_cycles), (2, 1));
    let module = &cycles.cycles[0];
    assert_eq!((module.own.count, module.own.bytes, module.unreachable), (2, 240 + 136, false));
    assert_eq!(
        (module.example.as_str(), module.path.as_deref()),
        ("dict of module.step.__globals__", Some("train.__dict__"))
    );
    let cycle = &cycles.cycles[1];
    assert_eq!((cycle.own.count, cycle.own.bytes, cycle.unreachable), (2, 96, true));
    assert_eq!((cycle.retained.count, cycle.retained.bytes), (3, 160));
    assert_eq!(cycle.example, "train.Loop.next.prev");
    assert_eq!((cycle.kinds[0].kind.as_str(), cycle.kinds[0].count), ("train.Loop", 2));
    assert_eq!(cycle.path, None);
}

#[test]
fn of_a_path_deep_own_retained_and_elements() {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    let of = heap.of("train.cache").unwrap();
    assert_eq!((of.own.count, of.own.payload_bytes), (2 + 6 + 4, 2480));
    assert_eq!(of.deep, of.own);
    assert_eq!(of.retained.payload_bytes, 1600);
    assert_eq!((of.arrays.arrays, of.arrays.unique_elements, of.arrays.unique_bytes), (4, 310, 2480));
    assert_eq!(of.arrays.nominal_bytes, 2480);
    assert_eq!(of.object.kind, "dict (no owner)");
}

#[test]
fn shared_buffers_are_nominal_twice_and_unique_once() {
    let graph = sample::story();
    let heap = Heap::new(&graph);
    let arrays = heap.arrays(&heap.all(), 3);
    assert_eq!((arrays.total.arrays, arrays.total.buffers, arrays.more), (7, 6, 4));
    assert_eq!(arrays.total.nominal_bytes, 10480 + 2 * 4096);
    assert_eq!(arrays.total.unique_bytes, 10480 + 4096);
    assert_eq!(arrays.total.nominal_elements, 1310 + 2 * 1024);
    assert_eq!(arrays.total.unique_elements, 1310 + 1024);
    assert_eq!(arrays.native_only.payload_bytes, 8192);
    assert_eq!(arrays.arrays[0].path.as_deref(), Some("Out[17]"));
    let weight = &arrays.arrays[1];
    assert_eq!(weight.path.as_deref(), Some("__main__.model.layers[0].weight"));
    assert_eq!((weight.sharers, weight.view, weight.item.shape.as_slice()), (2, false, &[32u64, 32][..]));
    assert_eq!(weight.backing, Some("memory"));
}

/// The same program one step later: a node more, the list and a string larger, the garbage gone.
fn later() -> Graph {
    let mut graph = sample::story();
    let garbage = graph.kinds.iter().position(|kind| kind.name == "train.Loop").unwrap() as u32;
    let string = graph.kinds.iter().position(|kind| kind.nature == Nature::Str).unwrap() as u32;
    for (place, kind) in graph.objects.kind.iter_mut().enumerate() {
        if *kind == garbage {
            // Another object lives at the address now.
            *kind = string;
            graph.objects.bytes[place] = 50;
        } else if *kind == string {
            graph.objects.bytes[place] = 80;
        }
    }
    graph
}

#[test]
fn a_diff_tells_new_gone_and_resized_apart() {
    let (before, after) = (sample::story(), later());
    let found = diff(&Heap::new(&before), &Heap::new(&after), Grouping::default()).unwrap();
    let names: Vec<&str> = found.rows.iter().map(|row| row.kind.as_str()).collect();
    assert_eq!(names, ["str", "train.Loop"], "growth first");
    let text = &found.rows[0].change;
    assert_eq!((text.count, text.bytes, text.payload_bytes), (2, 116, 0));
    assert_eq!((text.new.count, text.new.bytes, text.resized.count, text.resized.bytes), (2, 100, 1, 16));
    let lost = &found.rows[1].change;
    assert_eq!((lost.count, lost.bytes, lost.gone.count), (-2, -96, 2));
    assert_eq!((found.total.bytes, found.total.count), (20, 0));
    assert_eq!(found.unchanged_rows, 13);
    assert!(!found.different_processes);
}

#[test]
fn resized_objects_are_a_row_without_count() {
    let (before, mut after) = (sample::story(), sample::story());
    let list = after.kinds.iter().position(|kind| kind.nature == Nature::List).unwrap() as u32;
    let place = after.objects.kind.iter().position(|kind| *kind == list).unwrap();
    after.objects.bytes[place] += 1000;
    for by in [By::Kind, By::Attribute, By::Module, By::Owner] {
        let grouping = Grouping { by, ..Grouping::default() };
        let found = diff(&Heap::new(&before), &Heap::new(&after), grouping).unwrap();
        assert_eq!(found.rows.len(), 1, "{by:?}");
        let change = &found.rows[0].change;
        assert_eq!((change.count, change.bytes, change.resized.count), (0, 1000, 1));
    }
}

#[test]
fn the_relative_heap_has_what_is_new() {
    let (before, after) = (sample::story(), later());
    let (old, new) = (Heap::new(&before), Heap::new(&after));
    let set = since(&old, &new);
    assert_eq!((set.len(), new.sum(&set).bytes), (2, 100));
    assert_eq!(since(&old, &Heap::new(&before)).len(), 0);
}

#[test]
fn the_summary_counts_python_objects() {
    let mut graph = sample::story();
    graph.origin.python = "3.11.7".into();
    graph.origin.pause.stopped_ns = 48_000_000;
    graph.quality.refcount_checked = 200;
    graph.quality.refcount_exact = 199;
    let summary = Heap::new(&graph).summary();
    assert_eq!(summary.objects, graph.len() as u64 - 2);
    assert_eq!(summary.payload_bytes, PAYLOAD);
    assert_eq!((summary.native_only.count, summary.native_only.payload_bytes), (1, 8192));
    assert_eq!((summary.pause_ms, summary.quality.refcount_exact_share), (48.0, Some(0.995)));
    assert_eq!((summary.payload_by_backing.len(), summary.partial, summary.labelled), (1, false, true));
}

#[test]
fn without_labels_counts_are_right_and_names_are_refused() {
    let mut graph = sample::story();
    graph.edges.label.clear();
    let heap = Heap::new(&graph);
    let all = heap.all();
    let table = heap.table(&all, Grouping::default()).unwrap();
    closes(&table);
    assert_eq!(row(&table, "dict").count, 14);
    assert_eq!(row(&table, "torch.nn.Parameter").payload_bytes, 4096);
    let by = Grouping { by: By::Attribute, ..Grouping::default() };
    assert!(matches!(heap.table(&all, by), Err(Error::NoLabels { .. })));
    assert!(matches!(heap.paths(&all, 3), Err(Error::NoLabels { .. })));
    assert!(heap.retained(&all).count > 0);
}
