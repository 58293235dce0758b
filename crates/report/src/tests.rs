//! Screens of two example runs, and what must hold for any.

pub(crate) mod example;
mod screen;
mod shape;
