//! Nodes meet in the place where runs are kept: `.nilo-jobs/KEY.N` there says which directory the N-th job of that name
//! has. A claim is made by a link, so two nodes cannot both make the N-th; who comes second reads it.

use std::fs::DirBuilder;
use std::io::Read as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use nilometer_kernel::sys::process::own_pid;
use nilometer_trace::job;
use serde::{Deserialize, Serialize};

use super::{Anchor, Wish, begin, directory_name, key};
use crate::Error;
use crate::rundir::{self, Places, SUFFIX};

const CLAIMS: &str = ".nilo-jobs";
/// Launchers of one job start on their nodes within this; a name that comes again later is another job.
const WINDOW_NS: u64 = 15 * 60 * 1_000_000_000;
const MOST_TRIES: usize = 100;

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Claim {
    key: String,
    /// Name of the job's directory, beside the claims.
    directory: String,
    anchor: Anchor,
}

/// The job's directory in the first place that can be written.
pub(super) fn find_or_make(wish: &Wish<'_>, places: &Places) -> Result<(PathBuf, Option<String>), Error> {
    let mut refused: Option<(PathBuf, Error)> = None;
    for place in places.candidates() {
        let place = super::absolute(place);
        match in_place(wish, &place) {
            Ok(directory) => {
                let why = refused
                    .map(|(wanted, error)| format!("{} cannot be written ({error})", wanted.display()));
                return Ok((directory, why));
            }
            Err(error) => refused = refused.or(Some((place, error))),
        }
    }
    Err(refused.map_or_else(|| Error::Store("no place for the job".to_owned()), |(_, error)| error))
}

fn in_place(wish: &Wish<'_>, place: &Path) -> Result<PathBuf, Error> {
    let claims = place.join(CLAIMS);
    let failed = |source| Error::RunDirectory { path: claims.clone(), source };
    DirBuilder::new().mode(0o700).recursive(true).create(&claims).map_err(failed)?;
    let _ = job::publish(&claims.join(".gitignore"), b"*\n");
    for _ in 0..MOST_TRIES {
        let newest = newest(&claims, wish);
        if let Some((_, claim)) = &newest
            && fits(claim, wish, place)
        {
            return Ok(place.join(&claim.directory));
        }
        let number = newest.map_or(1, |(number, _)| number.saturating_add(1));
        let directory = make_new(wish, place)?;
        begin(&directory, wish)?;
        if publish(&claims, number, wish, &directory).map_err(failed)? {
            forget(&claims, number - 1, wish);
            return Ok(directory);
        }
        let _ = std::fs::remove_dir_all(&directory); // another node was first; nobody knows of this one
    }
    Err(failed(std::io::ErrorKind::AlreadyExists.into()))
}

fn stem(wish: &Wish<'_>) -> String {
    format!("{:016x}", fingerprint(&key(wish)))
}

/// FNV-1a: the same in every build, on every node.
pub(super) fn fingerprint(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

fn newest(claims: &Path, wish: &Wish<'_>) -> Option<(u64, Claim)> {
    let stem = stem(wish);
    let entries = std::fs::read_dir(claims).ok()?.flatten();
    let number = |name: &str| name.strip_prefix(&stem)?.strip_prefix('.')?.parse::<u64>().ok();
    let number = entries.filter_map(|entry| number(entry.file_name().to_str()?)).max()?;
    let mut text = Vec::new();
    let file = std::fs::File::open(claims.join(format!("{stem}.{number}"))).ok()?;
    file.take(1 << 20).read_to_end(&mut text).ok()?;
    let claim: Claim = serde_json::from_slice(&text).ok()?;
    Some((number, claim))
}

/// Is this claim of our job? A unique name says so; on its own node the launcher must be the same one; on another it must
/// have begun at about the same time, and nobody of our rank be there.
fn fits(claim: &Claim, wish: &Wish<'_>, place: &Path) -> bool {
    let directory = place.join(&claim.directory);
    if claim.key != key(wish) || claim.directory.contains('/') || !job::is_job(&directory) {
        return false;
    }
    if wish.told.unique || claim.anchor.is_same(&wish.anchor) {
        return true;
    }
    let apart = claim.anchor.started_ns.abs_diff(wish.anchor.started_ns);
    let own = job::place(&wish.node, wish.told.rank.unwrap_or(0), wish.told.restart);
    claim.anchor.boot != wish.anchor.boot && apart <= WINDOW_NS && !directory.join(own).exists()
}

/// A directory that nobody else has: who loses the race removes its own.
fn make_new(wish: &Wish<'_>, place: &Path) -> Result<PathBuf, Error> {
    let name = directory_name(wish);
    let stem = name.strip_suffix(SUFFIX).unwrap_or(&name);
    let wanted = place.join(&name);
    match rundir::make_io(&wanted) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let other = place.join(format!("{stem}.{}-{}{SUFFIX}", job::escape(&wish.node), own_pid()));
            let made = rundir::make_io(&other).map(|()| other.clone());
            made.map_err(|source| Error::RunDirectory { path: other, source })
        }
        Err(source) => Err(Error::RunDirectory { path: wanted, source }),
        Ok(()) => Ok(wanted),
    }
}

fn publish(claims: &Path, number: u64, wish: &Wish<'_>, directory: &Path) -> std::io::Result<bool> {
    let name = directory.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let claim = Claim { key: key(wish), directory: name, anchor: wish.anchor.clone() };
    job::publish(&claims.join(format!("{}.{number}", stem(wish))), &serde_json::to_vec(&claim)?)
}

fn forget(claims: &Path, number: u64, wish: &Wish<'_>) {
    let _ = std::fs::remove_file(claims.join(format!("{}.{number}", stem(wish))));
}
