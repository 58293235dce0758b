//! Single lines of the ledger against what the program, the interpreter or the kernel says of them.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::harness::{Dialogue, Lab, c_library, py_program, skip, text};
use crate::heap_target::numpy;
use crate::heap_torch::python_with_torch;
use crate::limited::Limited;
use crate::watched::{MIB, assert_near, number_of, python};
use crate::where_ledger::{document, line, number, screen};

/// What `sys._debugmallocstats` says of its free lists: `80 free PyListObjects * 40 bytes each = 3,200`, and
/// `625 free 1-sized PyTupleObjects * 32 bytes each`.
fn told_free_bytes(stats: &str) -> u64 {
    let entry = |line: &str| -> Option<u64> {
        let (count, rest) = line.split_once(" free ")?;
        let (name, rest) = rest.split_once(" * ")?;
        let each: u64 = rest.split(' ').next()?.parse().ok()?;
        // Lists of objects with a collector's header say their size without it.
        let header = if name.contains("Float") { 0 } else { 16 };
        let block = (each + header).next_multiple_of(16);
        (block <= 512).then_some(count.trim().parse::<u64>().ok()? * block)
    };
    stats.lines().filter_map(entry).sum()
}

#[test]
fn free_lists_are_what_the_interpreter_says() {
    let lab = Lab::new();
    let mut target = Dialogue::start(Command::new(python()).arg(py_program("where_free_lists.py")));
    assert_eq!(target.line(), "ready");
    let found = line(&document(&lab, &[&target.pid().to_string()]), "python_free");
    let told = told_free_bytes(&text(&target.end().stderr));
    assert!(told > 64 << 10, "{told}");
    assert_near("free lists", found, told, told / 20 + 1024);
}

#[test]
fn what_an_optimizer_keeps_is_told_apart_to_the_byte() {
    let Some(torch) = python_with_torch() else { return };
    let lab = Lab::new();
    for optimizer in ["adamw", "plain", "own"] {
        let mut target =
            Dialogue::start(Command::new(&torch).arg(py_program("where_optimizer.py")).arg(optimizer));
        let told = ["weights", "gradients", "state"].map(|name| number_of(&target.line(), name));
        let found = document(&lab, &[&target.pid().to_string()]);
        let found = ["weights_bytes", "gradients_bytes", "optimizer_bytes"]
            .map(|name| number(&found["python_heap"], name));
        assert_eq!(found, told, "{optimizer}");
        assert_eq!(target.end().status.code(), Some(0));
    }
}

#[test]
fn mappings_of_a_library_have_its_name() {
    let Some(numpy) = numpy() else { return };
    assert_pool_has_its_name(&numpy, |_| {});
}

/// An int that was written over half of an old pointer into a library then reads like a pointer to the mapping.
#[test]
fn mappings_of_a_library_have_its_name_where_the_lower_half_of_their_address_is_zero() {
    let Some(numpy) = numpy() else { return };
    assert_pool_has_its_name(&numpy, |program| {
        program.env("LD_PRELOAD", c_library("round_mmap.c"));
    });
}

fn assert_pool_has_its_name(numpy: &Path, prepare: impl FnOnce(&mut Command)) {
    let lab = Lab::new();
    let mut program = Command::new(python());
    program.arg(py_program("where_pool.py")).env("PYTHONPATH", numpy).env("OPENBLAS_NUM_THREADS", "1");
    prepare(&mut program);
    let mut target = Dialogue::start(&mut program);
    let told = number_of(&target.line(), "pool");
    assert!(told >= MIB, "{told}");
    let found = document(&lab, &[&target.pid().to_string()]);
    let parts = found["parts"].as_array().expect("parts");
    let maps = parts.iter().find(|part| part["name"] == "other_maps").expect("other maps");
    // Outside of `site-packages` the file's own name stands for the package.
    let is_pool =
        |row: &&Value| row["name"].as_str().is_some_and(|name| name.starts_with("held by libscipy_openblas"));
    let named = maps["detail"].as_array().expect("details").iter().find(is_pool);
    assert_eq!(number(named.unwrap_or_else(|| panic!("{maps:#}")), "bytes"), told);
    assert_eq!(target.end().status.code(), Some(0));
}

/// A package whose module holds ten thousand texts, and a program that holds a buffer of its own.
#[test]
fn what_importing_a_package_costs_is_what_its_modules_hold() {
    let lab = Lab::new();
    let package = lab.path("site-packages/ballast");
    std::fs::create_dir_all(&package).expect("a package");
    let body = "import sys\n\
                from os.path import join\n\
                TEXTS = ['x' * 300 + str(number) for number in range(10000)]\n\
                BYTES = sys.getsizeof(TEXTS) + sum(sys.getsizeof(text) for text in TEXTS)\n";
    std::fs::write(package.join("__init__.py"), body).expect("a module");
    let main = "import sys, ballast\n\
                from ballast import TEXTS\n\
                own = bytearray(b'x') * (8 << 20)\n\
                print('bytes', ballast.BYTES, flush=True)\n\
                sys.stdin.read()";
    let mut target = Dialogue::start(
        Command::new(python()).args(["-c", main]).env("PYTHONPATH", lab.path("site-packages")),
    );
    let told = number_of(&target.line(), "bytes");
    let pid = target.pid().to_string();
    let found = document(&lab, &[&pid, "--by", "library"]);
    let libraries = found["libraries"].as_array().expect("libraries");
    let held = |name: &str| {
        let library = libraries.iter().find(|library| library["name"] == name);
        number(library.unwrap_or_else(|| panic!("{name} in {libraries:#?}")), "held_bytes")
    };
    // Blocks are multiples of 16 bytes.
    assert_near("ballast", held("ballast"), told, told / 20);
    assert_near("__main__", held("__main__"), 8 * MIB, MIB / 4);
    assert!(held("python") > MIB / 4, "{}", held("python"));
    let shown = screen(&lab, &[&pid, "--by", "library"]);
    assert!(shown.contains("ballast") && shown.contains("modules"), "{shown}");
    let plain = document(&lab, &[&pid]);
    assert!(plain["libraries"][0].get("held_bytes").is_none(), "not asked for");
    assert_eq!(target.end().status.code(), Some(0));
}

/// What was private and written of all processes of a group is what the kernel charges to it.
#[test]
fn a_tree_counted_once_is_what_its_cgroup_is_charged() {
    let lab = Lab::new();
    let group = match Limited::new(900, 900) {
        Ok(group) => group,
        Err(why) => return skip("memory cgroup", &why),
    };
    let program = py_program("where_fork.py");
    let mut family = Dialogue::start(group.enter(python()).arg(program).arg("300000"));
    for _ in 0..8 {
        family.line();
    }
    let found = document(&lab, &[&family.pid().to_string()]);
    let charged = group.anonymous_bytes();
    let parts = found["tree"]["parts"].as_array().expect("parts");
    let of_files = ["code", "files", "shared_memory"];
    let is_charged = |part: &&Value| !of_files.iter().any(|name| part["name"] == *name);
    let counted: u64 = parts.iter().filter(is_charged).map(|part| number(part, "pss_bytes")).sum();
    assert!(charged > 64 * MIB, "{charged}");
    assert_near("the tree", counted, charged, charged / 100);
    assert_eq!(found["tree"]["processes"], 9);
    assert_eq!(family.end().status.code(), Some(0));
}
