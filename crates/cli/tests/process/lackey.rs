//! `nilo import` of address traces: real ones of valgrind, and made ones whose distances are known.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use nilometer_trace::pages::{Distances, Line, PAGES_FILE, read_lines};
use serde_json::Value;

use crate::harness::{Lab, c_program, finish, finish_child, skip, text};

/// As in `laps.c`.
const PAGES: u64 = 1000;
const LAPS: u64 = 11;
const PAGE: u64 = 4096;

/// The trace of `laps.c`, where valgrind is.
fn real_trace(lab: &Lab) -> Option<String> {
    let log = lab.path("laps.log");
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=lackey", "--trace-mem=yes"]).arg(format!("--log-file={}", log.display()));
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        skip("valgrind", &error.to_string());
        return None;
    }
    let output = finish(valgrind.arg(c_program("laps.c")));
    assert!(output.status.success(), "{}", text(&output.stderr));
    Some(std::fs::read_to_string(log).unwrap())
}

fn import(lab: &Lab, words: &[&str]) -> Value {
    let output = finish(&mut lab.nilo(["import", "--json", "-q"].iter().chain(words)));
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stored(directory: &Path) -> Distances {
    let mut found = None;
    let file = std::fs::File::open(directory.join(PAGES_FILE)).unwrap();
    let bad = read_lines(&mut std::io::BufReader::new(file), |line| {
        if let Line::Distances(distances) = line {
            found = Some(*distances);
        }
    });
    assert_eq!(bad.unwrap(), 0);
    found.expect("distances")
}

/// Distances by moving pages to the end of a list; first touches apart.
fn naive(trace: &str) -> (u64, BTreeMap<u64, u64>) {
    let (mut list, mut cold, mut counts) = (Vec::<u64>::new(), 0, BTreeMap::new());
    let data = trace.lines().filter(|line| [" L ", " S ", " M "].iter().any(|sign| line.starts_with(sign)));
    for line in data {
        let (address, size) = line[3..].split_once(',').unwrap();
        let (start, size) = (u64::from_str_radix(address, 16).unwrap(), size.parse::<u64>().unwrap());
        for page in start / PAGE..=(start + size - 1) / PAGE {
            match list.iter().rposition(|other| *other == page) {
                Some(at) => {
                    *counts.entry((list.len() - at) as u64).or_default() += 1;
                    list.remove(at);
                }
                None => cold += 1,
            }
            list.push(page);
        }
    }
    (cold, counts)
}

#[test]
fn laps_over_known_pages_have_the_distances_that_arithmetic_says() {
    let lab = Lab::new();
    let Some(trace) = real_trace(&lab) else { return };
    let document = import(&lab, &["laps.log", "-o", "laps"]);
    let told = stored(&lab.path("laps"));
    let at = |distance: u64| told.counts.iter().find(|bin| bin.0 == distance).map_or(0, |bin| bin.1);
    let again = (LAPS - 1) * PAGES;
    assert_eq!(
        at(PAGES),
        again + 2,
        "every page of the array in every lap but the first, and the load in two"
    );
    assert!(told.cold >= PAGES && told.accesses.crossing >= 1, "{:?}", (told.cold, told.accesses));

    // The loop misses with less memory than the array, and hits with a little more.
    let bounds = document["reuse"]["bounds"].as_array().unwrap();
    let misses = |pages: u64| {
        let bound = bounds.iter().find(|bound| bound["resident_bytes"] == pages * PAGE).unwrap();
        assert_eq!(bound["miss_low"], bound["miss_high"]);
        bound["miss_high"].as_f64().unwrap() * told.touches as f64
    };
    let saved = misses(512) - misses(1024);
    assert!((saved - 10_000.0).abs() < 30.0, "10,000 stores, and a few pages of the exit: {saved}");
    assert_eq!(
        (&document["reuse"]["how"], &document["reuse"]["sampling_error"]),
        (&"exact".into(), &Value::Null)
    );

    // All of it as a list says, and the number of instructions as valgrind itself counted them.
    let (cold, counts) = naive(&trace);
    assert_eq!((told.cold, &told.counts), (cold, &counts.into_iter().collect::<Vec<_>>()));
    let counted =
        trace.lines().find_map(|line| line.split_once("guest instrs:").map(|(_, count)| count)).unwrap();
    assert_eq!(counted.trim().replace(',', ""), told.accesses.instructions.to_string());
    assert!(document["command"].as_str().unwrap().contains("laps"), "{document:#}");
    assert_eq!(document["notes"], Value::Array(Vec::new()));
}

#[test]
fn a_trace_is_shown_drawn_and_told_again() {
    let lab = Lab::new();
    let lap = |lap: u64| (0..100).map(move |page| format!(" L {:x},8\n", lap % 2 + page * PAGE));
    std::fs::write(lab.path("t.log"), (0..5).flat_map(lap).collect::<String>()).unwrap();
    let output = finish(&mut lab.nilo(["import", "t.log"]));
    let (said, shown) = (text(&output.stderr), text(&output.stdout));
    assert!(said.contains("t.log is an address trace of valgrind's lackey: line 1 is an access"), "{said}");
    assert!(said.contains("kept:  nilo pages t.pages"), "{said}");
    assert!(shown.contains("500 touches of 400 KiB (100 pages of 4.00 KiB)"), "{shown}");
    assert!(shown.contains("with 512 KiB resident, 20 % (100) of the touches would miss"), "{shown}");
    assert_eq!(text(&finish(&mut lab.nilo(["pages", "t.pages"])).stdout), shown);
    for file in ["pages.json", "misses.svg", "misses.png"] {
        assert!(lab.path("t.pages").join(file).exists(), "{file}");
    }
    assert!(!lab.path("t.pages/heat.svg").exists(), "a trace has no map");
    for words in [
        &["pages", "t.pages", "--picture", "a.svg"][..],
        &["plot", "t.pages", "--view", "pages", "-o", "b.svg"],
    ] {
        assert!(finish(&mut lab.nilo(words)).status.success(), "{words:?}");
    }
    for drawn in ["a.svg", "b.svg"] {
        let drawn = std::fs::read_to_string(lab.path(drawn)).unwrap();
        assert!(drawn.contains("Touches that would miss") && drawn.contains("exact"), "{drawn}");
    }
    // Lines of a cache: two laps in three use the same ones.
    assert_eq!(import(&lab, &["t.log", "--unit", "64", "-o", "lines"])["unit_bytes"], 64);
}

#[test]
fn a_trace_is_part_of_the_page_of_a_run() {
    let lab = Lab::new();
    std::fs::write(lab.path("t.log"), " L 4000,8\n S 5000,8\n L 4000,8\n").unwrap();
    import(&lab, &["t.log", "-o", "look"]);
    lab.run(&[], &["true"]);
    let output =
        finish(&mut lab.nilo(["report", "run.nilo", "--html", "-o", "page.html", "--pages", "look"]));
    assert!(output.status.success(), "{}", text(&output.stderr));
    let page = std::fs::read_to_string(lab.path("page.html")).unwrap();
    for words in ["3 touches of 8.00 KiB (2 pages of 4.00 KiB)", "with so much resident", "chart-misses"] {
        assert!(page.contains(words), "{words}");
    }
    assert!(!page.contains("chart-wss"), "a trace has no windows");
}

/// Half of the touches in a sixteenth of the pages.
fn made(pages: u64, touches: u64) -> String {
    let (mut random, mut trace) = (0x9e37_79b9_7f4a_7c15_u64, String::new());
    for _ in 0..touches {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let range = if random & 1 == 0 { pages / 16 } else { pages };
        let _ = writeln!(trace, " L {:x},8", (random >> 8) % range * PAGE);
    }
    trace
}

#[test]
fn beyond_the_limit_a_sample_is_taken_and_said_with_its_error() {
    let lab = Lab::new();
    std::fs::write(lab.path("t.log"), made(20_000, 200_000)).unwrap();
    let exact = import(&lab, &["t.log", "-o", "exact"]);
    let sampled = import(&lab, &["t.log", "-o", "sampled", "--exact-up-to", "8000"]);
    assert_eq!((&exact["reuse"]["how"], &exact["exact"]), (&"exact".into(), &true.into()));
    assert_eq!((&sampled["reuse"]["how"], &sampled["exact"]), (&"sampled".into(), &false.into()));
    let number = |document: &Value, name: &str| document["reuse"][name].as_f64().unwrap();
    assert!(stored(&lab.path("sampled")).followed <= 8_100, "memory is bounded");
    assert!((0.1..0.6).contains(&number(&sampled, "sampled_share")), "{}", sampled["reuse"]["sampled_share"]);
    let (units, estimate) = (number(&exact, "units"), number(&sampled, "units"));
    assert!((units - estimate).abs() < 0.03 * units, "{units} {estimate}");
    let told = number(&sampled, "sampling_error");
    let bounds = |document: &Value| document["reuse"]["bounds"].as_array().unwrap().clone();
    for (one, other) in bounds(&exact).iter().zip(bounds(&sampled)) {
        assert_eq!(one["resident_bytes"], other["resident_bytes"]);
        let error = (one["miss_high"].as_f64().unwrap() - other["miss_high"].as_f64().unwrap()).abs();
        assert!(error < 0.03 && error <= 4.0 * told + 0.002, "{one} {other}, {told} was told");
    }
    let shown = text(&finish(&mut lab.nilo(["pages", "sampled"])).stdout);
    assert!(shown.contains("sampled (") && shown.contains("as its two halves differ"), "{shown}");
}

#[test]
fn a_packed_trace_from_a_pipe_is_the_same() {
    let lab = Lab::new();
    let trace = made(500, 5_000);
    std::fs::write(lab.path("t.log"), &trace).unwrap();
    let plain = import(&lab, &["t.log", "-o", "plain"]);
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packer.write_all(trace.as_bytes()).unwrap();
    let mut nilo = lab.nilo(["import", "-", "-o", "packed", "--json", "-q"]);
    let mut child = nilo.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(&packer.finish().unwrap()).unwrap();
    let output = finish_child(child);
    let packed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(packed["reuse"], plain["reuse"]);
}

#[test]
fn what_is_malformed_is_refused_with_its_line_and_leaves_nothing() {
    let lab = Lab::new();
    std::fs::write(lab.path("t.log"), " L 4000,8\nloss 0.25\n L 4000,8\n").unwrap();
    let output = finish(&mut lab.nilo(["import", "t.log"]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(125));
    assert!(said.contains("line 2: neither an access") && said.contains("\"loss 0.25\""), "{said}");
    assert!(said.contains("hint:") && said.contains("--log-file"), "{said}");
    assert!(!lab.path("t.pages").exists());
    let refused = finish(&mut lab.nilo(["import", "--as", "lackey", "t.log", "t.log"]));
    assert!(text(&refused.stderr).contains("is one file"), "{}", text(&refused.stderr));
}
