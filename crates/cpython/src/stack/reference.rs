//! What a frame holds.

use crate::reference::span::is_address;

/// One reference of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reference {
    /// The object.
    pub address: u64,
    pub held: Held,
    /// Whether it is one of those that the object's reference count counts: since 3.14 a frame may borrow.
    pub counted: bool,
    /// Not for slots above what a running frame says is in use: what is left there may be long gone.
    pub certain: bool,
}

/// Through what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Held {
    /// A local variable, a cell or a free variable (then the object is the cell); `name` is the address of a str.
    Local { name: u64 },
    /// An operand of the evaluation stack.
    Temporary,
    /// The dict of a class body or a module being run.
    Locals,
    /// A field of the frame itself.
    Field(&'static str),
}

/// Tags of the low two bits, where references carry them (3.14 on). See `pycore_stackref.h`.
const BORROWED: u64 = 1;
const NUMBER: u64 = 3;
const NO_OBJECT: u64 = 2;

impl Reference {
    /// None for null, for numbers and other things that stand in a slot instead of an object.
    pub(super) fn new(word: u64, tagged: bool, held: Held, certain: bool) -> Option<Self> {
        let tag = if tagged { word & 3 } else { 0 };
        let address = word & !tag;
        let is_object = is_address(address) && tag != NUMBER && tag != NO_OBJECT;
        is_object.then_some(Self { address, held, counted: tag != BORROWED, certain })
    }
}
