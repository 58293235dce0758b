//! Which keys there are: a line of them at the foot, and a page of their own.

use ratatui::layout::Rect;
use unicode_width::UnicodeWidthStr;

use super::{Content, Sheet, State};
use crate::layout::Tone;

/// Most needed first: a narrow screen shows the first ones.
const RUN_KEYS: [&str; 8] =
    ["q quit", "? keys", "p pause", "s snapshot", "o sort", "tab pane", "/ filter", "↑↓ choose"];
const LIST_KEYS: [&str; 7] =
    ["q quit", "? keys", "enter look at it", "↑↓ choose", "/ filter", "o sort", "p pause"];

const PAGE: [(&str, &str); 14] = [
    ("q, Ctrl-C", "quit"),
    ("p, space", "pause: the screen stands still, the recording goes on"),
    ("s", "snapshot: a census of the chosen process (or the largest) into a file"),
    ("o or >, <", "order by: growth rate, size, peak, name"),
    ("arrows, PgUp, PgDn, Home, End", "choose a row"),
    ("enter", "look at the chosen process (in the list)"),
    ("esc", "take the filter away; back to the list"),
    ("/", "show rows that contain a text; enter keeps it, esc takes it away"),
    ("tab, shift-tab", "processes, kinds of objects, sites in the code, events"),
    ("?, h", "this page; any key leaves it"),
    ("Ctrl-L, Ctrl-Z", "draw anew; stop (fg continues)"),
    ("", ""),
    ("rate", "slope of the last 10 s, or per step where steps are marked"),
    ("curve", "solid: at least, dotted: at most, dashed: the limit, if near"),
];

pub(super) fn foot(state: &State, content: &Content<'_>, width: usize) -> String {
    if state.typing {
        return format!("filter: {}_   enter keep, esc clear", crate::text::escape(&state.filter));
    }
    let keys: &[&str] = if content.is_run() { &RUN_KEYS } else { &LIST_KEYS };
    let mut line = String::new();
    for key in keys.iter().chain(back(state, content)) {
        let space = if line.is_empty() { "" } else { "  " };
        if line.width() + space.len() + key.width() > width && !line.is_empty() {
            break;
        }
        line = format!("{line}{space}{key}");
    }
    line
}

fn back(state: &State, content: &Content<'_>) -> Option<&'static &'static str> {
    (state.from_list && content.is_run()).then_some(&"esc list")
}

pub(super) fn draw(sheet: &mut Sheet<'_>, area: Rect) {
    sheet.line(area, 0, "nilo top: keys", Tone::Strong);
    for (row, (key, meaning)) in PAGE.iter().enumerate() {
        sheet.line(area, row as u16 + 1, &format!(" {key:<30} {meaning}"), Tone::Plain);
    }
}
