//! The programs and libraries that a target has loaded.
//!
//! A file is opened and parsed when something is asked of it, never before: a training job has gigabytes of libraries
//! mapped, and only two or three of them matter. Look by file name first.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::Mapping;
use crate::elf::Elf;
use crate::files::{Backing, Files};

/// All files that a target has mapped, in order of address.
#[derive(Debug, Default)]
pub struct Modules {
    modules: Vec<Module>,
}

/// A mapped file: a program or a library, if it can be parsed as one.
#[derive(Debug)]
pub struct Module {
    file: Arc<Backing>,
    mappings: Vec<Mapping>,
}

impl Modules {
    /// `files` are of these mappings.
    pub(crate) fn new(mappings: &[Mapping], files: &Files) -> Self {
        let mut modules: Vec<Module> = Vec::new();
        for (index, mapping) in mappings.iter().enumerate() {
            let Some(file) = files.of(index) else { continue };
            match modules.iter_mut().rev().find(|module| Arc::ptr_eq(&module.file, file)) {
                // The parts of one loading follow each other in the file too; a smaller offset begins another one.
                Some(module) if module.last_offset() <= mapping.offset => {
                    module.mappings.push(mapping.clone());
                }
                _ => modules.push(Module { file: Arc::clone(file), mappings: vec![mapping.clone()] }),
            }
        }
        Self { modules }
    }

    pub fn iter(&self) -> std::slice::Iter<'_, Module> {
        self.modules.iter()
    }

    /// The first whose file name is accepted; nothing is opened for the others.
    pub fn find(&self, accepts: impl Fn(&str) -> bool) -> Option<&Module> {
        self.find_all(accepts).next()
    }

    pub fn find_all(&self, accepts: impl Fn(&str) -> bool) -> impl Iterator<Item = &Module> {
        self.modules.iter().filter(move |module| accepts(&module.file_name()))
    }

    /// The one that has `address` in one of its mappings.
    pub fn at(&self, address: u64) -> Option<&Module> {
        self.modules
            .iter()
            .find(|module| module.mappings.iter().any(|mapping| mapping.range().contains(&address)))
    }
}

impl<'a> IntoIterator for &'a Modules {
    type Item = &'a Module;
    type IntoIter = std::slice::Iter<'a, Module>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl Module {
    /// As the target sees it.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    pub fn file_name(&self) -> std::borrow::Cow<'_, str> {
        self.path().file_name().unwrap_or_default().to_string_lossy()
    }

    /// Its lines of the list of mappings.
    pub fn mappings(&self) -> &[Mapping] {
        &self.mappings
    }

    /// From its first mapping to the end of its last.
    pub fn range(&self) -> Range<u64> {
        let start = self.mappings.first().map_or(0, |mapping| mapping.start);
        start..self.mappings.last().map_or(start, |mapping| mapping.end)
    }

    /// What to add to an address of the file; 0 for a program at a fixed address.
    pub fn bias(&self) -> Option<u64> {
        let first = self.mappings.first()?;
        self.elf()?.bias(first.start, first.offset)
    }

    pub fn build_id(&self) -> Option<Vec<u8>> {
        Some(self.elf()?.build_id()?.to_vec())
    }

    /// Where symbols are in the target: exported ones first, then those that only a file that was not stripped has.
    pub fn symbols(&self, names: &[&str]) -> Vec<Option<u64>> {
        let Some((elf, bias)) = self.elf().zip(self.bias()) else { return vec![None; names.len()] };
        let shifted = |address: Option<u64>| Some(address?.wrapping_add(bias));
        elf.symbols(names).into_iter().map(shifted).collect()
    }

    /// Exported variables whose names begin like this and are accepted, and where they are in the target. All of its names
    /// are gone through, and do not stay in memory.
    pub fn variables(&self, prefix: &str, accepts: impl Fn(&str) -> bool) -> Vec<(String, u64)> {
        let exports = self.elf().and_then(|elf| elf.exports());
        let Some((exports, bias)) = exports.zip(self.bias()) else { return Vec::new() };
        let variables = exports.variables(prefix, accepts, |part| self.file.give_back(part)).into_iter();
        variables.map(|(name, address)| (name, address.wrapping_add(bias))).collect()
    }

    /// Its initialised variables: the part of its writable segment that comes from the file.
    pub fn data_range(&self) -> Option<Range<u64>> {
        self.shifted(self.elf()?.writable()?.0)
    }

    /// Its variables that begin as zeros.
    pub fn bss_range(&self) -> Option<Range<u64>> {
        self.shifted(self.elf()?.writable()?.1)
    }

    /// A section by its name, `.data.rel.ro` for instance.
    pub fn section(&self, name: &str) -> Option<Range<u64>> {
        self.shifted(self.elf()?.section(name)?)
    }

    fn shifted(&self, range: Range<u64>) -> Option<Range<u64>> {
        let bias = self.bias()?;
        let shifted = range.start.wrapping_add(bias)..range.end.wrapping_add(bias);
        (shifted.start <= shifted.end).then_some(shifted)
    }

    fn elf(&self) -> Option<Elf<'_>> {
        Elf::parse(self.file.bytes()?)
    }

    fn last_offset(&self) -> u64 {
        self.mappings.last().map_or(0, |mapping| mapping.offset)
    }
}
