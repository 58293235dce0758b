//! Names of native addresses, from the files that were loaded: symbol tables, DWARF, separate debug files.
//!
//! Reads only what is asked for, one library after the other, so that a library of half a gigabyte costs some pages of
//! its tables. Names stay as the linker knows them. The one invariant: a file that is not the one that was loaded (by
//! its build id) names nothing.

mod build_id;
mod store;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Instant;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolized, Symbolizer};
use nilometer_trace::symbols::{Place, State, Symbols, SymbolsBuilder};

use build_id::read_build_id;
pub use store::{Store, wanted};

/// Addresses of one library whose names are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wanted {
    pub path: String,
    /// The GNU build id of the loaded file; empty if it has none.
    pub build_id: Vec<u8>,
    /// Addresses of the file: where an instruction is, less the library's bias.
    pub addresses: Vec<u64>,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Named {
    pub symbols: Symbols,
    /// Addresses that were not reached before the deadline.
    pub unread: usize,
}

/// Addresses that are resolved at once: between two such chunks the deadline is looked at.
const CHUNK: usize = 4096;

/// Reads the names of these addresses until the deadline. A library is named as a whole or not at all.
pub fn read_symbols(wanted: Vec<Wanted>, deadline: Option<Instant>) -> Named {
    let mut builder = SymbolsBuilder::default();
    let mut unread = 0;
    for mut library in wanted {
        library.addresses.sort_unstable();
        library.addresses.dedup();
        match read_library(&mut builder, &library, deadline) {
            Some(found) => keep(&mut builder, &library, found),
            None => unread += library.addresses.len(),
        }
    }
    Named { symbols: builder.finish(), unread }
}

struct Found {
    state: State,
    /// As many as there are addresses, or none.
    places: Vec<Vec<Place>>,
}

fn keep(builder: &mut SymbolsBuilder, library: &Wanted, found: Found) {
    builder.library(&library.path, &library.build_id, found.state);
    for (address, places) in library.addresses.iter().zip(found.places) {
        builder.address(*address, &places);
    }
}

/// `None` if the deadline came first.
fn read_library(builder: &mut SymbolsBuilder, library: &Wanted, deadline: Option<Instant>) -> Option<Found> {
    let state = read_state(library);
    if state != State::Read {
        return Some(Found { state, places: Vec::new() });
    }
    // One symbolizer per library: what it keeps in memory goes with it.
    let symbolizer = Symbolizer::builder().enable_demangling(false).enable_auto_reload(false).build();
    let source = Source::Elf(Elf::new(&library.path));
    let mut places = Vec::with_capacity(library.addresses.len());
    for chunk in library.addresses.chunks(CHUNK) {
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            return None;
        }
        match symbolizer.symbolize(&source, Input::VirtOffset(chunk)) {
            Ok(found) => places.extend(chunk.iter().zip(&found).map(|(address, found)| {
                let here = spell(builder, found);
                if here.is_empty() {
                    // A stack may begin at a function's start: its call, counted as one before, is nobody's.
                    let next =
                        symbolizer.symbolize_single(&source, Input::VirtOffset(address.saturating_add(1)));
                    return next.map_or_else(|_| Vec::new(), |next| spell(builder, &next));
                }
                here
            })),
            Err(error) => {
                return Some(Found { state: State::Missing(error.to_string()), places: Vec::new() });
            }
        }
    }
    Some(Found { state, places })
}

/// Is the file still there, and the one that was loaded?
fn read_state(library: &Wanted) -> State {
    let path = Path::new(&library.path);
    if !path.is_absolute() {
        return State::Missing("it has no file".into());
    }
    match read_build_id(path) {
        Err(error) => State::Missing(error.to_string()),
        // Without an id of the loaded file its path must do.
        Ok(found) if !library.build_id.is_empty() && found != library.build_id => State::Changed,
        Ok(_) => State::Read,
    }
}

/// Innermost first.
fn spell(builder: &mut SymbolsBuilder, found: &Symbolized<'_>) -> Vec<Place> {
    let Some(symbol) = found.as_sym() else { return Vec::new() };
    let mut places = Vec::with_capacity(symbol.inlined.len() + 1);
    for call in symbol.inlined.iter().rev() {
        places.push(place(builder, &call.name, call.code_info.as_ref(), true));
    }
    places.push(place(builder, &symbol.name, symbol.code_info.as_deref(), false));
    places
}

fn place(builder: &mut SymbolsBuilder, name: &str, code: Option<&CodeInfo<'_>>, inlined: bool) -> Place {
    Place {
        function: builder.name(name),
        file: code.map_or(0, |code| builder.name(&code.to_path().to_string_lossy())),
        line: code.and_then(|code| code.line).unwrap_or(0),
        inlined,
    }
}
