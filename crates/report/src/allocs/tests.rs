//! Screens as they are drawn, and the document against its schema.

use std::sync::Arc;

use nilometer_analysis::allocs::model::{
    Allocs, Amounts, Bin, By, Frame, FrameKind, Interval, Node, Peak, Row, Sampling, Site, Tree, What,
};
use proptest::prelude::*;
use unicode_width::UnicodeWidthStr as _;

use super::*;

fn python(function: &str, line: u32) -> Arc<Frame> {
    Arc::new(Frame {
        function: function.into(),
        file: Some("/me/job/train.py".into()),
        line: Some(line),
        library: Some("train.py".into()),
        kind: FrameKind::Python,
        inlined: false,
    })
}

fn native(function: &str) -> Arc<Frame> {
    Arc::new(Frame { function: function.into(), library: Some("libtorch_cpu.so".into()), ..Frame::default() })
}

fn node(frame: Arc<Frame>, value: f64, children: &[u32]) -> Node {
    Node { frame, value, count: (value / 1e6) as u64, children: children.to_vec(), ..Node::default() }
}

fn example() -> Allocs {
    let mut deep = node(native("at::empty"), 600e6, &[]);
    deep.own = 600e6;
    let mut main = node(python("main", 40), 1000e6, &[2, 3]);
    (main.hidden, main.hidden_value) = (37, 100e6);
    let tree = vec![
        node(Arc::default(), 1000e6, &[1]),
        main,
        node(python("forward", 12), 600e6, &[4]),
        node(python("collate", 30), 300e6, &[]),
        node(native("at::native::empty_cpu"), 600e6, &[5]),
        deep,
    ];
    let amounts = Amounts { peak_bytes: 600_000_000, peak_count: 600, ..Amounts::default() };
    Allocs {
        mode: "all".into(),
        command: "python train.py".into(),
        peak: Peak {
            bytes: 1_000_000_000,
            at_s: 12.3,
            step: Some(40),
            low_bytes: 1_000_000_000,
            high_bytes: 1_000_000_000,
        },
        live_end_bytes: 12_345_678,
        cumulative_bytes: 20_000_000_000,
        count: 1_234_567,
        temporary_count: 400_000,
        growth_bytes_per_step: Some(1_200_000.0),
        steps: 60,
        tree: Tree { nodes: tree },
        sites: vec![Site {
            stack: vec![native("at::empty"), python("forward", 12)],
            amounts,
            ..Site::default()
        }],
        sites_seen: 40,
        sizes: vec![
            Bin { from: 16, to: Some(32), count: 900, bytes: 20_000 },
            Bin { from: 32, to: Some(64), count: 90, bytes: 4_000 },
        ],
        lifetimes: vec![Bin { from: 1024, to: Some(2048), count: 5, bytes: 100 }],
        lost_events: 0,
        ..Allocs::default()
    }
}

fn style(width: usize, unicode: bool) -> Style {
    Style { width, color: false, unicode, whole: false }
}

fn screen(allocs: &Allocs, style: &Style) -> String {
    render(allocs, &Page { style, run: "@last", full: false })
}

