//! `nilo where`: every resident byte has one line, and the lines are the truth.

use std::collections::HashMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::harness::{Dialogue, Lab, c_program, finish, nilo_binary, py_program, skip, text};
use crate::heap_target::{Target, numpy, tracer};
use crate::watched::{MIB, assert_near, is_root, number_of, python};

const NOBODY: u32 = 65_534;

fn ledger(lab: &Lab, words: &[&str]) -> Output {
    finish(lab.nilo(["where"]).args(words).env("LC_ALL", "C.UTF-8"))
}

#[track_caller]
pub fn screen(lab: &Lab, words: &[&str]) -> String {
    let output = ledger(lab, words);
    assert_eq!(output.status.code(), Some(0), "nilo where {words:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

/// The document of a ledger: it follows the schema, and every process of it closes.
#[track_caller]
pub fn document(lab: &Lab, words: &[&str]) -> Value {
    let shown = screen(lab, &[words, &["--json"]].concat());
    let document: Value = serde_json::from_str(&shown).expect("one JSON document");
    check_schema(&document);
    let others = document["processes"].as_array().expect("processes");
    for process in others.iter().chain([&document]) {
        check_closes(process);
    }
    document
}

#[track_caller]
fn check_schema(document: &Value) {
    let schema = serde_json::from_str(nilometer_report::ledger::json::SCHEMA).expect("the schema");
    let validator = jsonschema::draft202012::new(&schema).expect("a schema");
    let errors: Vec<String> =
        validator.iter_errors(document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(errors.is_empty(), "{errors:#?}");
}

/// To the byte, and the residual is small.
#[track_caller]
fn check_closes(process: &Value) {
    let parts = process["parts"].as_array().expect("parts");
    let sum: i64 = parts.iter().map(|part| part["bytes"].as_i64().expect("bytes")).sum();
    let (rss, residual) = (number(process, "rss_bytes"), process["residual_bytes"].as_i64().expect("signed"));
    assert_eq!(sum + residual, rss as i64, "{parts:#?}");
    assert!(residual.unsigned_abs() * 50 <= rss, "residual {residual} of {rss}");
}

pub fn number(value: &Value, field: &str) -> u64 {
    value[field].as_u64().unwrap_or_else(|| panic!("{field} is {}", value[field]))
}

/// The bytes of a line; 0 where it has none.
pub fn line(document: &Value, name: &str) -> u64 {
    let parts = document["parts"].as_array().expect("parts");
    parts.iter().filter(|part| part["name"] == name).map(|part| number(part, "bytes")).sum()
}

/// A C program that has told its truth and waits.
struct Heap {
    dialogue: Dialogue,
    in_use: u64,
    free: u64,
    mapped: u64,
}

impl Heap {
    fn start(words: &[&str]) -> Self {
        Self::start_command(Command::new(c_program("where_malloc.c")).args(words))
    }

    fn start_command(command: &mut Command) -> Self {
        let mut dialogue = Dialogue::start(command);
        let [in_use, free, mapped, _] =
            ["uordblks", "fordblks", "hblkhd", "ready"].map(|name| number_of(&dialogue.line(), name));
        Self { dialogue, in_use, free, mapped }
    }

    fn pid(&self) -> String {
        self.dialogue.pid().to_string()
    }

    #[track_caller]
    fn end_unharmed(self) {
        assert_eq!(tracer(self.dialogue.pid()), Some(0));
        let output = self.dialogue.end();
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    }
}

/// Resident bytes of files by path, copies of their pages left out: the kernel's own figures.
fn file_pages(pid: &str) -> HashMap<String, u64> {
    let smaps = std::fs::read_to_string(format!("/proc/{pid}/smaps")).expect("smaps");
    let (mut pages, mut path) = (HashMap::new(), String::new());
    for row in smaps.lines() {
        let words: Vec<&str> = row.split_whitespace().collect();
        match words.as_slice() {
            [range, _, _, _, _, rest @ ..] if range.contains('-') => path = rest.join(" "),
            ["Rss:", kib, "kB"] => {
                *pages.entry(path.clone()).or_default() += kib.parse::<u64>().unwrap() << 10;
            }
            ["Anonymous:", kib, "kB"] => {
                *pages.entry(path.clone()).or_default() -= kib.parse::<u64>().unwrap() << 10;
            }
            _ => {}
        }
    }
    pages.retain(|path, bytes| path.starts_with('/') && *bytes > 0);
    pages
}

fn is_program(path: &str) -> bool {
    path.contains(".so") || path.contains("/bin/")
}

#[test]
fn a_bare_python_closes_and_its_code_is_what_smaps_says() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 50000");
    let pid = target.pid();
    let found = document(&lab, &[&pid]);
    let pages = file_pages(&pid);
    let sum = |wanted: bool| -> u64 {
        pages.iter().filter(|(path, _)| is_program(path) == wanted).map(|(_, bytes)| *bytes).sum()
    };
    assert_eq!(line(&found, "code"), sum(true), "{pages:#?}");
    assert_eq!(line(&found, "files"), sum(false), "{pages:#?}");
    assert_eq!(found["badge"], "exact");
    let rss = number(&found, "rss_bytes");
    assert_near("the kernel's counter", number(&found, "kernel_rss_bytes"), rss, MIB);
    assert!(found["python"].as_str().is_some_and(|version| version.starts_with("3.")));
    // 50,000 nodes with a float, a list and its items: nothing of that is taken for something else.
    assert!(line(&found, "python_objects") > 50_000 * 200, "{:#}", found["parts"]);
    assert!(line(&found, "other_maps") * 50 < rss, "{:#}", found["parts"]);
    assert!(line(&found, "malloc_unknown") == 0, "{:#}", found["parts"]);
    target.end_unharmed();
}

#[test]
fn arrays_are_exact_and_what_was_never_touched_is_beside() {
    let Some(numpy) = numpy() else { return };
    let lab = Lab::new();
    let mut target =
        Dialogue::start(Command::new(python()).arg(py_program("where_arrays.py")).env("PYTHONPATH", &numpy));
    assert_eq!(target.line(), "ready");
    let pid = target.pid().to_string();
    let mut order = |words: &str| {
        target.say(words);
        number_of(&target.line(), "bytes")
    };
    let before = document(&lab, &[&pid]);
    let made = order("arrays 7 300000") + order("arrays 50 1000") + order("arrays 3 2000000");
    let after = document(&lab, &[&pid]);
    assert_eq!(line(&after, "arrays") - line(&before, "arrays"), made);
    assert_eq!(after["python_heap"]["buffers"], number(&before["python_heap"], "buffers") + 60);

    let untouched = order("untouched 8000000");
    let beside = document(&lab, &[&pid]);
    assert!(line(&beside, "arrays") - line(&after, "arrays") <= 4096, "only its first bytes are resident");
    let told = beside["beside"].as_array().expect("beside");
    let told: u64 = told
        .iter()
        .filter(|named| named["name"] == "arrays and tensors, not resident")
        .map(|n| number(n, "bytes"))
        .sum();
    assert_near("not resident", told, untouched, MIB);

    let file = lab.path("data.bin");
    std::fs::write(&file, vec![7u8; 24 << 20]).expect("write");
    order(&format!("map {}", file.display()));
    let mapped = document(&lab, &[&pid]);
    assert!(line(&mapped, "files") - line(&beside, "files") >= 24 * MIB);
    assert_near("arrays", line(&mapped, "arrays"), line(&beside, "arrays"), MIB / 4);
    assert_near("buffers in files", number(&mapped["python_heap"], "buffers_in_files_bytes"), 24 * MIB, 0);
    assert!(screen(&lab, &[&pid]).contains("data.bin 24.0"), "the file is named");
    assert_eq!(target.end().status.code(), Some(0));
}

#[test]
fn eight_threads_that_fragment_are_what_mallinfo_says() {
    let lab = Lab::new();
    let heap = Heap::start(&["fragment"]);
    let found = document(&lab, &[&heap.pid()]);
    let malloc = &found["malloc"];
    assert_near("in use", number(malloc, "in_use_bytes"), heap.in_use, heap.in_use / 100);
    assert_near("free", number(malloc, "free_bytes"), heap.free, heap.free / 100);
    assert_near("mapped", number(malloc, "mapped_bytes"), heap.mapped, 0);
    assert!(heap.mapped > 5 * MIB);
    assert!(number(malloc, "arenas") >= 8, "{malloc:#}");
    // All of it was written to: what is resident is what malloc has, but for the ends of the arenas.
    let in_use = line(&found, "malloc_in_use") + line(&found, "malloc_metadata");
    let tcache = number(malloc, "tcache_bytes");
    assert_near(
        "resident in use",
        in_use + tcache,
        heap.in_use + heap.mapped,
        (heap.in_use + heap.mapped) / 100,
    );
    assert_eq!(line(&found, "malloc_unknown"), 0);
    assert!(line(&found, "stacks") >= 9 * 4096, "{:#}", found["parts"]);
    let rss = number(&found, "rss_bytes");
    assert!(line(&found, "other_maps") * 50 < rss, "{:#}", found["parts"]);
    heap.end_unharmed();
}

#[test]
fn what_was_freed_and_is_held_is_named_with_the_right_hint() {
    let lab = Lab::new();
    let heap = Heap::start(&["held", "500"]);
    let found = document(&lab, &[&heap.pid()]);
    assert_near("held", line(&found, "malloc_held"), 500 * MIB, 2 * MIB);
    let hint = &found["hints"][0];
    assert_eq!(hint["name"], "malloc_trim", "{:#}", found["hints"]);
    assert_near("trimmable", number(hint, "bytes"), 500 * MIB, 2 * MIB);
    let hints: Vec<&Value> = found["hints"].as_array().expect("hints").iter().collect();
    assert_eq!(hints.len(), 1, "one arena is no reason for fewer: {hints:#?}");
    let shown = screen(&lab, &[&heap.pid()]);
    assert!(shown.contains("malloc_trim(0) gives it back") && shown.contains("could go 100 %"), "{shown}");
    heap.end_unharmed();
}

#[test]
fn mapped_data_and_shared_memory_are_no_heap() {
    let lab = Lab::new();
    let data = lab.path("data.bin");
    std::fs::write(&data, vec![1u8; 500 << 20]).expect("write");
    let Ok(shared) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        return skip("/dev/shm", "it is not there");
    };
    shared.as_file().set_len(300 << 20).expect("room");
    let heap = Heap::start(&["maps", data.to_str().unwrap(), "500", shared.path().to_str().unwrap(), "300"]);
    let found = document(&lab, &[&heap.pid()]);
    assert_eq!(line(&found, "files"), 500 * MIB);
    assert_eq!(line(&found, "shared_memory"), 300 * MIB);
    let heap_lines: u64 =
        ["malloc_in_use", "malloc_held", "other_maps", "arrays"].map(|name| line(&found, name)).iter().sum();
    assert!(heap_lines < MIB, "{:#}", found["parts"]);
    heap.end_unharmed();
}

#[test]
fn one_line_adds_up_and_libraries_are_ranked() {
    let lab = Lab::new();
    let target = Target::start();
    let shown = screen(&lab, &[&target.pid(), "--line"]);
    let numbers: Vec<i64> =
        shown.split_whitespace().filter_map(|word| word.strip_suffix('M')?.parse().ok()).collect();
    assert_eq!(numbers.len(), 5, "{shown}");
    assert_eq!(numbers[0], numbers[1..].iter().sum::<i64>(), "{shown}");
    let found = document(&lab, &[&target.pid()]);
    let libraries = found["libraries"].as_array().expect("libraries");
    assert_eq!(libraries[0]["name"], "python", "{libraries:#?}");
    let code: u64 = libraries.iter().map(|library| number(library, "code_bytes")).sum();
    assert_eq!(code, line(&found, "code"));
    let ranked = screen(&lab, &[&target.pid(), "--by", "library"]);
    assert!(ranked.contains("python") && ranked.contains("libc"), "{ranked}");
    target.end_unharmed();
}

#[test]
fn without_a_stop_it_is_estimated_and_still_closes() {
    let lab = Lab::new();
    let mut target = Target::start();
    target.order("grow 20000");
    let found = document(&lab, &[&target.pid(), "--pause", "off"]);
    assert_eq!((&found["badge"], &found["pause"]["stopped_ns"]), (&"estimated".into(), &0.into()));
    let exact = document(&lab, &[&target.pid()]);
    assert_near("objects", line(&found, "python_objects"), line(&exact, "python_objects"), MIB);
    target.end_unharmed();
}

#[test]
fn a_tree_is_told_process_by_process_and_once_in_all() {
    let lab = Lab::new();
    let program = c_program("where_malloc.c");
    let script = "exec 3<&0; \"$0\" held 20 <&3 & \"$0\" held 30 <&3 & wait";
    let mut shell = Dialogue::start(Command::new("sh").args(["-c", script]).arg(&program));
    let mut ready = 0;
    while ready < 2 {
        ready += usize::from(shell.line().starts_with("ready "));
    }
    let found = document(&lab, &[&shell.pid().to_string()]);
    let others = found["processes"].as_array().expect("processes");
    assert_eq!(others.len(), 2, "{others:#?}");
    // Largest first.
    for (process, mib) in others.iter().zip([30, 20]) {
        assert_near("held", line(process, "malloc_held"), mib * MIB, MIB);
    }
    let all: Vec<&Value> = others.iter().chain([&found]).collect();
    let pss: u64 = all.iter().map(|process| number(process, "pss_bytes")).sum();
    assert_eq!(number(&found["tree"], "pss_bytes"), pss);
    assert!(number(&found["tree"], "rss_sum_bytes") > pss);
    assert!(
        document(&lab, &[&shell.pid().to_string(), "--single"])["processes"]
            .as_array()
            .expect("processes")
            .is_empty()
    );
    shell.end();
}

/// What a process shares with nobody.
fn private_bytes(pid: u64) -> u64 {
    let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).expect("smaps_rollup");
    let private = rollup.lines().filter_map(|row| row.strip_prefix("Private_"));
    private.filter_map(|row| row.split_whitespace().nth(1)?.parse::<u64>().ok()).sum::<u64>() << 10
}

