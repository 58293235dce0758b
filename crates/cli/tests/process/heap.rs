//! `nilo heap` on a process, its snapshot and its core: the same objects, the same numbers.

use serde_json::Value;

use crate::harness::{Lab, text};
use crate::heap_target::{Target, document, dump_core, find_row, heap, refusal, row, screen};

/// All rows, without what only a live process can tell.
fn rows(lab: &Lab, words: &[&str]) -> Vec<Value> {
    let mut document = document(lab, &[words, &["--top", "all"]].concat());
    let rows = document["rows"].as_array_mut().expect("rows");
    for row in rows.iter_mut() {
        row["resident_payload_bytes"].take();
    }
    std::mem::take(rows)
}

#[test]
fn the_first_screen_says_how_much_and_how_far_to_trust_it() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 5000");
    let shown = screen(&lab, &[&target.pid()]);
    let mut lines = shown.lines();
    let head = lines.next().expect("a head");
    assert!(head.contains(" objects, ") && head.contains("(stopped "), "{shown}");
    assert!(head.contains(" % of refcounts explained)"), "{shown}");
    let columns: Vec<&str> = lines.next().expect("columns").split_whitespace().collect();
    assert_eq!(columns, ["Row", "Count", "%", "Size", "Payload", "Cumulative", "%", "Kind"], "{shown}");
    assert!(shown.contains(" more rows: "), "{shown}");
    let last = shown.lines().last().expect("a last line");
    assert_eq!(last, format!("next → nilo heap paths {} --row 0", target.pid()));
    // The next command works as it is printed.
    let next: Vec<&str> = last.split_whitespace().skip(5).collect();
    assert!(screen(&lab, &[&["paths"], &next[..]].concat()).contains(" at 0x"));
    target.end_unharmed();
}

#[test]
fn the_document_has_its_contract_and_the_truth() {
    let lab = Lab::new();
    let mut target = Target::start();
    assert_eq!(target.order("grow 5000"), 5000);
    let found = document(&lab, &[&target.pid(), "--top", "all"]);
    assert!(found["python"].as_str().is_some_and(|version| version.starts_with("3.")), "{}", found["python"]);
    assert!(found["pause_ms"].as_f64().is_some_and(|ms| ms > 0.0), "{}", found["pause_ms"]);
    assert_eq!((&found["partial"], &found["source"]), (&false.into(), &"live".into()));
    let share = found["quality"]["refcount_exact_share"].as_f64().expect("a share");
    assert!(share >= 0.99, "{share}");
    assert_eq!(row(&found, "__main__.Node")["count"], 5000);
    let total = |field: &str| -> u64 {
        found["rows"].as_array().expect("rows").iter().filter_map(|row| row[field].as_u64()).sum()
    };
    assert_eq!(found["objects"], total("count"));
    assert_eq!(found["bytes"], total("bytes"));
    assert_eq!(found["payload_bytes"], total("payload_bytes"));
    target.end_unharmed();
}

#[test]
fn a_process_its_snapshot_and_its_core_give_the_same_tables() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 3000");
    let pid = target.pid();
    let output = heap(&lab, &[&pid, "-o", "a.heap"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("wrote a.heap"), "{}", text(&output.stderr));
    let core = dump_core(&lab, &pid);
    for by in ["kind", "module", "owner", "attribute"] {
        let live = rows(&lab, &[&pid, "--by", by]);
        assert!(live.len() > 3, "{by}: {live:?}");
        assert_eq!(live, rows(&lab, &["a.heap", "--by", by]), "{by}");
        if let Some(core) = &core {
            let core = core.to_str().expect("UTF-8");
            assert_eq!(live, rows(&lab, &[core, "--by", by]), "{by}");
        }
    }
    if let Some(core) = core.as_ref().and_then(|core| core.to_str()) {
        let found = document(&lab, &[core]);
        assert_eq!((&found["source"], &found["pause_mode"]), (&"core".into(), &"dead".into()));
        assert!(screen(&lab, &[core]).contains("(from a core, "));
    }
    target.end_unharmed();
}

#[test]
fn a_snapshot_is_for_its_owner_alone_and_is_not_overwritten_unasked() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = Lab::new();
    let target = Target::start();
    let pid = target.pid();
    screen(&lab, &[&pid, "-o", "a.heap"]);
    let mode = std::fs::metadata(lab.path("a.heap")).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let first = std::fs::read(lab.path("a.heap")).expect("read");
    let said = refusal(&lab, &[&pid, "-o", "a.heap"], 125);
    assert!(said.contains("exists already") && said.contains("--force"), "{said}");
    assert_eq!(std::fs::read(lab.path("a.heap")).expect("read"), first);
    screen(&lab, &[&pid, "-o", "a.heap", "--force"]);
    let names = std::fs::read_dir(lab.path("")).expect("read").count();
    assert_eq!(names, 1, "nothing else is left");
    target.end_unharmed();
}

