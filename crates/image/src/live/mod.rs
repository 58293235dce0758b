//! A process that lives: looked at while it runs, or copied at one instant.
//!
//! Nothing is written to it, and no page that it never touched is faulted in: the page map is asked before memory is.

mod capture;
mod copy;
mod hold;
mod peek;
mod plan;
mod source;
mod target;

pub use capture::{Capture, CaptureOptions, Mode, Pause, capture, capture_while};
pub use hold::find_footing;
pub use peek::Peek;
