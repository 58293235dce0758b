//! The names of a run directory: what is missing is read and added.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use nilometer_trace::allocs::{Frame, Recording};
use nilometer_trace::symbols::{self, Error, Symbols};

use super::{Wanted, read_symbols};

/// What a run directory knows of names.
#[derive(Debug)]
pub struct Store {
    directory: PathBuf,
    symbols: Symbols,
    changed: bool,
}

impl Store {
    /// What is there already; a damaged file counts as none and is replaced.
    pub fn open(directory: &Path) -> Self {
        let symbols = symbols::read(directory).ok().flatten().unwrap_or_default();
        Self { directory: directory.to_owned(), symbols, changed: false }
    }

    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// Reads names that are not known yet, until the deadline. Gives the number of addresses that were not reached.
    pub fn read(&mut self, wanted: Vec<Wanted>, deadline: Option<Instant>) -> usize {
        let mut missing: Vec<Wanted> = wanted
            .into_iter()
            .map(|library| self.missing(library))
            .filter(|w| !w.addresses.is_empty())
            .collect();
        // Most libraries are small: they shall not wait for the large ones.
        missing.sort_by_key(|library| library.addresses.len());
        if missing.is_empty() {
            return 0;
        }
        let named = read_symbols(missing, deadline);
        if !named.symbols.libraries.is_empty() {
            self.symbols = std::mem::take(&mut self.symbols).with(&named.symbols);
            self.changed = true;
        }
        named.unread
    }

    fn missing(&self, mut library: Wanted) -> Wanted {
        if let Some(known) = self.symbols.library(&library.path, &library.build_id) {
            library.addresses.retain(|address| known.addresses().binary_search(address).is_err());
        }
        library
    }

    /// Writes what was added; nothing if nothing was.
    pub fn write(&self) -> Result<(), Error> {
        if self.changed { symbols::write(&self.directory, &self.symbols) } else { Ok(()) }
    }
}

/// The addresses whose names a recording needs, by library.
pub fn wanted(recording: &Recording) -> Vec<Wanted> {
    let mut addresses: Vec<BTreeSet<u64>> = vec![BTreeSet::new(); recording.modules.len()];
    for node in &recording.nodes {
        if let Frame::Native { module: Some(module), address } = node.frame
            && let Some(of_module) = addresses.get_mut(module as usize)
        {
            of_module.insert(address);
        }
    }
    let libraries = recording.modules.iter().zip(addresses).filter(|(_, addresses)| !addresses.is_empty());
    libraries
        .map(|(module, addresses)| Wanted {
            path: module.path.clone(),
            build_id: module.build_id.clone(),
            addresses: addresses.into_iter().collect(),
        })
        .collect()
}
