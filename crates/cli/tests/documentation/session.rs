//! One shell for a page: its commands one after the other in a private directory, each with what it prints.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::page::{Item, Page};
use crate::root;

/// Less than the runner's own, so that what was printed until then is shown.
const DEADLINE: Duration = Duration::from_secs(110);

/// What pages show instead of the private directory.
const HOME: &str = "/home/you/project";

/// Beside the link to the machine's Python: whatever packages the machine has, the pages are run without them.
const BARE: &str = "home = /usr/bin\ninclude-system-site-packages = false\n";

/// A command that was run.
pub struct Done {
    pub output: String,
    pub code: Option<i32>,
}

/// Runs a page; None where it cannot be run here, which has been said.
pub fn run(page: &Page) -> Option<Vec<Done>> {
    let place = tempfile::tempdir().unwrap();
    let work = place.path().join("project");
    let results = place.path().join("results");
    for folder in [&work, &results, &place.path().join("bin"), &place.path().join("state")] {
        fs::create_dir(folder).unwrap();
    }
    std::os::unix::fs::symlink(root().join("examples"), work.join("examples")).unwrap();
    std::os::unix::fs::symlink("/usr/bin/python3", place.path().join("bin/python3")).unwrap();
    fs::write(place.path().join("pyvenv.cfg"), BARE).unwrap();
    let script = place.path().join("script");
    fs::write(&script, render_script(page, &results)).unwrap();
    run_script(&script, &work, place.path(), &numpy_folder()?);
    Some((0..page.steps().count()).map(|number| read_done(&results, number, &work)).collect())
}

/// `python` of the pages has numpy; `python3` is the machine's own, bare.
fn numpy_folder() -> Option<String> {
    let python = nilometer_lab::environment(&["science"])?;
    python.strip_suffix("/python").map(str::to_owned)
}

fn render_script(page: &Page, results: &Path) -> String {
    let mut script = String::new();
    let mut number = 0;
    for item in &page.script {
        match item {
            Item::Setup(commands) => {
                let _ = writeln!(script, "{}", commands.replace("4711", "$PID"));
            }
            Item::Step(step) => {
                let out = results.join(number.to_string());
                let command = step.command.replace("4711", "$PID");
                let _ = writeln!(script, "{{\n{command}\n}} > {0} 2>&1\necho $? > {0}.code", out.display());
                number += 1;
            }
        }
    }
    script + "kill $(jobs -p) 2> /dev/null\nwait 2> /dev/null\n"
}

fn run_script(script: &Path, work: &Path, place: &Path, numpy: &str) {
    let nilo = Path::new(env!("CARGO_BIN_EXE_nilo")).parent().unwrap();
    let path = format!("{}:{}:{numpy}:/usr/bin:/bin", place.join("bin").display(), nilo.display());
    let mut shell = Command::new("bash");
    shell.arg(script).current_dir(work).env("PATH", path).env("HOME", place).env("NO_COLOR", "1");
    shell.env("XDG_STATE_HOME", place.join("state")).env("LC_ALL", "C.UTF-8").env("COLUMNS", "100");
    shell
        .env("XDG_CACHE_HOME", cache())
        .env("FIXTURES", root().join("crates/import/fixtures"))
        .env_remove("NILO_DIR")
        .env_remove("NILO_SKIPS");
    shell.env("OPENBLAS_NUM_THREADS", "1"); // threads that wait for each other take minutes on a busy machine
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::inherit()).process_group(0);
    let mut child = shell.spawn().expect("bash");
    let group = child.id();
    let (done, wait) = mpsc::channel();
    let waiter = std::thread::spawn(move || {
        let status = child.wait();
        let _ = done.send(());
        status
    });
    if wait.recv_timeout(DEADLINE).is_err() {
        Command::new("kill").args(["-KILL", "--", &format!("-{group}")]).status().unwrap();
    }
    waiter.join().unwrap().unwrap();
}

/// The tracker is unpacked where the other tests have it.
fn cache() -> PathBuf {
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    own.unwrap_or_else(|| PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cache"))
}

fn read_done(results: &Path, number: usize, work: &Path) -> Done {
    let output = fs::read(results.join(number.to_string())).unwrap_or_default();
    let output = String::from_utf8_lossy(&output).replace(work.to_str().unwrap(), HOME);
    let code = fs::read_to_string(results.join(format!("{number}.code"))).ok();
    Done { output, code: code.and_then(|code| code.trim().parse().ok()) }
}
