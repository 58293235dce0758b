//! `--spool DIR`: record on the node's own disk, copy home at the end. A thousand ranks that append ten times a second are
//! what parallel file systems are worst at.
//!
//! The one invariant: until the copy is whole the recording is in the spool, and its home says where.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nilometer_kernel::sys::process::own_pid;
use nilometer_trace::job::SPOOLED_FILE;
use nilometer_trace::manifest::MANIFEST_FILE;
use serde_json::json;

use super::anchor::host_name;
use crate::{Error, rundir};

#[derive(Debug)]
pub struct Spool {
    pub local: PathBuf,
    pub home: PathBuf,
}

impl Spool {
    /// Makes a private directory below `base` for the run whose home is `home`.
    pub fn open(base: &Path, home: &Path) -> Result<Self, Error> {
        let name: String = home.to_string_lossy().chars().map(|c| if c == '/' { '_' } else { c }).collect();
        let tail: String = name.chars().rev().take(100).collect::<Vec<_>>().into_iter().rev().collect();
        let local = base.join(format!("nilo.{}.{tail}", own_pid()));
        let failed = |source| Error::RunDirectory { path: local.clone(), source };
        rundir::make_io(&local).map_err(failed)?;
        let where_it_is = json!({"host": host_name(), "directory": local});
        fs::write(home.join(SPOOLED_FILE), format!("{where_it_is:#}\n")).map_err(failed)?;
        Ok(Self { local, home: home.to_owned() })
    }
}

/// The recording has ended: everything goes home, the manifest last, and the spool is removed.
pub fn copy_home(spool: &Spool) -> io::Result<()> {
    copy_all(&spool.local, &spool.home, &|name| name != MANIFEST_FILE)?;
    let temporary = spool.home.join("manifest.json.new");
    fs::copy(spool.local.join(MANIFEST_FILE), &temporary)?;
    fs::rename(&temporary, spool.home.join(MANIFEST_FILE))?;
    let _ = fs::remove_file(spool.home.join(SPOOLED_FILE));
    fs::remove_dir_all(&spool.local)
}

fn copy_all(from: &Path, to: &Path, wanted: &dyn Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        let kind = entry.file_type()?;
        let (source, target) = (entry.path(), to.join(&name));
        if kind.is_dir() {
            DirBuilder::new().mode(0o700).recursive(true).create(&target)?;
            copy_all(&source, &target, &|_| true)?;
        } else if kind.is_file() && wanted(&name.to_string_lossy()) {
            fs::copy(&source, &target)?;
            fs::set_permissions(&target, fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}
