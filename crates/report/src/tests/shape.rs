use proptest::prelude::*;
use unicode_width::UnicodeWidthStr;

use super::example::{killed, leaking};
use crate::{Style, json, term};

/// Text without our own colour sequences.
fn uncoloured(text: &str) -> String {
    ["0", "1", "2", "31", "33"]
        .iter()
        .fold(text.to_owned(), |text, code| text.replace(&format!("\x1b[{code}m"), ""))
}

#[test]
fn lines_fit_every_width() {
    for width in 40..=200 {
        for unicode in [true, false] {
            let style = Style { width, color: true, unicode, whole: false };
            for run in [leaking(), killed()] {
                let text = uncoloured(&term::report(&run, &style));
                let widest = text.lines().map(UnicodeWidthStr::width).max();
                assert!(widest <= Some(width), "{width}: {text}");
                assert!(unicode || text.is_ascii());
            }
        }
    }
}

#[test]
fn hostile_names_send_no_escape_sequence() {
    let mut run = killed();
    run.processes[0].role = "\x1b[2J".into();
    run.limit.as_mut().unwrap().source = "a\u{9b}31m\nb".into();
    run.saved = Some("\u{202e}x".into());
    let style = Style { width: 80, color: true, unicode: true, whole: false };
    for text in [term::report(&run, &style), term::line(&run)] {
        let text = uncoloured(&text);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()) && !text.contains('\u{202e}'), "{text:?}");
    }
}

#[test]
fn only_commands_that_exist_are_named() {
    let text = term::report(&leaking(), &Style { width: 100, color: false, unicode: true, whole: false });
    for verb in ["nilo where", "nilo heap", "--html"] {
        assert!(!text.contains(verb), "{verb}");
    }
}

#[test]
fn the_document_follows_its_schema() {
    let schema = serde_json::from_str(json::SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for run in [leaking(), killed()] {
        let document = json::report(&run);
        let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert_eq!(errors, Vec::<String>::new());
    }
}

#[test]
fn the_schema_refuses_a_document_without_its_contract() {
    let schema = serde_json::from_str(json::SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    for field in ["command", "exit", "peak", "limit", "processes", "system", "steps", "cost", "interval_ms"] {
        let mut document = json::report(&leaking());
        document.as_object_mut().unwrap().remove(field);
        assert!(!validator.is_valid(&document), "{field}");
    }
}

#[test]
fn the_contract_has_its_fields() {
    let document = json::report(&leaking());
    for path in [
        "/exit/cause",
        "/interval_ms/achieved",
        "/peak/method",
        "/largest_process/hwm_bytes",
        "/limit/source",
        "/processes/0/parent",
        "/system/outlives_process_bytes",
        "/steps/0/peak_method",
        "/cost/pause_s",
    ] {
        assert!(document.pointer(path).is_some_and(|value| !value.is_null()), "{path}");
    }
    assert_eq!(document["exit"]["cause"], "exited");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_text_and_number_renders(
        name in any::<String>(), bytes in any::<u64>(), rate in any::<i64>(), at in any::<f64>(), width in 0usize..400,
    ) {
        let mut run = leaking();
        run.command = vec![name.clone()];
        run.processes[0].role = name;
        run.growth.bytes = Some(rate as f64);
        let peak = run.peak.as_mut().unwrap();
        (peak.bytes, peak.high_bytes, peak.at_s) = (bytes, bytes, at);
        run.curve.tree_high.points[5].max = bytes;
        run.curve.tree_high.points[6].at_s = at;
        run.growth.limit_at_step = Some(bytes);
        let text = term::report(&run, &Style { width, color: false, unicode: true, whole: false });
        prop_assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
    }
}
