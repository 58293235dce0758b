//! `run`: launch a command, record its tree until it ends, look at what it leaves behind.

use std::ffi::{CString, OsString};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use jiff::Zoned;
use nilometer_kernel::read::cgroup::{Chain, OwnGroup};
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::inherited::listen_for_children;
use nilometer_kernel::sys::launch::{Command, Suspended, let_go};
use nilometer_kernel::sys::limits::OpenFiles;
use nilometer_kernel::sys::process::{adopt_orphans, own_pid, wait_for};
use nilometer_kernel::sys::sentinel::Sentinel;
use nilometer_kernel::sys::signals::{self, Mask, SignalFd};
use nilometer_trace::Manifest;
use nilometer_trace::record::{EventKind, Exit, Phase};

use crate::allocs::{self, Allocs};
use crate::control::{CONTROL_VARIABLE, Control};
use crate::job::{self, Placed, Spool};
use crate::marks::Marks;
use crate::options::{Options, Target};
use crate::pages::{Task, Watch};
use crate::recorder::{Recorder, nanoseconds};
use crate::relay::{Relay, Steps};
use crate::rundir::{self, Places, RunDirectory};
use crate::session::{Session, Subject};
use crate::shm::SharedMemory;
use crate::system::System;
use crate::tree::Tree;
use crate::{Error, describe, hook, rank};

/// The marks file inside a run directory.
pub const MARKS_FILE: &str = "marks";
/// A forked child has the pages of our data and few of our code; 0.4 to 0.7 MiB more were seen when it came to `exec`.
const TOUCHED_BEFORE_EXEC: u64 = 2 << 20;
/// Variable that names it to the target.
pub const MARKS_VARIABLE: &str = "NILO_MARKS";

/// How a run ended and where it is stored.
#[derive(Debug)]
pub struct Outcome {
    pub directory: PathBuf,
    pub exit: Exit,
    /// Why the directory is not where it was wanted.
    pub fallback: Option<String>,
    /// Where it is one of several ranks.
    pub placed: Option<Placed>,
}

/// Runs `target` to its end and records it; a rank of a job in the directory of that job.
pub fn run(options: &Options, target: Target) -> Result<Outcome, Error> {
    let arguments = describe::text_arguments(&target.argv);
    let told = rank::tell(&target.environment, &target.argv);
    let placed = told
        .map(|told| job::place(&told, &arguments, options.output.as_deref(), &Places::from_environment()));
    let placed = placed.transpose()?;
    let home = match &placed {
        Some(placed) => RunDirectory { path: placed.run.clone(), fallback: placed.fallback.clone() },
        None => make_directory(options, &rundir::command_name(&arguments))?,
    };
    let node_lock = placed.as_ref().and_then(|placed| placed.sampler.clone());
    let options = &Options { node_lock, ..options.clone() };
    let spool = options.spool.as_deref().map(|base| Spool::open(base, &home.path)).transpose()?;
    let directory = spool.as_ref().map_or(&home.path, |spool| &spool.local);
    let inherited_files = OpenFiles::read().unwrap_or(OpenFiles { soft: 1024, hard: 1024 });
    inherited_files.raise();
    let ended =
        prepare(options, target, directory, placed.as_ref(), inherited_files).and_then(Launched::live);
    inherited_files.set();
    match ended {
        Ok(exit) => Ok(settle(home, spool, placed, exit)),
        Err(error) => {
            // Nothing ran: an empty run directory would only be in the way.
            let _ = std::fs::remove_dir_all(directory);
            let _ = std::fs::remove_dir_all(&home.path);
            if let Some(placed) = placed {
                job::leave(&placed);
            }
            Err(error)
        }
    }
}

/// Where the recording is in the end: at home, or still in its spool, and then that is said.
fn settle(home: RunDirectory, spool: Option<Spool>, placed: Option<Placed>, exit: Exit) -> Outcome {
    let kept = spool.map(|spool| job::copy_home(&spool).map_err(|error| (spool.local, error)));
    let (directory, fallback) = match kept {
        Some(Err((local, error))) => {
            (local, Some(format!("it could not be copied to {} ({error})", home.path.display())))
        }
        _ => (home.path, home.fallback),
    };
    Outcome { directory, exit, fallback, placed }
}

