//! The Python stacks of all threads, and what their frames hold.
//!
//! Works on an image and, with its doubt, on a process that runs: a stack that changes while it is read ends early and
//! says so. Every walk is bounded.

mod frame;
mod lines;
mod naming;
mod reference;

use std::collections::{HashMap, HashSet};

use nilometer_image::Memory;
use nilometer_trace::heap::{Frame, ThreadStack};

use crate::reader::Reader;
use crate::{Interpreter, Python};
use frame::{Frames, Place};
pub use reference::{Held, Reference};

const MAX_THREADS: usize = 1 << 16;
/// Deeper stacks are cut; the recursion limit is a thousand, unless somebody raised it.
const MAX_FRAMES: usize = 10_000;

/// A reference of a frame that runs.
#[derive(Debug)]
pub struct LocalRoot<'a> {
    /// Index into what [`threads`] returns.
    pub thread: usize,
    /// Index into its frames, innermost first.
    pub depth: usize,
    pub frame: &'a Frame,
    /// The local variable's name, if it is one.
    pub name: Option<&'a str>,
    pub reference: Reference,
    /// The Python object that owns the reference: a frame object (up to 3.10) or a generator. None for a frame on the
    /// thread's own stack, which no object owns.
    pub owner: Option<u64>,
}

/// The stack of every thread of every interpreter, the oldest thread first.
pub fn threads<M: Memory + ?Sized>(python: &Python, memory: &M) -> Vec<ThreadStack> {
    let frames = Frames::new(python, memory);
    let mut described = Described::default();
    let mut stacks = Vec::new();
    for interpreter in &python.interpreters {
        let names = naming::read_names(python, memory, interpreter);
        let holder = read_gil_holder(&frames.reader, python, interpreter);
        for thread in list_threads(&frames.reader, interpreter) {
            let mut stack = describe_thread(&frames.reader, thread, &names);
            stack.holds_gil = holder.map(|holder| holder == thread);
            let (places, cut) = walk(&frames, thread);
            stack.frames = places.iter().filter_map(|place| described.frame(&frames, *place)).collect();
            stack.cut = cut;
            stacks.push(stack);
        }
    }
    stacks
}

/// Every reference of every running frame, in the order of [`threads`].
pub fn locals<M: Memory + ?Sized>(python: &Python, memory: &M, sink: &mut dyn FnMut(LocalRoot)) {
    let frames = Frames::new(python, memory);
    let mut described = Described::default();
    let mut references = Vec::new();
    let threads =
        python.interpreters.iter().flat_map(|interpreter| list_threads(&frames.reader, interpreter));
    for (index, thread) in threads.enumerate() {
        let places = walk(&frames, thread).0.into_iter();
        let named = places.filter_map(|place| Some((place, described.frame(&frames, place)?)));
        for (depth, (place, frame)) in named.enumerate() {
            references.clear();
            frames.references(place, &mut references);
            let owner = frames.owner(place);
            for reference in &references {
                let name = match reference.held {
                    Held::Local { name } => frames.reader.text(name),
                    _ => None,
                };
                let (name, reference) = (name.as_deref(), *reference);
                sink(LocalRoot { thread: index, depth, frame: &frame, name, reference, owner });
            }
        }
    }
}

/// What the frame of a generator, coroutine or async generator holds (3.11 on: the frame is part of it, and finished
/// ones have none). Up to 3.10 the generator refers to a frame object: see [`frame_references`].
pub fn generator_references<M: Memory + ?Sized>(
    python: &Python,
    memory: &M,
    generator: u64,
) -> Vec<Reference> {
    let mut found = Vec::new();
    let layout = &python.layout.generator;
    let place = layout.inline_frame.zip(layout.state).and_then(|(frame, state)| {
        let state = memory.u8(generator.checked_add(state)?)? as i8;
        (state < layout.cleared).then_some(Place::Bare(generator.checked_add(frame)?))
    });
    if let Some(place) = place {
        Frames::new(python, memory).references(place, &mut found);
    }
    found
}

/// What a frame object holds: up to 3.10 its locals; from 3.11 on only what is left when its function has returned,
/// because a running frame is not part of the object.
pub fn frame_references<M: Memory + ?Sized>(python: &Python, memory: &M, object: u64) -> Vec<Reference> {
    let frames = Frames::new(python, memory);
    let mut found = Vec::new();
    match python.layout.frame_object.frame {
        None => frames.references(Place::Object(object), &mut found),
        Some(offset) => {
            let own = object.wrapping_add(python.layout.frame_object.size);
            if frames.reader.pointer(object, offset) == Some(own) {
                frames.references(Place::Bare(own), &mut found);
            }
            frames.object_fields(object, &mut found);
        }
    }
    found
}

