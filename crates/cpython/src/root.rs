//! Where references start: modules, running frames, the interpreter's own variables, and those of C code.
//!
//! Each has a place in memory, and a place counts once. Variables of C code are found by a scan of what libraries keep
//! writable; some of them borrow, so each counts only where a reference count is not explained without it.

mod variable;

use nilometer_image::{Image, Memory as _};
use nilometer_trace::heap::Holder;
use rustc_hash::FxHashSet;

use crate::census::heap::{Found as Number, Heap};
use crate::kind::known::Shape;
use crate::layout::{Layout, Member, StaticTypes};
use crate::locate::{Interpreter, Python};
use crate::reader::Reader;
use crate::reference::{Context, StaticState};
use crate::stack;

/// Exception states of one thread.
const MOST_HANDLED: usize = 1000;

/// All places that hold a reference and are no object.
#[derive(Debug, Default)]
pub(crate) struct Roots {
    list: Vec<Held>,
    /// Variables of C code: place and target.
    variables: Vec<(u64, Number)>,
    /// Places that are told by name.
    told: FxHashSet<u64>,
    /// Files by where their variables are.
    files: variable::Files,
}

#[derive(Debug)]
struct Held {
    target: Number,
    holder: Holder,
    name: String,
    claim: Claim,
}

/// Whether a root is part of an object's reference count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Claim {
    Counts,
    /// As far as the count is not explained without it. Caches borrow and free lists are stale, but look alike.
    Perhaps,
    /// An object owns it, or it is borrowed for sure.
    Never,
}

impl Roots {
    /// Finds them all, and adds what they hold to the heap.
    pub fn find(heap: &mut Heap<'_>, python: &Python, context: &mut Context) -> Self {
        let mut roots = Self { files: variable::Files::new(heap.image, &python.file), ..Self::default() };
        for interpreter in &python.interpreters {
            roots.add_interpreter(heap, &python.layout, interpreter);
            roots.add_threads(heap, &python.layout, interpreter);
        }
        roots.add_frames(heap, python);
        roots.variables = roots.files.scan(heap, python, &roots.told);
        if python.layout.interpreter.interned.is_none() {
            context.interned.extend(variable::find_interned(heap, &roots.variables));
        }
        for table in context.interned.clone() {
            roots.add(heap, table, Holder::Interpreter, "interned strings", Claim::Counts);
        }
        roots
    }

    fn add(&mut self, heap: &mut Heap<'_>, address: u64, holder: Holder, name: &str, claim: Claim) {
        self.hold(heap.find_or_probe(address, true), holder, name, claim);
    }

    fn hold(&mut self, target: Option<Number>, holder: Holder, name: &str, claim: Claim) {
        self.list.extend(target.map(|target| Held { target, holder, name: name.to_owned(), claim }));
    }

    /// What stands at a place.
    fn add_at(&mut self, heap: &mut Heap<'_>, place: Option<u64>, holder: Holder, name: &str, claim: Claim) {
        let Some(place) = place else { return };
        if let (Some(address), true) = (heap.image.word(place), self.told.insert(place)) {
            self.add(heap, address, holder, name, claim);
        }
    }

    fn add_interpreter(&mut self, heap: &mut Heap<'_>, layout: &Layout, interpreter: &Interpreter) {
        let state = &layout.interpreter;
        let known = [
            (state.modules, Holder::Modules, "sys.modules"),
            (state.sysdict, Holder::Sys, "sys"),
            (state.builtins, Holder::Builtins, "builtins"),
        ];
        for (offset, holder, name) in known {
            self.add_at(heap, interpreter.address.checked_add(offset), holder, name, Claim::Counts);
        }
        self.add_members(heap, interpreter.address, state.owned);
        for (name, offset) in [("gc.garbage", layout.gc.garbage), ("gc.callbacks", layout.gc.callbacks)] {
            let place = interpreter.gc.and_then(|gc| gc.checked_add(offset));
            self.add_at(heap, place, Holder::Interpreter, name, Claim::Perhaps);
        }
        self.told.extend(static_places(layout, interpreter.address));
        // The table of interned strs is told apart: it owns nothing.
        self.told.extend(state.interned.and_then(|offset| interpreter.address.checked_add(offset)));
        if let Some(first) = state.small_ints.and_then(|offset| interpreter.address.checked_add(offset)) {
            for number in 0..state.small_ints_count.min(1 << 16) {
                self.add_at(
                    heap,
                    first.checked_add(number * 8),
                    Holder::Interpreter,
                    "small int",
                    Claim::Counts,
                );
            }
        }
    }

    /// A few of these are borrowed in some releases.
    fn add_members(&mut self, heap: &mut Heap<'_>, state: u64, members: &[Member]) {
        for (name, offset) in members {
            self.add_at(heap, state.checked_add(*offset), Holder::Interpreter, name, Claim::Perhaps);
        }
    }

    fn add_threads(&mut self, heap: &mut Heap<'_>, layout: &Layout, interpreter: &Interpreter) {
        let threads = stack::list_threads(&Reader::new(heap.image, layout), interpreter);
        for thread in threads.into_iter().rev() {
            self.add_members(heap, thread, layout.thread.owned);
            self.add_handled(heap, layout, thread);
        }
    }

    /// Exceptions being handled: a list from the innermost; those of generators are part of them.
    fn add_handled(&mut self, heap: &mut Heap<'_>, layout: &Layout, thread: u64) {
        let item = &layout.exception_item;
        let mut at = heap.image.word(thread.wrapping_add(layout.thread.exc_info)).unwrap_or(0);
        for _ in 0..MOST_HANDLED {
            if at == 0 {
                return;
            }
            let in_object = heap.pools.at(at).is_some();
            if !in_object {
                self.add_members(heap, at, item.owned);
            }
            at = heap.image.word(at.wrapping_add(item.previous)).unwrap_or(0);
        }
    }

