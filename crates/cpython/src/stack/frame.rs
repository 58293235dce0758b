//! Frames: which code they run, where in it, and what they hold.
//!
//! Up to 3.10 a frame is a Python object; from 3.11 on it lies on the thread's own stack, in a generator, or in a
//! frame object. [`Place`] hides the difference.

use nilometer_image::Memory;

use super::lines;
use super::reference::{Held, Reference};
use crate::Python;
use crate::layout::flag;
use crate::reader::Reader;

/// Owners from here on are the interpreter itself: frames between C and Python, which nobody wrote (3.12 on).
const OWNED_BY_INTERPRETER: u8 = 3;
const OWNED_BY_FRAME_OBJECT: u8 = 2;
const OWNED_BY_GENERATOR: u8 = 1;
/// More is no evaluation stack, nor a function's number of locals.
const MAX_SLOTS: u64 = 1 << 16;
const MAX_TABLE: u64 = 1 << 24;

/// A frame, and how to read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// A frame object (up to 3.10).
    Object(u64),
    /// An interpreter frame (3.11 on).
    Bare(u64),
}

/// Reads frames of one interpreter.
#[derive(Debug)]
pub struct Frames<'a, M: ?Sized> {
    pub python: &'a Python,
    pub reader: Reader<'a, M>,
}

impl<'a, M: Memory + ?Sized> Frames<'a, M> {
    pub fn new(python: &'a Python, memory: &'a M) -> Self {
        Self { python, reader: Reader::new(memory, &python.layout) }
    }

    /// The innermost frame of a thread state.
    pub fn innermost(&self, thread: u64) -> Option<Place> {
        let layout = &self.python.layout.thread;
        if let Some(frame) = layout.frame {
            return Some(Place::Object(self.reader.pointer(thread, frame)?));
        }
        let (holder, offset) = match (layout.cframe, layout.current_frame) {
            (Some(cframe), _) => (self.reader.pointer(thread, cframe)?, layout.cframe_current),
            (None, offset) => (thread, offset?),
        };
        Some(Place::Bare(self.reader.pointer(holder, offset)?))
    }

    pub fn caller(&self, place: Place) -> Option<Place> {
        let layout = &self.python.layout;
        Some(match place {
            Place::Object(frame) => Place::Object(self.reader.pointer(frame, layout.frame_object.back)?),
            Place::Bare(frame) => Place::Bare(self.reader.pointer(frame, layout.frame.previous)?),
        })
    }

    /// Whether somebody wrote the code of this frame.
    pub fn is_python(&self, place: Place) -> bool {
        self.owner_kind(place).is_none_or(|kind| kind < OWNED_BY_INTERPRETER)
    }

    fn owner_kind(&self, place: Place) -> Option<u8> {
        match place {
            Place::Object(_) => None,
            Place::Bare(frame) => self.reader.memory.u8(frame.checked_add(self.python.layout.frame.owner)?),
        }
    }

    /// The Python object that the frame is part of; None for one on the thread's own stack.
    pub fn owner(&self, place: Place) -> Option<u64> {
        let layout = &self.python.layout;
        match (place, self.owner_kind(place)) {
            (Place::Object(frame), _) => Some(frame),
            (Place::Bare(frame), Some(OWNED_BY_GENERATOR)) => {
                frame.checked_sub(layout.generator.inline_frame?)
            }
            (Place::Bare(frame), Some(OWNED_BY_FRAME_OBJECT)) => {
                Some(frame.wrapping_sub(layout.frame_object.size))
                    .filter(|object| self.reader.is_a(*object, "frame"))
            }
            _ => None,
        }
    }

    pub fn code(&self, place: Place) -> Option<u64> {
        self.executable(place).filter(|code| self.reader.is_a(*code, "code"))
    }

    /// Code, or in a frame that an extension made (3.13 on) some other object.
    pub fn executable(&self, place: Place) -> Option<u64> {
        let layout = &self.python.layout;
        let word = match place {
            Place::Object(frame) => self.reader.word(frame, layout.frame_object.code?)?,
            Place::Bare(frame) => self.reader.word(frame, layout.frame.executable)?,
        };
        let object = if layout.frame.tagged { word & !3 } else { word };
        let type_ = self.reader.type_of(object)?;
        Some(object).filter(|_| self.reader.has_flag(type_, flag::TYPE))
    }

    /// The line that the frame is at.
    pub fn line(&self, place: Place, code: u64) -> Option<u32> {
        let layout = &self.python.layout;
        let offset = match place {
            Place::Object(frame) => {
                let last = self.reader.int32(frame, layout.frame_object.last_instruction?)?;
                i64::from(last) * layout.frame_object.last_instruction_unit as i64
            }
            Place::Bare(frame) => {
                let start = code.checked_add(layout.code.instructions?)?;
                self.reader.word(frame, layout.frame.instruction)?.wrapping_sub(start) as i64
            }
        };
        let first_line = self.reader.int32(code, layout.code.first_line)?;
        let table = self.reader.bytes(self.reader.pointer(code, layout.code.line_table)?, MAX_TABLE)?;
        match self.python.version.minor {
            ..=9 => lines::parse_lnotab(&table, first_line, offset),
            10 => lines::parse_line_table(&table, first_line, offset),
            _ => lines::parse_locations(&table, first_line, offset),
        }
    }