/// Eight children of one parent: four read a million floats, four an array.
#[test]
fn children_that_read_a_list_unshare_it_and_those_that_read_an_array_do_not() {
    let lab = Lab::new();
    let mut parent = Command::new(python());
    parent.arg(py_program("where_fork.py")).arg("1000000");
    parent.envs(numpy().map(|numpy| ("PYTHONPATH", numpy)));
    let mut family = Dialogue::start(&mut parent);
    let told: Vec<(u64, u64)> = (0..8)
        .map(|_| {
            let words = family.line();
            let mut words = words.split(' ').map(|word| word.parse::<u64>().expect("a number"));
            (words.next().expect("a pid"), words.next().expect("bytes"))
        })
        .collect();
    let (readers, calm) = told.split_at(4);
    let before = private_bytes(calm[0].0);
    let found = document(&lab, &[&family.pid().to_string()]);
    // Pinning a shared page copies it: whoever looks must not make workers larger.
    assert_near("private after a look", private_bytes(calm[0].0), before, MIB / 4);
    let others = found["processes"].as_array().expect("processes");
    let of = |pid: u64| &others.iter().find(|process| process["pid"] == pid).expect("the child")["unshared"];
    for (pid, own) in readers {
        let unshared = of(*pid);
        assert_eq!(unshared["parent"], family.pid());
        // A million floats of 24 bytes: each page of them was written to by counting references.
        assert!(*own > 20 * MIB, "{own}");
        assert_near("un-shared", number(unshared, "bytes"), *own, own / 20 + MIB);
        assert_eq!(unshared["kinds"][0]["name"], "float", "{unshared:#}");
        let share = number(&unshared["kinds"][0], "bytes") as f64 / number(unshared, "objects_bytes") as f64;
        assert!(share > 0.8, "{unshared:#}");
    }
    for (pid, own) in calm {
        let unshared = of(*pid);
        assert_near("un-shared by reading an array", number(unshared, "bytes"), *own, own / 20 + MIB);
        assert!(
            number(unshared, "bytes") < 4 * MIB && number(unshared, "shared_bytes") > 60 * MIB,
            "{unshared:#}"
        );
    }
    let shown = screen(&lab, &[&family.pid().to_string()]);
    assert!(shown.contains("un-shared since the fork from") && shown.contains(" float"), "{shown}");
    assert!(found["unshared"].is_null(), "the parent was started, not forked");
    assert_eq!(family.end().status.code(), Some(0));
}

