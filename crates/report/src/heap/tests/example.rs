//! A census, a difference and every other reading.

use nilometer_analysis::heap::model::{
    Anchor, Array, ArrayTotals, Arrays, BackingSum, By, Change, ChangeRow, Cycle, Cycles, Delta, Diff,
    Direction, Frame, Item, KindCount, Link, Links, Of, Path, Paths, PauseMode, Quality, Retainer, Retainers,
    Row, Segment, Stack, Sum, Summary, Table,
};

use crate::heap::Retained;

pub fn summary() -> Summary {
    Summary {
        python: "3.11.7".into(),
        pid: Some(4711),
        command: "python3 train.py".into(),
        objects: 2_703_203,
        bytes: 117_259_620,
        payload_bytes: 389_021_696,
        resident_payload_bytes: Some(389_021_696),
        payload_by_backing: vec![BackingSum {
            backing: "memory",
            bytes: 389_021_696,
            resident_bytes: Some(389_021_696),
        }],
        pause_ms: 48.2,
        threads: 3,
        quality: Quality {
            refcount_exact_share: Some(0.9953),
            refcount_checked: 2_700_000,
            unreached: 12,
            ..Quality::default()
        },
        labelled: true,
        ..Summary::default()
    }
}

/// Everything that can be said against a census.
pub fn doubtful() -> Summary {
    Summary {
        pause_mode: PauseMode::Off,
        partial: true,
        partial_reasons: vec!["the stop was ended after 500 ms with 12 % not copied".into()],
        limits: vec!["Python 3.15: stacks cannot be read".into()],
        resident_payload_bytes: Some(1 << 28),
        payload_by_backing: vec![
            BackingSum { backing: "memory", bytes: 350 << 20, resident_bytes: None },
            BackingSum { backing: "file", bytes: 21 << 20, resident_bytes: Some(4 << 20) },
        ],
        native_only: sum(22, 0, 128_021_000),
        quality: Quality {
            refcount_exact_share: Some(0.981),
            dangling: 750,
            pools: 2_975,
            pools_rejected: 1,
            ..Quality::default()
        },
        ..summary()
    }
}

pub fn sum(count: u64, bytes: u64, payload_bytes: u64) -> Sum {
    Sum { count, bytes, payload_bytes, resident_payload_bytes: None }
}

/// Rows by name, count, bytes and payload, with the shares that follow from them.
pub fn table(by: By, rows: &[(&str, u64, u64, u64)], total: Sum, rows_total: u64) -> Table {
    let all = (total.bytes + total.payload_bytes) as f64;
    let mut cumulative = 0;
    let make = |(place, row): (usize, &(&str, u64, u64, u64))| {
        let own = row.2 + row.3;
        cumulative += own;
        Row {
            row: place,
            kind: row.0.into(),
            count: row.1,
            bytes: row.2,
            payload_bytes: row.3,
            resident_payload_bytes: Some(row.3),
            count_share: row.1 as f64 / total.count as f64,
            share: own as f64 / all,
            cumulative_bytes: cumulative,
            cumulative_share: cumulative as f64 / all,
            also_elsewhere: None,
        }
    };
    let rows: Vec<Row> = rows.iter().enumerate().map(make).collect();
    let listed = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    let rest = sum(
        total.count - listed(|row| row.count),
        total.bytes - listed(|row| row.bytes),
        total.payload_bytes - listed(|row| row.payload_bytes),
    );
    Table { by, total, rows, rows_total, rest, ..Table::default() }
}

/// The heap of the `TreeLSTM` leak hunt (2016), as if its arrays had been sized.
pub fn by_kind() -> Table {
    let rows = [
        ("numpy.ndarray", 182_936, 7_317_440, 389_021_696),
        ("dict of topo.base.cf.SharedWeightCF", 47_536, 24_718_720, 0),
        ("numpy.float64", 1_204_254, 19_268_064, 0),
    ];
    table(By::Kind, &rows, sum(2_703_203, 117_259_620, 389_021_696), 409)
}

fn change(count: i64, bytes: i64, payload_bytes: i64) -> Change {
    Change {
        count,
        bytes,
        payload_bytes,
        count_before: 50_000,
        count_after: (50_000 + count) as u64,
        total_before: 4_000_000,
        total_after: (4_000_000 + bytes + payload_bytes) as u64,
        new: sum(count.max(0) as u64 + 5, bytes.max(0) as u64, payload_bytes.max(0) as u64),
        gone: sum((-count).max(0) as u64 + 5, 0, 0),
        ..Change::default()
    }
}

pub fn changes(rows: &[(&str, i64, i64, i64)]) -> Diff {
    let total = |of: fn(&(&str, i64, i64, i64)) -> i64| rows.iter().map(of).sum::<i64>();
    let row = |(place, row): (usize, &(&str, i64, i64, i64))| ChangeRow {
        row: place,
        kind: row.0.into(),
        change: change(row.1, row.2, row.3),
    };
    Diff {
        before: Summary { taken_realtime_ns: 1_000_000_000_000, ..summary() },
        after: Summary { taken_realtime_ns: 1_125_000_000_000, ..summary() },
        total: change(total(|row| row.1), total(|row| row.2), total(|row| row.3)),
        rows: rows.iter().enumerate().map(row).collect(),
        rows_total: rows.len() as u64,
        ..Diff::default()
    }
}

