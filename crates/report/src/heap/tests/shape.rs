//! What must hold for any model.

use nilometer_analysis::heap::model::{By, Paths, Summary};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::example;
use crate::Style;
use crate::heap::json::{Document, SCHEMA};
use crate::heap::{self, Page, heapy, json, muppy};

fn page(style: &Style) -> Page<'_> {
    Page { style, target: "4711", again: "4711", rows: "" }
}

fn screens(summary: &Summary, style: &Style) -> Vec<String> {
    let page = &page(style);
    vec![
        heap::render_table(summary, &example::by_kind(), page),
        heap::render_diff(&example::leak(), page),
        heap::render_paths(summary, &example::paths(), page),
        heap::render_paths(summary, &Paths::default(), page),
        heap::render_links(summary, &example::links(), page),
        heap::render_of(summary, &example::of(), page),
        heap::render_arrays(summary, &example::arrays(), page),
        heap::render_retained(summary, &example::retained(), page),
        heap::render_cycles(summary, &example::cycles(), page),
        heap::render_stacks(summary, &example::stacks(), page),
    ]
}

fn uncoloured(text: &str) -> String {
    let codes = ["0", "1", "2", "31", "33"];
    codes.iter().fold(text.to_owned(), |text, code| text.replace(&format!("\x1b[{code}m"), ""))
}

#[test]
fn lines_fit_every_width_but_the_next_command_which_is_one_line() {
    for width in 40..=200 {
        for unicode in [true, false] {
            let style = Style { width, color: true, unicode, whole: false };
            for screen in screens(&example::doubtful(), &style) {
                let text = uncoloured(&screen);
                let lines = text.lines().filter(|line| !line.starts_with("next"));
                assert!(lines.map(UnicodeWidthStr::width).max() <= Some(width), "{width}: {text}");
                assert!(unicode || text.is_ascii(), "{text}");
            }
        }
    }
}

fn documents() -> Vec<serde_json::Value> {
    let table = Document::new("table", &example::doubtful()).merge(&example::by_kind());
    let sections = table
        .clone()
        .with("of", &example::of())
        .with("arrays", &example::arrays())
        .with("retained", &example::retained())
        .with("cycles", &example::cycles())
        .with("stacks", &example::stacks());
    let paths = Document::new("paths", &example::summary()).merge(&example::paths());
    let links = Document::new("referrers", &example::summary()).merge(&example::links());
    vec![table.finish(), sections.finish(), paths.finish(), links.finish(), json::diff(&example::leak())]
}

fn validator() -> jsonschema::Validator {
    let schema = serde_json::from_str(SCHEMA).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

#[test]
fn documents_follow_their_schema() {
    let validator = validator();
    for document in documents() {
        let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
    }
}

#[test]
fn the_schema_refuses_a_document_without_its_contract() {
    let validator = validator();
    let fields = ["python", "objects", "bytes", "payload_bytes", "pause_ms", "partial", "quality", "rows"];
    for field in fields {
        let mut document = documents().swap_remove(0);
        document.as_object_mut().unwrap().remove(field);
        assert!(!validator.is_valid(&document), "{field}");
    }
    for (field, place) in [("kind", "/rows/0"), ("payload_bytes", "/rows/0"), ("unreached", "/quality")] {
        let mut document = documents().swap_remove(0);
        document.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(field);
        assert!(!validator.is_valid(&document), "{field}");
    }
}

#[test]
fn the_contract_is_at_the_top() {
    let document = documents().swap_remove(0);
    assert_eq!(document["python"], "3.11.7");
    assert_eq!(document["objects"], 2_703_203);
    assert_eq!(document["quality"]["refcount_exact_share"], 0.981);
    assert_eq!(document["rows"][0]["kind"], "numpy.ndarray");
    assert_eq!(document["rows"][0]["payload_bytes"], 389_021_696);
    assert_eq!(json::diff(&example::leak())["rows"][0]["payload_bytes"], 13_265_600);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_name_and_number_renders(
        name in any::<String>(), bytes in any::<u64>(), change in any::<i64>(), share in any::<f64>(), width in 0usize..400,
    ) {
        let style = Style { width, color: false, unicode: true, whole: false };
        let page = page(&style);
        let mut table = example::by_kind();
        table.rows[0].kind.clone_from(&name);
        table.rows[0].also_elsewhere = Some(bytes);
        (table.rows[1].bytes, table.rows[1].payload_bytes, table.rows[1].cumulative_share) = (bytes, bytes, share);
        table.selection = vec![name.clone()];
        let mut summary = example::doubtful();
        (summary.pause_ms, summary.quality.refcount_exact_share) = (share, Some(share));
        summary.partial_reasons = vec![name.clone()];
        let mut diff = example::leak();
        diff.rows[0].kind.clone_from(&name);
        (diff.rows[0].change.bytes, diff.rows[0].change.payload_bytes) = (change, change);
        (diff.total.bytes, diff.total.payload_bytes, diff.by) = (change, change, By::Size);
        let mut paths = example::paths();
        paths.paths[0].text.clone_from(&name);
        let texts = [
            heap::render_table(&summary, &table, &page),
            heap::render_diff(&diff, &page),
            heap::render_paths(&summary, &paths, &page),
            heapy::table(&table),
            heapy::diff(&diff, Some(10)),
            muppy::table(&table),
            muppy::diff(&diff, None),
        ];
        for text in texts {
            prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}
