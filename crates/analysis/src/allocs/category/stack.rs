//! What the stack of a site means: the part of a training, the layer, whether it is a tensor's memory.
//!
//! Frames are told once each. The innermost frame that a rule knows decides; native frames inside the innermost Python one
//! come before it, those outside after all Python frames.

use nilometer_rules::{FrameRules, Role};
use nilometer_trace::allocs::{Frame, Recording, Site, Source};
use nilometer_trace::symbols::{Library, NameId, Symbols};
use rustc_hash::FxHashMap;

use super::super::merge::{self, Role as Part};
use super::super::name;

/// What a site is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Meaning {
    pub role: Option<Role>,
    pub layer: Option<String>,
    /// The memory of a tensor or an array.
    pub payload: bool,
    /// Of the interpreter itself: an object, or memory for objects.
    pub interpreter: bool,
    /// Of loading a library.
    pub linker: bool,
}

#[derive(Debug, Clone, Default)]
struct Named {
    role: Option<Role>,
    layer: Option<String>,
    payload: bool,
    part: Option<Part>,
}

/// Reads the stacks of a recording.
#[derive(Debug)]
pub struct Meanings<'a> {
    recording: &'a Recording,
    symbols: &'a Symbols,
    rules: &'a FrameRules,
    libraries: Vec<Option<&'a Library>>,
    natives: FxHashMap<(Option<u32>, u64), Named>,
    /// By name: many addresses are of one function, and telling it is slow.
    functions: FxHashMap<NameId, Named>,
    codes: FxHashMap<u32, Named>,
}

impl<'a> Meanings<'a> {
    pub fn new(recording: &'a Recording, symbols: &'a Symbols, rules: &'a FrameRules) -> Self {
        let libraries =
            recording.modules.iter().map(|module| symbols.library(&module.path, &module.build_id)).collect();
        Self {
            recording,
            symbols,
            rules,
            libraries,
            natives: FxHashMap::default(),
            functions: FxHashMap::default(),
            codes: FxHashMap::default(),
        }
    }

    pub fn of(&mut self, site: &Site) -> Meaning {
        let mut meaning = Meaning { interpreter: site.source == Source::Python, ..Meaning::default() };
        let mut outside = Named::default();
        let mut inside_evaluator = true;
        let mut innermost = None;
        let recording = self.recording;
        for (_, node) in recording.stack(site.native) {
            let Frame::Native { module, address } = node.frame else { continue };
            let named = self.native(module, address);
            let part = named.part.unwrap_or(Part::Plain);
            if !matches!(part, Part::Allocator | Part::Libc) && innermost.is_none() {
                innermost = Some(part);
            }
            inside_evaluator &= part != Part::Evaluator;
            if inside_evaluator {
                meaning.payload |= named.payload;
                meaning.role = meaning.role.or(named.role);
                meaning.layer = meaning.layer.or_else(|| named.layer.clone());
            } else {
                outside.role = outside.role.or(named.role);
            }
        }
        meaning.interpreter |= matches!(innermost, Some(Part::Interpreter | Part::Evaluator));
        meaning.linker = innermost == Some(Part::Linker);
        self.read_python(site, &mut meaning);
        meaning.role = meaning.role.or(outside.role);
        meaning
    }

    fn read_python(&mut self, site: &Site, meaning: &mut Meaning) {
        let recording = self.recording;
        let mut imports = false;
        for (_, node) in recording.stack(site.python) {
            let Frame::Python { code, .. } = node.frame else { continue };
            let named = self.python(code);
            meaning.role = meaning.role.or(named.role);
            meaning.layer = meaning.layer.take().or_else(|| named.layer.clone());
            imports |= named.role == Some(Role::Import);
        }
        // What a package does while it is imported is importing; a training may be started by an import, too. The buffers of
        // a library of kernels are workspace whenever they are taken: which product needs them first is the processor's choice.
        let is_of_import = |role: Role| imports && role as usize >= Role::PHASES && role != Role::Workspace;
        meaning.role = meaning.role.map(|role| if is_of_import(role) { Role::Import } else { role });
    }

    fn python(&mut self, code: u32) -> &Named {
        let (recording, rules) = (self.recording, self.rules);
        self.codes.entry(code).or_insert_with(|| {
            let Some(code) = recording.codes.get(code as usize) else { return Named::default() };
            Named {
                role: rules.python(&code.file, &code.name),
                layer: rules.python_layer(&code.file, &code.name).map(str::to_owned),
                ..Named::default()
            }
        })
    }

    fn native(&mut self, module: Option<u32>, address: u64) -> &Named {
        let (recording, rules, symbols) = (self.recording, self.rules, self.symbols);
        let library = module.and_then(|module| self.libraries.get(module as usize).copied().flatten());
        let functions = &mut self.functions;
        self.natives.entry((module, address)).or_insert_with(|| {
            let path = module.and_then(|module| recording.modules.get(module as usize));
            let library_name = path.map_or("", |module| name::library(&module.path));
            let places = library.map_or(&[][..], |library| library.places(address));
            let outer = places.last().map_or("", |place| symbols.name(place.function));
            let mut named = Named { part: Some(merge::role(outer, library_name)), ..Named::default() };
            for place in places {
                let told = functions.entry(place.function);
                let told = told.or_insert_with(|| tell(rules, symbols.name(place.function)));
                named.role = named.role.or(told.role);
                named.layer = named.layer.take().or_else(|| told.layer.clone());
                named.payload |= told.payload;
            }
            named
        })
    }
}

fn tell(rules: &FrameRules, raw: &str) -> Named {
    let function = name::function(raw);
    Named {
        role: rules.native(&function),
        layer: rules.native_layer(&function).map(str::to_owned),
        payload: rules.is_payload(&function),
        part: None,
    }
}
