//! From the numbers of a process's book to frames that mean something elsewhere: file and address, code and line.
//!
//! Books of different processes become one set of frames, because addresses are told relative to files.

use std::sync::Arc;

use nilometer_ring::book::{Frame as Place, special as book};
use nilometer_ring::definition::{self, Raw};
use nilometer_ring::lines::line_of;
use nilometer_ring::reader::Book;
use nilometer_trace::allocs::{Code, Frame, Module, Node, special};
use rustc_hash::FxHashMap;

/// Frames that are kept of all processes together; stacks beyond are dropped.
const MOST_NODES: usize = 6 << 20;
const MOST_MODULES: usize = 0x7ffe;

/// Frames of all processes, each once.
#[derive(Debug, Default)]
pub struct Stacks {
    pub nodes: Vec<Node>,
    index: FxHashMap<(u32, u64), u32>,
    pub modules: Vec<Module>,
    module_index: FxHashMap<(String, Vec<u8>), u32>,
    pub codes: Vec<Code>,
    code_index: FxHashMap<Code, u32>,
}

/// One book while its numbers are translated.
#[derive(Debug)]
pub struct Pages {
    book: Arc<Book>,
    /// By number of the book; 0 = not yet.
    translated: Vec<u32>,
    areas: Vec<Area>,
    codes: FxHashMap<u32, Lines>,
}

/// Where a library lay in memory.
#[derive(Debug, Clone, Copy)]
struct Area {
    start: u64,
    end: u64,
    bias: u64,
    epoch: u16,
    module: u32,
}

/// A code object with what it takes to tell lines.
#[derive(Debug)]
struct Lines {
    code: u32,
    first_line: u32,
    python: u32,
    table: Vec<u8>,
}

impl Pages {
    pub fn new(book: Arc<Book>) -> Self {
        Self { book, translated: Vec::new(), areas: Vec::new(), codes: FxHashMap::default() }
    }

    /// Reads all definitions: one that somebody was still writing the last time stands between those that are known.
    pub fn read_definitions(&mut self, stacks: &mut Stacks) {
        if self.book.size().is_err() {
            return; // damaged since: what is known stays
        }
        let book = Arc::clone(&self.book);
        self.areas.clear();
        book.definitions(|raw| self.define(stacks, raw));
        self.areas.sort_by_key(|area| area.start);
    }

    fn define(&mut self, stacks: &mut Stacks, raw: &Raw<'_>) {
        if let Some(code) = definition::Code::from_raw(raw) {
            self.codes.entry(raw.id).or_insert_with(|| Lines {
                code: stacks.code(&code),
                first_line: code.first_line,
                python: code.python,
                table: code.lines.to_vec(),
            });
        } else if let Some(module) = definition::Module::from_raw(raw)
            && let Some(index) = stacks.module(&module)
        {
            let definition::Module { start, end, bias, epoch, .. } = module;
            self.areas.push(Area { start, end, bias, epoch, module: index });
        }
    }

    /// The number in the recording of a number in the book.
    pub fn translate(&mut self, stacks: &mut Stacks, number: u32) -> u32 {
        let mut chain = Vec::new();
        let mut next = number;
        let mut outer = loop {
            if let Some(known) = self.known(next) {
                break known;
            }
            let Some((place, parent)) = self.book.node(next) else { break special::DROPPED };
            chain.push((next, place));
            if parent >= next {
                break special::NONE;
            }
            next = parent;
        };
        for (number, place) in chain.into_iter().rev() {
            // A mark stands for inner frames that were not kept: what is known is the stack up to there.
            if place != Place::FOLDED {
                outer = stacks.node(self.frame(place), outer);
            }
            self.remember(number, outer);
        }
        outer
    }

    fn known(&self, number: u32) -> Option<u32> {
        match number {
            book::DROPPED => Some(special::DROPPED),
            book::CUT => Some(special::CUT),
            special::FOLDED => Some(special::FOLDED),
            number if number < book::FIRST => Some(special::NONE),
            _ => self.translated.get(number as usize).copied().filter(|known| *known != 0),
        }
    }

    fn remember(&mut self, number: u32, translated: u32) {
        let at = number as usize;
        if self.translated.len() <= at {
            self.translated.resize((at + 1).next_power_of_two().max(1024), 0);
        }
        self.translated[at] = translated;
    }

