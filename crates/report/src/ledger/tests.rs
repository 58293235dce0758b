use nilometer_analysis::ledger::{Line, Malloc, Method, Named, Part, PythonHeap, account, tree};

use super::*;

const MIB: u64 = 1 << 20;

fn part(name: Line, mib: u64) -> Part {
    Part {
        name,
        bytes: mib * MIB,
        pss_bytes: Some(mib * MIB / 2),
        uss_bytes: Some(mib * MIB / 4),
        detail: Vec::new(),
        method: Method::Apportioned,
    }
}

fn example() -> Account {
    let mut code = part(Line::Code, 212);
    code.detail = vec![Named { name: "torch".into(), bytes: 148 * MIB }];
    let mut ledger = Ledger {
        pid: 4711,
        command: "python \x1b[31mtrain.py".into(),
        rss_bytes: 1434 * MIB,
        pss_bytes: Some(1300 * MIB),
        uss_bytes: Some(1200 * MIB),
        parts: vec![
            code,
            part(Line::PythonObjects, 569),
            part(Line::PythonSlack, 49),
            part(Line::Arrays, 389),
            part(Line::MallocHeld, 96),
        ],
        python_heap: Some(PythonHeap { objects: 1_200_000, buffers: 31, ..PythonHeap::default() }),
        malloc: Some(Malloc { arenas: 1, trimmable_bytes: 80 * MIB, ..Malloc::default() }),
        ..Ledger::default()
    };
    ledger.close();
    account(ledger)
}

fn style() -> Style {
    Style { width: 100, color: false, unicode: true, whole: false }
}

#[test]
fn the_screen_has_every_line_and_the_residual() {
    let shown = render(&example(), &style());
    assert!(shown.starts_with("RSS 1,434 MiB of 4711 python "), "{shown}");
    assert!(!shown.contains('\x1b'), "{shown:?}");
    for expected in [
        "code and libraries (159 shared with others, torch 148)",
        "Python objects (1,200,000 objects)",
        "arrays and tensors (31 buffers)",
        "malloc, free but held (1 arena)",
        "residual",
        "malloc_trim(0) gives it back",
        "must stay 42 % · could go 10 % (slack, held) · Python structure 40 %",
    ] {
        assert!(shown.contains(expected), "{expected} in\n{shown}");
    }
}

#[test]
fn the_line_adds_up_as_printed() {
    let line = render_line(&example().ledger);
    assert_eq!(line, "1434M = code 212M + objects 618M + arrays 389M + other 215M\n");
}

#[test]
fn a_tree_tells_that_rss_is_no_total() {
    let both = [example(), example()];
    let shown = render_tree(&both, &tree(&both), &style());
    assert!(shown.contains("2 processes, 2.54 GiB counted once (PSS)"), "{shown}");
    assert!(shown.contains("which is no\ntotal"), "{shown}");
}

#[test]
fn the_document_follows_its_schema_and_closes() {
    let both = [example(), example()];
    let document = json::document(&both, &tree(&both));
    let schema = serde_json::from_str(json::SCHEMA).unwrap();
    let validator = jsonschema::draft202012::new(&schema).unwrap();
    let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    let parts = document["parts"].as_array().unwrap();
    let sum: i64 = parts.iter().filter_map(|part| part["bytes"].as_i64()).sum();
    assert_eq!(sum + document["residual_bytes"].as_i64().unwrap(), document["rss_bytes"].as_i64().unwrap());
    assert_eq!(document["processes"].as_array().unwrap().len(), 1);
}