/// Addresses of the thread states; their list is newest first.
pub(crate) fn list_threads<M: Memory + ?Sized>(reader: &Reader<M>, interpreter: &Interpreter) -> Vec<u64> {
    let mut found = Vec::new();
    let mut seen = HashSet::new();
    let mut next = interpreter.threads;
    while next != 0 && next.is_multiple_of(8) && found.len() < MAX_THREADS {
        // A list that changed under our eyes leads elsewhere, or back.
        let is_ours = reader.word(next, reader.layout.thread.interpreter) == Some(interpreter.address);
        if !is_ours || !seen.insert(next) {
            break;
        }
        found.push(next);
        next = reader.word(next, reader.layout.thread.next).unwrap_or(0);
    }
    found.reverse();
    found
}

fn describe_thread<M: Memory + ?Sized>(
    reader: &Reader<M>,
    thread: u64,
    names: &HashMap<u64, naming::Named>,
) -> ThreadStack {
    let layout = &reader.layout.thread;
    let named = reader.word(thread, layout.thread_id).and_then(|ident| names.get(&ident));
    let told = layout.native_thread_id.and_then(|at| reader.word(thread, at)).filter(|id| *id != 0);
    let native_id = told.or_else(|| named?.native_id);
    let name = named.and_then(|named| named.name.clone());
    ThreadStack { native_id, name, ..ThreadStack::default() }
}

/// The thread state that holds the lock; 0 if none does, None if that cannot be told.
fn read_gil_holder<M: Memory + ?Sized>(
    reader: &Reader<M>,
    python: &Python,
    interpreter: &Interpreter,
) -> Option<u64> {
    let layout = &python.layout;
    let state = match layout.runtime.gil {
        Some(offset) => python.runtime.checked_add(offset)?,
        None => reader.pointer(interpreter.address, layout.interpreter.gil?)?,
    };
    match reader.int32(state, layout.gil.locked)? {
        0 => Some(0),
        1 => reader.word(state, layout.gil.last_holder),
        _ => None, // not made yet
    }
}

/// A thread's frames, innermost first, and why the list ends early.
fn walk<M: Memory + ?Sized>(frames: &Frames<M>, thread: u64) -> (Vec<Place>, Option<String>) {
    let mut found = Vec::new();
    let mut next = frames.innermost(thread);
    // Frames of nobody's code stand between the others, at most one to one.
    for _ in 0..2 * MAX_FRAMES {
        let Some(place) = next.filter(|_| found.len() <= MAX_FRAMES) else { break };
        if frames.is_python(place) {
            if frames.executable(place).is_none() {
                return (found, Some("a frame could not be read".to_owned()));
            }
            found.extend(frames.code(place).map(|_| place));
        }
        next = frames.caller(place);
    }
    let cut = next.map(|_| format!("more than {MAX_FRAMES} frames"));
    found.truncate(MAX_FRAMES);
    (found, cut)
}

/// File and function of code objects, read once.
#[derive(Debug, Default)]
struct Described {
    by_code: HashMap<u64, (String, String)>,
}

impl Described {
    fn frame<M: Memory + ?Sized>(&mut self, frames: &Frames<M>, place: Place) -> Option<Frame> {
        let code = frames.code(place)?;
        let (file, function) =
            self.by_code.entry(code).or_insert_with(|| describe_code(&frames.reader, code)).clone();
        Some(Frame { file, function, line: frames.line(place, code) })
    }
}

fn describe_code<M: Memory + ?Sized>(reader: &Reader<M>, code: u64) -> (String, String) {
    let layout = &reader.layout.code;
    let text = |offset: u64| reader.text(reader.pointer(code, offset)?);
    let function = layout.qualname.and_then(text).or_else(|| text(layout.name));
    (text(layout.filename).unwrap_or_else(|| "?".to_owned()), function.unwrap_or_else(|| "?".to_owned()))
}

#[cfg(test)]
mod tests {
    use nilometer_image::{Image, Segment};

    use super::*;
    use crate::layout;

    const FIRST: u64 = 0x10_0000;
    const SECOND: u64 = 0x10_1000;
    const STATE: u64 = 0x50_0000;

    #[test]
    fn a_list_of_threads_that_leads_back_ends() {
        let layout = layout::all()[0].layout;
        let mut bytes = vec![0; 0x2000];
        for (thread, next) in [(FIRST, SECOND), (SECOND, FIRST)] {
            for (offset, word) in [(layout.thread.interpreter, STATE), (layout.thread.next, next)] {
                let at = (thread - FIRST + offset) as usize;
                bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
            }
        }
        let segments = vec![Segment::new(FIRST, FIRST + bytes.len() as u64, 0)];
        let image = Image::new(bytes.as_slice().into(), segments, Vec::new());
        let (gc, interned) = (None, None);
        let (id, modules, sys, builtins) = (0, 0, 0, 0);
        let interpreter =
            Interpreter { address: STATE, id, modules, sys, builtins, gc, threads: FIRST, interned };
        assert_eq!(list_threads(&Reader::new(&image, &layout), &interpreter), [SECOND, FIRST]);
    }
}
