//! What `nilo heap` cannot read, and how it says so: one sentence, the rule, the next command.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::harness::{Dialogue, Lab, c_program, finish, nilo_binary, py_program, skip, text};
use crate::heap_target::{Target, document, dump_core, refusal, row, screen};
use crate::onlooker::{children, stat, until};
use crate::watched::{is_root, number_of, python};

const NOBODY: u32 = 65_534;

#[test]
fn a_program_that_is_not_python() {
    let lab = Lab::new();
    let mut puppet = Dialogue::start(&mut Command::new(c_program("puppet.c")));
    let pid = number_of(&puppet.line(), "ready").to_string();
    let said = refusal(&lab, &[&pid], 5);
    assert!(said.contains("no CPython in the process"), "{said}");
    assert!(said.contains(&format!("nilo attach {pid}")), "{said}");
    assert_eq!(puppet.end().status.code(), Some(0));
}

/// A shell that waits for one Python, or for two.
fn launcher(pythons: usize) -> Dialogue {
    let script = (0..pythons).map(|_| r#""$0" "$1" <&3 & "#).collect::<String>();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec 3<&0; {script} wait")]).arg(python()).arg(py_program("heap_nodes.py"));
    let mut shell = Dialogue::start(&mut shell);
    for _ in 0..pythons {
        assert_eq!(shell.line(), "ready");
    }
    shell
}

#[test]
fn a_launcher_stands_for_the_one_python_below_it() {
    let lab = Lab::new();
    let shell = launcher(1);
    let pid = shell.pid().to_string();
    let child = children(shell.pid())[0].0;
    let found = document(&lab, &[&pid]);
    assert_eq!(found["pid"], child);
    let said = refusal(&lab, &[&pid, "--single"], 5);
    assert!(said.contains(&format!("nilo heap {child}")), "{said}");
    shell.end();
}

#[test]
fn of_several_pythons_below_a_launcher_none_is_guessed() {
    let lab = Lab::new();
    let shell = launcher(2);
    let said = refusal(&lab, &[&shell.pid().to_string()], 5);
    for (child, _) in children(shell.pid()) {
        assert!(said.contains(&child.to_string()), "{said}");
    }
    assert!(said.contains("heap_nodes.py") && said.contains("nilo heap "), "{said}");
    shell.end();
}

#[test]
fn processes_that_are_not_there() {
    let lab = Lab::new();
    let mut gone = Command::new("true").spawn().expect("spawn");
    let pid = gone.id();
    until("it has ended", || stat(pid as i32).is_some_and(|s| s.state == 'Z'));
    let said = refusal(&lab, &[&pid.to_string()], 125);
    assert!(said.contains("has ended"), "{said}");
    gone.wait().expect("wait");
    let said = refusal(&lab, &[&pid.to_string()], 125);
    assert!(said.contains("is gone") && said.contains("hint: "), "{said}");
    refusal(&lab, &["0"], 125);
    let said = refusal(&lab, &["2"], 5); // kthreadd, or whoever has its number in a container
    assert!(!said.is_empty());
}

#[test]
fn a_32_bit_program() {
    let lab = Lab::new();
    let (source, program) = (lab.path("small.c"), lab.path("small"));
    // No C library: only the assembler and the linker must know the machine. It waits for a signal.
    let code = "void _start(void) { for (;;) __asm__ volatile(\"int $0x80\" :: \"a\"(29)); }";
    std::fs::write(&source, code).expect("write");
    let mut cc = Command::new("cc");
    cc.args(["-m32", "-nostdlib", "-static", "-ffreestanding", "-fno-pic", "-o"]).arg(&program).arg(&source);
    let built = finish(&mut cc);
    if !built.status.success() {
        return skip("32-bit programs", &text(&built.stderr));
    }
    let Ok(mut child) = Command::new(&program).spawn() else {
        return skip("32-bit programs", "the kernel does not run them");
    };
    until("it runs", || stat(child.id() as i32).is_some_and(|s| s.name == "small" && s.state == 'S'));
    let said = refusal(&lab, &[&child.id().to_string()], 5);
    child.kill().expect("kill");
    child.wait().expect("wait");
    assert!(said.contains("32-bit"), "{said}");
}

/// A copy of the binary and a place where nobody may work.
fn open_lab() -> (Lab, PathBuf) {
    let lab = Lab::new();
    std::fs::set_permissions(lab.path(""), PermissionsExt::from_mode(0o777)).expect("chmod");
    let binary = lab.path("nilo");
    std::fs::copy(nilo_binary(), &binary).expect("copy"); // the build directory may be closed to others
    (lab, binary)
}

fn as_nobody(lab: &Lab, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.uid(NOBODY).gid(NOBODY).current_dir(lab.path("")).env("XDG_STATE_HOME", lab.path(""));
    command
}

#[test]
fn another_users_process_names_the_rule_and_what_is_left() {
    if !is_root() {
        return skip("root", "a second user is needed");
    }
    let (lab, binary) = open_lab();
    let target = Target::start(); // ours, so root's
    let output = finish(as_nobody(&lab, &binary).args(["heap", &target.pid()]));
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("no permission to read the memory of process"), "{said}");
    assert!(said.contains("another user's") && said.contains("CAP_SYS_PTRACE"), "{said}");
    assert!(said.contains("RSS ") && said.contains(&format!("nilo attach {}", target.pid())), "{said}");
    target.end_unharmed();
}

