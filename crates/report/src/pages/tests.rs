//! A made-up answer on a screen, in a document and in pictures.

use nilometer_analysis::pages::Builder;
use nilometer_analysis::pages::model::Pages;
use nilometer_analysis::pages::{Sees, Unit};

use resvg::tiny_skia::Pixmap;
use serde_json::Value;

use super::{json, picture, render, render_start};
use crate::Style;

const STYLE: Style = Style { width: 100, color: false, unicode: true, whole: false };

/// A cell of which all is touched.
const HOT: (u8, u8, u8) = (150, 10, 30);

/// Two chunks of a process over four windows: the first is always touched, the second in every other.
fn example() -> Pages {
    let lines = r#"{"about":{"version":1,"pid":7,"command":"python <train>","kernel":"6.18","backend":"split","why":"as asked","sees":"RW","unit":"chunk","unit_bytes":262144,"exact":true,"page_bytes":4096,"written":"a test","asked_s":[1.0]}}
{"mapping":{"id":0,"pid":7,"start":0,"perms":"rw-p","name":""}}
{"look":{"round":0,"last":true,"asked_ns":1000000000,"effective_ns":1010000000,"mark_ns":0,"processes":[{"pid":7,"rss_bytes":524288,"spans":[0,64,64,64,0,0,64,64,32,0],"written":[[0,3]]}]}}
{"look":{"round":1,"last":true,"asked_ns":1000000000,"effective_ns":1010000000,"mark_ns":1100000000,"processes":[{"pid":7,"rss_bytes":524288,"spans":[0,64,64,64,0,0,64,64,0,0],"written":[[0,3]]}]}}
{"look":{"round":2,"last":true,"asked_ns":1000000000,"effective_ns":1010000000,"mark_ns":2200000000,"processes":[{"pid":7,"rss_bytes":524288,"spans":[0,64,64,64,0,0,64,64,32,0],"written":[[0,3]]}]}}
{"look":{"round":3,"last":true,"asked_ns":1000000000,"effective_ns":1010000000,"mark_ns":3300000000,"processes":[{"pid":7,"rss_bytes":524288,"spans":[0,64,64,64,0,0,64,64,0,0],"written":[[0,3]]}]}}
{"owner":{"pid":7,"start":262144,"end":524288,"name":"weights"}}
{"end":{"duration_ns":4400000000,"cpu_ns":1000000,"why":"the process ended","exit_code":0}}
"#;
    let mut builder = Builder::default();
    let bad = Builder::read(&mut lines.as_bytes(), &mut builder).unwrap();
    assert_eq!(bad, 0);
    builder.finish()
}

/// A look with page faults.
fn births() -> Pages {
    let lines = r#"{"about":{"version":1,"pid":7,"command":"python","backend":"mappings","why":"as asked","unit":"mapping","exact":true,"page_bytes":4096,"births":"page faults","written_why_not":"with --births","asked_s":[1.0]}}
{"mapping":{"id":0,"pid":7,"start":0,"perms":"rw-p","name":""}}
{"look":{"round":0,"last":true,"asked_ns":1000000000,"effective_ns":1010000000,"processes":[{"pid":7,"rss_bytes":524288,"spans":[0,128,128,64,0],"births":{"faults":1200,"pages":[[0,32],[500,2]],"code":[["libtorch_cpu.so",900],["libc.so.6",300]],"lost":5,"elsewhere":7}}]}}
{"end":{"duration_ns":1100000000,"why":"interrupted"}}
"#;
    let mut builder = Builder::default();
    assert_eq!(Builder::read(&mut lines.as_bytes(), &mut builder).unwrap(), 0);
    builder.finish()
}