    fn frame(&self, place: Place) -> Frame {
        match place {
            Place::Native { address, epoch } => {
                let address = address.saturating_sub(1); // the call, not what follows it
                self.area(address, epoch).map_or(Frame::Native { module: None, address }, |area| {
                    Frame::Native { module: Some(area.module), address: address.wrapping_sub(area.bias) }
                })
            }
            Place::Python { code, offset, entry } => self.codes.get(&code).map_or(
                Frame::Native { module: None, address: 0 }, // its definition was lost: the book was full
                |lines| Frame::Python { code: lines.code, line: lines.line(offset), entry },
            ),
        }
    }

    /// Notes which code of the interpreter evaluates Python.
    pub fn note_evaluations(&self, stacks: &mut Stacks, parts: &[(u64, u64)]) {
        for &(start, end) in parts.iter().filter(|(start, end)| start < end) {
            let Some(area) = self.area(start, u16::MAX) else { continue };
            let part = (start.wrapping_sub(area.bias), end.wrapping_sub(area.bias));
            if let Some(module) = stacks.modules.get_mut(area.module as usize)
                && !module.eval.contains(&part)
            {
                module.eval.push(part);
            }
        }
    }

    /// The library that lay there in that epoch, or in any.
    fn area(&self, address: u64, epoch: u16) -> Option<&Area> {
        let end = self.areas.partition_point(|area| area.start <= address);
        let before = self.areas.get(..end)?.iter().rev().take(8);
        let inside: Vec<&Area> = before.filter(|area| address < area.end).collect();
        inside.iter().find(|area| area.epoch == epoch).or(inside.first()).copied()
    }
}

impl Lines {
    fn line(&self, offset: u32) -> u32 {
        let code = definition::Code {
            file: &[],
            name: &[],
            first_line: self.first_line,
            python: self.python,
            lines: &self.table,
        };
        line_of(&code, offset).unwrap_or(0)
    }
}

impl Stacks {
    /// The number of a frame with this caller.
    fn node(&mut self, frame: Frame, parent: u32) -> u32 {
        let key = (parent, key_of(frame));
        if let Some(number) = self.index.get(&key) {
            return *number;
        }
        if self.nodes.len() >= MOST_NODES {
            return special::DROPPED;
        }
        let number = self.nodes.len() as u32 + special::FIRST;
        self.nodes.push(Node { frame, parent });
        self.index.insert(key, number);
        number
    }

    fn module(&mut self, module: &definition::Module<'_>) -> Option<u32> {
        let path = String::from_utf8_lossy(module.path).into_owned();
        let key = (path, module.build_id.to_vec());
        if let Some(index) = self.module_index.get(&key) {
            return Some(*index);
        }
        let index = (self.modules.len() < MOST_MODULES).then_some(self.modules.len() as u32)?;
        let (path, build_id) = key.clone();
        self.modules.push(Module { path, build_id, eval: Vec::new() });
        self.module_index.insert(key, index);
        Some(index)
    }

    fn code(&mut self, code: &definition::Code<'_>) -> u32 {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let code = Code { file: text(code.file), name: text(code.name), first_line: code.first_line };
        if let Some(index) = self.code_index.get(&code) {
            return *index;
        }
        let index = self.codes.len() as u32;
        self.codes.push(code.clone());
        self.code_index.insert(code, index);
        index
    }
}

fn key_of(frame: Frame) -> u64 {
    match frame {
        Frame::Native { module, address } => {
            (address & 0xffff_ffff_ffff) | u64::from(module.map_or(0, |module| module + 1)) << 48
        }
        Frame::Python { code, line, entry } => {
            1 << 63
                | u64::from(entry) << 62
                | u64::from(code) << 24 & (0x3f_ffff_ffff << 24)
                | u64::from(line & 0xff_ffff)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_frames_with_equal_callers_are_one_node() {
        let mut stacks = Stacks::default();
        let native = |address| Frame::Native { module: Some(1), address };
        let root = stacks.node(native(10), special::NONE);
        let inner = stacks.node(native(20), root);
        assert_eq!((root, inner), (special::FIRST, special::FIRST + 1));
        assert_eq!(stacks.node(native(20), root), inner);
        assert_ne!(stacks.node(native(20), special::NONE), inner);
        let python = |line, entry| Frame::Python { code: 1, line, entry };
        let a = stacks.node(python(5, true), special::NONE);
        assert_ne!(stacks.node(python(5, false), special::NONE), a);
        assert_ne!(stacks.node(python(6, true), special::NONE), a);
    }
}
