//! Recordings written by hand, with exact totals.

use nilometer_trace::allocs::{
    About, Amount, Code, Frame as Stored, Module, Node as StoredNode, Recording, Series, Site as StoredSite,
    Step, special,
};
use nilometer_trace::symbols::{Place, State, Symbols, SymbolsBuilder};

use super::model::FrameKind;
use super::*;

fn amount(bytes: u64, count: u64) -> Amount {
    Amount { bytes, count, variance: 0 }
}

/// Two Python functions, an extension between them, and a C program's `main`.
struct Made {
    recording: Recording,
}

impl Made {
    fn new() -> Self {
        let module = |path: &str| Module { path: path.into(), build_id: vec![1], ..Module::default() };
        let code = |name: &str| Code { file: "/me/train.py".into(), name: name.into(), first_line: 1 };
        let recording = Recording {
            about: About { mode: "all".into(), finished: true, ..About::default() },
            modules: vec![module("/usr/bin/python3.12"), module("/lib/ext.so"), module("/usr/lib/libc.so.6")],
            codes: vec![code("main"), code("step"), code("inner")],
            ..Recording::default()
        };
        Self { recording }
    }

    /// Outermost first; the number of the innermost.
    fn stack(&mut self, frames: &[Stored]) -> u32 {
        let mut parent = special::NONE;
        for &frame in frames {
            self.recording.nodes.push(StoredNode { frame, parent });
            parent = special::FIRST + self.recording.nodes.len() as u32 - 1;
        }
        parent
    }

    fn site(&mut self, native: u32, python: u32, peak: u64) -> &mut StoredSite {
        let site = StoredSite {
            native,
            python,
            peak: amount(peak, 1),
            total: amount(peak * 2, 2),
            ..StoredSite::default()
        };
        self.recording.about.peak.bytes += peak;
        self.recording.sites.push(site);
        self.recording.sites.last_mut().unwrap()
    }
}

fn native(module: u32, address: u64) -> Stored {
    Stored::Native { module: Some(module), address }
}

fn python(code: u32, line: u32, entry: bool) -> Stored {
    Stored::Python { code, line, entry }
}

/// The evaluator at 100 and a call at 200 in the interpreter; in the extension an allocation with an inlined function.
fn symbols() -> Symbols {
    let mut builder = SymbolsBuilder::default();
    let mut library = |path: &str, names: &[(u64, &[&str])]| {
        builder.library(path, &[1], State::Read);
        for (address, functions) in names {
            let places: Vec<Place> = functions
                .iter()
                .enumerate()
                .map(|(place, function)| Place {
                    function: builder.name(function),
                    inlined: place + 1 < functions.len(),
                    ..Place::default()
                })
                .collect();
            builder.address(*address, &places);
        }
    };
    library("/usr/bin/python3.12", &[(100, &["_PyEval_EvalFrameDefault"]), (200, &["PyObject_Call"])]);
    library("/lib/ext.so", &[(10, &["grow", "_ZN3ext5allocEv"]), (20, &["ext_call"])]);
    library("/usr/lib/libc.so.6", &[(1, &["__libc_start_main_impl"])]);
    builder.finish()
}

fn made() -> Made {
    let mut made = Made::new();
    // libc start <- python main <- eval(main, step) <- call <- ext_call <- call <- eval(inner) <- ext::alloc
    let deep = made.stack(&[
        native(2, 1),
        native(0, 200),
        native(0, 100),
        native(0, 200),
        native(1, 20),
        native(0, 200),
        native(0, 100),
        native(1, 10),
    ]);
    let deep_python = made.stack(&[python(0, 9, true), python(1, 5, false), python(2, 2, true)]);
    made.site(deep, deep_python, 1000);
    let shallow = made.stack(&[native(2, 1), native(0, 200), native(0, 100), native(0, 200)]);
    let shallow_python = made.stack(&[python(0, 9, true), python(1, 6, false)]);
    made.site(shallow, shallow_python, 300);
    made
}

fn names(site: &Site) -> Vec<String> {
    let line = |frame: &model::Frame| frame.line.map_or_else(String::new, |line| format!(":{line}"));
    site.stack.iter().map(|frame| format!("{}{}", frame.function, line(frame))).collect()
}

#[test]
fn python_and_native_frames_are_in_calling_order() {
    let allocs = build(&made().recording, &symbols(), &Options::default());
    assert_eq!(names(&allocs.sites[0]), ["grow", "ext::alloc", "inner:2", "ext_call", "step:5", "main:9"]);
    assert_eq!(names(&allocs.sites[1]), ["step:6", "main:9"]);
    assert!(allocs.sites[0].stack[0].inlined && !allocs.sites[0].stack[1].inlined);
    assert_eq!(allocs.sites[0].stack[2].kind, FrameKind::Python);
}

