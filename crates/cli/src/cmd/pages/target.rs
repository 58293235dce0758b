//! The process that is looked at: one that runs, or a command that is started for it.

use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};

use anyhow::Context as _;
use nilometer_capture::launch::{MARKS_FILE, MARKS_VARIABLE};
use nilometer_capture::pages::Waiter;
use nilometer_kernel::sys::memory::disable_huge_pages;

use super::{exit, refusal};
use crate::args::pages::PagesArgs;
use crate::talk::Failure;

/// Who is looked at.
#[derive(Debug)]
pub struct Target {
    pub pid: i32,
    child: Option<Child>,
    /// Where the command tells its steps; gone with this.
    _marks: Option<tempfile::TempDir>,
}

pub fn prepare(args: &PagesArgs, pid: Option<i32>) -> Result<(Target, Waiter), Failure> {
    let mut waiter = Waiter::new().context("signals cannot be read")?;
    let target = match pid {
        Some(pid) => Target { pid, child: None, _marks: None },
        None => start(args, &mut waiter)?,
    };
    waiter.watch(target.pid).map_err(|error| refusal::of(target.pid, error))?;
    Ok((target, waiter))
}

fn start(args: &PagesArgs, waiter: &mut Waiter) -> Result<Target, Failure> {
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(anyhow::anyhow!("no command").into());
    };
    let marks = tempfile::tempdir().context("no place for marks")?;
    let path = marks.path().join(MARKS_FILE);
    waiter.follow_marks(&path);
    let mut command = Command::new(program);
    command.args(arguments).env(MARKS_VARIABLE, &path);
    if args.json == Some(None) {
        command.stdout(stderr()?);
    }
    if args.how.no_thp {
        disable_huge_pages().context("huge pages cannot be switched off")?;
    }
    let child = waiter.spawn(|| command.spawn()).map_err(|error| not_started(program, error))?;
    Ok(Target { pid: child.id() as i32, child: Some(child), _marks: Some(marks) })
}

/// Our standard error once more: standard output is for the document.
fn stderr() -> std::io::Result<Stdio> {
    use std::os::fd::AsFd as _;
    Ok(std::io::stderr().as_fd().try_clone_to_owned()?.into())
}

fn not_started(program: &std::ffi::OsStr, error: std::io::Error) -> Failure {
    let code = match error.kind() {
        std::io::ErrorKind::NotFound => exit::NOT_FOUND,
        std::io::ErrorKind::PermissionDenied => exit::CANNOT_EXECUTE,
        _ => exit::OURS,
    };
    let name = program.to_string_lossy().into_owned();
    let sentence = anyhow::Error::from(error).context(format!("cannot run `{name}`"));
    let hint = nilometer_capture::not_found_hint(&name);
    Failure { code, error: sentence, hint: Some(hint) }
}

impl Target {
    /// The command runs to its end, whatever was seen of it; its exit code, 128 and a signal's number.
    pub fn wait(&mut self, waiter: &mut Waiter) -> Option<i32> {
        let child = self.child.as_mut()?;
        waiter.wait_for_end();
        child.wait().ok().map(code)
    }
}

fn code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| i32::from(exit::SIGNAL_BASE) + status.signal().unwrap_or(0))
}