#[test]
fn another_allocator_is_one_line_with_its_name() {
    let lab = Lab::new();
    let mut target = Dialogue::start(&mut Command::new(c_program("where_allocator.c")));
    number_of(&target.line(), "ready");
    let found = document(&lab, &[&target.pid().to_string()]);
    assert_near("its line", line(&found, "other_allocator"), 30 * MIB, MIB);
    assert_eq!(found["allocators"][0], "mimalloc");
    assert!(screen(&lab, &[&target.pid().to_string()]).contains("inside not read (mimalloc 30"));
    assert_eq!(target.end().status.code(), Some(0));
}

/// `nilo` as somebody else: only the counters are open to all.
#[test]
fn what_may_not_be_read_still_closes_and_names_the_rule() {
    if !is_root() {
        return skip("root", "to become somebody else");
    }
    let lab = Lab::new();
    std::fs::set_permissions(lab.path(""), PermissionsExt::from_mode(0o777)).expect("chmod");
    let binary = lab.path("nilo");
    std::fs::copy(nilo_binary(), &binary).expect("copy"); // the build directory may be closed to others
    let heap = Heap::start(&["held", "20"]);
    let shown = as_nobody(&binary, &[&heap.pid(), "--json"]);
    let found: Value = serde_json::from_str(&shown).expect("one JSON document");
    check_schema(&found);
    check_closes(&found);
    assert_eq!(found["badge"], "counters");
    assert!(line(&found, "anonymous") > 20 * MIB, "{:#}", found["parts"]);
    let note = found["notes"][0].as_str().expect("a note");
    assert!(note.contains("not readable here") && note.contains("user"), "{note}");
    heap.end_unharmed();
}

