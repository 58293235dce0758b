//! Programs whose addresses are known by `nm` and by the debugger's own lines.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

const SOURCE: &str = r#"
#include <stdlib.h>
static inline __attribute__((always_inline)) void *inner(size_t n) {
    return malloc(n);
}
__attribute__((noinline)) void *outer(size_t n) {
    void *block = inner(n);
    __asm__ volatile("" ::"r"(block) : "memory");
    return block;
}
static __attribute__((noinline)) int hidden(int n) {
    __asm__ volatile("" ::"r"(n) : "memory");
    return n + 1;
}
int main(int argc, char **argv) {
    (void)argv;
    free(outer(argc));
    return hidden(argc) == 0;
}
"#;

fn build(folder: &Path, name: &str, flags: &[&str]) -> PathBuf {
    let (source, program) = (folder.join("known.c"), folder.join(name));
    std::fs::write(&source, SOURCE).unwrap();
    let done = Command::new("cc").args(flags).arg("-o").arg(&program).arg(&source).status().unwrap();
    assert!(done.success());
    program
}

/// `nm`'s address of a function.
fn address_of(program: &Path, function: &str) -> u64 {
    let output = Command::new("nm").arg(program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let line = text.lines().find(|line| line.ends_with(&format!(" {function}"))).unwrap();
    u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap()
}

fn wanted(program: &Path, addresses: &[u64]) -> Wanted {
    let build_id = read_build_id(program).unwrap();
    Wanted { path: program.to_str().unwrap().to_owned(), build_id, addresses: addresses.to_vec() }
}

fn names(symbols: &Symbols, address: u64) -> Vec<(String, String, u32, bool)> {
    let spelt = |place: &Place| {
        let file = symbols.name(place.file).rsplit('/').next().unwrap().to_owned();
        (symbols.name(place.function).to_owned(), file, place.line, place.inlined)
    };
    symbols.libraries[0].places(address).iter().map(spelt).collect()
}

/// Every address of `outer`, asked of binutils: function and line, innermost first.
fn truth(program: &Path, addresses: &[u64]) -> Vec<Vec<(String, u32)>> {
    let hex: Vec<String> = addresses.iter().map(|address| format!("{address:x}")).collect();
    let output = Command::new("addr2line").args(["-afi", "-e"]).arg(program).args(&hex).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut found: Vec<Vec<(String, u32)>> = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("0x") {
            found.push(Vec::new());
            continue;
        }
        let place = lines.next().unwrap();
        let number = place.split(' ').next().unwrap().rsplit(':').next().unwrap();
        found.last_mut().unwrap().push((line.to_owned(), number.parse().unwrap_or(0)));
    }
    found
}

#[test]
fn lines_and_inlined_functions_are_those_of_binutils() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "debug", &["-O2", "-g"]);
    let start = address_of(&program, "outer");
    let addresses: Vec<u64> = (start..start + 12).collect();
    let named = read_symbols(vec![wanted(&program, &addresses)], None);
    assert_eq!(named.unread, 0);
    let mut inlined = 0;
    for (address, truth) in addresses.iter().zip(truth(&program, &addresses)) {
        let found = names(&named.symbols, *address);
        let short: Vec<(String, u32)> = found.iter().map(|place| (place.0.clone(), place.2)).collect();
        assert_eq!(short, truth, "{address:x}");
        assert!(found.iter().all(|place| place.1 == "known.c"));
        inlined += usize::from(found.len() == 2 && found[0].3 && !found[1].3);
    }
    assert!(inlined > 0, "no address is in the inlined function");
}

#[test]
fn without_debug_information_functions_are_named_also_local_ones() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "plain", &["-O2"]);
    let addresses = [address_of(&program, "outer") + 1, address_of(&program, "hidden") + 1];
    let named = read_symbols(vec![wanted(&program, &addresses)], None);
    let found: Vec<String> =
        addresses.iter().map(|address| names(&named.symbols, *address)[0].0.clone()).collect();
    assert_eq!(found, ["outer", "hidden"]);
}

#[test]
fn the_byte_before_a_function_is_the_function_where_it_is_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "start", &["-O2", "-falign-functions=64"]);
    let before = address_of(&program, "outer") - 1;
    let named = read_symbols(vec![wanted(&program, &[before, 3])], None);
    assert_eq!(names(&named.symbols, before)[0].0, "outer");
    assert_eq!(names(&named.symbols, 3), []);
}

#[test]
fn a_separate_debug_file_is_found_by_its_link() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "stripped", &["-O2", "-g"]);
    let address = address_of(&program, "hidden") + 1;
    let debug = folder.path().join("stripped.debug");
    let run = |program: &str, args: &[&str]| {
        let done = Command::new(program).args(args).current_dir(folder.path()).status().unwrap();
        assert!(done.success(), "{program}");
    };
    run("objcopy", &["--only-keep-debug", "stripped", debug.to_str().unwrap()]);
    run("strip", &["stripped"]);
    run("objcopy", &["--add-gnu-debuglink=stripped.debug", "stripped"]);
    let named = read_symbols(vec![wanted(&program, &[address])], None);
    let found = names(&named.symbols, address);
    assert_eq!((found[0].0.as_str(), found[0].1.as_str()), ("hidden", "known.c"));
}

#[test]
fn another_file_at_the_same_place_names_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "changed", &["-O2", "-Wl,--build-id"]);
    let asked = wanted(&program, &[address_of(&program, "outer")]);
    build(folder.path(), "changed", &["-O1", "-g", "-Wl,--build-id"]);
    let mut gone = asked.clone();
    gone.path += ".gone";
    let special = Wanted { path: "linux-vdso.so.1".into(), ..asked.clone() };
    std::fs::write(folder.path().join("text"), "not a program").unwrap();
    let text = Wanted { path: folder.path().join("text").to_str().unwrap().into(), ..asked.clone() };
    let named = read_symbols(vec![asked, gone, special, text], None);
    let states: Vec<&State> = named.symbols.libraries.iter().map(|library| &library.state).collect();
    assert_eq!(states[0], &State::Changed);
    assert!(states[1..].iter().all(|state| matches!(state, State::Missing(_))), "{states:?}");
    assert!(named.symbols.libraries.iter().all(|library| library.addresses().is_empty()));
}

#[test]
fn a_deadline_leaves_libraries_unread() {
    let folder = tempfile::tempdir().unwrap();
    let program = build(folder.path(), "late", &["-O2"]);
    let asked = wanted(&program, &[address_of(&program, "outer")]);
    let named = read_symbols(vec![asked.clone(), asked], Some(Instant::now()));
    assert_eq!((named.unread, named.symbols.libraries.len()), (2, 0));
}
