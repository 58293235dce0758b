use nilometer_trace::allocs::{Amount, Code, Frame, Kept, KeptSize, Module, Node, Series, special};
use nilometer_trace::symbols::{Place, State, SymbolsBuilder};

use super::*;

const TORCH: &str = "/v/site-packages/torch";
/// The native stack that ends in a tensor's memory, and one that does not.
const TENSOR: u32 = special::FIRST;
const PLAIN: u32 = special::FIRST + 1;
/// One that ends in what a library of kernels keeps for itself.
const KERNELS: u32 = special::FIRST + 2;

fn symbols() -> Symbols {
    let mut names = SymbolsBuilder::default();
    names.library("/lib/libc10.so", &[], State::Read);
    let functions = [(1, "_ZN3c109alloc_cpuEm"), (2, "_ZN3c1010TensorImplC1Ev"), (3, "blas_memory_alloc")];
    for (address, function) in functions {
        let function = names.name(function);
        names.address(address, &[Place { function, ..Place::default() }]);
    }
    names.finish()
}

/// A recording with one site for each call, all of the same native stack unless told.
fn recording(sites: &[(&str, &str, u32, u64, u64)]) -> Recording {
    let native = |address| Node { frame: Frame::Native { module: Some(0), address }, parent: special::NONE };
    let mut it = Recording {
        modules: vec![Module { path: "/lib/libc10.so".into(), ..Module::default() }],
        nodes: vec![native(1), native(2), native(3)],
        processes: vec![nilometer_trace::allocs::Process::default()],
        ..Recording::default()
    };
    for (file, function, stack, peak, kept) in sites {
        let code = it.codes.len() as u32;
        it.codes.push(Code { file: format!("{TORCH}/{file}"), name: (*function).into(), first_line: 1 });
        it.nodes.push(Node { frame: Frame::Python { code, line: 3, entry: true }, parent: special::NONE });
        let python = special::FIRST + it.nodes.len() as u32 - 1;
        let amount = |bytes| Amount { bytes, count: 1, variance: 0 };
        let site =
            Site { python, native: *stack, peak: amount(*peak), total: amount(peak * 3), ..Site::default() };
        if *kept > 0 {
            it.about.kept.push(Kept { site: it.sites.len() as u32, bytes: *kept, count: 1 });
        }
        it.sites.push(site);
    }
    it
}

fn of<'a>(all: &'a [Category], name: &str) -> &'a Category {
    all.iter().find(|category| category.category == name).unwrap()
}

#[test]
fn tensors_have_the_category_of_their_phase_and_all_adds_up() {
    let mut recording = recording(&[
        ("nn/modules/linear.py", "Linear.__init__", TENSOR, 400, 400),
        ("nn/modules/module.py", "Module._call_impl", TENSOR, 300, 250),
        ("autograd/__init__.py", "backward", TENSOR, 50, 400),
        ("optim/adamw.py", "AdamW.step", TENSOR, 800, 800),
        ("nn/modules/conv.py", "Conv2d.forward", TENSOR, 60, 60),
        ("nn/modules/module.py", "Module._call_impl", PLAIN, 7, 7),
        ("../../train.py", "main", TENSOR, 33, 0),
        ("../../train.py", "main", PLAIN, 5, 0),
    ]);
    let size = |site, bytes, count| KeptSize { site, bytes, count };
    recording.about.kept_sizes = vec![
        size(0, 300, 1),
        size(0, 100, 1),
        size(2, 300, 1),
        size(2, 100, 1),
        size(3, 300, 2),
        size(3, 100, 2),
    ];
    recording.about.steps = vec![nilometer_trace::allocs::Step::default(); 2];
    recording.series = vec![Series { site: 1, bytes: vec![0, 280] }];
    recording.check().unwrap();
    let all = build(&recording, &symbols(), &FrameRules::built_in().unwrap());
    let figures = |name: &str| (of(&all, name).peak_bytes, of(&all, name).kept_bytes);
    assert_eq!(figures("parameters"), (400, 400));
    assert_eq!(figures("activations"), (310, 310));
    assert_eq!(figures("gradients"), (50, 400));
    assert_eq!(figures("optimizer state"), (800, 800));
    assert_eq!(figures("workspace"), (50, 0));
    assert_eq!((figures("framework objects").0, figures("data").0, figures("other").0), (7, 33, 5));
    assert_eq!(all.iter().map(|category| category.peak_bytes).sum::<u64>(), 1655);
    assert_eq!(all.iter().map(|category| category.cumulative_bytes).sum::<u64>(), 3 * 1655);
    assert_eq!(of(&all, "activations").layers[0].layer, "convolution");
    assert_eq!(of(&all, "activations").step_bytes, [0, 250]);
    assert_eq!(of(&all, "gradients").confidence, Confidence::High);
    assert_eq!(
        of(&all, "optimizer state").evidence.as_deref(),
        Some("sizes are those of parameters, 2 for each")
    );
    assert_eq!(of(&all, "data").confidence, Confidence::Low);
}

