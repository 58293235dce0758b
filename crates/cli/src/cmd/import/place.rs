//! Where an imported run is written, and where it goes when it is complete.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::Zoned;
use nilometer_capture::describe::directory_name;
use nilometer_capture::rundir::{self, Places, RunDirectory};
use nilometer_kernel::sys::process::own_pid;

use crate::args::import::ImportArgs;
use crate::cmd::run;
use crate::talk::Failure;

#[derive(Debug)]
pub struct Place {
    pub directory: RunDirectory,
    replaced: Option<PathBuf>,
}

impl Place {
    pub fn new(args: &ImportArgs, name: &str) -> Result<Self, Failure> {
        let (directory, replaced) = match &args.output {
            None => {
                let name = directory_name(name, &Zoned::now());
                (rundir::create_default(&Places::from_environment(), &name), None)
            }
            Some(path) if args.force && path.exists() => {
                let mut beside = path.components().as_path().as_os_str().to_owned();
                beside.push(format!(".{}.new", own_pid()));
                (rundir::create_named(Path::new(&beside), false), Some(path.clone()))
            }
            Some(path) => (rundir::create_named(path, false), None),
        };
        Ok(Self { directory: directory.map_err(run::failure)?, replaced })
    }

    /// Writes with `write`; what fails leaves nothing behind.
    pub fn fill<T>(&self, write: impl FnOnce(&Path) -> Result<T, Failure>) -> Result<(PathBuf, T), Failure> {
        match write(&self.directory.path) {
            Ok(made) => Ok((self.finish()?, made)),
            Err(failure) => {
                drop(fs::remove_dir_all(&self.directory.path));
                Err(failure)
            }
        }
    }

    /// Replaces runs only, never anything else that has the name.
    fn finish(&self) -> Result<PathBuf, Failure> {
        let written = &self.directory.path;
        let Some(replaced) = &self.replaced else { return Ok(written.clone()) };
        let made = rundir::create_named(replaced, true).map_err(run::failure);
        let moved = made.and_then(|made| {
            fs::remove_dir_all(&made.path)?;
            fs::rename(written, &made.path)?;
            Ok(made.path)
        });
        if moved.is_err() {
            drop(fs::remove_dir_all(written));
        }
        moved
    }
}
