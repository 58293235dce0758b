//! `nilo report --html` and `nilo plot`: files that are whole, of runs that are whole and of runs that are not.

use std::fs;
use std::path::Path;
use std::process::Output;

use crate::harness::{Lab, finish, text};

const PROGRAM: &str = "import time\nkept = [bytearray(b'x') * (6 << 20) for _ in range(4)]\nend = time.monotonic() + 0.3\nwhile time.monotonic() < end: pass\n";

fn recorded() -> Lab {
    let lab = Lab::new();
    let run = lab.run(&["--interval", "20ms"], &["python3", "-c", PROGRAM]);
    assert_eq!(run.code(), Some(0), "{}", run.stderr());
    lab
}

fn nilo(lab: &Lab, words: &[&str]) -> Output {
    finish(&mut lab.nilo(words))
}

fn read(lab: &Lab, name: &str) -> String {
    fs::read_to_string(lab.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn a_page_is_written_beside_the_run_and_elsewhere_only_once() {
    use std::os::unix::fs::PermissionsExt as _;
    let lab = recorded();
    let output = nilo(&lab, &["report", "run.nilo", "--html"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("wrote run.nilo/report.html"), "{}", text(&output.stderr));
    let page = read(&lab, "run.nilo/report.html");
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    let mode = fs::metadata(lab.path("run.nilo/report.html")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "as private as the run");
    assert!(nilo(&lab, &["report", "run.nilo", "--html"]).status.success(), "ours may be made again");
    fs::write(lab.path("mine.html"), "mine").unwrap();
    let refused = nilo(&lab, &["report", "run.nilo", "--html", "-o", "mine.html"]);
    assert_eq!(refused.status.code(), Some(125));
    assert!(text(&refused.stderr).contains("--force") && read(&lab, "mine.html") == "mine");
    assert!(nilo(&lab, &["report", "run.nilo", "--html", "-o", "mine.html", "--force"]).status.success());
    let printed = nilo(&lab, &["report", "run.nilo", "--html", "-o", "-"]);
    assert_eq!(text(&printed.stdout), page, "the same run gives the same page");
}

#[test]
fn the_peak_of_a_page_is_the_peak_of_the_run() {
    let lab = recorded();
    let report = lab.report(&lab.path("run.nilo"));
    let page = text(&nilo(&lab, &["report", "run.nilo", "--html", "-o", "-"]).stdout);
    let data = page.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>")).unwrap().0;
    let data: serde_json::Value = serde_json::from_str(data).unwrap();
    assert_eq!(data["peak"]["bytes"], report["peak"]["bytes"]);
    let highest = |value: &serde_json::Value| {
        let steps = value.as_array().unwrap().iter().map(|step| step.as_i64().unwrap());
        steps
            .scan(0, |sum, step| {
                *sum += step;
                Some(*sum)
            })
            .max()
    };
    let truth = report["curve"]["tree_high"]["points"].as_array().unwrap().iter();
    let truth = truth.map(|point| point["max"].as_i64().unwrap() / 1024).max();
    assert_eq!(highest(&data["tree"]["high"]["kib"]), truth);
}

#[test]
fn options_of_the_page_need_the_page() {
    let lab = Lab::new();
    for words in [&["report", "-o", "x.html"][..], &["report", "--redact"], &["report", "--html", "--json"]] {
        assert_eq!(nilo(&lab, words).status.code(), Some(2), "{words:?}");
    }
}

/// A copy of the run with one file changed.
fn damaged(lab: &Lab, name: &str, file: &str, change: impl Fn(Vec<u8>) -> Vec<u8>) {
    let (from, to) = (lab.path("run.nilo"), lab.path(name));
    fs::create_dir(&to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let bytes = fs::read(entry.path()).unwrap();
        let bytes = if entry.file_name() == file { change(bytes) } else { bytes };
        fs::write(to.join(entry.file_name()), bytes).unwrap();
    }
}

/// Exit code and words, never a panic.
fn words(lab: &Lab, run: &str) -> (Option<i32>, String) {
    let output = nilo(lab, &["report", run, "--html", "-o", "x.html", "--force"]);
    let told = text(&output.stderr);
    assert!(!told.contains("panicked"), "{told}");
    (output.status.code(), told)
}

#[test]
fn damaged_runs_get_a_sentence_or_a_page() {
    let lab = recorded();
    damaged(&lab, "empty.nilo", "manifest.json", |_| Vec::new());
    damaged(&lab, "newer.nilo", "manifest.json", |bytes| {
        let text = String::from_utf8(bytes).unwrap();
        let version = text.find("\"format_version\": ").or_else(|| text.find("\"format\": "));
        assert!(version.is_some(), "{text}");
        text.replacen(": 1,", ": 999,", 1).into_bytes()
    });
    for run in ["empty.nilo", "newer.nilo", "nothing.nilo"] {
        let (code, told) = words(&lab, run);
        assert_eq!(code, Some(125), "{run}: {told}");
        assert!(told.contains(run), "the sentence names it: {told}");
    }
    let length = fs::metadata(lab.path("run.nilo/trace.nlog")).unwrap().len() as usize;
    for cut in [0, 1, 17, length / 2, length - 1] {
        let run = format!("cut-{cut}.nilo");
        damaged(&lab, &run, "trace.nlog", |mut bytes| {
            bytes.truncate(cut);
            bytes
        });
        let (code, told) = words(&lab, &run);
        match code {
            Some(0) => assert!(read(&lab, "x.html").contains("id=\"verdict\""), "{run}"),
            _ => assert!(code == Some(125) && told.contains(&run), "{run}: {code:?} {told}"),
        }
    }
    damaged(&lab, "noise.nilo", "trace.nlog", |bytes| bytes.iter().map(|byte| byte ^ 0x5a).collect());
    words(&lab, "noise.nilo");
}

fn plot(lab: &Lab, words: &[&str], file: &str) -> Vec<u8> {
    let output = nilo(lab, &[&["plot"], words, &["-o", file]].concat());
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    fs::read(lab.path(file)).unwrap()
}

#[test]
fn pictures_are_whole_without_a_display() {
    let lab = recorded();
    let png = plot(&lab, &["run.nilo", "--width", "400", "--height", "200", "--scale", "1"], "run.png");
    assert_eq!(&png[..8], b"\x89PNG\r\n\x1a\n");
    assert_eq!(png[16..24], [0, 0, 1, 0x90, 0, 0, 0, 200], "as large as asked");
    let svg = String::from_utf8(plot(&lab, &["run.nilo"], "run.svg")).unwrap();
    assert!(svg.starts_with("<?xml") && svg.contains("peak ") && svg.ends_with("</svg>\n"));
    let pdf = plot(&lab, &["run.nilo", "--dark"], "run.pdf");
    assert!(pdf.starts_with(b"%PDF-") && pdf.ends_with(b"%%EOF"));
    let both = String::from_utf8(plot(&lab, &["run.nilo", "run.nilo"], "both.svg")).unwrap();
    assert!(both.matches("run, peak").count() == 2, "two runs, two names");
    let compared = plot(&lab, &["run.nilo", "run.nilo", "--view", "compare"], "compared.svg");
    let compared = String::from_utf8(compared).unwrap();
    assert!(compared.contains("run.nilo (dashed), by time"), "the curves over each other");
    let system = String::from_utf8(plot(&lab, &["run.nilo", "--view", "system"], "system.svg")).unwrap();
    for name in
        ["In use without buffers and cache", "MemFree", "Buffers", "Cached", "Swap in use", "AnonPages"]
    {
        assert!(system.contains(name), "{name}");
    }
}

#[test]
fn a_picture_that_cannot_be_drawn_says_why() {
    let lab = recorded();
    let told = |words: &[&str]| {
        let output = nilo(&lab, words);
        (output.status.code(), text(&output.stderr))
    };
    let (code, words) = told(&["plot", "run.nilo", "--view", "allocs", "-o", "x.svg"]);
    assert!(code == Some(5) && words.contains("nilo run --allocs"), "{words}");
    let (code, words) = told(&["plot", "run.nilo", "-o", "x.gif"]);
    assert!(code == Some(2) && words.contains(".svg"), "{words}");
    let (code, _) = told(&["plot", "run.nilo", "run.nilo", "--view", "where", "-o", "x.svg"]);
    assert_eq!(code, Some(2));
    let (code, words) = told(&["plot", "run.nilo", "--view", "compare", "-o", "x.svg"]);
    assert!(code == Some(2) && words.contains("two sides, not 1"), "{words}");
    let (code, words) = told(&["plot", "run.nilo", "--view", "ranks", "-o", "x.svg"]);
    assert!(code == Some(5) && words.contains("torchrun --no-python nilo run"), "{words}");
    fs::write(lab.path("there.svg"), "mine").unwrap();
    let (code, words) = told(&["plot", "run.nilo", "-o", "there.svg"]);
    assert!(code == Some(125) && words.contains("--force"), "{words}");
    assert!(!Path::new(&lab.path("x.svg")).exists(), "nothing half written");
}