#[test]
fn with_internals_nothing_is_left_out() {
    let options = Options { internals: true, ..Options::default() };
    let allocs = build(&made().recording, &symbols(), &options);
    let expected = [
        "grow",
        "ext::alloc",
        "inner:2",
        "_PyEval_EvalFrameDefault",
        "PyObject_Call",
        "ext_call",
        "PyObject_Call",
        "step:5",
        "main:9",
        "_PyEval_EvalFrameDefault",
        "PyObject_Call",
        "__libc_start_main_impl",
    ];
    assert_eq!(names(&allocs.sites[0]), expected);
}

#[test]
fn the_tree_closes_and_shares_outer_frames() {
    let allocs = build(&made().recording, &symbols(), &Options { tree: Some(0.0), ..Options::default() });
    let nodes = &allocs.tree.nodes;
    assert_eq!((nodes[0].value, nodes[0].children.len()), (1300.0, 1));
    let main = &nodes[nodes[0].children[0] as usize];
    assert_eq!((main.frame.function.as_str(), main.value, main.children.len()), ("main", 1300.0, 2));
    let total: f64 = nodes.iter().map(|node| node.own + node.hidden_value).sum();
    assert!((total - 1300.0).abs() < 1e-9);
}

#[test]
fn sites_with_the_same_stack_are_one_and_the_rest_is_summed() {
    let mut made = made();
    let again = made.recording.sites[1];
    made.recording.sites.push(StoredSite { process: 1, ..again });
    let allocs = build(&made.recording, &symbols(), &Options { top: Some(1), ..Options::default() });
    assert_eq!((allocs.sites.len(), allocs.sites_seen), (1, 2));
    assert_eq!(allocs.sites[0].amounts.peak_bytes, 1000);
    assert_eq!((allocs.rest.peak_bytes, allocs.rest.count), (600, 4));
}

fn rows(by: By) -> Vec<(String, Option<String>, u64)> {
    let allocs = build(&made().recording, &symbols(), &Options { by, ..Options::default() });
    allocs.rows.into_iter().map(|row| (row.name, row.detail, row.amounts.peak_bytes)).collect()
}

#[test]
fn rows_belong_to_the_innermost_line_function_or_library() {
    let some = |text: &str| Some(text.to_owned());
    let line = [
        ("/me/train.py:2".to_owned(), some("inner"), 1000),
        ("/me/train.py:6".to_owned(), some("step"), 300),
    ];
    assert_eq!(rows(By::Line), line);
    let function =
        [("grow".to_owned(), some("ext.so"), 1000), ("step".to_owned(), some("/me/train.py"), 300)];
    assert_eq!(rows(By::Function), function);
    assert_eq!(rows(By::Library), [("ext.so".to_owned(), None, 1000), ("train.py".to_owned(), None, 300)]);
    assert_eq!(rows(By::Owner), line, "it is all code of its own");
}

#[test]
fn what_no_code_of_its_own_asked_for_is_told_apart() {
    let mut made = made();
    for code in &mut made.recording.codes {
        code.file = "/venv/lib/python3.12/site-packages/torch/nn.py".into();
    }
    let options = Options { by: By::Owner, ..Options::default() };
    let rows = build(&made.recording, &symbols(), &options).rows;
    let told: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.amounts.peak_bytes)).collect();
    assert_eq!(told, [("no code of its own: ext.so", 1000), ("no code of its own: torch", 300)]);
}

#[test]
fn one_stack_with_two_allocators_is_two_sites() {
    let mut made = made();
    let again = made.recording.sites[1];
    made.recording.sites.push(StoredSite { source: Source::Mapping, ..again });
    let allocs = build(&made.recording, &symbols(), &Options { by: By::Type, ..Options::default() });
    assert_eq!(allocs.sites_seen, 3);
    let told: Vec<_> = allocs.rows.iter().map(|row| (row.name.as_str(), row.amounts.peak_bytes)).collect();
    assert_eq!(told, [("malloc and its kin", 1300), ("mappings of its own", 300)]);
}

#[test]
fn what_has_no_frames_is_said() {
    let mut made = Made::new();
    let start = made.stack(&[native(2, 1), native(0, 200)]);
    made.site(start, special::NONE, 1);
    made.site(special::DROPPED, special::NONE, 2);
    made.site(special::FOLDED, special::FOLDED, 3);
    made.site(special::NONE, special::NONE, 4);
    let allocs = build(&made.recording, &symbols(), &Options::default());
    let told: Vec<&str> = allocs.sites.iter().map(|site| site.stack[0].function.as_str()).collect();
    assert_eq!(told[0], "(no stack)");
    assert!(told[1].contains("several small sites") && told[2].contains("not kept"));
    assert_eq!(told[3], "(the Python interpreter itself)");
}

#[test]
fn a_cut_stack_says_so_at_its_outer_end() {
    let mut made = Made::new();
    let node = made.stack(&[native(1, 20), native(1, 10)]);
    made.recording.nodes[0].parent = special::CUT;
    made.site(node, special::NONE, 5);
    let allocs = build(&made.recording, &symbols(), &Options::default());
    let site = &allocs.sites[0];
    assert!(site.cut);
    assert!(site.stack.last().unwrap().function.contains("cut off"));
    assert_eq!(site.stack.len(), 4);
}

