//! Recordings of what already runs: one process and its tree, or the machine alone. Nothing is started,
//! stopped or signalled.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::time::Duration;

use jiff::Zoned;
use nilometer_kernel::read::cgroup::Chain;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::process::{own_pid, pidfd};
use nilometer_kernel::sys::signals::{self, Mask, SignalFd};
use nilometer_trace::record::EventKind;

use crate::control::Control;
use crate::launch::make_directory;
use crate::options::{Options, Target};
use crate::recorder::Recorder;
use crate::rundir::{self, RunDirectory};
use crate::session::{Session, Subject};
use crate::system::System;
use crate::tree::Tree;
use crate::{Error, describe};

/// Looks at the arguments of a process that seems to have none.
const LOOKS: usize = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Records `pid` and its descendants until it ends, a signal asks us to stop, or the duration is over.
pub fn attach(options: &Options, pid: i32) -> Result<RunDirectory, Error> {
    let proc = Proc::default();
    let pidfd = open_process(pid)?;
    let arguments = read_settled_arguments(&proc, pid)?;
    let target = Target { argv: arguments.iter().map(Into::into).collect(), ..Target::default() };
    let name = rundir::command_name(&arguments);
    let directory = make_directory(options, &name)?;
    let recorded = record_into(options, &directory, "attach", &target, pid, Subject::Attached(pidfd));
    keep_if(recorded, directory)
}

/// Records the machine alone.
pub fn record(options: &Options) -> Result<RunDirectory, Error> {
    let directory = make_directory(options, "machine")?;
    let recorded = record_into(options, &directory, "record", &Target::default(), 0, Subject::Nobody);
    keep_if(recorded, directory)
}

/// A process that is just replacing itself by another program has no arguments for a moment; a thread of the kernel never
/// has any.
fn read_settled_arguments(proc: &Proc, pid: i32) -> Result<Vec<String>, Error> {
    for _ in 0..LOOKS {
        let arguments = proc.read_arguments(pid)?;
        if !arguments.is_empty() {
            return Ok(arguments);
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    Ok(proc.read_arguments(pid)?)
}

/// Nothing was recorded: an empty run directory would only be in the way.
fn keep_if(recorded: Result<(), Error>, directory: RunDirectory) -> Result<RunDirectory, Error> {
    if recorded.is_err() {
        let _ = std::fs::remove_dir_all(&directory.path);
    }
    recorded.map(|()| directory)
}

/// A descriptor that tells its end.
pub(crate) fn open_process(pid: i32) -> Result<OwnedFd, Error> {
    pidfd(pid).map_err(|source| no_process(pid, source))
}

fn no_process(pid: i32, source: std::io::Error) -> Error {
    match source.kind() {
        std::io::ErrorKind::NotFound => Error::NoProcess { pid },
        // ESRCH has no kind of its own.
        _ if source.raw_os_error() == Some(3) => Error::NoProcess { pid },
        _ => Error::System { what: "pidfd_open", source },
    }
}

fn record_into(
    options: &Options,
    directory: &RunDirectory,
    verb: &str,
    target: &Target,
    pid: i32,
    subject: Subject,
) -> Result<(), Error> {
    let system_error = |what| move |source| Error::System { what, source };
    let mask = Mask::taken();
    let inherited_mask = mask.block().map_err(system_error("signal mask"))?;
    let signals = SignalFd::new(&mask).map_err(system_error("signalfd"))?;
    signals::ignore_sigpipe();
    let watched = if pid == 0 { own_pid() } else { pid };
    let system = System::open(Chain::of(Path::new("/proc"), Path::new("/"), watched))?;
    let tree = Tree::new(Proc::default(), pid, vec![own_pid()], options.single || pid == 0, false);
    let path = &directory.path;
    let mut manifest = describe::manifest(verb, path, target, pid, system.limit(), options, &Zoned::now());
    manifest.host.devices = system.device_names();
    let recorder = Recorder::start(path, options, tree, system)?;
    let mut session = Session {
        directory: path.clone(),
        control: Control::open(own_pid()).ok(),
        ..Session::new(options, subject, signals, recorder, manifest)
    };
    session.describe(None);
    let started_ns = monotonic_ns();
    session.recorder.event(started_ns, EventKind::Started);
    if pid != 0 && !session.recorder.tree.begin(started_ns) {
        return Err(Error::NoProcess { pid });
    }
    session.watch(started_ns);
    session.close(started_ns, monotonic_ns());
    signals::forget_pending();
    inherited_mask.restore();
    Ok(())
}
