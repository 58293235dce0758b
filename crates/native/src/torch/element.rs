//! Names and sizes of element types, by the number that torch keeps in a tensor (`c10/core/ScalarType.h`).

/// Name, bits of one element; in the order of torch, which only ever appends.
const ELEMENTS: &[(&str, u32)] = &[
    ("uint8", 8),
    ("int8", 8),
    ("int16", 16),
    ("int32", 32),
    ("int64", 64),
    ("float16", 16),
    ("float32", 32),
    ("float64", 64),
    ("complex32", 32),
    ("complex64", 64),
    ("complex128", 128),
    ("bool", 8),
    ("qint8", 8),
    ("quint8", 8),
    ("qint32", 32),
    ("bfloat16", 16),
    ("quint4x2", 8),
    ("quint2x4", 8),
    ("bits1x8", 8),
    ("bits2x4", 8),
    ("bits4x2", 8),
    ("bits8", 8),
    ("bits16", 16),
    ("float8_e5m2", 8),
    ("float8_e4m3fn", 8),
    ("float8_e5m2fnuz", 8),
    ("float8_e4m3fnuz", 8),
    ("uint16", 16),
    ("uint32", 32),
    ("uint64", 64),
    ("uint1", 8),
    ("uint2", 8),
    ("uint3", 8),
    ("uint4", 8),
    ("uint5", 8),
    ("uint6", 8),
    ("uint7", 8),
    ("int1", 8),
    ("int2", 8),
    ("int3", 8),
    ("int4", 8),
    ("int5", 8),
    ("int6", 8),
    ("int7", 8),
    ("float8_e8m0fnu", 8),
    ("float4_e2m1fn_x2", 8),
];

/// What a tensor is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element(u16);

impl Element {
    /// None for a number that no release of torch has.
    pub fn new(number: u16) -> Option<Self> {
        // Newer ones than the table's last are taken for small floats, in a byte each.
        (number < 64).then_some(Self(number))
    }

    /// As `numpy` and `torch` print it; none for those that are not in the table.
    pub fn name(self) -> Option<&'static str> {
        ELEMENTS.get(usize::from(self.0)).map(|(name, _)| *name)
    }

    pub fn bytes(self) -> u64 {
        ELEMENTS.get(usize::from(self.0)).map_or(1, |(_, bits)| u64::from(bits / 8))
    }
}
