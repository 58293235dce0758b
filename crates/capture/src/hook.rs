//! `--steps torch|keras|tqdm|sklearn|jax`: Pythons of the target tell their steps by a hook in their environment.
//!
//! Not for: the hook itself, which is Python (`python/nilometer/hook`). The one invariant: what the user had in
//! `PYTHONPATH` stays, behind ours; a Python that ignores its environment is left alone.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

const PATH: &str = "PYTHONPATH";
/// Tells the hook which libraries count.
const WORDS: &str = "NILO_STEPS";
/// Of an earlier recording around us: its steps are not ours.
const OWNER: &str = "NILO_STEPS_PID";

/// Libraries that the hook knows.
pub const LIBRARIES: [&str; 5] = ["torch", "keras", "tqdm", "sklearn", "jax"];

/// Adds the hook in `folder` to an environment.
pub fn arm(environment: &mut Vec<(OsString, OsString)>, folder: &Path, words: &str) {
    let mut path = folder.as_os_str().to_owned();
    if let Some((_, before)) = environment.iter().find(|(name, _)| name == PATH)
        && !before.is_empty()
    {
        path.push(":");
        path.push(before);
    }
    environment.retain(|(name, _)| name != PATH && name != WORDS && name != OWNER);
    environment.push((PATH.into(), path));
    environment.push((WORDS.into(), words.into()));
}

/// A file that is there when the hook tells the steps, so that the output need not be read for them.
pub fn announcement(marks: &Path) -> PathBuf {
    let mut name = marks.as_os_str().to_owned();
    name.push(".hooked");
    PathBuf::from(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_the_user_stays_behind_ours() {
        let mut environment = vec![(PATH.into(), "/own:/other".into()), (OWNER.into(), "12".into())];
        arm(&mut environment, Path::new("/hook"), "torch");
        let expected: [(OsString, OsString); 2] =
            [(PATH.into(), "/hook:/own:/other".into()), (WORDS.into(), "torch".into())];
        assert_eq!(environment, expected);
        let mut empty = vec![(PATH.into(), OsString::new())];
        arm(&mut empty, Path::new("/hook"), "jax");
        assert_eq!(empty[0].1, "/hook");
    }
}
