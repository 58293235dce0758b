//! The live view of `nilo top`: [`State`] is what a person chose, [`draw`] makes a frame of it and of what is known. Knows
//! neither the terminal nor how anything is measured.

mod area;
mod entry;
mod head;
mod help;
mod rows;
mod state;
#[cfg(test)]
mod tests;

use nilometer_analysis::live::{Candidate, View};
use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style as Paint};

pub use state::{Effect, Key, Pane, Sort, State};

use crate::chart::Chart;
use crate::layout::{Line, Style, Tone};
use area::{Areas, Wanted};

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub enum Content<'a> {
    /// Processes to choose from.
    List(&'a [Candidate]),
    Run(&'a View),
}

impl Content<'_> {
    fn is_run(&self) -> bool {
        matches!(self, Self::Run(_))
    }
}

/// One frame. `style.width` is not used: the frame has its own.
pub fn draw(frame: &mut Frame<'_>, state: &State, content: &Content<'_>, style: Style) {
    let area = frame.area();
    let mut sheet = Sheet { buffer: frame.buffer_mut(), style };
    if state.help {
        help::draw(&mut sheet, area);
        return;
    }
    let areas = divide(area, state, content);
    sheet.line(areas.head, 0, &head::headline(state, content, &style), Tone::Strong);
    if let Content::Run(view) = content {
        draw_run(&mut sheet, &areas, view, state);
    }
    rows::draw(&mut sheet, areas.table, state, content);
    if let Some(message) = &state.message {
        sheet.line(areas.message, 0, &style.safe(message), Tone::Warn);
    }
    sheet.line(areas.foot, 0, &help::foot(state, content, usize::from(area.width)), Tone::Faint);
}

fn divide(area: Rect, state: &State, content: &Content<'_>) -> Areas {
    let message = state.message.is_some();
    let wanted = match content {
        Content::List(_) => Wanted { message, ..Wanted::default() },
        Content::Run(view) => Wanted {
            verdict: head::findings(view).len() as u16,
            curve: view.run.curve.tree_high.points.len() > 1,
            // They have a pane of their own.
            events: if state.pane == Pane::Events { 0 } else { rows::events(view).len().min(100) as u16 },
            message,
        },
    };
    area::split(area, wanted)
}

fn draw_run(sheet: &mut Sheet<'_>, areas: &Areas, view: &View, state: &State) {
    for (row, line) in head::findings(view).iter().enumerate() {
        sheet.finding(areas.verdict, row as u16, line);
    }
    curve(sheet, areas.curve, view);
    if state.pane != Pane::Events {
        rows::draw_events(sheet, areas.events, view);
    }
}

fn curve(sheet: &mut Sheet<'_>, area: Rect, view: &View) {
    let curve = &view.run.curve;
    let limit = view.run.limit.as_ref().map(|limit| limit.bytes);
    let chart = Chart { title: "", legend: "", low: &curve.tree_low, high: &curve.tree_high, limit };
    let rows = chart.rows(usize::from(area.width), usize::from(area.height), &sheet.style);
    for (row, text) in rows.iter().enumerate() {
        sheet.line(area, row as u16, text, Tone::Plain);
    }
}

/// A buffer, and how it may look.
pub(crate) struct Sheet<'a> {
    buffer: &'a mut Buffer,
    pub style: Style,
}

impl Sheet<'_> {
    /// One row of an area; what does not fit is cut. `text` has been made safe.
    pub fn line(&mut self, area: Rect, row: u16, text: &str, tone: Tone) {
        self.write(area, row, 0, text, self.paint(tone));
    }

    fn write(&mut self, area: Rect, row: u16, column: u16, text: &str, paint: Paint) {
        let Some(width) = area.width.checked_sub(column).filter(|_| row < area.height) else { return };
        let text = if self.style.unicode { text.to_owned() } else { crate::text::ascii_keeping_width(text) };
        self.buffer.set_stringn(area.x + column, area.y + row, text, usize::from(width), paint);
    }

    /// A label, its sentence, the next command.
    pub fn finding(&mut self, area: Rect, row: u16, line: &Line) {
        const LABEL: u16 = 10;
        let hint = line.hint.map(|hint| format!("   → {hint}")).unwrap_or_default();
        let room = usize::from(area.width.saturating_sub(LABEL));
        let text = self.style.shorten(&self.style.safe(&format!("{}{hint}", line.text)), room);
        self.write(area, row, 0, &format!(" {}", line.label), self.paint(Tone::Strong));
        self.write(area, row, LABEL, &text, self.paint(line.tone));
    }

    pub fn chosen(&mut self, area: Rect, row: u16) {
        let chosen = Rect { y: area.y + row, height: 1, ..area };
        if row < area.height {
            self.buffer.set_style(chosen, Paint::new().add_modifier(Modifier::REVERSED));
        }
    }

    /// Without colour, weight still tells.
    fn paint(&self, tone: Tone) -> Paint {
        let plain = Paint::new();
        let colored = |color| if self.style.color { plain.fg(color) } else { plain };
        match tone {
            Tone::Plain => plain,
            Tone::Strong => plain.add_modifier(Modifier::BOLD),
            Tone::Faint => plain.add_modifier(Modifier::DIM),
            Tone::Warn => colored(Color::Yellow),
            Tone::Bad => colored(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}
