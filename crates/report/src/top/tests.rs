//! Frames as text, and what must hold on any screen.

use nilometer_analysis::live::{Candidate, Per, Progress, Row, Table, View};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::{Content, Effect, Key, Pane, State, draw};
use crate::Style;
use crate::tests::example::{killed, leaking};

const MIB: u64 = 1 << 20;

fn row(pid: i32, name: &str, mib: u64, rate: Option<f64>) -> Row {
    let rate = rate.map(|rate| rate * MIB as f64);
    Row {
        pid: Some(pid),
        name: name.into(),
        bytes: mib * MIB,
        peak_bytes: Some((mib + 20) * MIB),
        count: None,
        rate,
    }
}

fn kind(name: &str, count: u64, mib: u64, rate: f64) -> Row {
    Row {
        pid: None,
        name: name.into(),
        bytes: mib * MIB,
        peak_bytes: Some(mib * MIB),
        count: Some(count),
        rate: Some(rate * 1024.0),
    }
}

fn view() -> View {
    let mut run = leaking();
    run.events.clear();
    View {
        run,
        progress: Progress::Runs,
        now_bytes: Some((6_300 * MIB, 6_400 * MIB)),
        rate: Some(1.5 * MIB as f64),
        step: Some(118),
        processes: Table {
            per: Per::Step,
            rows: vec![
                row(4712, "DataLoader worker 0: python3 train.py", 420, Some(3.0)),
                row(4711, "main: python3 train.py", 5_000, Some(1.8)),
                row(4713, "DataLoader worker 1: python3 train.py", 400, None),
                row(4714, "resource tracker: python3 -c \x1b[31mred", 12, Some(0.0)),
            ],
            without: "no process is there",
        },
        kinds: Table {
            per: Per::Step,
            rows: vec![kind("numpy.ndarray", 39_202, 32, 900.0), kind("str", 27_554, 3, 2.5)],
            without: "nilo run --heap -- …",
        },
        sites: Table { per: Per::Step, rows: Vec::new(), without: "nilo run --allocs -- …" },
    }
}

fn candidates() -> Vec<Candidate> {
    let candidate = |pid, python, mib, command: &str| Candidate {
        pid,
        mine: true,
        python,
        rss_bytes: mib * MIB,
        rate: Some(0.0),
        lived_s: Some(75.0),
        command: command.into(),
    };
    vec![
        candidate(300, false, 2_000, "java -jar a.jar"),
        candidate(100, true, 150, "python3 serve.py"),
        candidate(200, true, 900, "python3 train.py --epochs 3"),
    ]
}

fn frame_with(content: &Content<'_>, state: &State, (width, height): (u16, u16), style: Style) -> String {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| draw(frame, state, content, style)).unwrap();
    let buffer = terminal.backend().buffer().clone();
    let rows = buffer.content().chunks(usize::from(width.max(1)));
    let text = |row: &[ratatui::buffer::Cell]| {
        row.iter().map(ratatui::buffer::Cell::symbol).collect::<String>().trim_end().to_owned() + "\n"
    };
    rows.map(text).collect()
}

fn frame(content: &Content<'_>, state: &State, size: (u16, u16)) -> String {
    frame_with(content, state, size, Style { width: 0, color: true, unicode: true, whole: false })
}

#[test]
fn a_run_on_a_common_screen() {
    insta::assert_snapshot!(frame(&Content::Run(&view()), &State::default(), (100, 32)));
}

#[test]
fn a_run_on_the_smallest_screens() {
    let view = view();
    let content = Content::Run(&view);
    insta::assert_snapshot!(frame(&content, &State::default(), (20, 5)));
    assert_eq!(frame(&content, &State::default(), (1, 1)), "6\n", "6.25 GiB");
    assert!(frame(&content, &State::default(), (40, 2)).ends_with("q quit  ? keys  p pause  s snapshot\n"));
}

#[test]
fn kinds_without_unicode() {
    let view = view();
    let state = State { pane: Pane::Kinds, paused: true, ..State::default() };
    let style = Style { width: 0, color: false, unicode: false, whole: false };
    let shown = frame_with(&Content::Run(&view), &state, (80, 20), style);
    assert!(shown.is_ascii(), "{shown}");
    insta::assert_snapshot!(shown);
}

