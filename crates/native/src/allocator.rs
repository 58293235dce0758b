//! Allocators other than glibc's, by name: their inside is not read, so that their memory is one line each.

use std::path::PathBuf;

use nilometer_image::{Module, Modules};

/// An allocator that is loaded; whether it serves `malloc` is another question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allocator {
    /// `jemalloc`, `tcmalloc`, `mimalloc`, …
    pub name: &'static str,
    /// The library, or the program that has it inside.
    pub module: PathBuf,
    pub inside: bool,
}

/// Name, how its library's file name begins, and symbols that a program exports that has it inside.
const KNOWN: &[(&str, &str, &[&str])] = &[
    ("jemalloc", "libjemalloc", &["mallctlnametomib", "je_mallctlnametomib", "_rjem_mallctlnametomib"]),
    (
        "tcmalloc",
        "libtcmalloc",
        &["tc_malloc", "TCMallocInternalMalloc", "MallocExtension_Internal_GetNumericProperty"],
    ),
    ("mimalloc", "libmimalloc", &["mi_malloc", "mi_version"]),
    ("rpmalloc", "librpmalloc", &["rpmalloc"]),
    ("snmalloc", "libsnmalloc", &["sn_malloc"]),
    ("hoard", "libhoard", &["getCustomHeap"]),
    ("AddressSanitizer", "libasan", &["__asan_region_is_poisoned"]),
];

/// Libraries by their names; the program, which comes first, also by what it exports.
pub fn names(modules: &Modules) -> Vec<Allocator> {
    let libraries = modules.iter().filter_map(|module| {
        let known = KNOWN.iter().find(|(_, begin, _)| module.file_name().starts_with(begin))?;
        Some(Allocator { name: known.0, module: module.path().to_owned(), inside: false })
    });
    let mut found: Vec<Allocator> = libraries.collect();
    found.extend(modules.iter().next().into_iter().flat_map(inside));
    found.dedup();
    found
}

fn inside(program: &Module) -> Vec<Allocator> {
    let symbols: Vec<&str> = KNOWN.iter().flat_map(|(_, _, symbols)| symbols.iter().copied()).collect();
    let mut addresses = program.symbols(&symbols).into_iter();
    let has =
        KNOWN.iter().filter(|(_, _, symbols)| addresses.by_ref().take(symbols.len()).flatten().count() > 0);
    has.map(|(name, ..)| Allocator { name, module: program.path().to_owned(), inside: true }).collect()
}
