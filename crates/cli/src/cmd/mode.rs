//! `nilo mode`: switches the recording of allocations of a run that goes on.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, anyhow};
use nilometer_capture::control::socket_of;
use nilometer_kernel::read::proc::Proc;
use nilometer_trace::Manifest;
use serde_json::{Value, json};

use super::load;
use crate::args::allocs::ModeArgs;
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

const PATIENCE: Duration = Duration::from_secs(5);
/// Ancestors that are looked at: a tree is not deeper, and a cycle cannot be.
const MOST_ANCESTORS: usize = 64;

pub fn run(args: &ModeArgs) -> Result<ExitCode, Failure> {
    let socket = find(args.run.as_deref())?;
    let answer = ask(&socket, &json!({"do": "mode", "mode": args.mode.name()}))
        .with_context(|| format!("the run does not answer at {}", socket.display()))?;
    if let Some(error) = answer["error"].as_str() {
        let failure = Failure::from(anyhow!("{error}"));
        return Err(match answer["hint"].as_str() {
            Some(hint) => failure.hint(hint),
            None => failure,
        });
    }
    talk::say(&format!("allocations are recorded: {}", args.mode.name()));
    Ok(ExitCode::SUCCESS)
}

/// The control socket of a run: by a process of its tree, or by its directory.
fn find(word: Option<&str>) -> Result<PathBuf, Failure> {
    if let Some(pid) = word.and_then(|word| word.parse::<i32>().ok()) {
        let found = ancestors(pid).find_map(socket_of);
        return found.ok_or_else(|| {
            Failure::from(anyhow!("process {pid} belongs to no recording of yours"))
                .hint("see the runs here:  nilo list")
        });
    }
    let directory = load::resolve(word)?;
    let manifest = Manifest::read(&directory).reading(&directory)?;
    let over = || {
        Failure::from(anyhow!("{} has ended", directory.display()))
            .hint("start one:  nilo run --allocs=later -- python train.py")
    };
    let socket = manifest.control_socket.filter(|_| manifest.end.is_none()).map(PathBuf::from);
    socket.filter(|path| path.exists()).ok_or_else(over)
}

fn ancestors(pid: i32) -> impl Iterator<Item = i32> {
    let parent =
        |pid: &i32| Proc::default().read_status(*pid, &mut Vec::new()).ok().map(|status| status.ppid);
    std::iter::successors(Some(pid), parent).take_while(|pid| *pid > 1).take(MOST_ANCESTORS)
}

fn ask(socket: &Path, request: &Value) -> anyhow::Result<Value> {
    let stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    writeln!(&stream, "{request}")?;
    let mut answer = String::new();
    BufReader::new(&stream).read_line(&mut answer)?;
    Ok(serde_json::from_str(&answer)?)
}
