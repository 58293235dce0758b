//! Messages of other tools' formats, for those who read them and those who write them: field numbers, and nothing else.
//!
//! Only the fields that we read or write are here; a decoder skips the others. The one invariant: numbers and types are
//! those of the tool's own schema, which the tests of the exports check with the tool itself.

pub mod perfetto;
pub mod pprof;
pub mod tensorboard;

pub use prost::Message;
