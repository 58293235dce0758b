//! What a person has chosen to see: keys in, the new choice and what is to be done out. Pure: no terminal, no clock.

use super::Content;
use super::entry::{self, Entry};

/// A key as it is meant, whatever the terminal sent for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    Char(char),
    Enter,
    Escape,
    Tab,
    BackTab,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Backspace,
    /// Ctrl-C, Ctrl-D.
    Interrupt,
    /// Ctrl-Z.
    Suspend,
    /// Ctrl-L.
    Redraw,
}

/// What somebody else must do about a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The frame is to be drawn anew.
    Draw,
    /// All of it, also what has not changed.
    DrawAll,
    Nothing,
    Quit,
    Suspend,
    /// Look at this process.
    Look(i32),
    /// Back to the list of processes.
    Back,
    /// Take a census of this process.
    Snapshot(i32),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pane {
    #[default]
    Processes,
    Kinds,
    Sites,
    Events,
}

impl Pane {
    pub const ALL: [Self; 4] = [Self::Processes, Self::Kinds, Self::Sites, Self::Events];

    pub fn name(self) -> &'static str {
        match self {
            Self::Processes => "processes",
            Self::Kinds => "kinds",
            Self::Sites => "sites",
            Self::Events => "events",
        }
    }

    fn step(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

/// What rows are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Sort {
    #[default]
    Rate,
    Size,
    Peak,
    Name,
}

impl Sort {
    pub const ALL: [Self; 4] = [Self::Rate, Self::Size, Self::Peak, Self::Name];

    fn step(self, by: usize) -> Self {
        Self::ALL[(self as usize + by) % Self::ALL.len()]
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct State {
    pub pane: Pane,
    pub sort: Sort,
    /// The row that is chosen, by what it is and not by its place.
    pub chosen: Option<String>,
    pub filter: String,
    /// Keys go into the filter.
    pub typing: bool,
    pub paused: bool,
    pub help: bool,
    pub message: Option<String>,
    /// There is a list of processes to go back to.
    pub from_list: bool,
}

/// Rows of a page key.
const PAGE: isize = 10;
const LONGEST_FILTER: usize = 80;

impl State {
    /// A list of processes is by size, a run by growth.
    pub fn of_list() -> Self {
        Self { sort: Sort::Size, ..Self::default() }
    }

    pub fn update(&mut self, key: Key, content: &Content<'_>) -> Effect {
        match key {
            Key::Interrupt => return Effect::Quit,
            Key::Suspend => return Effect::Suspend,
            Key::Redraw => return Effect::DrawAll,
            _ => {}
        }
        if self.help {
            self.help = false; // any key
            return Effect::Draw;
        }
        if self.typing { self.type_filter(key) } else { self.command(key, content) }
    }

    fn type_filter(&mut self, key: Key) -> Effect {
        match key {
            Key::Enter => self.typing = false,
            Key::Escape => {
                self.typing = false;
                self.filter.clear();
            }
            Key::Backspace => drop(self.filter.pop()),
            Key::Char(c) if self.filter.chars().count() < LONGEST_FILTER => self.filter.push(c),
            _ => return Effect::Nothing,
        }
        Effect::Draw
    }

    fn command(&mut self, key: Key, content: &Content<'_>) -> Effect {
        self.message = None;
        match key {
            Key::Char('q') => return Effect::Quit,
            Key::Char('p' | ' ') => self.paused = !self.paused,
            Key::Char('?' | 'h') => self.help = true,
            Key::Char('/') => self.typing = true,
            Key::Char('o' | '>') => self.sort = self.sort.step(1),
            Key::Char('<') => self.sort = self.sort.step(Sort::ALL.len() - 1),
            Key::Char('s') => return self.snapshot(content),
            Key::Tab if content.is_run() => self.turn(1),
            Key::BackTab if content.is_run() => self.turn(Pane::ALL.len() - 1),
            Key::Up => self.walk(-1, content),
            Key::Down => self.walk(1, content),
            Key::PageUp => self.walk(-PAGE, content),
            Key::PageDown => self.walk(PAGE, content),
            Key::Home => self.walk(isize::MIN / 2, content),
            Key::End => self.walk(isize::MAX / 2, content),
            Key::Enter => return self.enter(content),
            Key::Escape if !self.filter.is_empty() => self.filter.clear(),
            Key::Escape if self.from_list && content.is_run() => return Effect::Back,
            _ => return Effect::Nothing,
        }
        Effect::Draw
    }

    fn turn(&mut self, by: usize) {
        self.pane = self.pane.step(by);
        self.chosen = None;
    }

    fn walk(&mut self, by: isize, content: &Content<'_>) {
        let rows = entry::visible(self, content);
        let Some(last) = rows.len().checked_sub(1) else { return };
        // Without a choice the first key chooses the first row.
        let next = match entry::position(self, &rows) {
            Some(now) => now.saturating_add_signed(by).min(last),
            None if by > PAGE => last,
            None => 0,
        };
        self.chosen = rows.get(next).map(|row| row.key.clone());
    }

    fn chosen_pid(&self, rows: &[Entry]) -> Option<i32> {
        entry::position(self, rows).and_then(|place| rows.get(place)?.pid)
    }

    fn enter(&mut self, content: &Content<'_>) -> Effect {
        let rows = entry::visible(self, content);
        match (content, self.chosen_pid(&rows).or_else(|| rows.first()?.pid)) {
            (Content::List(_), Some(pid)) => Effect::Look(pid),
            _ => Effect::Nothing,
        }
    }

    /// Of the process that is chosen, or of the largest.
    fn snapshot(&mut self, content: &Content<'_>) -> Effect {
        let rows = entry::visible(self, content);
        let pid = self.chosen_pid(&rows).or_else(|| entry::largest(content));
        if pid.is_none() {
            self.message = Some("no process is there to take a snapshot of".into());
        }
        pid.map_or(Effect::Draw, Effect::Snapshot)
    }
}