/// The same user, but the process does not let itself be read: its mappings are closed as well.
#[test]
fn a_process_of_the_same_user_is_told_by_its_mappings_where_memory_is_closed() {
    let pid = std::process::id() as i32;
    let found = nilometer_capture::ledger::by_mappings(pid).expect("our own mappings");
    assert_eq!(found.explained_bytes() as i64 + found.residual_bytes, found.rss_bytes as i64);
    assert_eq!(found.residual_bytes, 0);
    let anonymous = found.bytes(nilometer_trace::ledger::Line::Anonymous);
    assert!(anonymous > 0 && found.bytes(nilometer_trace::ledger::Line::Code) > 0);
}

fn as_nobody(binary: &Path, words: &[&str]) -> String {
    let mut command = Command::new(binary);
    command.arg("where").args(words).uid(NOBODY).gid(NOBODY).env("LC_ALL", "C.UTF-8");
    let output = finish(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

#[test]
fn what_is_no_process_is_refused_with_a_hint() {
    let lab = Lab::new();
    for words in ["x", "0", "-1", "@0"] {
        let output = ledger(&lab, &["--", words]);
        assert_eq!(output.status.code(), Some(125), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("hint: "), "{}", text(&output.stderr));
    }
    let mut gone = Command::new("true").spawn().expect("spawn");
    gone.wait().expect("wait");
    let output = ledger(&lab, &[&gone.id().to_string()]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("is gone"), "{}", text(&output.stderr));
}

/// Interpreters that bring a libc of their own (2.31 to 2.43), unpacked by the test step.
#[test]
fn the_malloc_of_other_libcs_is_what_they_say() {
    let lab = Lab::new();
    let cache = std::env::var_os("NILO_TEST_CACHE").map(std::path::PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache/nilometer")));
    let folder = cache.map(|cache| cache.join("interpreters")).unwrap_or_default();
    let mut seen = 0;
    for version in ["3.13.5", "3.14.10", "3.15.2"] {
        let python = folder.join(version).join("python");
        if !python.exists() {
            continue;
        }
        let program = py_program("where_mallinfo.py");
        let mut target = Dialogue::start(Command::new(&python).arg(program));
        // What the first answer allocates is there at the second.
        let [in_use, free] = [0, 1].map(|_| {
            target.say("tell");
            [number_of(&target.line(), "in_use"), number_of(&target.line(), "free")]
        })[1];
        let found = document(&lab, &[&target.pid().to_string()]);
        let malloc = &found["malloc"];
        let all = in_use + free;
        assert_near(version, number(malloc, "in_use_bytes"), in_use, all / 100);
        assert_near(version, number(malloc, "free_bytes"), free, all / 100);
        assert_eq!((&found["badge"], line(&found, "malloc_unknown")), (&"exact".into(), 0), "{version}");
        assert_eq!(target.end().status.code(), Some(0));
        seen += 1;
    }
    if seen == 0 {
        skip("other interpreters", "cargo xtask interpreters has not run here");
    }
}

/// A library out of a Debian package, unpacked once into the cache folder.
fn debian_library(package: &str, file: &str) -> Option<String> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../native/tests/programs/fetch_debian.sh");
    let fetched = Command::new("sh").args([script, "bookworm", package]).output().expect("sh");
    if !fetched.status.success() {
        skip("apt-get", text(&fetched.stderr).trim());
        return None;
    }
    Some(format!("{}/usr/lib/x86_64-linux-gnu/{file}", text(&fetched.stdout).trim()))
}

#[test]
fn arrays_are_exact_whoever_serves_malloc() {
    let lab = Lab::new();
    for (package, file, name) in [
        ("libjemalloc2", "libjemalloc.so.2", "jemalloc"),
        ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4", "tcmalloc"),
        ("libmimalloc2.0", "libmimalloc.so.2.0", "mimalloc"),
    ] {
        let Some(library) = debian_library(package, file) else { return };
        let mut command = Command::new(python());
        command.arg(py_program("where_grow.py")).env("LD_PRELOAD", library);
        let mut target = Dialogue::start(&mut command);
        assert_eq!(target.line(), "ready");
        target.say("buffers 32");
        number_of(&target.line(), "bytes");
        let found = document(&lab, &[&target.pid().to_string()]);
        assert_eq!(found["allocators"][0], name);
        assert_near(name, line(&found, "arrays"), 32 * MIB, MIB / 4);
        assert!(line(&found, "other_allocator") > 0, "{name}: {:#}", found["parts"]);
        assert_eq!(line(&found, "malloc_unknown"), 0, "{name}");
        assert_eq!(target.end().status.code(), Some(0));
    }
}
