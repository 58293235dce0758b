//! Hand-written graphs with exact numbers, and random ones against naive answers.

mod property;
mod story;