    /// Local variables by name, also where a frame object or generator owns them; then that one counts.
    fn add_frames(&mut self, heap: &mut Heap<'_>, python: &Python) {
        let image = heap.image;
        let mut owners = FxHashSet::default();
        stack::locals(python, image, &mut |local| {
            let frame = frame_name(local.frame);
            let name = match (local.name, local.reference.held) {
                (Some(name), _) => format!("{frame} {name}"),
                (None, stack::Held::Field(_) | stack::Held::Locals) => frame.clone(),
                (None, _) => format!("{frame} (temporary)"),
            };
            let claim = match (local.owner, local.reference.counted, local.reference.certain) {
                (None, true, true) => Claim::Counts,
                (_, true, false) => Claim::Perhaps,
                _ => Claim::Never,
            };
            // What a running frame has left on its stack may be of an earlier call.
            let target = heap.find_or_probe(local.reference.address, local.reference.certain);
            self.hold(target, Holder::Frame, &name, claim);
            if let Some(owner) = local.owner.filter(|owner| owners.insert(*owner)) {
                // Up to 3.10 the running call itself owns its frame object.
                self.add(heap, owner, Holder::Frame, &frame, Claim::Perhaps);
            }
        });
    }

    /// Drops variables that turned out to be part of an object: the object tells them.
    pub fn drop_inner(&mut self, heap: &Heap<'_>) {
        let mut outside: Vec<(u64, u64)> = (heap.in_pools..heap.len())
            .filter(|number| self.files.contains(heap.address[*number]))
            .map(|number| (heap.address[number], heap.bytes_outside(number)))
            .collect();
        outside.sort_unstable();
        self.variables.retain(|(place, _)| {
            let before = outside.partition_point(|(address, _)| address <= place).checked_sub(1);
            before.is_none_or(|index| place - outside[index].0 >= outside[index].1)
        });
        self.add_statics(heap);
    }

    /// Objects that are variables themselves: nobody made them, so nobody gave back the first reference.
    fn add_statics(&mut self, heap: &Heap<'_>) {
        for number in heap.in_pools..heap.len() {
            let address = heap.address[number];
            if !self.files.contains(address) {
                continue;
            }
            let shape = heap.types.get(heap.type_of[number]).shape;
            let name = address.checked_add(heap.layout.type_.name).filter(|_| shape == Shape::Type);
            let name = name.and_then(|at| heap.image.name(heap.image.word(at)?));
            let (holder, name) = match name {
                Some(name) => (Holder::StaticType, name),
                None => (Holder::Interpreter, format!("static object of {}", self.files.name_at(address))),
            };
            self.list.push(Held { target: number as Number, holder, name, claim: Claim::Perhaps });
        }
    }

    /// All roots; of several variables that hold the same object, each.
    pub fn iter(&self) -> impl Iterator<Item = (Number, Holder, &str, Claim)> {
        let told = self.list.iter().map(|held| (held.target, held.holder, held.name.as_str(), held.claim));
        let variables = self.variables.iter().map(|(place, target)| {
            (*target, self.files.holder_at(*place), self.files.name_at(*place), Claim::Perhaps)
        });
        told.chain(variables)
    }
}

/// Where an interpreter keeps what its static types own: the types tell it.
fn static_places(layout: &Layout, interpreter: u64) -> impl Iterator<Item = u64> {
    let states = layout.static_types;
    static_entries(states, interpreter).flat_map(move |entry| {
        [states.dict, states.subclasses, states.weaklist].map(|offset| entry.saturating_add(offset))
    })
}

/// An entry for each static type, used or not.
fn static_entries(states: StaticTypes, interpreter: u64) -> impl Iterator<Item = u64> {
    let arrays = [(states.builtins, states.builtins_max), (states.extensions, states.extensions_max)];
    arrays
        .into_iter()
        .filter_map(move |(first, most)| Some((interpreter.checked_add(first?)?, most)))
        .flat_map(move |(first, most)| {
            (0..most).filter_map(move |number| first.checked_add(number * states.size))
        })
}

/// `train.py:33 step()`.
fn frame_name(frame: &nilometer_trace::heap::Frame) -> String {
    let file = frame.file.rsplit('/').next().unwrap_or(&frame.file);
    match frame.line {
        Some(line) => format!("{file}:{line} {}()", frame.function),
        None => format!("{file} {}()", frame.function),
    }
}

impl Context {
    /// What an interpreter tells of the whole process.
    pub fn new(python: &Python, image: &Image, labelled: bool, shift: u32) -> Self {
        let mut context = Self { labelled, shift: u64::from(shift), ..Self::default() };
        for interpreter in &python.interpreters {
            context.modules.insert(interpreter.modules);
            context.interned.extend(interpreter.interned);
            context.add_static_states(&python.layout, image, interpreter.address);
        }
        context
    }

    fn add_static_states(&mut self, layout: &Layout, image: &Image, interpreter: u64) {
        let states = layout.static_types;
        for entry in static_entries(states, interpreter) {
            let at = |offset: u64| image.word(entry.checked_add(offset)?);
            let Some(type_) = at(states.type_).filter(|type_| *type_ != 0) else { continue };
            let state = StaticState {
                dict: at(states.dict).unwrap_or(0),
                subclasses: at(states.subclasses).unwrap_or(0),
            };
            self.static_states.entry(type_).or_default().push(state);
        }
    }
}
