//! Sites and stacks of a foreign recording, put together as ours are.
//!
//! Frames come innermost first, Python and native mixed. They are stored apart, with a frame of the evaluator where a
//! run of Python frames stands, so that whoever merges them finds the old order again.

use std::collections::HashMap;
use std::path::Path;

use nilometer_trace::allocs::{Amount, Code, Frame, Module, Node, Process, Recording, Site, special};
use nilometer_trace::symbols::{Place, State, Symbols, SymbolsBuilder};

const EVALUATOR: &str = "_PyEval_EvalFrameDefault";
/// The file of native code that a recording does not tell.
const NATIVE: &str = "native code";

/// A frame as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Told {
    pub(crate) function: String,
    pub(crate) file: String,
    pub(crate) line: u32,
    pub(crate) library: Option<String>,
}

impl Told {
    /// A name and nothing else.
    pub(crate) fn named(function: &str, file: &str) -> Self {
        Self { function: function.to_owned(), file: file.to_owned(), line: 0, library: None }
    }

    pub(crate) fn is_python(&self) -> bool {
        Path::new(&self.file).extension().is_some_and(|end| end == "py") || self.file.starts_with('<')
    }
}

#[derive(Debug, Default)]
pub(crate) struct Stacks {
    pub(crate) recording: Recording,
    codes: HashMap<(String, String), u32>,
    modules: HashMap<String, u32>,
    /// Native frames of each module, in the order of their made-up addresses.
    natives: Vec<Vec<Told>>,
    places: HashMap<Told, (u32, u64)>,
    nodes: HashMap<(Frame, u32), u32>,
    sites: HashMap<(u32, u32, u32), u32>,
}

impl Stacks {
    pub(crate) fn process(&mut self, name: &str) -> u32 {
        let pid = self.recording.processes.len() as i32;
        self.recording.processes.push(Process { pid, name: name.to_owned(), ..Process::default() });
        pid as u32
    }

    /// The site of a stack, innermost frame first.
    pub(crate) fn site(&mut self, process: u32, frames: &[Told]) -> u32 {
        let (native, python) = self.split(frames);
        let (native, python) = (self.chain(&native), self.chain(&python));
        let count = self.recording.sites.len() as u32;
        let number = *self.sites.entry((process, native, python)).or_insert(count);
        if number == count {
            self.recording.sites.push(Site { process, native, python, ..Site::default() });
        }
        number
    }

    pub(crate) fn site_mut(&mut self, number: u32) -> Option<&mut Site> {
        self.recording.sites.get_mut(number as usize)
    }

    fn split(&mut self, frames: &[Told]) -> (Vec<Frame>, Vec<Frame>) {
        let (mut native, mut python) = (Vec::new(), Vec::new());
        let has_native = frames.iter().any(|frame| !frame.is_python());
        for (at, frame) in frames.iter().enumerate() {
            if !frame.is_python() {
                native.push(self.native(frame));
                continue;
            }
            let is_first =
                at.checked_sub(1).and_then(|at| frames.get(at)).is_none_or(|inner| !inner.is_python());
            if is_first && has_native {
                native.push(self.native(&Told::named(EVALUATOR, "")));
            }
            let entry = frames.get(at + 1).is_none_or(|outer| !outer.is_python());
            python.push(Frame::Python { code: self.code(frame), line: frame.line, entry });
        }
        (native, python)
    }

    /// Callers get smaller numbers.
    fn chain(&mut self, frames: &[Frame]) -> u32 {
        frames.iter().rev().fold(special::NONE, |parent, frame| {
            let next = self.recording.nodes.len() as u32 + special::FIRST;
            let number = *self.nodes.entry((*frame, parent)).or_insert(next);
            if number == next {
                self.recording.nodes.push(Node { frame: *frame, parent });
            }
            number
        })
    }

    fn code(&mut self, frame: &Told) -> u32 {
        let next = self.recording.codes.len() as u32;
        let number = *self.codes.entry((frame.file.clone(), frame.function.clone())).or_insert(next);
        if number == next {
            let code = Code { file: frame.file.clone(), name: frame.function.clone(), first_line: 0 };
            self.recording.codes.push(code);
        }
        number
    }

    fn native(&mut self, frame: &Told) -> Frame {
        let library = frame.library.clone().unwrap_or_else(|| NATIVE.to_owned());
        let next = self.natives.len() as u32;
        let module = *self.modules.entry(library.clone()).or_insert(next);
        if module == next {
            self.recording.modules.push(Module { path: library, ..Module::default() });
            self.natives.push(Vec::new());
        }
        let places = self.natives.get_mut(module as usize);
        let (module, address) = *self.places.entry(frame.clone()).or_insert_with(|| {
            let address = places.map_or(0, |places| {
                places.push(frame.clone());
                places.len() as u64
            });
            (module, address)
        });
        Frame::Native { module: Some(module), address }
    }

    /// The recording, with the sums of its sites in its head, and the names of its native frames.
    pub(crate) fn finish(mut self) -> (Recording, Symbols) {
        let mut names = SymbolsBuilder::default();
        for (module, frames) in self.recording.modules.iter().zip(&self.natives) {
            names.library(&module.path, &[], State::Read);
            for (address, frame) in (1..).zip(frames) {
                let (function, file) = (names.name(&frame.function), names.name(&frame.file));
                names.address(address, &[Place { function, file, line: frame.line, inlined: false }]);
            }
        }
        let about = &mut self.recording.about;
        for site in &self.recording.sites {
            add(&mut about.live, &site.live);
            add(&mut about.peak, &site.peak);
            add(&mut about.total, &site.total);
        }
        about.finished = true;
        (self.recording, names.finish())
    }
}

pub(crate) fn add(sum: &mut Amount, more: &Amount) {
    sum.bytes = sum.bytes.saturating_add(more.bytes);
    sum.count = sum.count.saturating_add(more.count);
}

pub(crate) fn one(bytes: u64) -> Amount {
    Amount { bytes, count: 1, variance: 0 }
}