    /// Everything the frame holds.
    pub fn references(&self, place: Place, found: &mut Vec<Reference>) {
        let Some(code) = self.code(place) else { return };
        match place {
            Place::Object(frame) => self.object_fields(frame, found),
            Place::Bare(frame) => self.bare_fields(frame, found),
        }
        let _ = self.slots(place, code, found);
    }

    pub fn object_fields(&self, frame: u64, found: &mut Vec<Reference>) {
        for (name, offset) in self.python.layout.frame_object.owned {
            let held = if *name == "f_locals" { Held::Locals } else { Held::Field(name) };
            self.push(frame, *offset, held, found);
        }
    }

    fn bare_fields(&self, frame: u64, found: &mut Vec<Reference>) {
        let layout = &self.python.layout.frame;
        self.push(frame, layout.executable, Held::Field("code"), found);
        self.push(frame, layout.function, Held::Field("function"), found);
        self.push(frame, layout.locals, Held::Locals, found);
        self.push(frame, layout.frame_object, Held::Field("frame"), found);
    }

    fn push(&self, frame: u64, offset: u64, held: Held, found: &mut Vec<Reference>) {
        let word = self.reader.word(frame, offset).unwrap_or(0);
        found.extend(Reference::new(word, self.python.layout.frame.tagged, held, true));
    }

    /// Local variables, then temporaries.
    fn slots(&self, place: Place, code: u64, found: &mut Vec<Reference>) -> Option<()> {
        let names = self.slot_names(code)?;
        let start = self.slots_start(place)?;
        let count = names.len() as u64;
        let (depth, certain) = self.stack_depth(place, code, start, count);
        let mut bytes = vec![0; (count + depth) as usize * 8];
        self.reader.memory.read(start, &mut bytes)?;
        let tagged = self.python.layout.frame.tagged;
        for (index, word) in bytes.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(word.try_into().ok()?);
            let held = names.get(index).map_or(Held::Temporary, |name| Held::Local { name: *name });
            let certain = certain || index < names.len();
            found.extend(Reference::new(word, tagged, held, certain));
        }
        Some(())
    }

    fn slots_start(&self, place: Place) -> Option<u64> {
        let layout = &self.python.layout;
        match place {
            Place::Object(frame) => frame.checked_add(layout.frame_object.localsplus?),
            Place::Bare(frame) => frame.checked_add(layout.frame.localsplus),
        }
    }

    /// Addresses of the names of the slots, in order: locals, cells, free variables.
    fn slot_names(&self, code: u64) -> Option<Vec<u64>> {
        let layout = &self.python.layout.code;
        let tuple = |offset: u64| self.reader.tuple(self.reader.pointer(code, offset)?);
        if let Some(names) = layout.localsplus_names {
            return tuple(names);
        }
        let parts = [layout.varnames?, layout.cellvars?, layout.freevars?];
        let names: Option<Vec<_>> = parts.into_iter().map(tuple).collect();
        Some(names?.concat())
    }

    /// How many temporaries there are; where a running frame does not say, as many as there can be, uncertainly.
    fn stack_depth(&self, place: Place, code: u64, start: u64, locals: u64) -> (u64, bool) {
        let most = self.reader.int32(code, self.python.layout.code.stack_size).unwrap_or(0);
        let most = u64::try_from(most).unwrap_or(0).min(MAX_SLOTS);
        match self.told_depth(place, start, locals).filter(|depth| *depth <= most) {
            Some(depth) => (depth, true),
            None => (most, false),
        }
    }

    fn told_depth(&self, place: Place, start: u64, locals: u64) -> Option<u64> {
        let layout = &self.python.layout;
        let between = |top: u64, bottom: u64| top.checked_sub(bottom).map(|bytes| bytes / 8);
        let count = |frame, offset| u64::try_from(self.reader.int32(frame, offset)?).ok();
        match (place, layout.frame_object.stack_depth, layout.frame.stacktop) {
            (Place::Object(frame), Some(depth), _) => count(frame, depth),
            (Place::Object(frame), None, _) => {
                let top = self.reader.pointer(frame, layout.frame_object.stacktop?)?;
                between(top, self.reader.pointer(frame, layout.frame_object.valuestack?)?)
            }
            (Place::Bare(frame), _, Some(top)) => count(frame, top)?.checked_sub(locals),
            (Place::Bare(frame), _, None) => {
                let top = self.reader.pointer(frame, layout.frame.stackpointer?)?;
                between(top, start.checked_add(8 * locals)?)
            }
        }
    }
}
