//! The terminal while `nilo top` has it. The one invariant: however this ends (a key, a signal, an error, a panic), the
//! terminal is left as it was found.

use std::io::{self, IsTerminal as _, Stdout, Write as _};
use std::panic;
use std::sync::atomic::{AtomicBool, Ordering};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::cursor::{Hide, Show};
use ratatui::crossterm::terminal::{
    BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen, disable_raw_mode, enable_raw_mode,
};
use ratatui::crossterm::{execute, queue};
use ratatui::{Frame, Terminal};

pub type Canvas = Terminal<CrosstermBackend<Stdout>>;

/// It is ours now.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Holds the terminal; gives it back when dropped.
#[derive(Debug)]
pub struct Screen {
    pub canvas: Canvas,
}

/// Whether there is one to draw on, and to read keys from.
pub fn is_there() -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    io::stdin().is_terminal() && io::stdout().is_terminal() && !dumb
}

impl Screen {
    pub fn enter() -> io::Result<Self> {
        restore_on_panic();
        take()?;
        let canvas = Terminal::new(CrosstermBackend::new(io::stdout())).inspect_err(|_| give_back())?;
        Ok(Self { canvas })
    }

    /// One frame, shown as a whole by terminals that know how: nobody sees the half of one.
    pub fn show(&mut self, draw: impl FnOnce(&mut Frame<'_>)) -> io::Result<()> {
        queue!(io::stdout(), BeginSynchronizedUpdate)?;
        self.canvas.draw(draw)?;
        execute!(io::stdout(), EndSynchronizedUpdate)
    }

    /// Gives it back for as long as `stopped` takes.
    pub fn aside(&mut self, stopped: impl FnOnce()) -> io::Result<()> {
        give_back();
        stopped();
        take()?;
        self.forget()
    }

    /// The next frame is drawn in full. (`Terminal::clear` would ask the terminal for its cursor, and wait for the answer.)
    pub fn forget(&mut self) -> io::Result<()> {
        execute!(io::stdout(), Clear(ClearType::All))?;
        self.canvas = Terminal::new(CrosstermBackend::new(io::stdout()))?;
        Ok(())
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        give_back();
    }
}

fn take() -> io::Result<()> {
    enable_raw_mode()?;
    ENTERED.store(true, Ordering::Release);
    execute!(io::stdout(), EnterAlternateScreen, Hide).inspect_err(|_| give_back())
}

/// Once, whoever comes first.
fn give_back() {
    if ENTERED.swap(false, Ordering::AcqRel) {
        // A terminal that has gone away needs nothing.
        let _ = execute!(io::stdout(), EndSynchronizedUpdate, Show, LeaveAlternateScreen);
        let _ = io::stdout().flush();
        let _ = disable_raw_mode();
    }
}

/// The words of a panic belong on the screen that stays.
fn restore_on_panic() {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |what| {
        give_back();
        usual(what);
    }));
}
