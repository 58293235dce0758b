//! The frames of a recording, named: what a native address or a Python line is to a reader.
//!
//! Frames are numbers while stacks are put together; only those that are shown are spelt out. Two frames with the same
//! spelling are one.

use std::cell::RefCell;
use std::sync::Arc;

use nilometer_trace::allocs::{Frame as Stored, Recording};
use nilometer_trace::symbols::{Library, Place, Symbols};
use rustc_hash::FxHashMap;

use super::merge::{FrameId, Role, role};
use super::model::{Frame, FrameKind};
use super::name;

/// What decides a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Key {
    Python {
        code: u32,
        line: u32,
    },
    Native {
        module: Option<u32>,
        function: u32,
        file: u32,
        line: u32,
        inlined: bool,
    },
    /// Native code without a name.
    Bare {
        module: Option<u32>,
        address: u64,
    },
    Note(Note),
}

/// What stands where there is no function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Note {
    /// The outer frames were cut off.
    Cut,
    /// The tracker had no room for the stack.
    Dropped,
    /// The recorder kept the sum of several stacks.
    Folded,
    NoStack,
    Interpreter,
    Linker,
    Runtime,
}

impl Note {
    fn text(self) -> &'static str {
        match self {
            Self::Cut => "(outer frames cut off: the stack is deeper than is kept)",
            Self::Dropped => "(stack not kept: the tracker's memory for stacks was full)",
            Self::Folded => "(several small sites together)",
            Self::NoStack => "(no stack)",
            Self::Interpreter => "(the Python interpreter itself)",
            Self::Linker => "(the dynamic linker)",
            Self::Runtime => "(the C runtime)",
        }
    }
}

/// A native frame: its functions, inlined ones first, as a range of [`Frames::expanded`].
#[derive(Debug, Clone, Copy)]
struct Resolved {
    start: u32,
    end: u32,
    role: Role,
}

#[derive(Debug)]
pub struct Frames<'a> {
    recording: &'a Recording,
    symbols: &'a Symbols,
    /// The names of each module, where there are any.
    libraries: Vec<Option<&'a Library>>,
    keys: Vec<(Key, Role)>,
    known: FxHashMap<Key, FrameId>,
    native: FxHashMap<(Option<u32>, u64), Resolved>,
    expanded: Vec<FrameId>,
    /// Demangling is slow and many stacks share their frames.
    spelt: RefCell<FxHashMap<FrameId, Arc<Frame>>>,
    /// Native frames that have no name.
    pub unnamed: u64,
}

impl<'a> Frames<'a> {
    pub fn new(recording: &'a Recording, symbols: &'a Symbols) -> Self {
        let find = |module: &nilometer_trace::allocs::Module| symbols.library(&module.path, &module.build_id);
        Self {
            recording,
            symbols,
            libraries: recording.modules.iter().map(find).collect(),
            keys: Vec::new(),
            known: FxHashMap::default(),
            native: FxHashMap::default(),
            expanded: Vec::new(),
            spelt: RefCell::default(),
            unnamed: 0,
        }
    }

    fn id(&mut self, key: Key, role: Role) -> FrameId {
        *self.known.entry(key).or_insert_with(|| {
            self.keys.push((key, role));
            self.keys.len() as FrameId - 1
        })
    }

    pub fn note(&mut self, note: Note) -> FrameId {
        self.id(Key::Note(note), Role::Plain)
    }

    pub fn python(&mut self, code: u32, line: u32) -> FrameId {
        self.id(Key::Python { code, line }, Role::Plain)
    }

    /// The import machinery: as in Python's own tracebacks, what is imported is told and not how.
    pub fn is_import(&self, code: u32) -> bool {
        let code = self.recording.codes.get(code as usize);
        code.is_some_and(|code| code.file.starts_with("<frozen importlib._bootstrap"))
    }

    /// Makes sure that a native frame is known, and gives its role.
    pub fn native(&mut self, module: Option<u32>, address: u64) -> (std::ops::Range<usize>, Role) {
        let resolved = match self.native.get(&(module, address)) {
            Some(&resolved) => resolved,
            None => self.resolve(module, address),
        };
        (resolved.start as usize..resolved.end as usize, resolved.role)
    }

