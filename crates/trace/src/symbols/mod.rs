//! Names of native code: what the addresses of a run's stacks stand for, kept beside it.
//!
//! `native` reads them from the libraries' files after the run; from then on the run renders on any machine.
//! Names are kept as the linker knows them: few of them are ever shown, and telling them apart needs no more.
//! The one invariant: every index is in range, and the addresses of a library increase.

mod file;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

pub use file::{Error, SYMBOLS_FILE, decode, encode, read, write};

/// Index into the names; 0 is the empty one: not known.
pub type NameId = u32;

/// All names of a run's native code.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Symbols {
    pub libraries: Vec<Library>,
    text: String,
    /// Where each name ends in `text`.
    ends: Vec<u32>,
}

/// One version of one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Library {
    pub path: String,
    /// The GNU build id; empty if there is none.
    pub build_id: Vec<u8>,
    pub state: State,
    /// Addresses of the file (not of a process), increasing.
    addresses: Vec<u64>,
    /// Where the places of each address end in `places`.
    ends: Vec<u32>,
    places: Vec<Place>,
}

/// How a library's names were come by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "why")]
pub enum State {
    /// From the file that was loaded.
    #[default]
    Read,
    /// There is no such file any more, or it cannot be read.
    Missing(String),
    /// The file at this path is another one by now: its build id differs.
    Changed,
}

/// A function that an address belongs to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Place {
    pub function: NameId,
    pub file: NameId,
    /// 0: not known.
    pub line: u32,
    /// Its code is inside that of the next place.
    pub inlined: bool,
}

impl Symbols {
    /// The name of an index; empty for what is not there.
    pub fn name(&self, id: NameId) -> &str {
        let Some(id) = (id as usize).checked_sub(1) else { return "" };
        let start = id.checked_sub(1).map_or(0, |before| self.ends.get(before).copied().unwrap_or(0));
        let end = self.ends.get(id).copied().unwrap_or(start);
        self.text.get(start as usize..end as usize).unwrap_or("")
    }

    /// How many names there are besides the empty one.
    pub fn names(&self) -> usize {
        self.ends.len()
    }

    /// What was read before, and what was read now.
    #[must_use]
    pub fn with(self, later: &Self) -> Self {
        if self.libraries.is_empty() {
            return later.clone();
        }
        let mut builder = SymbolsBuilder::default();
        for library in &self.libraries {
            let again = later.library(&library.path, &library.build_id);
            builder.both((&self, library), again.map(|again| (later, again)));
        }
        let is_new = |library: &&Library| self.library(&library.path, &library.build_id).is_none();
        for library in later.libraries.iter().filter(is_new) {
            builder.both((later, library), None);
        }
        builder.finish()
    }

    pub fn library(&self, path: &str, build_id: &[u8]) -> Option<&Library> {
        self.libraries.iter().find(|library| library.path == path && library.build_id == build_id)
    }
}

impl Library {
    /// The functions at an address, innermost first; empty where nothing is known.
    pub fn places(&self, address: u64) -> &[Place] {
        let Ok(index) = self.addresses.binary_search(&address) else { return &[] };
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.places[start as usize..self.ends[index] as usize]
    }

    pub fn addresses(&self) -> &[u64] {
        &self.addresses
    }
}

/// Collects names; each distinct one is kept once.
#[derive(Debug, Default)]
pub struct SymbolsBuilder {
    symbols: Symbols,
    known: FxHashMap<String, NameId>,
}

impl SymbolsBuilder {
    /// The index of a name.
    pub fn name(&mut self, text: &str) -> NameId {
        if text.is_empty() {
            return 0;
        }
        if let Some(&known) = self.known.get(text) {
            return known;
        }
        let Ok(end) = u32::try_from(self.symbols.text.len() + text.len()) else { return 0 };
        self.symbols.text.push_str(text);
        self.symbols.ends.push(end);
        let id = self.symbols.ends.len() as NameId;
        self.known.insert(text.to_owned(), id);
        id
    }

