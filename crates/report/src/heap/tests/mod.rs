//! Screens, documents and the two older formats, from models written by hand.

mod example;
mod golden;
mod screen;
mod shape;
