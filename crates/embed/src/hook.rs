//! The Python files that tell the steps of a training, and their way to a folder that Python can import from.

use std::fs;
use std::path::{Path, PathBuf};

use super::{Error, at, check_private, fingerprint, write_whole};

const FILES: [(&str, &str); 2] = [
    ("sitecustomize.py", include_str!("../../../python/nilometer/hook/sitecustomize.py")),
    ("nilo_steps.py", include_str!("../../../python/nilometer/hook/nilo_steps.py")),
];

/// Writes the hook below the first of `folders` that can hold it; what belongs in front of `PYTHONPATH`.
pub fn unpack_hook(folders: &[&Path]) -> Result<PathBuf, Error> {
    let mut problem = Error::Placeholder;
    for folder in folders {
        match unpack(folder) {
            Ok(place) => return Ok(place),
            Err(error) => problem = error,
        }
    }
    Err(problem)
}

fn unpack(folder: &Path) -> Result<PathBuf, Error> {
    let content: Vec<u8> = FILES.iter().flat_map(|(_, text)| text.bytes()).collect();
    let place = folder.join(format!("nilo-hook-{:016x}", fingerprint(&content)));
    if place.to_string_lossy().contains(':') {
        return Err(Error::Separator { path: place });
    }
    super::make_private(folder, &place, &place)?;
    check_private(&place)?;
    for (name, text) in FILES {
        let path = place.join(name);
        if fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
            write_whole(&path, text.as_bytes()).map_err(at(&path))?;
        }
    }
    Ok(place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hook_is_whole_and_repaired() {
        let folder = tempfile::tempdir().unwrap();
        let place = unpack(folder.path()).unwrap();
        let file = place.join("nilo_steps.py");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "raise SystemExit").unwrap();
        assert_eq!(unpack(folder.path()).unwrap(), place);
        for (name, text) in FILES {
            assert_eq!(fs::read_to_string(place.join(name)).unwrap(), text);
        }
    }

    #[test]
    fn a_folder_that_python_would_cut_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let cut = folder.path().join("a:b");
        let good = folder.path().join("good");
        assert!(unpack_hook(&[&cut, &good]).unwrap().starts_with(&good));
        assert!(matches!(unpack_hook(&[&cut]), Err(Error::Separator { .. })));
    }
}
