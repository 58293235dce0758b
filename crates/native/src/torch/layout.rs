//! Where the fields of torch's objects are, per release, and which of the tables fits what is in memory.
//!
//! A table is never believed by itself: every object is checked against what must hold of it, and the table that most
//! objects agree with is used, if almost all do.
//!
//! ```text
//!                    1.13, 2.0         2.3, 2.6, 2.9     2.15
//!   both   +0        virtual table
//!          +8        strong u64        strong u32, +12 weak u32 (its top bit: a Python object is kept)
//!          +16       weak u64
//!   storage          data +24          data +16          data +16
//!                    deleter, context (either order), device (type, index), number of bytes
//!   tensor           storage +24       storage +16       storage +16
//!                    gradient's data, extra data, version counter
//!                    Python +56, +64   Python +48, +56   Python +48
//!                    number of dimensions, five sizes and five strides or where they are,
//!                    offset, number of elements, element type
//! ```

/// One release's offsets in a tensor and in a storage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Releases in which it was seen; others have it too.
    pub releases: &'static str,
    /// Bytes before the first field: virtual table and counts.
    pub(super) header: u64,
    /// Of the Python object, in a tensor.
    pub(super) python: u64,
}

/// Newest first: of two that fit, the newer is taken.
pub(super) const LAYOUTS: [Layout; 3] = [
    Layout { releases: "2.15", header: 16, python: 48 },
    Layout { releases: "2.3 to 2.9", header: 16, python: 56 },
    Layout { releases: "1.13 to 2.0", header: 24, python: 64 },
];

/// Sizes and strides stand in the tensor itself up to this many.
pub(super) const INLINE: u64 = 5;
const SIZES_BYTES: u64 = 8 + 2 * 8 * INLINE;

impl Layout {
    pub(super) fn data(self) -> u64 {
        self.header
    }

    pub(super) fn device(self) -> u64 {
        self.header + 24
    }

    pub(super) fn bytes(self) -> u64 {
        self.header + 32
    }

    pub(super) fn storage(self) -> u64 {
        self.header
    }

    pub(super) fn gradient(self) -> u64 {
        self.header + 8
    }

    pub(super) fn dimensions(self) -> u64 {
        self.python + 8
    }

    pub(super) fn offset(self) -> u64 {
        self.dimensions() + SIZES_BYTES
    }

    pub(super) fn elements(self) -> u64 {
        self.offset() + 8
    }

    pub(super) fn element(self) -> u64 {
        self.offset() + 16
    }
}