/// The directory asked for, or one named after `name`.
pub(crate) fn make_directory(options: &Options, name: &str) -> Result<RunDirectory, Error> {
    match &options.output {
        Some(path) => rundir::create_named(path, options.force),
        None => rundir::create_default(
            &Places::from_environment(),
            &describe::directory_name(name, &Zoned::now()),
        ),
    }
}

/// What it takes to start the target, once or several times.
struct Launcher {
    target: Target,
    marks: PathBuf,
    mask: Mask,
    inherited_mask: Mask,
    inherited_files: OpenFiles,
}

/// A run whose first child waits for the word to `exec`.
struct Launched {
    session: Session,
    suspended: Suspended,
    launcher: Launcher,
}

/// Everything up to the moment before the first `exec`.
fn prepare(
    options: &Options,
    mut target: Target,
    directory: &Path,
    placed: Option<&Placed>,
    inherited_files: OpenFiles,
) -> Result<Launched, Error> {
    let system_error = |what| move |source| Error::System { what, source };
    let marks_path = directory.join(MARKS_FILE);
    let marks = Marks::create(&marks_path, monotonic_ns()).ok();
    set_variable(&mut target.environment, MARKS_VARIABLE, marks_path.clone().into_os_string());
    let control = Control::open(own_pid()).ok();
    if let Some(control) = &control {
        set_variable(&mut target.environment, CONTROL_VARIABLE, control.path().into());
    }
    if let (Some(folder), Some(words)) = (&options.hook, options.steps.as_ref().and_then(Steps::hook)) {
        hook::arm(&mut target.environment, folder, words);
    }
    let injection = Injection::prepare(options, &mut target);
    let mask = Mask::taken();
    let inherited_mask = mask.block().map_err(system_error("signal mask"))?;
    let signals = SignalFd::new(&mask).map_err(system_error("signalfd"))?;
    listen_for_children();
    let sentinel = Sentinel::start(&mask).ok();
    let adopts = adopt_orphans().is_ok();
    let launcher = Launcher { target, marks: marks_path, mask, inherited_mask, inherited_files };
    let (suspended, relay_pid) = launcher.fork(options, options.repeat == 1)?;
    let child = suspended.pid;
    let own: Vec<i32> =
        [Some(own_pid()), sentinel.as_ref().map(|s| s.pid), relay_pid].into_iter().flatten().collect();
    let group = own_group(options, child, &own)?;
    let system = System::open(Chain::of(Path::new("/proc"), Path::new("/"), child))?;
    let tree = Tree::new(Proc::default(), child, own, options.single, adopts);
    let limit = system.limit();
    let mut manifest =
        describe::manifest("run", directory, &launcher.target, child, limit, options, &Zoned::now());
    manifest.host.devices = system.device_names();
    manifest.rank = placed.map(Placed::stored);
    let allocs = injection.start(options, directory, &mut manifest);
    let recorder = Recorder::start(directory, options, tree, system)?;
    let session = Session {
        directory: directory.to_owned(),
        sentinel,
        relay_pid,
        marks,
        control,
        group,
        shared_before: SharedMemory::read(),
        allocs,
        ..Session::new(options, Subject::Child(child), signals, recorder, manifest)
    };
    Ok(Launched { session, suspended, launcher })
}

/// The tracker on its way into the target; or why it stays out.
#[derive(Default)]
struct Injection {
    socket: Option<allocs::Socket>,
    why_not: Option<String>,
}

impl Injection {
    fn prepare(options: &Options, target: &mut Target) -> Self {
        let Some(wanted) = &options.allocs else { return Self::default() };
        let program = target.argv.first().cloned().unwrap_or_default();
        if let Some(why) = allocs::inject::unsuitable(&program, &target.environment) {
            return Self { why_not: Some(why.to_owned()), socket: None };
        }
        match allocs::Socket::open(own_pid()) {
            Ok(socket) => {
                allocs::inject::inject(&mut target.environment, wanted, socket.path());
                Self { socket: Some(socket), why_not: None }
            }
            Err(error) => Self { why_not: Some(format!("its socket cannot be made: {error}")), socket: None },
        }
    }

