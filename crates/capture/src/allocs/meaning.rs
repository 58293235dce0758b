//! What the Python stacks of a book mean: which phases of a training stand on them. Told once a frame.
//!
//! The one invariant: a definition is read once. Only where another thread was still writing one are all read again.

use std::sync::Arc;

use nilometer_ring::book::{Frame, special};
use nilometer_ring::definition::Code;
use nilometer_ring::reader::Book;
use nilometer_rules::{FrameRules, Role};
use rustc_hash::FxHashMap;

/// The phases on a stack.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Meaning {
    /// One bit a phase.
    pub mask: u8,
    /// The innermost one, counted from 1; 0 for none.
    pub inner: u8,
}

impl Meaning {
    fn within(self, role: Option<Role>) -> Self {
        match role.map(|role| role as u8).filter(|number| usize::from(*number) < Role::PHASES) {
            Some(number) => Self { mask: self.mask | 1 << number, inner: number + 1 },
            // Work of another kind (an import, compiling) inside a phase is not of that phase.
            None if role.is_some() => Self { inner: 0, ..self },
            None => self,
        }
    }
}

/// One book's frames.
#[derive(Debug)]
pub struct Meanings {
    book: Arc<Book>,
    rules: Arc<FrameRules>,
    /// By number of the node.
    nodes: Vec<Option<Meaning>>,
    codes: FxHashMap<u32, Option<Role>>,
    read_to: u64,
}

/// Nodes whose meaning is remembered; that of others is told anew each time.
const MOST_NODES: usize = 1 << 22;

impl Meanings {
    pub fn new(book: Arc<Book>, rules: Arc<FrameRules>) -> Self {
        Self { book, rules, nodes: Vec::new(), codes: FxHashMap::default(), read_to: 0 }
    }

    /// The phases on the stack of a node.
    pub fn of(&mut self, node: u32) -> Meaning {
        let mut chain = Vec::new();
        let mut next = node;
        let mut meaning = loop {
            if let Some(known) = self.nodes.get(next as usize).copied().flatten() {
                break known;
            }
            let Some((frame, parent)) = self.book.node(next).filter(|_| next >= special::FIRST) else {
                break Meaning::default();
            };
            chain.push((next, frame));
            if parent >= next {
                break Meaning::default();
            }
            next = parent;
        };
        for (number, frame) in chain.into_iter().rev() {
            if let Frame::Python { code, .. } = frame {
                meaning = meaning.within(self.role(code));
            }
            self.keep(number, meaning);
        }
        meaning
    }

    fn keep(&mut self, number: u32, meaning: Meaning) {
        let at = number as usize;
        if at >= MOST_NODES {
            return;
        }
        if self.nodes.len() <= at {
            self.nodes.resize((at + 1).next_power_of_two().max(1024), None);
        }
        if let Some(place) = self.nodes.get_mut(at) {
            *place = Some(meaning);
        }
    }

    fn role(&mut self, code: u32) -> Option<Role> {
        if let Some(known) = self.codes.get(&code) {
            return *known;
        }
        self.read_to = self.learn_from(self.read_to);
        if !self.codes.contains_key(&code) {
            self.learn_from(0); // somebody was still writing it when its place was passed
        }
        // One that is nowhere was lost: the book was full.
        *self.codes.entry(code).or_insert(None)
    }

    /// Takes in the definitions from this place of the book on; where they end now.
    fn learn_from(&mut self, mut place: u64) -> u64 {
        let codes = &mut self.codes;
        let rules = &self.rules;
        self.book.definitions_from(&mut place, |raw| {
            if let Some(code) = Code::from_raw(raw) {
                codes.entry(raw.id).or_insert_with(|| role_of(rules, &code));
            }
        });
        place
    }
}

fn role_of(rules: &FrameRules, code: &Code<'_>) -> Option<Role> {
    rules.python(&String::from_utf8_lossy(code.file), &String::from_utf8_lossy(code.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_phase_decides_and_all_are_on_the_stack() {
        let backward = Meaning::default().within(Some(Role::Backward));
        let again = backward.within(None).within(Some(Role::Forward));
        assert_eq!(again, Meaning { mask: 0b110, inner: 2 });
        assert_eq!(again.within(Some(Role::Import)), Meaning { mask: 0b110, inner: 0 });
    }
}