#[test]
fn a_known_growth_is_told_exactly() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 1000");
    let pid = target.pid();
    screen(&lab, &[&pid, "-o", "a.heap"]);
    target.order("grow 2500");
    screen(&lab, &[&pid, "-o", "b.heap"]);
    target.order("shrink 500");
    screen(&lab, &[&pid, "-o", "c.heap"]);

    let grown = document(&lab, &["diff", "a.heap", "b.heap", "--top", "all"]);
    for kind in ["__main__.Node", "float"] {
        assert_eq!(row(&grown, kind)["count"], 2500, "{kind}");
        assert_eq!(row(&grown, kind)["new"]["count"], 2500, "{kind}");
        assert_eq!(row(&grown, kind)["gone"]["count"], 0, "{kind}");
    }
    // The list of nodes grew: resized, not new.
    let lists = row(&grown, "list");
    assert_eq!((&lists["count"], &lists["resized"]["count"]), (&2500.into(), &1.into()));
    assert!(lists["resized"]["bytes"].as_i64().is_some_and(|bytes| bytes >= 2500 * 8), "{lists}");
    let attributes = document(&lab, &["diff", "a.heap", "b.heap", "--by", "attribute", "--top", "all"]);
    for name in ["value", "items"] {
        let rows = attributes["rows"].as_array().expect("rows");
        let found = rows
            .iter()
            .find(|row| row["kind"].as_str().is_some_and(|kind| kind.ends_with(&format!("Node.{name}"))));
        assert_eq!(found.map(|row| &row["count"]), Some(&2500.into()), "{name} in {rows:#?}");
    }
    let shrunk = document(&lab, &["diff", "b.heap", "c.heap", "--top", "all"]);
    assert_eq!(row(&shrunk, "__main__.Node")["count"], -500);
    assert_eq!(row(&shrunk, "__main__.Node")["gone"]["count"], 500);
    // From a snapshot to now, and nothing twice.
    let now = document(&lab, &["diff", "c.heap", &pid, "--top", "all"]);
    assert!(find_row(&now, "__main__.Node").is_none(), "{:#}", now["rows"]);
    assert!(screen(&lab, &["diff", "a.heap", "a.heap"]).contains("nothing changed"));
    let since = document(&lab, &["b.heap", "--since", "a.heap", "--top", "all"]);
    assert_eq!(row(&since, "__main__.Node")["count"], 2500);
    target.end_unharmed();
}

#[test]
fn paths_name_the_holder_and_links_go_both_ways() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 300");
    screen(&lab, &[&target.pid(), "-o", "a.heap"]);
    let found = document(&lab, &["paths", "a.heap", "--kind", "__main__.Node"]);
    let path = found["paths"][0]["text"].as_str().expect("a path");
    assert!(path.starts_with("__main__.holder.nodes["), "{path}");
    assert_eq!(found["of_objects"], 300);
    // What is printed is understood.
    let address = found["object"]["address"].as_str().expect("an address");
    let by_path = document(&lab, &["paths", "a.heap", path]);
    assert_eq!(by_path["object"]["address"], address);
    let referrers = document(&lab, &["referrers", "a.heap", address]);
    let holders = referrers["links"].as_array().expect("links");
    assert!(holders.iter().any(|link| link["item"]["kind"] == "list"), "{holders:#?}");
    let referents = document(&lab, &["referents", "a.heap", address, "--top", "all"]);
    let kinds: Vec<&str> = referents["links"]
        .as_array()
        .expect("links")
        .iter()
        .filter_map(|link| link["item"]["kind"].as_str())
        .collect();
    assert!(kinds.contains(&"float") || kinds.iter().any(|kind| kind.starts_with("dict of")), "{kinds:?}");
    assert!(screen(&lab, &["referrers", "a.heap", address]).contains("nodes"));
    target.end_unharmed();
}

