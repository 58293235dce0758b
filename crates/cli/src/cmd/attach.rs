//! `nilo attach` and `nilo record`: recordings without a command of ours.

use std::process::ExitCode;
use std::time::Duration;

use nilometer_capture::Options;
use nilometer_capture::attach;

use super::run::{failure, recording};
use super::{metrics, tell};
use crate::args::{AttachArgs, RecordArgs};
use crate::talk::{self, Failure};

const ATTACH_INTERVAL: Duration = Duration::from_millis(100);
const RECORD_INTERVAL: Duration = Duration::from_secs(10);

pub fn attach(args: &AttachArgs) -> Result<ExitCode, Failure> {
    let options = Options {
        duration: args.duration,
        outlets: metrics::outlets(&args.recording.metrics, args.telling.quiet)?,
        ..recording(&args.recording, Some(&args.depth), ATTACH_INTERVAL)
    };
    let is_there = std::path::Path::new(&format!("/proc/{}", args.pid)).exists();
    if is_there && args.duration.is_none() && !args.telling.quiet {
        talk::say(&format!("recording {} until it ends; Ctrl-C to stop earlier", args.pid));
    }
    let done = attach::attach(&options, args.pid).map_err(failure)?;
    tell::tell(&args.telling, &done.path, done.fallback.as_deref());
    Ok(ExitCode::SUCCESS)
}

pub fn record(args: &RecordArgs) -> Result<ExitCode, Failure> {
    let options = Options {
        duration: args.duration,
        samples: args.samples,
        outlets: metrics::outlets(&args.recording.metrics, args.telling.quiet)?,
        ..recording(&args.recording, None, RECORD_INTERVAL)
    };
    if args.duration.is_none() && args.samples.is_none() && !args.telling.quiet {
        talk::say("recording the machine; Ctrl-C to stop");
    }
    let done = attach::record(&options).map_err(failure)?;
    tell::tell(&args.telling, &done.path, done.fallback.as_deref());
    Ok(ExitCode::SUCCESS)
}
