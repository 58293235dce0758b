//! `nilo import` of recordings that other tools made, through the real binary: sums re-derived by hand.
#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

struct Place(TempDir);

impl Place {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn nilo(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nilo"));
        command.args(args).current_dir(self.0.path()).env_remove("NILO_DIR").env("LC_ALL", "C.UTF-8");
        command.output().unwrap()
    }

    /// Runs it and expects it to be good.
    fn good(&self, args: &[&str]) -> String {
        let output = self.nilo(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        text(&output.stdout) + &text(&output.stderr)
    }

    fn json(&self, args: &[&str]) -> Value {
        let output = self.nilo(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    fn python(&self, program: &str, args: &[&str]) {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/imports").join(program);
        let done =
            Command::new("python3").arg(program).args(args).current_dir(self.0.path()).status().unwrap();
        assert!(done.success());
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Every shape of line; what each adds to is in the test.
const RNN_LOG: &str = "\
[INFO:sockeye.train] Sockeye version 1.12.3
[mem] Allocate 4194304 bytes GPU memory (in_arg:source_embed_weight).
[mem] 7934.5 MB GPU global memory free, total 8114 MB.
[mem] Allocate 4194304 bytes GPU memory (arg_grad:source_embed_weight).
[mem] 7930.5 MB GPU global memory free, total 8114 MB.
[mem] Allocate 1048576 bytes GPU memory (aux_state:bn_moving_mean).
[mem] Allocate 8388608 bytes GPU memory (optimizer_weight_update_0).
[mem] Allocate 2097152 bytes GPU memory (workspace:dot-inl).
[trace] forward pass 1
Speed: 12.5 samples/sec
[mem] Allocate 16777216 bytes GPU memory (forward_features:encoder_rnn_l0_t0).
[mem] Allocate 524288 bytes GPU memory (source).
[mem] Allocate 262144 bytes GPU memory (untagged).
[mem] Allocate 131072 bytes GPU memory (warning!,ctx_source_unclear).
[mem] Allocate 65536 bytes GPU memory (something_else_entirely).
Allocate 3 MB GPU memory
[mem] 7894.0 MB GPU global memory free, total 8114 MB.
[mem] Release GPU memory.
[mem] 7910.0 MB GPU global memory free, total 8114 MB.
[mem] finished binding.
[mem] Allocate 12 bytes GP[mem] Release GPU memory.
";

#[test]
fn an_mxnet_log_has_the_totals_of_its_profiler() {
    let place = Place::new();
    place.write("rnn_1g.log", RNN_LOG);
    let document = place.json(&[
        "import",
        "rnn_1g.log",
        "-o",
        "out",
        "--json",
        "--title",
        "batch 2",
        "--charts",
        "svg,png,pdf",
    ]);
    let log = &document["logs"][0];
    let mib = |value: f64| Value::from((value * f64::from(1 << 20)) as u64);
    // Added up by hand from the lines above.
    assert_eq!(
        log["totals"]["allocated_bytes"],
        mib(4.0 + 4.0 + 1.0 + 8.0 + 2.0 + 16.0 + 0.5 + 0.25 + 0.125 + 0.0625 + 3.0)
    );
    assert_eq!(log["totals"]["weight_bytes"], mib(8.0));
    assert_eq!(log["totals"]["forward_bytes"], mib(1.0 + 8.0 + 2.0 + 16.0 + 0.5 + 3.0));
    assert_eq!(log["totals"]["unknown_bytes"], mib(0.25 + 0.125));
    assert_eq!(log["totals"]["unmatched_bytes"], mib(0.0625));
    assert_eq!(log["totals"]["annotations"], 11);
    assert_eq!((&log["device_peak_bytes"], &log["device_live_bytes"]), (&mib(220.0), &mib(204.0)));
    assert_eq!(
        (&log["releases"], &log["skipped_lines"], &log["broken_lines"]),
        (&1.into(), &2.into(), &1.into())
    );
    assert_eq!(log["unmatched"][0]["tag"], "(something_else_entirely).");
    assert_eq!(log["categories"][0]["name"], "RNN Layer");
    assert_eq!(log["categories"].as_array().unwrap().len(), 10);

    let analysis: Value =
        serde_json::from_slice(&fs::read(place.path("out/memory_analysis/rnn_1g.log_ANALYSIS")).unwrap())
            .unwrap();
    assert_eq!(analysis["in_arg"], serde_json::json!([4_194_304.0, ["(in_arg:source_embed_weight)."]]));
    let graphs = place.path("out/memory_analysis_graphs");
    let svg = fs::read_to_string(graphs.join("rnn_1g.log_ANALYSIS_mem_graph.svg")).unwrap();
    for words in
        ["Memory profile: RNN, batch 2", ">Weights<", "total allocation 38.94 MB", "16.0 MiB (41.09%)"]
    {
        assert!(svg.contains(words), "{words}\n{svg}");
    }
    for (end, start) in [("pdf", &b"%PDF"[..]), ("png", b"\x89PNG")] {
        let chart = fs::read(graphs.join(format!("rnn_1g.log_ANALYSIS_mem_graph.{end}"))).unwrap();
        assert!(chart.starts_with(start), "{end}");
    }
    let shown = place.good(&["report", "out", "--allocs", "--what", "cumulative", "--by", "function"]);
    assert!(shown.contains("(forward_features:encoder_rnn_l0_t0).") && shown.contains("16.0 MiB"), "{shown}");
}

#[test]
fn mxnet_directories_analyses_and_tables_are_read_together() {
    let place = Place::new();
    fs::create_dir(place.path("logs")).unwrap();
    place.write("logs/rnn.log", RNN_LOG);
    place.write("logs/notes.txt", "batch size 2\n");
    place.write(
        "logs/conv_ANALYSIS",
        "{\n  \"in_arg\": [36.0, [\"(in_arg:w).\\n\", \"(in_arg:b).\\n\"]],\n  \"cnn\": [64.0, [\"x\"]]\n}",
    );
    place.write(
        "logs/later.csv",
        "\"Attribute Name\",\"Requested Size\",\"Device\",\"Actual Size\",\"Reuse?\"\n\"net:in_arg:w\",\"4000\",\"0\",\"4096\",\"0\"\n\
         \"net:in_arg:w\",\"4000\",\"0\",\"4096\",\"1\"\n\"nvml_amend\",\"1000\",\"0\",\"1000\",\"0\"\n",
    );
    let said = place.good(&["import", "logs", "-o", "out", "--together", "--charts", "svg"]);
    assert!(said.contains("logs/notes.txt is no log of MXNet's memory profiler: skipped"), "{said}");
    let graphs: Vec<_> = fs::read_dir(place.path("out/memory_analysis_graphs")).unwrap().flatten().collect();
    assert_eq!(graphs.len(), 1);
    let document = place.json(&[
        "import",
        "logs/conv_ANALYSIS",
        "logs/later.csv",
        "--as",
        "mxnet-log",
        "-o",
        "two",
        "--json",
    ]);
    assert_eq!(document["logs"][0]["totals"]["weight_bytes"], 36);
    assert_eq!(document["logs"][0]["totals"]["annotations"], 3);
    let later = &document["logs"][1]["totals"];
    assert_eq!(
        (&later["weight_bytes"], &later["unknown_bytes"], &later["allocated_bytes"]),
        (&4096.into(), &1000.into(), &5096.into())
    );
}

#[test]
fn own_rules_for_tags_come_first() {
    let place = Place::new();
    place.write("rnn.log", RNN_LOG);
    place.write("own.toml", "[[tag]]\ncontains = \"something_else\"\nname = \"Mine\"\ngroup = \"forward\"\n");
    let log = &place.json(&["import", "rnn.log", "-o", "out", "--json", "--rules", "own.toml"])["logs"][0];
    assert_eq!((&log["unmatched"], &log["totals"]["unmatched_bytes"]), (&serde_json::json!([]), &0.into()));
    place.write("bad.toml", "[[tag]]\nnam = 1\n");
    let output = place.nilo(&["import", "rnn.log", "--rules", "bad.toml"]);
    assert!(text(&output.stderr).contains("bad.toml") && text(&output.stderr).contains("hint:"));
}

#[test]
fn a_torch_snapshot_of_any_protocol_is_read_to_the_byte() {
    for protocol in ["2", "3", "4", "5"] {
        let place = Place::new();
        place.python("torch_snapshot.py", &["snapshot.pickle", protocol]);
        let said = place.good(&["import", "snapshot.pickle", "-o", "out"]);
        assert!(said.contains("snapshot.pickle is a torch snapshot: it is a pickle"), "{said}");
        let fragments = "cuda:0: 20.00 MiB reserved in 1 segments: 6.00 MiB allocated (6.00 MiB asked for), 0.00 MiB awaiting \
                         their free, 14.00 MiB free; 14.00 MiB of that in pieces between blocks (fragmentation 70.0 %), \
                         largest free block 8.00 MiB";
        assert!(said.contains(fragments), "{said}");
        let allocs = place.json(&["report", "out", "--view", "allocs", "--json", "--top", "all"]);
        let mib = 1_u64 << 20;
        // 2 MiB from before the history, 1 MiB pinned, and 4 MiB - 100 of the optimizer.
        assert_eq!(allocs["live_end_bytes"], 7 * mib - 100);
        // At the third event: both activations are there, too.
        assert_eq!(allocs["peak"]["bytes"], 7 * mib - 100 + 14 * mib);
        assert_eq!(allocs["cumulative_bytes"], 7 * mib - 100 + 14 * mib);
        let sites = allocs["sites"].as_array().unwrap();
        let forward = sites.iter().find(|site| site["peak_bytes"] == 14 * mib).unwrap();
        let names: Vec<&str> = forward["stack"]
            .as_array()
            .unwrap()
            .iter()
            .map(|frame| frame["function"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["at::native::empty", "forward", "<module>"]);
        assert_eq!(forward["live_end_bytes"], 0);
        assert!(allocs["processes"].as_array().unwrap().len() == 2);
    }
}

#[test]
fn a_hostile_pickle_is_refused_and_nothing_runs() {
    for protocol in ["2", "4"] {
        let place = Place::new();
        place.python("hostile.py", &["snapshot.pickle", protocol]);
        let output = place.nilo(&["import", "snapshot.pickle", "-o", "out"]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("GLOBAL is not plain data") && said.contains("hint:"), "{said}");
        assert!(!place.path("ran").exists() && !place.path("out").exists());
        // The same bytes do run where Python loads them: the test can fail.
        let load = "import pickle, sys; pickle.load(open('snapshot.pickle', 'rb'))";
        Command::new("python3").args(["-c", load]).current_dir(place.0.path()).status().unwrap();
        assert!(place.path("ran").exists());
    }
}

#[test]
fn heapy_and_muppy_tables_become_looks_at_a_heap() {
    let place = Place::new();
    let dump = |time: u32, arrays: u32| {
        format!(
            ".loader: _load_stat\n.format: SetFormat\n.timemade: {time}.5\n.count: {}\n.size: {}\n.kindname: \n.kindheader: Kind\n\
             .numrows: 2\n.r: {arrays} {} numpy.ndarray\n.r: 10 1000 str\n.end: .loader: _load_stat\n",
            arrays + 12,
            arrays * 80 + 1100,
            arrays * 80
        )
    };
    let dumps: String = (0..6).map(|n| dump(1_231_517_359 + n * 10, 1000 + n * 500)).collect();
    place.write("heap.hpy", &dumps);
    let said = place.good(&["import", "heap.hpy", "-o", "heapy", "--array-bytes", "800"]);
    assert!(
        said.contains("heap.hpy is a heapy table: line 1 begins a dump of Heapy")
            && said.contains("6 tables"),
        "{said}"
    );
    let report = place.json(&["report", "heapy", "--json"]);
    assert!(report.to_string().contains("headers only (the last had 3500 of 80 bytes each)"), "{report:#}");
    place.write(
        "diff.txt",
        "                       types |   # objects |   total size\n============================ | =========== | ============\n\
                       numpy.ndarray |       53157 |      4.06 MB\n                        list |        8532 |    869.02 KB\n\
                       types |   # objects |   total size\n====== | ======= | ====\n       numpy.ndarray |      149236 |     11.39 MB\n",
    );
    let said = place.good(&["import", "diff.txt", "-o", "muppy"]);
    assert!(said.contains("2 tables"), "{said}");
}

#[test]
fn a_series_of_smaps_is_a_curve_of_one_process() {
    let place = Place::new();
    let look = |time: u32, rss: u32| {
        format!(
            "{time}\n55d0-55e0 rw-p 00000000 00:00 0 [heap]\nSize: 4096 kB\nRss: {rss} kB\nPss: {} kB\nPrivate_Dirty: {} kB\n\
             Anonymous: {rss} kB\nSwap: 0 kB\nVmFlags: rd wr\n7f00-7f10 r-xp 00000000 08:01 9 /lib/libc.so.6\nRss: 100 kB\nPss: 10 kB\nPrivate_Clean: 4 kB\n",
            rss - 10,
            rss - 20
        )
    };
    let series: String = (0..20).map(|n| look(1_700_000_000 + n, 1000 + n * 100)).collect();
    place.write("smaps.log", &series);
    let said = place.good(&["import", "smaps.log", "-o", "out"]);
    assert!(
        said.contains("line 1 is a time before a mapping of smaps")
            && said.contains("20 readings over 19.0 s"),
        "{said}"
    );
    let report = place.json(&["report", "out", "--json"]);
    assert_eq!(report["peak"]["bytes"], (2900 + 100) * 1024, "{report:#}");
}