#[test]
fn without_names_addresses_are_shown_and_it_is_told() {
    let allocs = build(&made().recording, &Symbols::default(), &Options::default());
    let first = &allocs.sites[0].stack[0];
    assert_eq!((first.function.as_str(), first.library.as_deref()), ("0xa", Some("ext.so")));
    assert!(allocs.quality.iter().any(|told| told.contains("have no names")), "{:?}", allocs.quality);
}

#[test]
fn growth_orders_by_the_rate_of_each_site() {
    let mut made = made();
    let steps = (0..6).map(|number| Step { number: number * 10, at_ns: number, live_bytes: number * 50 });
    made.recording.about.steps = steps.collect();
    made.recording.about.steps_seen = 51;
    made.recording.series = vec![Series { site: 1, bytes: vec![0, 50, 100, 150, 200, 250] }];
    let options =
        Options { what: What::Growth, tree: Some(0.0), moments_since_ns: Some(0), ..Options::default() };
    let allocs = build(&made.recording, &symbols(), &options);
    // The one that grows is listed first, the other had nothing at any step.
    assert_eq!(allocs.moments.series, [(0, vec![0, 50, 100, 150, 200, 250])]);
    assert_eq!(allocs.moments.steps[5].live_bytes, 250);
    assert_eq!(allocs.growth_bytes_per_step, Some(5.0));
    assert_eq!(allocs.sites[0].amounts.growth_bytes_per_step, Some(5.0));
    assert_eq!(allocs.sites[1].amounts.growth_bytes_per_step, Some(0.0));
    assert!((allocs.tree.nodes[0].value - 5.0).abs() < 1e-9);
}

#[test]
fn lines_that_rise_with_the_steps_have_their_bytes_at_each() {
    let mut made = made();
    made.recording.about.steps = (0..4).map(|number| Step { number, at_ns: number, live_bytes: 0 }).collect();
    made.recording.series = vec![
        Series { site: 0, bytes: vec![0, 50, 100, 150] },
        Series { site: 1, bytes: vec![900, 10, 10, 900] },
    ];
    let rules = FrameRules::built_in().unwrap();
    let found = courses(&made.recording, &symbols(), &rules);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].name, "/me/train.py:2 inner");
    assert_eq!(found[0].callers, "/me/train.py:5 step ← /me/train.py:9 main");
    assert_eq!(found[0].bytes, [0.0, 50.0, 100.0, 150.0]);
}

#[test]
fn sampled_figures_have_an_interval_of_their_own() {
    let mut made = made();
    made.recording.sites[0].peak = Amount { bytes: 10 << 20, count: 20, variance: (10 << 20) * 524_288 };
    let allocs = build(&made.recording, &symbols(), &Options::default());
    let interval = allocs.sites[0].amounts.interval.unwrap();
    assert!(interval.low_bytes < 7 << 20 && interval.high_bytes > 14 << 20, "{interval:?}");
    assert_eq!(allocs.sites[1].amounts.interval, None);
}

/// The highest of many sums is more probably one of too much: its interval reaches further down the more often they were renewed,
/// and the longer they were about as high.
#[test]
fn the_interval_of_a_peak_knows_how_often_it_was_drawn() {
    let low = |turns: u64, near: usize| {
        let mut made = made();
        let about = &mut made.recording.about;
        about.mode = "sampled".into();
        let variance = (100 << 20) * 524_288;
        about.peak = Amount { bytes: 100 << 20, count: 200, variance };
        about.total = Amount { bytes: turns * (100 << 20), count: turns * 200, variance: turns * variance };
        let level = |point: usize| if point < near { 100 << 20 } else { 1 << 20 };
        about.curve = (0..100).map(|point| Point { at_ns: point as u64, live_bytes: level(point) }).collect();
        build(&made.recording, &symbols(), &Options::default()).peak.low_bytes
    };
    assert!(low(100, 100) < low(1, 100) && low(10_000, 100) < low(100, 100));
    assert!(low(10_000, 1) > low(10_000, 100));
}

#[test]
fn an_empty_recording_is_a_model() {
    let options = Options { tree: Some(0.0), ..Options::default() };
    let allocs = build(&Recording::default(), &Symbols::default(), &options);
    assert_eq!((allocs.sites.len(), allocs.tree.nodes.len()), (0, 1));
}

#[test]
fn the_model_survives_any_indices() {
    let mut made = made();
    made.recording.modules.clear();
    made.recording.codes.clear();
    made.site(9999, 9999, 1);
    for by in [By::Stack, By::Line, By::Library, By::Function, By::Owner, By::Type] {
        let allocs = build(&made.recording, &symbols(), &Options { by, ..Options::default() });
        assert_eq!(allocs.sites_seen, 3);
    }
}