    fn start(self, options: &Options, directory: &Path, manifest: &mut Manifest) -> Option<Allocs> {
        let wanted = options.allocs.as_ref()?;
        manifest.allocs = Some(describe::allocs(wanted, self.why_not.clone()));
        let started = Allocs::start(wanted, self.socket?, directory, options.max_log_bytes);
        started
            .inspect_err(|error| manifest.notes.push(format!("allocations are not recorded: {error}")))
            .ok()
    }
}

impl Launcher {
    /// Forks the target suspended, and the relay of its output if steps are read from that. After the
    /// `last` one our own standard streams are let go: only the target needs them.
    fn fork(&self, options: &Options, last: bool) -> Result<(Suspended, Option<i32>), Error> {
        let relay = start_relay(options, &self.marks, &self.mask)?;
        let relay_pid = relay.as_ref().map(|relay| relay.pid);
        let suspended = self.fork_target(relay)?;
        signals::ignore_sigpipe();
        if last {
            let_go(0);
            if !self.target.stdout_to_stderr {
                let_go(1);
            }
        }
        Ok((suspended, relay_pid))
    }

    fn fork_target(&self, relay: Option<Relay>) -> Result<Suspended, Error> {
        let argv = self.target.argv.iter().map(c_string).collect();
        let envp = self.target.environment.iter().map(variable).collect();
        let mut command = Command::new(argv, envp, self.inherited_mask, self.inherited_files);
        if let Some(relay) = relay {
            let document = self.target.stdout_to_stderr.then(|| relay.stderr.try_clone());
            let stdout = document.and_then(Result::ok).unwrap_or(relay.stdout);
            command = command.redirect(stdout, 1).redirect(relay.stderr, 2);
        } else if self.target.stdout_to_stderr
            && let Ok(stderr) = std::io::stderr().as_fd().try_clone_to_owned()
        {
            command = command.redirect(stderr, 1);
        }
        command.start_suspended().map_err(|source| Error::System { what: "fork", source })
    }

    fn program(&self) -> String {
        self.target.argv.first().map_or_else(String::new, |a| a.to_string_lossy().into_owned())
    }
}

impl Launched {
    /// From the look before the start to the end of the recording.
    fn live(self) -> Result<Exit, Error> {
        let Self { mut session, suspended, launcher } = self;
        session.describe(None);
        session.look_at_system(Phase::Before, nanoseconds(session.options.before));
        let started_ns = monotonic_ns();
        if let Err(source) = release(&mut session, suspended) {
            session.abandon();
            launcher.inherited_mask.restore();
            return Err(Error::Exec { command: launcher.program(), source });
        }
        session.recorder.event(started_ns, EventKind::Started);
        session.begin_repeat(1, started_ns);
        session.recorder.tree.begin(started_ns);
        session.pages = watch_pages(&mut session, started_ns);
        session.watch(started_ns);
        let exit = repeat(&mut session, &launcher, started_ns);
        let ended_ns = monotonic_ns();
        session.recorder.event(ended_ns, EventKind::Exited);
        session.exit = Some(exit.clone());
        session.close(started_ns, ended_ns);
        signals::forget_pending();
        launcher.inherited_mask.restore();
        Ok(exit)
    }
}

/// A thread that looks at touched pages, where that was asked.
fn watch_pages(session: &mut Session, started_ns: u64) -> Option<Watch> {
    let (window, Subject::Child(pid)) = (session.options.wss?, &session.subject) else { return None };
    let (command, directory) = (session.manifest.command.join(" "), session.directory.clone());
    let started = Watch::start(Task { pid: *pid, command, window, directory, started_ns });
    started.inspect_err(|error| session.manifest.notes.push(format!("no working set: {error}"))).ok()
}

/// Lets the child become the command; the error is exec's own.
fn release(session: &mut Session, suspended: Suspended) -> std::io::Result<()> {
    let child = suspended.pid;
    session.launch_hwm_kib = launch_mark_kib(child, session.manifest.host.counter_slack_bytes);
    let execing = suspended.release();
    // A key of the terminal may stop the child before it execs: then we stop with it, as always.
    while !session.wait_for_signals(Some(execing.as_fd()), u64::MAX) {}
    execing.outcome().inspect_err(|_| {
        wait_for(child);
    })
}