#[test]
fn the_tree_shows_callers_first_and_what_is_hidden() {
    insta::assert_snapshot!(screen(&example(), &style(100, true)), @r"
nilo: allocations of python train.py · all: every block of the C allocator
 peak     954 MiB at 12.3 s, step 40
 live     11.8 MiB at the end
 all      18.6 GiB in 1,234,567 blocks, 32 % of them temporary
 growth   +1.14 MiB/step over 60 steps
 lost     0 events

live at the peak, by stack, callers first
                 %      blocks
    954 MiB  100.0       1,000  all
    954 MiB  100.0       1,000  └ main  job/train.py:40
    572 MiB   60.0         600    ├ forward  job/train.py:12
                                  │ at::native::empty_cpu  [libtorch_cpu.so]
                                  │ at::empty  [libtorch_cpu.so]
    286 MiB   30.0         300    ├ collate  job/train.py:30
   95.4 MiB   10.0                └ 37 more stacks

sizes
       16 B – ██████████████████████████████ 900 blocks, 19.5 KiB
       32 B – ███                            90 blocks, 3.91 KiB
lifetimes of blocks that were given back
    1.02 µs – ██████████████████████████████ 5 blocks, 100 B
 next     nilo report @last --allocs --by category|line (--what live|growth, --top all)
");
}

#[test]
fn a_table_of_lines_has_error_bars_where_blocks_were_sampled() {
    let mut allocs = example();
    allocs.by = By::Line;
    allocs.mode = "sampled".into();
    allocs.sampling = Some(Sampling { mean_bytes: 512 << 10, exact_bytes: 256 << 10 });
    allocs.peak.low_bytes = 900_000_000;
    allocs.peak.high_bytes = 1_100_000_000;
    let amounts = Amounts {
        peak_bytes: 600_000_000,
        peak_count: 600,
        interval: Some(Interval { low_bytes: 540_000_000, high_bytes: 660_000_000 }),
        ..Amounts::default()
    };
    allocs.rows = vec![Row { name: "/me/job/train.py:12".into(), detail: Some("forward".into()), amounts }];
    allocs.rows_seen = 9;
    insta::assert_snapshot!(screen(&allocs, &style(80, true)), @r"
nilo: allocations of python train.py · sampled: one sample in 512 KiB, blocks
from 256 KiB on all
 peak     954 MiB (95 %: 858 MiB–1.02 GiB) at 12.3 s, step 40
 live     11.8 MiB at the end
 all      18.6 GiB in 1,234,567 blocks, 32 % of them temporary
 growth   +1.14 MiB/step over 60 steps
 lost     0 events

live at the peak, by line
 at the peak     %     ±  blocks  line
     572 MiB  60.0  10 %     600  job/train.py:12  forward
 8 more rows (--top all)

sizes
       16 B – ██████████████████████████████ 900 blocks, 19.5 KiB
       32 B – ███                            90 blocks, 3.91 KiB
lifetimes of blocks that were given back
    1.02 µs – ██████████████████████████████ 5 blocks, 100 B
 next     nilo report @last --allocs --by stack (--what live|growth, --top all)
");
}

#[test]
fn what_is_not_there_is_said() {
    let mut allocs = example();
    allocs.tree = Tree::default();
    allocs.what = What::Growth;
    assert!(screen(&allocs, &style(80, true)).contains("nothing: no stack grows"));
}

#[test]
fn long_chains_lose_their_middle_unless_asked() {
    let mut nodes = vec![node(Arc::default(), 10.0, &[1])];
    for line in 1..=30 {
        nodes.push(node(python("f", line), 10.0, if line < 30 { &[0] } else { &[] }));
        if line < 30 {
            nodes.last_mut().unwrap().children = vec![line + 1];
        }
    }
    let allocs = Allocs { tree: Tree { nodes }, ..example() };
    let plain = style(100, true);
    let short = screen(&allocs, &plain);
    assert!(
        short.contains("⋮ 22 frames (--full)")
            && short.contains("train.py:30")
            && !short.contains("train.py:15")
    );
    let full = render(&allocs, &Page { style: &plain, run: "@last", full: true });
    assert!(full.contains("train.py:15"));
}

#[test]
fn small_stacks_on_the_way_get_one_row_together_unless_asked() {
    let mut allocs = example();
    let (main, forward) = (1, 2);
    allocs.tree.nodes[main].children = vec![2];
    (allocs.tree.nodes[main].hidden, allocs.tree.nodes[main].hidden_value) = (37, 3e6);
    (allocs.tree.nodes[main].own, allocs.tree.nodes[forward].value) = (1e6, 996e6);
    let plain = style(100, true);
    let short = screen(&allocs, &plain);
    assert!(
        short.contains("3.81 MiB    0.4              in 38 small stacks along the way (--full)"),
        "{short}"
    );
    assert!(!short.contains("37 more stacks"));
    let full = render(&allocs, &Page { style: &plain, run: "@last", full: true });
    assert!(
        full.contains("37 more stacks") && full.contains("(itself)") && !full.contains("along the way"),
        "{full}"
    );
}

#[test]
fn the_document_is_valid_and_keeps_its_fields() {
    let schema: serde_json::Value = serde_json::from_str(json::SCHEMA).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    for allocs in [example(), Allocs::default()] {
        let mut text = Vec::new();
        json::write(&allocs, &mut text).unwrap();
        let document: serde_json::Value = serde_json::from_slice(&text).unwrap();
        let errors: Vec<String> = validator.iter_errors(&document).map(|error| error.to_string()).collect();
        assert!(errors.is_empty(), "{errors:#?}");
        assert_eq!(document["view"], "allocs");
    }
}

proptest! {
    #[test]
    fn nothing_is_wider_than_the_screen_and_no_control_character_gets_through(
        name in "\\PC{0,200}|[\u{0}-\u{9f}]{0,40}",
        width in 60_usize..160,
        unicode in any::<bool>(),
    ) {
        let mut allocs = example();
        let hostile = Arc::new(Frame { function: name.clone(), file: Some(name.clone()), line: Some(1), ..Frame::default() });
        for node in &mut allocs.tree.nodes[1..] {
            node.frame = hostile.clone();
        }
        allocs.command = name;
        let text = screen(&allocs, &style(width, unicode));
        for line in text.lines() {
            prop_assert!(line.width() <= width, "{} > {width}: {line}", line.width());
            prop_assert!(!line.chars().any(char::is_control));
        }
    }
}