    /// Begins a library; its addresses follow.
    pub fn library(&mut self, path: &str, build_id: &[u8], state: State) {
        let library =
            Library { path: path.to_owned(), build_id: build_id.to_vec(), state, ..Library::default() };
        self.symbols.libraries.push(library);
    }

    /// The places of one address of the last library, innermost first; none: it was looked for in vain. Addresses
    /// must increase: others are left out.
    pub fn address(&mut self, address: u64, places: &[Place]) {
        let Some(library) = self.symbols.libraries.last_mut() else { return };
        if library.addresses.last().is_some_and(|last| *last >= address) {
            return;
        }
        library.addresses.push(address);
        library.places.extend_from_slice(places);
        library.ends.push(library.places.len() as u32);
    }

    pub fn finish(self) -> Symbols {
        self.symbols
    }

    /// A library of one or two readings, the earlier one first; what both have is the earlier one's.
    fn both(&mut self, one: (&Symbols, &Library), other: Option<(&Symbols, &Library)>) {
        let readable =
            [Some(one), other].into_iter().flatten().find(|(_, library)| library.state == State::Read);
        let state = readable.map_or_else(|| one.1.state.clone(), |(_, library)| library.state.clone());
        self.library(&one.1.path, &one.1.build_id, state);
        let mut all: Vec<(u64, &Symbols, &Library)> = Vec::new();
        for (symbols, library) in [Some(one), other].into_iter().flatten() {
            all.extend(library.addresses.iter().map(|address| (*address, symbols, library)));
        }
        all.sort_by_key(|(address, ..)| *address); // stable: the earlier one is met first
        for (address, symbols, library) in all {
            let places: Vec<Place> =
                library.places(address).iter().map(|place| self.renamed(symbols, place)).collect();
            self.address(address, &places);
        }
    }

    fn renamed(&mut self, symbols: &Symbols, place: &Place) -> Place {
        let (function, file) = (self.name(symbols.name(place.function)), self.name(symbols.name(place.file)));
        Place { function, file, ..*place }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_places_come_back() {
        let mut builder = SymbolsBuilder::default();
        builder.library("/lib/a.so", &[1, 2], State::Read);
        let (f, g, file) = (builder.name("f"), builder.name("g"), builder.name("a.c"));
        assert_eq!(builder.name("f"), f);
        let inner = Place { function: f, file, line: 7, inlined: true };
        let outer = Place { function: g, file, line: 9, inlined: false };
        builder.address(16, &[inner, outer]);
        builder.address(16, &[outer]);
        builder.address(32, &[outer]);
        let symbols = builder.finish();
        let library = symbols.library("/lib/a.so", &[1, 2]).unwrap();
        assert_eq!(library.places(16), [inner, outer]);
        assert_eq!(library.places(32), [outer]);
        assert_eq!(library.places(17), []);
        assert_eq!((symbols.name(f), symbols.name(g), symbols.name(0), symbols.name(99)), ("f", "g", "", ""));
        assert!(symbols.library("/lib/a.so", &[1]).is_none());
    }

    fn one(path: &str, state: State, addresses: &[(u64, &str)]) -> Symbols {
        let mut builder = SymbolsBuilder::default();
        builder.library(path, &[], state);
        for &(address, name) in addresses {
            let function = builder.name(name);
            builder.address(address, &[Place { function, ..Place::default() }]);
        }
        builder.finish()
    }

    #[test]
    fn a_second_reading_adds_to_the_first() {
        let first = one("/a", State::Read, &[(1, "one"), (5, "five")]);
        let again = one("/a", State::Missing("gone".into()), &[]);
        let more = one("/a", State::Read, &[(3, "three"), (5, "other")]);
        let all = first.with(&again).with(&more).with(&one("/b", State::Changed, &[]));
        let library = all.library("/a", &[]).unwrap();
        assert_eq!((library.addresses(), &library.state), (&[1, 3, 5][..], &State::Read));
        let names: Vec<&str> = [1, 3, 5].map(|address| all.name(library.places(address)[0].function)).into();
        assert_eq!(names, ["one", "three", "five"]);
        assert_eq!(all.library("/b", &[]).unwrap().state, State::Changed);
    }
}
