//! Screens of two example runs, and what must hold for any.

mod example;
mod screen;
mod shape;