#[test]
fn births_have_a_line_a_column_and_a_place_in_the_document() {
    let pages = births();
    let screen = render(&pages, &STYLE).split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "born 136 KiB a window at least, 1,200 faults in all, by code of 75 % libtorch_cpu.so · 25 % libc.so.6",
        "; 8.00 KiB of it given back by then, or left out; not in it: 5 faults that could not be kept, 7 of processes \
         that came and went (page faults)",
        "touched born resident asked",
        "touched resident never born owner",
        "256 KiB 512 KiB 0 B 128 KiB anonymous",
    ] {
        assert!(screen.contains(words), "{words}: {screen}");
    }
    assert!(render_start(&pages, &STYLE).contains("new memory"));
    let document = json::document(&pages);
    assert_eq!(breaches(&document), Vec::<String>::new());
    assert_eq!(document["windows"][0]["born_bytes"], 34 * 4096);
}

/// Three laps over three pages, and one access over a border.
fn trace(sampled: bool) -> Pages {
    let (share, error) = if sampled { (0.25, "0.0123") } else { (1.0, "null") };
    let lines = format!(
        r#"{{"about":{{"version":1,"pid":7,"command":"./laps","backend":"lackey","why":"imported","sees":"RW","unit":"page","unit_bytes":4096,"exact":{},"page_bytes":4096}}}}
{{"distances":{{"unit_bytes":4096,"touches":10000,"cold":3,"counts":[[1,9990],[3,7]],"followed":3,"share":{share},"error":{error},"accesses":{{"loads":9000,"stores":990,"modifies":9,"crossing":1,"instructions":55555}}}}}}
{{"end":{{"why":"imported"}}}}
"#,
        !sampled
    );
    let mut builder = Builder::default();
    assert_eq!(Builder::read(&mut lines.as_bytes(), &mut builder).unwrap(), 0);
    builder.finish()
}

#[test]
fn a_trace_has_a_histogram_and_one_curve() {
    let unfolded = |pages: &Pages| render(pages, &STYLE).split_whitespace().collect::<Vec<_>>().join(" ");
    let screen = unfolded(&trace(false));
    for words in [
        "10,000 touches of 12.0 KiB (3 pages of 4.00 KiB): ./laps",
        "9,000 loads, 990 stores, 9 that do both; 1 lies in two pages or more",
        "55,555 fetches of instructions: code, not data",
        "exact: < 0.1 % (3) of the touches were first ones, half of the others within 4.00 KiB",
        "with 8.00 KiB resident, 0.1 % (10) of the touches would miss",
        "with 16.0 KiB resident, < 0.1 % (3) of the touches would miss",
        " 10 0.1 % 9,990 4.00 KiB",
        " 3 < 0.1 % 7 16.0 KiB",
    ] {
        assert!(screen.contains(words), "{words}\n{screen}");
    }
    assert!(!screen.contains("stood still") && !screen.contains("owner"), "{screen}");
    let sampled = unfolded(&trace(true));
    assert!(sampled.contains("10,000 touches of about 12.0 KiB (about 3 pages"), "{sampled}");
    assert!(sampled.contains("sampled (25 % of the pages, ± 1.2 % of the touches as its two halves differ)"));
}

#[test]
fn the_document_of_a_trace_keeps_the_contract() {
    for (sampled, how, error) in [(false, "exact", Value::Null), (true, "sampled", 0.0123.into())] {
        let document = json::document(&trace(sampled));
        assert_eq!(breaches(&document), Vec::<String>::new(), "{document:#}");
        let reuse = &document["reuse"];
        assert_eq!((&reuse["how"], &reuse["sampling_error"]), (&how.into(), &error));
        assert_eq!((&reuse["lower"], &reuse["units"]), (&reuse["upper"], &3.into()));
        let miss = |at: usize, bound: &str| reuse["bounds"][at][bound].clone();
        assert_eq!((miss(0, "miss_low"), miss(0, "miss_high")), (0.001.into(), 0.001.into()));
        assert_eq!(reuse["histogram"][2], serde_json::json!({"up_to_bytes": 16384, "touches": 7}));
        assert_eq!((&document["trace"]["crossing"], &document["exact"]), (&1.into(), &(!sampled).into()));
    }
}

