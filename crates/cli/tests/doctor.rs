//! `nilo doctor` against what really happens here, as root and as an ordinary user.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr)] // helpers of tests are outside `#[test]` functions

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use nilometer_kernel::sys::limits::effective_uid;
use nilometer_kernel::sys::memory::read_bytes;
use serde_json::Value;

const NOBODY: &str = "65534";
/// For the copy of this program that reads: a pid and an address.
const PID: &str = "NILO_TEST_PID";
const ADDRESS: &str = "NILO_TEST_ADDRESS";

fn doctor(command: &mut Command) -> Value {
    let output = command.args(["doctor", "--json"]).env_remove("NILO_NVML_LIB").output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn works(document: &Value, name: &str) -> bool {
    let capabilities = document["capabilities"].as_array().unwrap();
    let entry = capabilities.iter().find(|entry| entry["name"] == name);
    entry.unwrap_or_else(|| panic!("no {name} in {document:#}"))["works"].as_bool().unwrap()
}

fn nilo() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_nilo"))
}

/// Copies of `nilo` and of this test where any user may execute them.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        for (from, name) in [(nilo(), "nilo"), (&*std::env::current_exe().unwrap(), "reader")] {
            let to = directory.path().join(name);
            std::fs::copy(from, &to).unwrap();
            std::fs::set_permissions(to, PermissionsExt::from_mode(0o755)).unwrap();
        }
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Whether that program, started by the user, can read the process.
    fn can_read(&self, is_nobody: bool, target: &Target) -> bool {
        let mut reader = as_user(is_nobody, &self.path("reader"));
        reader.args(["--exact", "read_a_process", "--ignored", "--nocapture"]);
        reader.env(PID, target.child.id().to_string()).env(ADDRESS, target.address().to_string());
        let output = reader.current_dir("/").output().unwrap();
        let told = |word: &str| String::from_utf8_lossy(&output.stdout).contains(word);
        assert!(told("could read") || told("could not read"), "{}", describe(&output));
        told("could read")
    }
}

fn describe(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn as_user(is_nobody: bool, program: &Path) -> Command {
    if !is_nobody {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]).arg(program);
    command
}

/// A process of one user or the other that waits for the end of its input.
struct Target {
    child: Child,
}

impl Target {
    fn start(is_nobody: bool) -> Self {
        let mut command = as_user(is_nobody, Path::new("/bin/cat"));
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // An echo comes from `cat` itself, not from what executes it.
        child.stdin.as_mut().unwrap().write_all(b"x").unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        Self { child }
    }

    /// Where its program begins.
    fn address(&self) -> u64 {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.child.id())).unwrap();
        u64::from_str_radix(maps.split('-').next().unwrap(), 16).unwrap()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "the reader of other tests"]
fn read_a_process() {
    let number = |name| std::env::var(name).ok().and_then(|value| value.parse::<u64>().ok());
    let (Some(pid), Some(address)) = (number(PID), number(ADDRESS)) else { return };
    let mut bytes = [0; 4];
    match read_bytes(pid as i32, address, &mut bytes) {
        Ok(_) => println!("could read {bytes:?}"),
        Err(error) => println!("could not read: {error}"),
    }
}

#[test]
fn each_answer_about_reading_is_what_happens() {
    if effective_uid() != 0 {
        return skip("root", "processes of two users are needed");
    }
    let place = Place::new();
    let (of_root, of_nobody) = (Target::start(false), Target::start(true));
    for is_nobody in [false, true] {
        let document = doctor(as_user(is_nobody, &place.path("nilo")).current_dir("/"));
        let (same, other) = if is_nobody { (&of_nobody, &of_root) } else { (&of_root, &of_nobody) };
        let claims = |name| works(&document, name);
        assert_eq!(claims("read-memory-same-uid"), place.can_read(is_nobody, same), "nobody: {is_nobody}");
        assert_eq!(claims("read-memory-other-uid"), place.can_read(is_nobody, other), "nobody: {is_nobody}");
    }
}

#[test]
fn an_ordinary_user_is_told_how_to_get_more() {
    if effective_uid() != 0 {
        return skip("root", "another user is needed");
    }
    let place = Place::new();
    let document = doctor(as_user(true, &place.path("nilo")).current_dir("/"));
    assert_eq!(document["process"]["euid"], 65534);
    assert!(works(&document, "run") && works(&document, "attach-same-uid"));
    for name in ["read-memory-other-uid", "mount", "swap-file", "pagemap-pfn"] {
        assert!(!works(&document, name), "{name}");
    }
    for entry in document["capabilities"].as_array().unwrap() {
        let key = if entry["works"] == true { "how" } else { "why" };
        assert!(entry[key].is_string(), "{entry:#}");
    }
}

#[test]
fn the_screen_fits_and_ends_with_the_next_command() {
    let output = Command::new(nilo()).arg("doctor").env("LC_ALL", "C.UTF-8").output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    let text = String::from_utf8(output.stdout).unwrap();
    // A word that is longer than its column, such as a path, is not broken.
    let long: Vec<&str> = text.lines().filter(|l| l.chars().count() > 80 && l.trim().contains(' ')).collect();
    assert!(long.is_empty(), "{long:#?}");
    assert_eq!(text.lines().last(), Some("next → nilo run -- python train.py"));
    assert!(output.stderr.is_empty());
}

#[test]
fn a_look_changes_nothing() {
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap();
    let swaps = std::fs::read("/proc/swaps").unwrap();
    doctor(&mut Command::new(nilo()));
    assert_eq!(std::fs::read("/proc/self/mountinfo").unwrap(), mounts);
    assert_eq!(std::fs::read("/proc/swaps").unwrap(), swaps);
}

/// Says why a test did not run: `needs` names the capability as `nilo doctor` does.
fn skip(needs: &str, reason: &str) {
    let line = format!("skipped: needs {needs}: {reason}\n");
    eprint!("{line}");
    if let Some(file) = std::env::var_os("NILO_SKIPS") {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(file);
        let _ = file.and_then(|mut f| f.write_all(line.as_bytes()));
    }
}