#[test]
fn rows_are_drilled_into() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 2000");
    screen(&lab, &[&target.pid(), "-o", "a.heap"]);
    let all = document(&lab, &["a.heap", "--top", "all"]);
    let number = row(&all, "__main__.Node")["row"].to_string();
    let drilled = document(&lab, &["a.heap", "--row", &number]);
    assert_eq!((&drilled["total"]["count"], &drilled["by"]), (&2000.into(), &"owner".into()));
    let again = document(&lab, &["a.heap", "--row", &format!("{number},0"), "--by", "kind,owner,kind"]);
    assert_eq!(again["rows"][0]["kind"], "__main__.Node");
    let said = refusal(&lab, &["a.heap", "--row", "99999"], 125);
    assert!(said.contains("there is no row 99999") && said.contains("--top all"), "{said}");
    target.end_unharmed();
}

#[test]
fn filters_deep_sizes_circles_and_stacks() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 100");
    target.order("circle 7");
    screen(&lab, &[&target.pid(), "-o", "a.heap"]);
    let nodes = document(&lab, &["a.heap", "--kind", "*Node"]);
    assert_eq!((&nodes["rows_total"], &nodes["total"]["count"]), (&1.into(), &100.into()));
    let mine = document(&lab, &["a.heap", "--module", "__main__", "--top", "all"]);
    assert!(
        mine["rows"]
            .as_array()
            .expect("rows")
            .iter()
            .all(|row| row["kind"].as_str().is_some_and(|kind| kind.contains("__main__")))
    );
    let garbage = document(&lab, &["a.heap", "--unreachable", "--kind", "*.Circle"]);
    assert_eq!(garbage["total"]["count"], 14);
    let circles = document(&lab, &["a.heap", "--cycles", "--top", "all"]);
    assert!(circles["cycles"]["unreachable_cycles"].as_u64() >= Some(7), "{:#}", circles["cycles"]);
    let below = document(&lab, &["a.heap", "--under", "__main__.holder", "--kind", "*Node"]);
    assert_eq!(below["total"]["count"], 100);
    let of = document(&lab, &["a.heap", "--of", "__main__.holder.nodes"]);
    // The list, 100 nodes with a float and a list of one int each, and perhaps their dicts.
    let own = of["of"]["own"]["count"].as_u64().expect("a count");
    assert!((301..=601).contains(&own), "{own}");
    assert!(of["of"]["retained"]["count"].as_u64() >= Some(301), "{:#}", of["of"]["retained"]);
    let stacks = document(&lab, &["a.heap", "--stacks"]);
    let frames = stacks["stacks"][0]["frames"].as_array().expect("frames");
    assert!(frames.iter().any(|frame| frame["function"] == "<module>"), "{frames:#?}");
    assert!(screen(&lab, &["a.heap", "--stacks"]).contains("heap_nodes.py:"));
    let kept = document(&lab, &["a.heap", "--retained", "--kind", "*.Holder"]);
    assert!(kept["retained"]["retained"]["count"].as_u64() > Some(300), "{:#}", kept["retained"]);
    target.end_unharmed();
}

#[test]
fn the_tables_of_other_tools() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 5000");
    screen(&lab, &[&target.pid(), "-o", "a.heap"]);
    let heapy = screen(&lab, &["a.heap", "--format", "heapy"]);
    let lines: Vec<&str> = heapy.lines().collect();
    let objects = document(&lab, &["a.heap"])["objects"].to_string();
    assert!(
        lines[0].starts_with(&format!("Partition of a set of {objects} objects. Total size = ")),
        "{heapy}"
    );
    assert_eq!(lines[1], " Index  Count   %     Size   % Cumulative  % Kind (class / dict of class)");
    assert_eq!(lines.len(), 13, "{heapy}");
    assert!(lines[12].ends_with(" more rows. Type e.g. '_.more' to view.>"), "{heapy}");
    let output = heap(&lab, &["a.heap", "--format", "muppy"]);
    let muppy = text(&output.stdout);
    assert_eq!(muppy.lines().count(), 17, "{muppy}");
    assert!(
        muppy.lines().next().is_some_and(|line| line.ends_with("types |   # objects |   total size")),
        "{muppy}"
    );
    assert!(text(&output.stderr).contains("more rows are not listed"), "{}", text(&output.stderr));
    target.order("grow 10");
    let pid = target.pid();
    assert!(
        screen(&lab, &["diff", "a.heap", &pid, "--format", "heapy"])
            .starts_with("Summary of difference operation (A-B).\n")
    );
    assert!(
        screen(&lab, &["diff", "a.heap", &pid, "--format", "muppy"])
            .contains("__main__.Node |          10 |")
    );
    target.end_unharmed();
}