    pub fn expanded(&self, range: std::ops::Range<usize>) -> &[FrameId] {
        self.expanded.get(range).unwrap_or_default()
    }

    fn resolve(&mut self, module: Option<u32>, address: u64) -> Resolved {
        let library = module.and_then(|module| self.libraries.get(module as usize).copied().flatten());
        let places: &[Place] = library.map_or(&[], |library| library.places(address));
        let start = self.expanded.len() as u32;
        let outer = places.last().map_or("", |place| self.symbols.name(place.function));
        let whole = role(outer, self.library_name(module));
        for place in places {
            let Place { function, file, line, inlined } = *place;
            let id = self.id(Key::Native { module, function, file, line, inlined }, whole);
            self.expanded.push(id);
        }
        if places.is_empty() {
            self.unnamed += 1;
            let id = self.id(Key::Bare { module, address }, whole);
            self.expanded.push(id);
        }
        let resolved = Resolved { start, end: self.expanded.len() as u32, role: whole };
        self.native.insert((module, address), resolved);
        resolved
    }

    fn library_name(&self, module: Option<u32>) -> &'a str {
        let module = module.and_then(|module| self.recording.modules.get(module as usize));
        module.map_or("", |module| name::library(&module.path))
    }

    pub fn role(&self, id: FrameId) -> Role {
        self.keys.get(id as usize).map_or(Role::Plain, |(_, role)| *role)
    }

    pub fn is_note(&self, id: FrameId) -> bool {
        matches!(self.keys.get(id as usize), Some((Key::Note(_), _)))
    }

    /// Has it a file and a line?
    pub fn has_line(&self, id: FrameId) -> bool {
        match self.keys.get(id as usize) {
            Some((Key::Python { line, .. } | Key::Native { line, .. }, _)) => *line > 0,
            _ => false,
        }
    }

    /// The frame as it is shown.
    pub fn spell(&self, id: FrameId) -> Arc<Frame> {
        self.spelt.borrow_mut().entry(id).or_insert_with(|| Arc::new(self.spell_anew(id))).clone()
    }

    fn spell_anew(&self, id: FrameId) -> Frame {
        match self.keys.get(id as usize) {
            Some(&(Key::Python { code, line }, _)) => self.spell_python(code, line),
            Some(&(Key::Native { module, function, file, line, inlined }, _)) => {
                let file = self.symbols.name(file);
                Frame {
                    function: name::function(self.symbols.name(function)),
                    file: (!file.is_empty()).then(|| file.to_owned()),
                    line: (line > 0).then_some(line),
                    inlined,
                    ..self.bare(module)
                }
            }
            Some(&(Key::Bare { module, address }, _)) => {
                Frame { function: format!("{address:#x}"), ..self.bare(module) }
            }
            Some(&(Key::Note(note), _)) => {
                Frame { function: note.text().to_owned(), kind: FrameKind::Note, ..Frame::default() }
            }
            None => Frame::default(),
        }
    }

    /// See [`name::is_own`].
    pub fn is_own(&self, frame: FrameId) -> bool {
        matches!(self.keys.get(frame as usize), Some((Key::Python { .. }, _)))
            && name::is_own(&self.spell(frame))
    }

    fn bare(&self, module: Option<u32>) -> Frame {
        let library = self.library_name(module);
        Frame { library: (!library.is_empty()).then(|| library.to_owned()), ..Frame::default() }
    }

    fn spell_python(&self, code: u32, line: u32) -> Frame {
        let Some(code) = self.recording.codes.get(code as usize) else { return Frame::default() };
        Frame {
            function: code.name.clone(),
            file: Some(code.file.clone()),
            line: Some(line).filter(|line| *line > 0),
            library: Some(name::package(&code.file).to_owned()),
            kind: FrameKind::Python,
            inlined: false,
        }
    }
}

/// The native frames of a stored stack, each with its key.
pub fn native_place(frame: &Stored) -> Option<(Option<u32>, u64)> {
    match *frame {
        Stored::Native { module, address } => Some((module, address)),
        Stored::Python { .. } => None,
    }
}