#[test]
fn an_undumpable_process_is_told_from_another_users() {
    if !is_root() {
        return skip("root", "a second user is needed");
    }
    let (lab, binary) = open_lab();
    // The interpreter's own files may be closed to nobody: the system's is not.
    let mut command = as_nobody(&lab, Path::new("/usr/bin/python3"));
    let program =
        "import ctypes, sys; ctypes.CDLL(None).prctl(4, 0); print('ready', flush=True); sys.stdin.read()";
    let mut target = Dialogue::start(command.args(["-c", program]));
    if target.line() != "ready" {
        return skip("/usr/bin/python3", &text(&target.end().stderr));
    }
    let output = finish(as_nobody(&lab, &binary).args(["heap", &target.pid().to_string()]));
    let said = text(&output.stderr);
    target.end();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.contains("not dumpable"), "{said}");
}

#[test]
fn a_process_under_another_tracer() {
    let lab = Lab::new();
    let mut strace = Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null"]).arg(python()).arg(py_program("heap_nodes.py"));
    if Command::new("strace").arg("-V").output().is_err() {
        return skip("strace", "it is not installed");
    }
    let mut target = Target::start_command(&mut strace);
    target.order("grow 10");
    let pid = children(target.dialogue.pid())[0].0.to_string();
    let said = refusal(&lab, &[&pid], 5);
    assert!(said.contains(&format!("traced by process {}", target.dialogue.pid())), "{said}");
    assert!(said.contains("--pause off"), "{said}");
    // What is advised works: memory may be read, only a second tracer may not be.
    let found = document(&lab, &[&pid, "--pause", "off", "--top", "all"]);
    assert_eq!((&found["pause_mode"], &found["pause_ms"]), (&"off".into(), &0.0.into()));
    assert_eq!(row(&found, "__main__.Node")["count"], 10);
    target.dialogue.end();
}

#[test]
fn pythons_too_old_to_be_read_are_refused_by_version() {
    let lab = Lab::new();
    let versions = Path::new(&std::env::var("HOME").unwrap_or_default()).join(".pyenv/versions");
    for version in ["2.7.18", "3.6.15", "3.7.16"] {
        let interpreter = versions.join(version).join("bin/python");
        if !interpreter.exists() {
            skip(version, "this interpreter is not installed");
            continue;
        }
        let program = "import sys; sys.stdout.write('ready\\n'); sys.stdout.flush(); sys.stdin.read()";
        let mut old = Dialogue::start(Command::new(interpreter).args(["-c", program]));
        assert_eq!(old.line(), "ready");
        let said = refusal(&lab, &[&old.pid().to_string()], 5);
        assert!(said.contains("CPython") && said.contains("cannot be read"), "{version}: {said}");
        assert_eq!(old.end().status.code(), Some(0));
    }
}

