//! One directory for all ranks of a job, agreed upon without a server.
//!
//! Ranks of one node meet at a file in the node's own private directory, one at a time (`flock`; never on a network file
//! system alone). The first of them looks whether another node has begun the job (`claim`), which works by links that
//! can be made once; the others read what it found. Below the job each rank makes a directory that no other has.
//! The one invariant: two recordings never share a directory, whatever variables a launcher repeats.

mod anchor;
mod claim;
mod spool;

use std::fs::DirBuilder;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use nilometer_kernel::sys::lock::Lock;
use nilometer_trace::FORMAT_VERSION;
use nilometer_trace::job::{self, Job};
use serde::{Deserialize, Serialize};

use crate::control::private_directory;
use crate::rank::{self, RUN_VARIABLE, Rank};
use crate::rundir::{self, Places};
use crate::{Error, privacy};
use anchor::Anchor;
pub use spool::{Spool, copy_home};

/// More recordings of one rank than this are a mistake.
const MOST_RESTARTS: u64 = 10_000;
const MOST_RANKS: u64 = 1_000_000;

/// A rank with a directory of its own.
#[derive(Debug, Clone)]
pub struct Placed {
    /// The directory of the job.
    pub job: PathBuf,
    /// The run directory; it exists and is empty.
    pub run: PathBuf,
    pub node: String,
    pub rank: u64,
    pub restart: u64,
    pub told: Rank,
    /// Whoever holds a lock on this file samples the node.
    pub sampler: Option<PathBuf>,
    /// Why it is not where it was wanted.
    pub fallback: Option<String>,
}

impl Placed {
    /// One rank of each node speaks for it.
    pub fn speaks(&self) -> bool {
        self.told.local.map_or(self.rank == 0, |local| local == 0)
    }

    pub fn stored(&self) -> nilometer_trace::manifest::Rank {
        let name = self.job.file_name().map(|name| name.to_string_lossy().into_owned());
        nilometer_trace::manifest::Rank {
            launcher: self.told.launcher.to_owned(),
            job: name.unwrap_or_default(),
            rank: self.rank,
            restart: self.restart,
            local_rank: self.told.local,
            world_size: self.told.world,
        }
    }
}

/// What the ranks of one node have found.
#[derive(Debug, Serialize, Deserialize)]
struct Memo {
    anchor: Anchor,
    directory: PathBuf,
    /// What all ranks asked for: another wish is another job.
    wish: Option<PathBuf>,
}

/// What is to be placed.
struct Wish<'a> {
    told: &'a Rank,
    name: String,
    command: &'a [String],
    /// `-o` or `NILO_RUN`.
    directory: Option<PathBuf>,
    anchor: Anchor,
    node: String,
}