#[test]
fn the_picture_of_a_trace_is_its_curve() {
    let svg = picture::render_svg(&trace(true));
    assert!(svg.contains("would miss") && svg.contains("sampled (25 % of the pages"), "{svg}");
    assert!(!svg.contains("at least"), "{svg}");
    assert!(Pixmap::decode_png(&picture::render_png(&trace(false)).unwrap()).is_ok());
}

#[test]
fn the_screen_says_what_is_known_and_how() {
    let screen = render(&example(), &STYLE);
    for words in [
        "384 KiB of 512 KiB resident",
        "clear_refs and smaps of split mappings (split): reads and writes, exact",
        "12.0 KiB a window (a test)",
        "weights",
        "would miss",
        "not touched for 1 window: 256 KiB weights",
    ] {
        assert!(screen.contains(words), "{words}\n{screen}");
    }
    assert!(screen.lines().all(|line| line.chars().count() <= 100), "{screen}");
    assert!(screen.contains("████") && screen.contains('·'), "{screen}");
}

#[test]
fn windows_in_which_nobody_looked_for_written_pages_are_told() {
    let mut pages = example();
    pages.windows[1].written_bytes = None;
    let screen = render(&pages, &STYLE);
    let all = pages.windows.len();
    assert!(screen.contains(&format!("a window, in {} of {all} windows (a test)", all - 1)), "{screen}");
    assert!(screen.contains(" ? "), "unknown, not nothing: {screen}");
    assert_eq!(json::document(&pages)["windows"][1]["written_bytes"], Value::Null);
}

fn breaches(document: &Value) -> Vec<String> {
    let schema: Value = serde_json::from_str(json::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    validator.iter_errors(document).map(|error| error.to_string()).collect()
}

#[test]
fn the_document_keeps_its_contract() {
    let document = json::document(&example());
    assert_eq!(breaches(&document), Vec::<String>::new(), "{document:#}");
    assert_eq!((&document["reuse"]["how"], &document["trace"]), (&"bounds".into(), &Value::Null));
    assert_eq!(document["windows"][0]["wss_bytes"], 96 * 4096);
    assert_eq!(document["windows"][0]["written_bytes"], 3 * 4096);
    assert_eq!(document["reuse"]["cold_share"], 2.0 / 6.0);
    assert_eq!((&document["sees"], &document["unit"]), (&"RW".into(), &"chunk".into()));
}

#[test]
fn pictures_are_bounded_and_escape_names() {
    let pages = example();
    let png = picture::render_png(&pages).unwrap();
    let pixels = Pixmap::decode_png(&png).unwrap();
    let seen = |x, y| pixels.pixel(x, y).map(|pixel| (pixel.red(), pixel.green(), pixel.blue())).unwrap();
    let (left, top) = (picture::LEFT as u32, picture::TOP as u32);
    assert_eq!(seen(left, top), HOT, "the first cell, to its corner");
    assert_eq!(seen(left - 1, top), (255, 255, 255));
    let named = (0..left).any(|x| (top..top + 20).any(|y| seen(x, y) < (100, 100, 100)));
    assert!(named, "names stand to the left of the map");
    let svg = picture::render_svg(&pages);
    assert!(svg.contains("python &lt;train&gt;") && svg.contains(">weights<") && svg.ends_with("</svg>\n"));
    assert!(picture::render_png(&Pages::default()).is_err());
}

#[test]
fn what_a_way_gives_is_told_first() {
    let mut pages =
        Pages { backend: "mappings".into(), unit: Unit::Mapping, sees: Sees::RW, ..Pages::default() };
    pages.reuse_why_not = Some("too coarse".into());
    let told = render_start(&pages, &STYLE);
    assert!(told.contains("rows are mappings; no reuse distances (too coarse)"), "{told}");
}