/// The second and later runs of `--repeat`. Ends early when somebody ended a run; the exit is that of the
/// first run that failed.
fn repeat(session: &mut Session, launcher: &Launcher, started_ns: u64) -> Exit {
    let runs = session.options.repeat;
    let mut exit = session.exit.clone().unwrap_or_default();
    if runs == 1 {
        return exit;
    }
    let mut done = 1;
    let before = session.shared_before.clone();
    let mut left = session.end_repeat(1, started_ns, &before);
    while (runs == 0 || done < runs) && exit.ended_by.is_none() && may_begin(session, started_ns) {
        let launched = launcher.fork(&session.options, done + 1 == runs);
        let Ok((suspended, relay_pid)) = launched else { break };
        session.adopt(suspended.pid, relay_pid);
        session.begin_repeat(done + 1, monotonic_ns());
        let child = suspended.pid;
        let began_ns = monotonic_ns();
        if release(session, suspended).is_err() {
            break;
        }
        session.recorder.tree.begin_again(child, monotonic_ns());
        session.watch(monotonic_ns());
        done += 1;
        left = session.end_repeat(u64::from(done), began_ns, &left);
        let this = session.exit.clone().unwrap_or_default();
        if this.ended_by.is_some() || exit.code == Some(0) {
            exit = this;
        }
    }
    let now_ns = monotonic_ns();
    let span_ns = Some(now_ns - started_ns);
    session.recorder.event(now_ns, EventKind::Repeats { runs: u64::from(done), span_ns });
    exit
}

/// Nobody asked to end, and the time is not over.
fn may_begin(session: &Session, started_ns: u64) -> bool {
    let over = session.options.repeat_for.is_some_and(|d| monotonic_ns() >= started_ns + nanoseconds(d));
    session.asked_to_end == 0 && !over
}

/// A process of ours between the target and its output, where steps are read from it.
fn start_relay(options: &Options, marks: &Path, mask: &Mask) -> Result<Option<Relay>, Error> {
    let Some(steps) = options.steps.as_ref().filter(|steps| steps.is_in_output()) else { return Ok(None) };
    let relay = Relay::start(steps, marks, mask);
    relay.map(Some).map_err(|source| Error::System { what: "relay of the output", source })
}

/// Arguments come from our own `argv` and cannot contain NUL; one from elsewhere ends there.
fn c_string(text: &OsString) -> CString {
    let bytes: Vec<u8> = text.as_bytes().iter().copied().take_while(|b| *b != 0).collect();
    CString::new(bytes).unwrap_or_default()
}

fn variable((name, value): &(OsString, OsString)) -> CString {
    let mut text = name.as_bytes().to_vec();
    text.push(b'=');
    text.extend_from_slice(value.as_bytes());
    c_string(&OsString::from_vec(text))
}

fn set_variable(environment: &mut Vec<(OsString, OsString)>, name: &str, value: OsString) {
    environment.retain(|(known, _)| known != name);
    environment.push((name.into(), value));
}

/// `own` are our processes besides the target's.
fn own_group(options: &Options, child: i32, own: &[i32]) -> Result<Option<OwnGroup>, Error> {
    if !options.cgroup {
        return Ok(None);
    }
    let chain = Chain::of(Path::new("/proc"), Path::new("/"), child)
        .ok_or_else(|| Error::Cgroup("no memory cgroup is mounted here".to_owned()))?;
    let family = [own, &[child]].concat();
    let name = format!("nilo-{}", own_pid());
    let group = OwnGroup::create(&chain, &name, &family).map_err(Error::Cgroup)?;
    group.add(child).map_err(Error::Cgroup)?;
    Ok(Some(group))
}

/// `ru_maxrss` of the command begins with what its process had before it became the command: at most the mark of the
/// child that waits, what it touches on its way to `exec`, and what the kernel's counters may lag behind.
fn launch_mark_kib(child: i32, counter_slack_bytes: u64) -> u64 {
    let mark = |pid| Proc::default().read_status(pid, &mut Vec::new()).ok()?.vm_hwm_kib;
    let waiting = mark(child).map(|kib| kib + ((TOUCHED_BEFORE_EXEC + counter_slack_bytes) >> 10));
    waiting.or_else(|| mark(own_pid())).unwrap_or(0)
}