/// Growth of a leaking tree by attribute.
pub fn leak() -> Diff {
    let mut diff = changes(&[
        ("Node.c", 16_582, 1_857_184, 13_265_600),
        ("Node.ct", 16_582, 1_857_184, 13_265_600),
        ("(nobody)", 0, 0, -4_096),
    ]);
    diff.by = By::Attribute;
    diff.rows[2].change.resized = Delta { count: 1, bytes: 0, payload_bytes: -4_096 };
    diff.rows_total = 12;
    diff.unchanged_rows = 391;
    diff
}

pub fn item(kind: &str, address: u64) -> Item {
    Item {
        address: format!("{address:#x}"),
        kind: kind.into(),
        bytes: 112,
        payload_bytes: 800,
        refcount: Some(2),
        elements: Some(100),
        element: Some("float64".into()),
        shape: vec![100],
    }
}

fn path(anchor: Anchor, texts: &[&str]) -> Path {
    let segment = |text: &&str| Segment {
        text: (*text).into(),
        kind: "list".into(),
        address: "0x10".into(),
        ..Segment::default()
    };
    Path { text: texts.concat(), anchor, segments: texts.iter().map(segment).collect() }
}

pub fn paths() -> Paths {
    Paths {
        object: item("numpy.ndarray", 0x7f12_3456_7890),
        retained: sum(1, 112, 800),
        paths: vec![
            path(Anchor::Module, &["__main__.treebank", "[17]", ".left", ".c"]),
            path(Anchor::Frame, &["tree_lstm.py:33 train() batch", "[2]", ".left", ".c"]),
        ],
        more: true,
        referrers_total: 2,
        of_objects: 149_236,
    }
}

pub fn links() -> Links {
    let link = |label: &str, kind: &str, path: Option<&str>| Link {
        label: label.into(),
        item: item(kind, 0x1000),
        path: path.map(Into::into),
    };
    Links {
        direction: Direction::Referrers,
        of: sum(1, 112, 800),
        table: table(By::Kind, &[("Node", 2, 224, 0)], sum(2, 224, 0), 1),
        links: vec![link(".c", "Node", Some("__main__.treebank[17].left")), link("", "frame", None)],
        more: 7,
    }
}

pub fn of() -> Of {
    Of {
        path: "train.model".into(),
        object: item("Model", 0x5000),
        deep: sum(9_000, 1 << 20, 16 << 20),
        own: sum(120, 80 << 10, 15_908_552),
        retained: sum(100, 70 << 10, 15_000_000),
        arrays: ArrayTotals {
            arrays: 44,
            nominal_elements: 2_200_000,
            nominal_bytes: 17_600_000,
            unique_elements: 2_197_512,
            unique_bytes: 15_908_552,
            buffers: 40,
            unsized_arrays: 1,
        },
        table: table(
            By::Kind,
            &[("numpy.ndarray", 44, 4_928, 15_908_552)],
            sum(120, 80 << 10, 15_908_552),
            9,
        ),
    }
}

pub fn arrays() -> Arrays {
    let array = Array {
        item: item("torch.nn.parameter.Parameter", 0x6000),
        path: Some("train.model.layers[3].weight".into()),
        nominal_bytes: 800,
        buffer_bytes: 1_600,
        buffer_resident_bytes: Some(1_600),
        backing: Some("shared"),
        sharers: 2,
        view: true,
        ..Array::default()
    };
    Arrays { arrays: vec![array], more: 43, total: of().arrays, native_only: sum(22, 0, 128_021_000) }
}

pub fn retained() -> Retained {
    let retainer = Retainer {
        item: item("list", 0x7000),
        retained: sum(500, 4_096, 8_192),
        path: Some("train.cache".into()),
    };
    Retained {
        of: sum(3, 400, 0),
        retained: sum(501, 5_000, 8_192),
        retainers: Retainers { retainers: vec![retainer], more: 2 },
    }
}

pub fn cycles() -> Cycles {
    let cycle = Cycle {
        own: sum(2, 96, 0),
        retained: sum(3, 200, 800),
        unreachable: true,
        kinds: vec![KindCount { kind: "Node".into(), count: 2 }],
        example: "Node.children[0].parent".into(),
        path: None,
        address: "0x8000".into(),
    };
    Cycles {
        cycles: vec![cycle],
        cycles_total: 5,
        total: sum(20, 2_000, 0),
        unreachable: sum(2, 96, 0),
        unreachable_cycles: 1,
    }
}

pub fn stacks() -> Vec<Stack> {
    let frame = |function: &str, line| Frame { file: "train.py".into(), function: function.into(), line };
    vec![
        Stack {
            native_id: Some(4711),
            name: Some("MainThread".into()),
            holds_gil: Some(true),
            frames: vec![frame("step", Some(33)), frame("main", Some(80)), frame("<module>", None)],
            cut: None,
        },
        Stack { native_id: None, cut: Some("a frame is not readable".into()), ..Stack::default() },
    ]
}