/// Whether numpy's own import computes a product that needs them depends on the processor.
#[test]
fn buffers_of_a_library_of_kernels_are_workspace_whoever_takes_them_first() {
    let import = "_call_with_frames_removed";
    let mut recording = recording(&[
        ("importlib", import, KERNELS, 32, 0),
        ("importlib", import, PLAIN, 9, 0),
        ("../../train.py", "main", KERNELS, 64, 0),
    ]);
    recording.codes[..2].iter_mut().for_each(|code| code.file = "<frozen importlib._bootstrap>".into());
    let all = build(&recording, &symbols(), &FrameRules::built_in().unwrap());
    let peaks = ["workspace", "code and import"].map(|name| of(&all, name).peak_bytes);
    assert_eq!(peaks, [96, 9]);
}

#[test]
fn sizes_that_differ_lower_the_confidence() {
    let mut recording = recording(&[
        ("nn/modules/linear.py", "Linear.__init__", TENSOR, 400, 400),
        ("autograd/__init__.py", "backward", TENSOR, 500, 500),
    ]);
    recording.about.kept_sizes =
        vec![KeptSize { site: 0, bytes: 400, count: 1 }, KeptSize { site: 1, bytes: 500, count: 1 }];
    let all = build(&recording, &symbols(), &FrameRules::built_in().unwrap());
    assert_eq!(of(&all, "gradients").confidence, Confidence::Medium);
}

/// Parameters, and sites on threads of the framework's that have blocks of so many bytes.
fn with_threads(threads: &[&[(u64, u64)]]) -> Vec<Category> {
    let thread = ("../../train.py", "main", TENSOR, 16_000, 0);
    let mut sites = vec![("nn/modules/linear.py", "Linear.__init__", TENSOR, 5000, 5000)];
    sites.extend(threads.iter().map(|_| thread));
    let mut recording = recording(&sites);
    recording.sites[1..].iter_mut().for_each(|site| site.python = special::NONE);
    let parameters = [(4000, 1), (1000, 1)];
    let sized = |site| move |&(bytes, count): &(u64, u64)| KeptSize { site, bytes, count };
    let theirs = (1..).zip(threads).flat_map(|(site, sizes)| sizes.iter().map(sized(site)));
    recording.about.kept_sizes = parameters.iter().map(sized(0)).chain(theirs).collect();
    recording.check().unwrap();
    build(&recording, &symbols(), &FrameRules::built_in().unwrap())
}

#[test]
fn sizes_of_parameters_several_times_over_are_gradients_and_an_optimizers() {
    let all = with_threads(&[&[(4000, 3), (1000, 3), (900, 1)]]);
    let figures = |name: &str| (of(&all, name).peak_bytes, of(&all, name).kept_bytes);
    assert_eq!((figures("gradients"), figures("optimizer state")), ((5000, 5000), (10_000, 10_000)));
    assert_eq!(figures("data"), (1000, 0));
    let state = of(&all, "optimizer state");
    assert!(state.evidence.as_deref().unwrap().contains("2 for each"), "{state:?}");
    assert_eq!(
        (state.confidence, all.iter().map(|it| it.peak_bytes).sum::<u64>()),
        (Confidence::Low, 21_000)
    );
}

#[test]
fn sizes_of_some_parameters_only_say_nothing() {
    let all = with_threads(&[&[(4000, 2), (900, 1)]]);
    assert_eq!(of(&all, "data").peak_bytes, 16_000);
    assert!(all.iter().all(|category| category.category != "gradients"));
}

#[test]
fn it_does_not_matter_which_thread_takes_the_memory() {
    let all = with_threads(&[&[(4000, 2), (1000, 3)], &[(4000, 1), (900, 1)]]);
    let kept = |name: &str| of(&all, name).kept_bytes;
    assert_eq!((kept("gradients"), kept("optimizer state")), (5000, 10_000));
    assert_eq!(all.iter().map(|it| it.peak_bytes).sum::<u64>(), 37_000);
    assert_eq!(of(&all, "data").peak_bytes, 32_000 - 15_000);
}
