//! A look at a process and its tree, as `attach` has it, for somebody who is there: nothing is written.

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::Path;

use jiff::Zoned;
use nilometer_kernel::read::cgroup::Chain;
use nilometer_kernel::read::proc::Proc;
use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::poll::PollSet;
use nilometer_kernel::sys::process::own_pid;
use nilometer_trace::Manifest;
use nilometer_trace::record::{Cost, EventKind, Record};

use crate::attach::open_process;
use crate::options::{Options, Target};
use crate::recorder::Recorder;
use crate::store::Waiting;
use crate::system::System;
use crate::tree::Tree;
use crate::{Error, describe};

/// A process that is looked at.
#[derive(Debug)]
pub struct Observer {
    pub manifest: Manifest,
    /// None once it has ended.
    recorder: Option<Recorder>,
    waiting: Waiting,
    pidfd: OwnedFd,
}

impl Observer {
    pub fn start(options: &Options, pid: i32) -> Result<Self, Error> {
        let pidfd = open_process(pid)?;
        let arguments = Proc::default().read_arguments(pid)?;
        let target = Target { argv: arguments.iter().map(Into::into).collect(), ..Target::default() };
        let system = System::open(Chain::of(Path::new("/proc"), Path::new("/"), pid))?;
        let tree = Tree::new(Proc::default(), pid, vec![own_pid()], options.single, false);
        let mut manifest =
            describe::manifest("attach", Path::new(""), &target, pid, system.limit(), options, &Zoned::now());
        manifest.host.devices = system.device_names();
        let waiting = Waiting::default();
        let mut recorder = Recorder::over(Box::new(waiting.clone()), options, tree, system);
        let started_ns = monotonic_ns();
        recorder.event(started_ns, EventKind::Started);
        if !recorder.tree.begin(started_ns) {
            return Err(Error::NoProcess { pid });
        }
        Ok(Self { manifest, recorder: Some(recorder), waiting, pidfd })
    }

    /// One look. The last one, after its end, brings the end.
    pub fn look(&mut self) -> Vec<Record> {
        if self.process_has_ended() {
            if let Some(recorder) = self.recorder.take() {
                recorder.finish(None, Cost::default(), None);
            }
        } else if let Some(recorder) = &mut self.recorder {
            recorder.tick();
        }
        self.waiting.take()
    }

    pub fn has_ended(&self) -> bool {
        self.recorder.is_none()
    }

    fn process_has_ended(&self) -> bool {
        let mut poll = PollSet::default();
        poll.add(self.pidfd.as_raw_fd());
        poll.wait_until(0).count() > 0
    }
}