#[test]
fn files_that_are_no_census() {
    let lab = Lab::new();
    let target = Target::start();
    screen(&lab, &[&target.pid(), "-o", "a.heap"]);
    let whole = std::fs::read(lab.path("a.heap")).expect("read");
    let write = |name: &str, bytes: &[u8]| std::fs::write(lab.path(name), bytes).expect("write");
    write("cut.heap", &whole[..whole.len() / 2]);
    write("short.heap", &whole[..20]);
    let mut flipped = whole.clone();
    for place in (whole.len() / 3..whole.len()).step_by(1009) {
        flipped[place] ^= 0x55;
    }
    write("flipped.heap", &flipped);
    write("song.txt", b"la la la la la la la la\n");
    write("empty", b"");
    write("elf", &[b"\x7fELF\x02\x01\x01".as_slice(), &[0xff; 200]].concat());
    for name in ["cut.heap", "short.heap", "flipped.heap", "song.txt", "empty", "elf"] {
        let said = refusal(&lab, &[name], 125);
        assert!(said.contains(name), "{said}");
    }
    assert!(refusal(&lab, &["song.txt"], 125).contains("neither a core file nor a heap snapshot"));
    assert!(refusal(&lab, &["nowhere.heap"], 125).contains("No such file"));
    let said = refusal(&lab, &["a.heap", "--since", "song.txt"], 125);
    assert!(said.contains("song.txt"), "{said}");
    target.end_unharmed();
}

#[test]
fn a_damaged_core() {
    let lab = Lab::new();
    let target = Target::start();
    let Some(core) = dump_core(&lab, &target.pid()) else { return };
    let whole = std::fs::read(&core).expect("read");
    for share in [64, 4, 2] {
        std::fs::write(lab.path("cut"), &whole[..whole.len() / share]).expect("write");
        let output = crate::heap_target::heap(&lab, &["cut"]);
        let (code, said) = (output.status.code(), text(&output.stderr));
        // What is left may be enough for a census that says what is missing; never a crash.
        assert!(matches!(code, Some(0 | 5 | 125)), "{code:?}: {said}");
        if code == Some(0) {
            assert_eq!(document(&lab, &["cut"])["partial"], true);
        }
    }
    target.end_unharmed();
}

#[test]
fn a_run_directory_is_pointed_to_report() {
    let lab = Lab::new();
    lab.run(&["-q"], &["true"]);
    let said = refusal(&lab, &["run.nilo"], 125);
    assert!(said.contains("is a run directory") && said.contains("nilo report run.nilo"), "{said}");
    std::fs::write(lab.path("run.nilo/4711.heap"), b"").expect("write");
    assert!(refusal(&lab, &["run.nilo"], 125).contains("nilo heap run.nilo/4711.heap"));
}

#[test]
fn usage_errors_are_told_by_exit_code_2() {
    let lab = Lab::new();
    for words in [
        &[][..],
        &["1", "--by", "colour"],
        &["1", "--top", "0"],
        &["diff", "a.heap"],
        &["1", "--max-pause", "5"],
    ] {
        let output = crate::heap_target::heap(&lab, words);
        assert_eq!(output.status.code(), Some(2), "{words:?}: {}", text(&output.stderr));
    }
    let help = screen(&lab, &["--help"]);
    assert!(help.starts_with("Examples:\n  nilo heap 4711 "), "{help}");
}

#[test]
fn objects_and_paths_that_are_not_there_name_what_is() {
    let lab = Lab::new();
    let target = Target::start();
    screen(&lab, &[&target.pid(), "-o", "a.heap"]);
    let said = refusal(&lab, &["a.heap", "--of", "__main__.holder.nodez"], 125);
    assert!(said.contains("nodez") && said.contains("nodes"), "{said}");
    let said = refusal(&lab, &["paths", "a.heap", "0x10"], 125);
    assert!(said.contains("no object begins at 0x10"), "{said}");
    let said = refusal(&lab, &["paths", "a.heap", "--kind", "no.such.kind"], 125);
    assert!(said.contains("no objects are left"), "{said}");
    target.end_unharmed();
}
