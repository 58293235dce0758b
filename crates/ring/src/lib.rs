//! What the injected tracker and the recorder share: rings of encoded events, a trie of stacks, definitions.
//!
//! The tracker writes, the recorder reads, and either may be killed between any two instructions. So a
//! record is published after it is written, a page is backed before it is published, and nothing here
//! waits for the other side. The bytes are specified in `FORMAT.md` beside this crate.
//!
//! Not for: deciding when to record (the tracker does) or what an event means (the recorder does). Without
//! the feature `std` this crate allocates nothing and calls nothing.
#![cfg_attr(not(feature = "std"), no_std)]
#![allow(unsafe_code, reason = "shared memory is read and written through raw pointers")]
#![allow(clippy::cast_ptr_alignment, reason = "offsets in the files are multiples of eight, see FORMAT.md")]
#![allow(clippy::inline_always, reason = "a call costs a tenth of what recording an event may")]
#![allow(clippy::large_stack_arrays, reason = "the book is a static of the tracker")]

pub mod book;
pub mod clock;
pub mod cursor;
pub mod decode;
pub mod definition;
pub mod encode;
pub mod event;
pub mod hello;
pub mod lane;
pub mod layout;
pub mod lines;
#[cfg(feature = "std")]
pub mod reader;

pub use decode::Decoder;
pub use encode::Encoder;
pub use event::Event;
