//! `-o F.heap`: the decoded census as a file. It gets its name when it is complete, and is for its owner alone.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use nilometer_report::text;
use nilometer_trace::heap::{self, Graph};

use crate::path::AtPath as _;
use crate::talk::{self, Failure};

/// Refuses before the target is bothered.
pub fn check(file: &Path, force: bool) -> Result<(), Failure> {
    match fs::metadata(file) {
        Ok(there) if there.is_dir() => Err(Failure::from(anyhow!("{} is a directory", file.display()))
            .hint(format!("name a file in it:  -o {}", file.join("F.heap").display()))),
        Ok(there) if there.is_file() && !force => {
            let failure = Failure::from(anyhow!("{} exists already", file.display()));
            Err(failure.hint("choose another name, or replace it:  --force"))
        }
        _ => Ok(()),
    }
}

pub fn write(graph: &Graph, file: &Path, force: bool) -> Result<(), Failure> {
    check(file, force)?; // somebody may have been faster
    let written = if fs::metadata(file).is_ok_and(|there| !there.is_file()) {
        write_device(graph, file)
    } else {
        write_whole(graph, file)
    };
    written.writing(file)?;
    let size = fs::metadata(file).map_or(0, |there| there.len());
    talk::say(&format!("wrote {} ({})", file.display(), text::bytes(size)));
    Ok(())
}

/// A pipe or device cannot be replaced.
fn write_device(graph: &Graph, file: &Path) -> Result<(), heap::Error> {
    heap::write(graph, OpenOptions::new().write(true).open(file)?)
}

/// A file for its owner alone, that has its name when it is whole.
pub fn write_whole(graph: &Graph, file: &Path) -> Result<(), heap::Error> {
    let temporary = temporary_name(file);
    let written = write_new(graph, &temporary).and_then(|()| Ok(fs::rename(&temporary, file)?));
    if written.is_err() {
        drop(fs::remove_file(&temporary));
    }
    written
}

fn write_new(graph: &Graph, file: &Path) -> Result<(), heap::Error> {
    let out: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    heap::write(graph, &out)?;
    Ok(out.sync_data()?)
}

fn temporary_name(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    name.into()
}
