//! How the tracker gets into the target: two environment variables, and when not to.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{AllocOptions, EXACT_BYTES, untracked};

const PRELOAD: &str = "LD_PRELOAD";
const SETTINGS: &str = "NILO_TRACKER";
/// Of a program that is searched for a sanitizer.
const MOST_PROGRAM_BYTES: u64 = 64 << 20;

/// Adds the tracker to an environment. What was preloaded before is kept, after it.
pub fn inject(environment: &mut Vec<(OsString, OsString)>, options: &AllocOptions, socket: &Path) {
    let mut preload = options.library.clone().into_os_string();
    if let Some((_, before)) = environment.iter().find(|(name, _)| name == PRELOAD)
        && !before.is_empty()
    {
        preload.push(":");
        preload.push(before);
    }
    let mut settings = OsString::from(format!(
        "mode={},mean={},exact={EXACT_BYTES},depth={},socket=",
        options.mode.name(),
        options.mean_bytes,
        options.depth
    ));
    settings.push(socket);
    for (name, value) in [(PRELOAD, preload), (SETTINGS, settings)] {
        environment.retain(|(known, _)| known != name);
        environment.push((name.into(), value));
    }
}

/// Why this program must not get the tracker, or will not take it.
pub fn unsuitable(program: &OsStr, environment: &[(OsString, OsString)]) -> Option<&'static str> {
    let path = find(program, environment)?;
    untracked::of_file(&path).or_else(|| sanitized(&path))
}

/// A program whose sanitizer must be loaded first refuses to start with anything preloaded.
fn sanitized(path: &Path) -> Option<&'static str> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(MOST_PROGRAM_BYTES).read_to_end(&mut bytes).ok()?;
    let needs = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    let is_program = bytes.starts_with(b"\x7fELF");
    (is_program && [&b"libasan.so"[..], b"libtsan.so", b"libhwasan.so"].into_iter().any(needs))
        .then_some("built with a sanitizer, which must be loaded first")
}

/// As `execvp` does.
fn find(program: &OsStr, environment: &[(OsString, OsString)]) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program));
    }
    let (_, path) = environment.iter().find(|(name, _)| name == "PATH")?;
    std::env::split_paths(path).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::allocs::AllocMode;

    fn options() -> AllocOptions {
        AllocOptions {
            mode: AllocMode::All,
            mean_bytes: 1000,
            depth: 64,
            events: false,
            library: "/x/t.so".into(),
        }
    }

    fn value<'a>(environment: &'a [(OsString, OsString)], name: &str) -> Vec<&'a str> {
        let found = environment.iter().filter(|(known, _)| known == name);
        found.filter_map(|(_, value)| value.to_str()).collect()
    }

    #[test]
    fn what_was_preloaded_stays() {
        let mut environment = vec![("LD_PRELOAD".into(), "/a.so /b.so".into()), ("HOME".into(), "/".into())];
        inject(&mut environment, &options(), Path::new("/run/s"));
        assert_eq!(value(&environment, "LD_PRELOAD"), ["/x/t.so:/a.so /b.so"]);
        let settings = "mode=all,mean=1000,exact=262144,depth=64,socket=/run/s";
        assert_eq!(value(&environment, "NILO_TRACKER"), [settings]);
        assert_eq!(environment.len(), 3);
    }

    #[test]
    fn an_ordinary_program_is_suitable() {
        let environment = vec![("PATH".into(), "/nowhere:/bin:/usr/bin".into())];
        assert_eq!(unsuitable(OsStr::new("sh"), &environment), None);
        assert_eq!(unsuitable(OsStr::new("no-such-program"), &environment), None);
    }
}