/// Finds or makes the directory of the job, and one for this rank in it.
pub fn place(
    told: &Rank,
    command: &[String],
    output: Option<&Path>,
    places: &Places,
) -> Result<Placed, Error> {
    let wish = Wish {
        told,
        name: rundir::command_name(command),
        command,
        directory: output.map(absolute).or_else(|| named_run(places)),
        anchor: Anchor::find(told.variable),
        node: anchor::host_name(),
    };
    let (job, fallback) = agree(&wish, places)?;
    let (run, rank, restart) = reserve(&job, &wish)?;
    let sampler = private_directory().ok().map(|directory| directory.join(lock_name(&wish, "node")));
    Ok(Placed { job, run, node: wish.node, rank, restart, told: told.clone(), sampler, fallback })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// `NILO_RUN`: a path, or a name in the usual place.
fn named_run(places: &Places) -> Option<PathBuf> {
    let word = std::env::var(RUN_VARIABLE).ok().filter(|word| !word.is_empty())?;
    if word.contains('/') {
        return Some(absolute(Path::new(&word)));
    }
    let ending = if word.ends_with(rundir::SUFFIX) { "" } else { rundir::SUFFIX };
    places.candidates().next().map(|place| absolute(&place.join(format!("{word}{ending}"))))
}

/// One rank of a node at a time; the later ones find what the first has found.
fn agree(wish: &Wish<'_>, places: &Places) -> Result<(PathBuf, Option<String>), Error> {
    let meeting = private_directory().ok().map(|directory| directory.join(lock_name(wish, "job")));
    let mut lock = meeting.and_then(|path| Lock::wait_for(&path).ok());
    if let Some(known) = lock.as_mut().and_then(|lock| read_memo(lock, wish)) {
        return Ok((known, None));
    }
    let found = match &wish.directory {
        Some(directory) => begin(directory, wish).map(|()| (directory.clone(), None)),
        None => claim::find_or_make(wish, places),
    }?;
    if let Some(lock) = &mut lock {
        let _ = write_memo(lock, wish, &found.0);
    }
    Ok(found)
}

/// With the name of the node: nodes may share the directory (containers of one machine, a home on a network).
fn lock_name(wish: &Wish<'_>, what: &str) -> String {
    format!("{what}.{:016x}.lock", claim::fingerprint(&format!("{} {}", wish.node, key(wish))))
}

/// A job without a name is known on its own node, by its launcher.
fn key(wish: &Wish<'_>) -> String {
    wish.told.key().unwrap_or_else(|| format!("{} {}", wish.told.launcher, wish.anchor.text()))
}

fn read_memo(lock: &mut Lock, wish: &Wish<'_>) -> Option<PathBuf> {
    let mut text = Vec::new();
    lock.file().take(1 << 20).read_to_end(&mut text).ok()?;
    let memo: Memo = serde_json::from_slice(&text).ok()?;
    let same =
        memo.anchor.is_same(&wish.anchor) && memo.wish == wish.directory && job::is_job(&memo.directory);
    same.then_some(memo.directory)
}

fn write_memo(lock: &mut Lock, wish: &Wish<'_>, directory: &Path) -> std::io::Result<()> {
    let memo =
        Memo { anchor: wish.anchor.clone(), directory: directory.to_owned(), wish: wish.directory.clone() };
    let text = serde_json::to_vec(&memo)?;
    let file = lock.file();
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    file.write_all(&text)
}

/// Makes a job's directory where there is none; what is there and no job is left alone.
fn begin(directory: &Path, wish: &Wish<'_>) -> Result<(), Error> {
    let failed = |source| Error::RunDirectory { path: directory.to_owned(), source };
    match rundir::make_io(directory) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let is_empty = || std::fs::read_dir(directory).is_ok_and(|entries| entries.count() <= 1);
            if !job::is_job(directory) && !is_empty() {
                return Err(Error::Exists { path: directory.to_owned() });
            }
        }
        Err(source) => return Err(failed(source)),
    }
    let started = jiff::Timestamp::from_second((wish.anchor.started_ns / 1_000_000_000) as i64);
    let started = started.unwrap_or_default().to_zoned(TimeZone::system());
    let job = Job {
        format_version: FORMAT_VERSION,
        nilo_version: env!("CARGO_PKG_VERSION").to_owned(),
        launcher: wish.told.launcher.to_owned(),
        id: wish.told.id.clone().unwrap_or_default(),
        name: wish.name.clone(),
        command: privacy::mask_arguments(wish.command),
        started: started.strftime("%Y-%m-%dT%H:%M:%S%:z").to_string(),
        world_size: wish.told.world,
    };
    job.write_first(directory).map_err(|error| Error::Store(error.to_string()))
}

/// Makes the directory of this rank: the restart that the launcher told, or the next that nobody has.
fn reserve(job: &Path, wish: &Wish<'_>) -> Result<(PathBuf, u64, u64), Error> {
    let failed = |source| Error::RunDirectory { path: job.to_owned(), source };
    let rank = match wish.told.rank {
        Some(rank) => rank,
        None => number(job).map_err(failed)?,
    };
    for restart in wish.told.restart..=wish.told.restart.saturating_add(MOST_RESTARTS) {
        let path = job.join(job::place(&wish.node, rank, restart));
        let parent = path.parent().unwrap_or(job);
        let made = DirBuilder::new()
            .mode(0o700)
            .recursive(true)
            .create(parent)
            .and_then(|()| rundir::make_io(&path));
        match made {
            Ok(()) => return Ok((path, rank, restart)),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(source) => return Err(failed(source)),
        }
    }
    Err(failed(ErrorKind::AlreadyExists.into()))
}

/// Nothing ran: what was made for this rank goes, and the job with it where it was the last.
pub fn leave(placed: &Placed) {
    let parents = [placed.run.parent(), placed.run.parent().and_then(Path::parent)];
    let emptied = parents.into_iter().flatten().all(|parent| std::fs::remove_dir(parent).is_ok());
    if emptied && job::list(&placed.job).is_empty() {
        let _ = std::fs::remove_dir_all(&placed.job);
    }
}

/// The next number of a launcher that gives none, on whichever node.
fn number(job: &Path) -> std::io::Result<u64> {
    let taken = job.join(".numbers");
    DirBuilder::new().mode(0o700).recursive(true).create(&taken)?;
    for number in 0..MOST_RANKS {
        match DirBuilder::new().mode(0o700).create(taken.join(number.to_string())) {
            Ok(()) => return Ok(number),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// `train.slurm-17.0.1116-0957.nilo`: by the launcher's name for the job, and its start.
fn directory_name(wish: &Wish<'_>) -> String {
    let started = jiff::Timestamp::from_second((wish.anchor.started_ns / 1_000_000_000) as i64);
    let started =
        started.unwrap_or_default().to_zoned(TimeZone::system()).strftime("%m%d-%H%M%S").to_string();
    format!("{}.{}.{started}{}", wish.name, rank::short_name(wish.told), rundir::SUFFIX)
}

#[cfg(test)]
mod tests;
