//! Who cannot be read is told why.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)] // helpers of tests are outside `#[test]` functions
#![allow(clippy::print_stderr, clippy::print_stdout)] // skips are told; a helper of a test speaks on its output

mod lab;

use std::io::{BufRead, BufReader, Lines, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};

use lab::{Target, c_program, install, skip};
use nilometer_image::Error;
use nilometer_image::live::{CaptureOptions, Mode, Peek, capture};
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::stop::Stopped;

const TARGET: &str = "NILO_TEST_TARGET";

#[test]
fn a_process_that_is_gone_is_told_from_a_zombie() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id() as i32;
    while !Proc::default().read_stat(pid, &mut Vec::new()).unwrap().is_zombie() {
        std::thread::yield_now();
    }
    assert!(matches!(Peek::open(pid).unwrap_err(), Error::Zombie { pid: of } if of == pid));
    child.wait().unwrap();
    assert!(matches!(Peek::open(pid).unwrap_err(), Error::Gone { pid: of } if of == pid));
}

#[test]
fn a_process_that_ends_after_it_was_opened_is_gone() {
    let mut target = Target::patterns();
    let peek = Peek::open(target.pid()).unwrap();
    target.child.kill().unwrap();
    target.child.wait().unwrap();
    for mode in [Mode::Copy, Mode::Fork, Mode::Off] {
        let options = CaptureOptions { mode, ..CaptureOptions::default() };
        let error = capture(&peek, &options, &[]).unwrap_err();
        assert!(matches!(error, Error::Gone { .. }), "{mode:?}: {error}");
    }
}

#[test]
fn a_thread_of_the_kernel_has_no_memory() {
    const KTHREADD: i32 = 2;
    let is_kernel = std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name.trim() == "kthreadd");
    if !is_kernel {
        return skip("the first pid namespace", "process 2 is not kthreadd here");
    }
    assert!(matches!(Peek::open(KTHREADD).unwrap_err(), Error::KernelThread { .. }));
}

/// This test program again, as another process that does one thing and waits.
struct Helper {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Helper {
    fn start(test: &str, target: i32) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"]);
        command.env(TARGET, target.to_string()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    fn said(&mut self) -> String {
        let mut lines = self.lines.by_ref().map_while(Result::ok);
        lines.find(|line| line.starts_with("said: ")).expect("the helper says something")
    }

    fn end(mut self) {
        drop(self.child.stdin.take());
        self.lines.for_each(drop);
        self.child.wait().unwrap();
    }
}

fn target() -> Option<i32> {
    std::env::var(TARGET).ok()?.parse().ok()
}

#[test]
fn a_process_under_another_tracer_is_only_read_unpaused() {
    let mut target = Target::patterns();
    let mut tracer = Helper::start("trace_and_stay", target.pid());
    assert_eq!(tracer.said(), "said: 2");
    let peek = Peek::open(target.pid()).unwrap();
    for mode in [Mode::Copy, Mode::Fork] {
        let options = CaptureOptions { mode, ..CaptureOptions::default() };
        let error = capture(&peek, &options, &[]).unwrap_err();
        assert!(
            matches!(error, Error::Traced { tracer: by, .. } if by == tracer.child.id() as i32),
            "{error}"
        );
    }
    let options = CaptureOptions { mode: Mode::Off, ..CaptureOptions::default() };
    assert_eq!(capture(&peek, &options, &[]).unwrap().pause.threads, 0);
    tracer.end();
    target.ask();
}

#[test]
#[ignore = "the tracer of another test"]
fn trace_and_stay() {
    let Some(pid) = target() else { return };
    let threads_of = |pid| Proc::default().list_threads(pid).unwrap();
    let stopped = Stopped::stop(&[pid], threads_of, monotonic_ns() + 10_000_000_000);
    println!("\nsaid: {}", stopped.count());
    std::io::stdin().lock().read_to_end(&mut Vec::new()).unwrap();
}

#[test]
fn a_process_of_another_user_is_not_read() {
    const NOBODY: u32 = 65534;
    let target = Target::patterns();
    if std::fs::metadata("/proc/self").is_ok_and(|own| std::os::unix::fs::MetadataExt::uid(&own) != 0) {
        return skip("root", "only root can become another user");
    }
    // A copy that the other user may execute.
    let directory = tempfile::tempdir_in("/var/tmp").unwrap();
    let program = directory.path().join("reader");
    install(&std::env::current_exe().unwrap(), &program);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    let mut command = Command::new(&program);
    command.args(["--exact", "open_and_tell", "--ignored", "--nocapture", "--test-threads=1"]);
    command.env(TARGET, target.pid().to_string()).uid(NOBODY).gid(NOBODY).current_dir("/");
    let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
    assert!(
        said.contains(&format!("said: no permission to read the memory of process {}", target.pid())),
        "{said}"
    );
}

#[test]
#[ignore = "the reader of another test"]
fn open_and_tell() {
    let Some(pid) = target() else { return };
    println!("\nsaid: {}", Peek::open(pid).map_or_else(|e| e.to_string(), |peek| peek.pid().to_string()));
}

/// 32-bit programs need no 32-bit compiler: this one waits for ever.
#[test]
fn a_32_bit_program_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("small");
    std::fs::write(directory.path().join("bytes"), small_program()).unwrap();
    install(&directory.path().join("bytes"), &path);
    let Ok(mut child) = Command::new(&path).spawn() else {
        return skip("CONFIG_IA32_EMULATION", "this kernel runs no 32-bit programs");
    };
    let error = Peek::open(child.id() as i32).unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(matches!(error, Error::Not64Bit { .. }), "{error}");
}

/// An ELF header, one segment, and `pause()` in a loop.
fn small_program() -> Vec<u8> {
    const BASE: u32 = 0x10000;
    let code = [0xb8, 29, 0, 0, 0, 0xcd, 0x80, 0xeb, 0xf7]; // mov $29, %eax; int $0x80; jmp back
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let mut bytes = b"\x7fELF\x01\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\x03\0".to_vec();
    bytes.extend(words(&[1, BASE + 84, 52, 0, 0]));
    bytes.extend([52, 0, 32, 0, 1, 0, 40, 0, 0, 0, 0, 0]);
    bytes.extend(words(&[1, 0, BASE, BASE, 93, 93, 5, 4096]));
    assert_eq!(bytes.len(), 84);
    bytes.extend(code);
    bytes
}

#[test]
fn a_program_under_its_own_filters_is_not_made_to_fork() {
    let mut target = Target::start(&mut Command::new(c_program("filtered.c", &[])));
    let peek = Peek::open(target.pid()).unwrap();
    let options = CaptureOptions { mode: Mode::Fork, ..CaptureOptions::default() };
    let error = capture(&peek, &options, &[]).unwrap_err();
    assert!(matches!(&error, Error::NotForked { reason, .. } if reason.contains("seccomp")), "{error}");
    assert_eq!(target.ask(), "alive");
    assert!(capture(&peek, &CaptureOptions::default(), &[]).is_ok());
    assert_eq!(target.ask(), "alive");
}
