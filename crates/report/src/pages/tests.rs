//! A made-up answer on a screen, in a document and in pictures.

use nilometer_analysis::pages::Builder;
use nilometer_analysis::pages::model::Pages;
use nilometer_analysis::pages::{Sees, Unit};

use resvg::tiny_skia::Pixmap;

use super::{json, picture, render, render_start};
use crate::Style;

const STYLE: Style = Style { width: 100, color: false, unicode: true };

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
    assert_eq!(json::document(&pages)["windows"][1]["written_bytes"], serde_json::Value::Null);
}

#[test]
fn the_document_keeps_its_contract() {
    let document = json::document(&example());
    let schema: serde_json::Value = serde_json::from_str(json::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new(), "{document:#}");
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