#[test]
fn a_run_that_ended_tells_all_of_its_verdict() {
    let ended = View { run: killed(), progress: Progress::Ended, now_bytes: None, rate: None, ..view() };
    insta::assert_snapshot!(frame(&Content::Run(&ended), &State::default(), (90, 30)));
}

#[test]
fn the_list_has_pythons_first_and_the_largest_above() {
    let all = candidates();
    insta::assert_snapshot!(frame(&Content::List(&all), &State::of_list(), (80, 8)));
}

#[test]
fn help_tells_every_key_of_the_foot() {
    let view = view();
    let mut state = State::default();
    let foot = super::help::foot(&state, &Content::Run(&view), 200);
    assert_eq!(state.update(Key::Char('?'), &Content::Run(&view)), Effect::Draw);
    let page = frame(&Content::Run(&view), &state, (100, 24));
    for key in foot.split("  ").map(|key| key.split(' ').next().unwrap()) {
        let word = if key == "↑↓" { "arrows" } else { key };
        assert!(page.contains(word), "{word}: {page}");
    }
    state.update(Key::Char('x'), &Content::Run(&view));
    assert!(!state.help, "any key leaves it");
}

#[test]
fn no_size_panics_and_nothing_hostile_is_drawn() {
    let (view, all) = (view(), candidates());
    for content in [Content::Run(&view), Content::List(&all)] {
        for pane in Pane::ALL {
            for (filter, help) in [("", false), ("worker", false), ("nothing has this", false), ("", true)] {
                let chosen = Some("4713".to_owned());
                let message = Some("wrote a.heap".to_owned());
                let state = State { pane, help, chosen, message, filter: filter.into(), ..State::default() };
                for width in [0, 1, 2, 7, 19, 20, 80, 300] {
                    for height in [0, 1, 2, 3, 4, 5, 9, 24, 60] {
                        let shown = frame(&content, &state, (width, height));
                        assert!(!shown.contains('\x1b'));
                    }
                }
            }
        }
    }
}

#[test]
fn rows_are_chosen_by_what_they_are() {
    let mut view = view();
    let mut state = State::default();
    state.update(Key::Down, &Content::Run(&view));
    assert_eq!(state.chosen.as_deref(), Some("4712"), "the first key chooses the first row");
    state.update(Key::Down, &Content::Run(&view));
    assert_eq!(state.chosen.as_deref(), Some("4711"));
    view.processes.rows[1].rate = Some(1e9); // now it is the first row, and still the one
    assert_eq!(state.update(Key::Char('s'), &Content::Run(&view)), Effect::Snapshot(4711));
    state.update(Key::End, &Content::Run(&view));
    assert_eq!(state.chosen.as_deref(), Some("4713"), "without a rate: last");
    state.update(Key::Char('o'), &Content::Run(&view));
    state.update(Key::Home, &Content::Run(&view));
    assert_eq!(state.chosen.as_deref(), Some("4711"), "by size");
}

#[test]
fn a_filter_is_typed_and_taken_away() {
    let view = view();
    let content = Content::Run(&view);
    let mut state = State::default();
    for key in [Key::Char('/'), Key::Char('q'), Key::Backspace, Key::Char('W'), Key::Char('o'), Key::Enter] {
        state.update(key, &content);
    }
    assert_eq!((state.filter.as_str(), state.typing), ("Wo", false));
    let shown = frame(&content, &state, (100, 32));
    assert!(shown.contains("DataLoader worker 1") && !shown.contains("main: python3"), "{shown}");
    state.update(Key::Escape, &content);
    assert!(state.filter.is_empty());
    assert_eq!(state.update(Key::Escape, &content), Effect::Nothing, "there is no list to go back to");
    let mut from_list = State { from_list: true, ..State::default() };
    assert_eq!(from_list.update(Key::Escape, &content), Effect::Back);
}

#[test]
fn enter_looks_at_the_chosen_process_of_the_list() {
    let all = candidates();
    let content = Content::List(&all);
    let mut state = State::of_list();
    assert_eq!(state.update(Key::Enter, &content), Effect::Look(200), "the first");
    state.update(Key::End, &content);
    assert_eq!(state.update(Key::Enter, &content), Effect::Look(300));
    assert_eq!(state.update(Key::Enter, &Content::List(&[])), Effect::Nothing);
    assert_eq!(state.update(Key::Char('s'), &Content::List(&[])), Effect::Draw);
    assert!(state.message.is_some());
    assert_eq!(state.update(Key::Interrupt, &content), Effect::Quit);
}
