//! Through what one object holds another, in four bytes: millions of edges carry one.

use super::NameId;

/// The top three bits say which, the others hold a name or a number.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Label(u32);

const SHIFT: u32 = 29;
const LOW: u32 = (1 << SHIFT) - 1;

/// A [`Label`], taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// Found by scanning the object's body: nobody names it.
    Unnamed,
    /// `.name`: instance dict, inline value, slot, C member.
    Attribute(NameId),
    /// `['name']`: a dict's value under a key that is a name.
    Key(NameId),
    /// `[7]`: an item, or a dict's value under a small whole number.
    Index(u32),
    /// The n-th value of a dict whose key is not a name; the key is not told.
    Position(u32),
    /// A dict's key or a set's member.
    Member,
    /// A local variable of a frame or a closure's cell.
    Local(NameId),
    Special(Special),
}

/// Links that every interpreter has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Special {
    /// An object's type.
    Type = 0,
    /// An instance's, type's, function's or module's own dict.
    Dict = 1,
    /// A view's owner: ndarray, memoryview, tensor.
    Base = 2,
    /// A tensor's storage.
    Storage = 3,
    /// A type's bases, mro, subclasses, cache.
    Hierarchy = 4,
    /// What a weak reference calls; never its target.
    Callback = 5,
    /// What a dict's split table shares with its type.
    Shared = 6,
}

impl Label {
    pub const UNNAMED: Self = Self(0);

    #[inline]
    pub fn new(part: Part) -> Self {
        let (tag, value) = match part {
            Part::Unnamed => (0, 0),
            Part::Attribute(name) => (1, name),
            Part::Key(name) => (2, name),
            Part::Index(index) => (3, index),
            Part::Position(position) => (4, position),
            Part::Member => (5, 0),
            Part::Local(name) => (6, name),
            Part::Special(special) => (7, special as u32),
        };
        Self(tag << SHIFT | value.min(LOW))
    }

    /// None for a number that is no special link: a damaged file.
    pub fn part(self) -> Option<Part> {
        let value = self.0 & LOW;
        Some(match self.0 >> SHIFT {
            0 => Part::Unnamed,
            1 => Part::Attribute(value),
            2 => Part::Key(value),
            3 => Part::Index(value),
            4 => Part::Position(value),
            5 => Part::Member,
            6 => Part::Local(value),
            _ => Part::Special(Special::from_number(value)?),
        })
    }

    /// For the file.
    pub fn to_bits(self) -> u32 {
        self.0
    }

    pub fn from_bits(bits: u32) -> Self {
        Self(bits)
    }
}

impl Special {
    fn from_number(number: u32) -> Option<Self> {
        const ALL: [Special; 7] = [
            Special::Type,
            Special::Dict,
            Special::Base,
            Special::Storage,
            Special::Hierarchy,
            Special::Callback,
            Special::Shared,
        ];
        ALL.get(number as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_comes_back() {
        let parts = [
            Part::Unnamed,
            Part::Attribute(5),
            Part::Key(LOW),
            Part::Index(0),
            Part::Position(77),
            Part::Member,
            Part::Local(1),
            Part::Special(Special::Shared),
        ];
        for part in parts {
            assert_eq!(Label::new(part).part(), Some(part));
        }
        assert_eq!(Label::from_bits(u32::MAX).part(), None);
    }
}
