//! The distribution's own Python with a package that is not installed: fetched with all that it needs, and unpacked in the
//! cache folder. Nothing of the machine is changed. A folder there is whole: it appears by a rename.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};

use super::{Python, stage};
use crate::apt::{self, Apt, Packages};
use crate::workspace;

const PYTHON: &str = "/usr/bin/python3";
/// What the machine's Python brings itself, the C library among it, stays the machine's.
const INTERPRETER: &str = "python3";
const MODULES: &str = "usr/lib/python3/dist-packages";
const LIBRARIES: [&str; 4] = ["usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib", "lib"];

/// A Python that does what `probe` says: as it is installed, else with the package unpacked beside it.
pub fn find(package: &str, probe: &str) -> Result<Python> {
    let installed = Python { program: PYTHON.into(), environment: Vec::new() };
    if works(&installed, probe) {
        return Ok(installed);
    }
    let unpacked = beside(&unpack(package)?)?;
    ensure!(
        works(&unpacked, probe),
        "{package} is unpacked, and `{probe}` fails: {:?}",
        unpacked.environment
    );
    Ok(unpacked)
}

fn works(python: &Python, probe: &str) -> bool {
    let mut command = stage::quiet(&python.program);
    command.envs(python.environment.iter().cloned()).args(["-c", probe]);
    command.status().is_ok_and(|status| status.success())
}

/// The tree of the package, fetched if it is not there.
fn unpack(package: &str) -> Result<PathBuf> {
    let home = workspace::cache_folder()?.join("debian");
    fs::create_dir_all(&home)?;
    let _lock = workspace::lock(&home)?;
    let suite = apt::read_codename()?;
    let place = home.join(format!("{suite}-{package}"));
    if !place.exists() {
        println!("fetching {package} of {suite} into {}", place.display());
        let scratch = home.join(".partial");
        fs::remove_dir_all(&scratch).ok(); // of one that was killed
        fetch(&Apt::open(home.join(".apt").join(&suite), &suite, Packages::Binary)?, package, &scratch)?;
        fs::rename(scratch.join("root"), &place)
            .with_context(|| format!("cannot rename to {}", place.display()))?;
        fs::remove_dir_all(&scratch)?;
    }
    Ok(place)
}

fn fetch(apt: &Apt, package: &str, scratch: &Path) -> Result<()> {
    let archives = scratch.join("archives");
    fs::create_dir_all(&archives)?;
    let known = apt.needs(INTERPRETER)?;
    let needed: Vec<String> = apt.needs(package)?.into_iter().filter(|name| !known.contains(name)).collect();
    apt.download(&needed, &archives)?;
    apt::unpack_all(&archives, &scratch.join("root"))
}

/// The machine's Python, which finds modules and libraries there first.
fn beside(root: &Path) -> Result<Python> {
    let mut libraries: Vec<PathBuf> = LIBRARIES.iter().map(|folder| root.join(folder)).collect();
    // BLAS and LAPACK have folders of their own: an installation would choose among them by a link.
    let below = fs::read_dir(&libraries[0])?.filter_map(Result::ok).map(|entry| entry.path());
    libraries.extend(below.filter(|path| path.is_dir() && has_library(path)));
    let libraries = env::join_paths(libraries)?;
    let environment = vec![("PYTHONPATH", root.join(MODULES).into()), ("LD_LIBRARY_PATH", libraries)];
    Ok(Python { program: PYTHON.into(), environment })
}

fn has_library(folder: &Path) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    files.map(|file| file.file_name()).any(|name| {
        let name = name.to_string_lossy();
        name.starts_with("lib") && name.contains(".so.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_in_folders_of_their_own_are_found() {
        let root = tempfile::tempdir().unwrap();
        let lib = root.path().join(LIBRARIES[0]);
        for file in ["libtorch.so.1", "blas/libblas.so.3", "perl/module.so", "gconv/libX.so"] {
            let path = lib.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let python = beside(root.path()).unwrap();
        let (name, paths) = &python.environment[1];
        let paths: Vec<PathBuf> = env::split_paths(paths).collect();
        assert_eq!((*name, &paths[0], paths.last()), ("LD_LIBRARY_PATH", &lib, Some(&lib.join("blas"))));
        assert_eq!(paths.len(), LIBRARIES.len() + 1);
    }
}
