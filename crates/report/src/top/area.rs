//! Which part of the screen shows what. The one invariant: parts lie within the screen and never on each other,
//! however small it is.

use ratatui::layout::Rect;

/// Rows of the parts; those without any are not shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Areas {
    pub head: Rect,
    pub verdict: Rect,
    pub curve: Rect,
    pub table: Rect,
    pub events: Rect,
    pub message: Rect,
    pub foot: Rect,
}

/// A chart of fewer rows shows nothing.
const LEAST_CURVE: u16 = 5;
const MOST_CURVE: u16 = 14;
const MOST_EVENTS: u16 = 6;
const LEAST_TABLE: u16 = 4;

/// What there is to show.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    pub verdict: u16,
    pub curve: bool,
    pub events: u16,
    pub message: bool,
}

/// The foot and the head first, then a table, the verdict, the curve, events; the table takes what is left.
pub(crate) fn split(screen: Rect, wanted: Wanted) -> Areas {
    let mut left = screen.height;
    let mut take = |rows: u16| {
        let rows = rows.min(left);
        left -= rows;
        rows
    };
    let head = take(1);
    let foot = take(1);
    let message = take(u16::from(wanted.message));
    let table = take(LEAST_TABLE);
    let verdict = take(wanted.verdict);
    let curve =
        if wanted.curve { take(share(left_of(screen, [head, foot, message, table, verdict]))) } else { 0 };
    let events = if wanted.events > 0 { take((wanted.events + 1).min(MOST_EVENTS)) } else { 0 };
    let events = if events < 2 { 0 } else { events };
    let used = head + foot + message + verdict + curve + events;
    let table = screen.height.saturating_sub(used);
    let mut y = screen.y;
    let mut place = |height: u16| {
        let part = Rect { x: screen.x, y, width: screen.width, height };
        y += height;
        part
    };
    Areas {
        head: place(head),
        verdict: place(verdict),
        curve: place(curve),
        table: place(table),
        events: place(events),
        message: place(message),
        foot: place(foot),
    }
}

fn left_of<const N: usize>(screen: Rect, used: [u16; N]) -> u16 {
    screen.height.saturating_sub(used.iter().sum())
}

/// Half of what is left, if that is enough for a chart.
fn share(left: u16) -> u16 {
    let rows = (left / 2).min(MOST_CURVE);
    if rows >= LEAST_CURVE { rows } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_every_screen_without_lying_on_each_other() {
        for height in 0..60 {
            for verdict in 0..12 {
                for (curve, events, message) in [(true, 3, true), (false, 0, false), (true, 0, true)] {
                    let screen = Rect { x: 0, y: 0, width: 80, height };
                    let a = split(screen, Wanted { verdict, curve, events, message });
                    let parts = [a.head, a.verdict, a.curve, a.table, a.events, a.message, a.foot];
                    let sum: u16 = parts.iter().map(|part| part.height).sum();
                    assert_eq!(sum, height);
                    let mut y = 0;
                    for part in parts {
                        assert_eq!(part.y, y);
                        y += part.height;
                    }
                }
            }
        }
    }

    #[test]
    fn a_row_is_the_head_and_two_have_the_keys() {
        let screen = |height| Rect { x: 0, y: 0, width: 20, height };
        let heights = |areas: Areas| (areas.head.height, areas.table.height, areas.foot.height);
        assert_eq!(heights(split(screen(1), Wanted::default())), (1, 0, 0));
        assert_eq!(heights(split(screen(2), Wanted::default())), (1, 0, 1));
        assert_eq!(heights(split(screen(5), Wanted::default())), (1, 3, 1));
    }
}
