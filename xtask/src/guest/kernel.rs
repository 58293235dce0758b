//! The guest's kernel: Debian's source, our configuration, kept in the cache folder under a name made of both.
//!
//! A cached kernel has been built to its end: the file appears by a rename.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};

use super::package;
use crate::workspace;

const CONFIG: &str = include_str!("../../guest/kernel.config");
/// Taken where it is offered; the newest otherwise.
const SOURCE: &str = "linux-source-6.12";
const SOURCES: &str = "/usr/src";

/// A kernel that was built before.
pub fn find() -> Result<Option<PathBuf>> {
    let mut names = installed_sources();
    names.insert(0, SOURCE.to_owned());
    for name in names {
        let image = folder(&name)?.join("bzImage");
        if image.exists() {
            return Ok(Some(image));
        }
    }
    Ok(None)
}

/// Builds it, after installing what that takes; the inner error is why it cannot be built here.
pub fn build() -> Result<Result<PathBuf, String>> {
    println!("no kernel in {}: building one, about 8 CPU-minutes, once", cache()?.display());
    if let Some(reason) = package::ensure(package::TO_BUILD)? {
        return Ok(Err(reason));
    }
    let name = match find_source()? {
        Ok(name) => name,
        Err(reason) => return Ok(Err(reason)),
    };
    let place = folder(&name)?;
    let scratch = place.join(format!("build-{}", std::process::id()));
    fs::create_dir_all(&scratch).with_context(|| format!("cannot create {}", scratch.display()))?;
    let built = compile(&name, &scratch, &place);
    fs::remove_dir_all(&scratch).ok();
    built.map(Ok)
}

fn compile(name: &str, scratch: &Path, place: &Path) -> Result<PathBuf> {
    let begin = Instant::now();
    let log = place.join("build.log");
    let output = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
    let tarball = Path::new(SOURCES).join(format!("{name}.tar.xz"));
    let run = |program: &str, args: &[&str], directory: &Path| -> Result<()> {
        let mut command = Command::new("nice");
        command.args(["-n", "10", program]).args(args).current_dir(directory).stdin(Stdio::null());
        // A make of ours inside somebody's make would look for its job server.
        command.env_remove("MAKEFLAGS").env_remove("MFLAGS").env_remove("MAKELEVEL");
        let status = command.stdout(output.try_clone()?).stderr(output.try_clone()?).status()?;
        ensure!(status.success(), "{program} {}: {status}, see {}", args.join(" "), log.display());
        Ok(())
    };
    run("tar", &["-xf", &tarball.to_string_lossy()], scratch)?;
    let tree = scratch.join(name);
    fs::write(tree.join("guest.config"), CONFIG)?;
    let jobs = format!("-j{}", available_parallelism().map_or(1, usize::from));
    run("make", &["tinyconfig"], &tree)?;
    run("./scripts/kconfig/merge_config.sh", &["-m", ".config", "guest.config"], &tree)?;
    run("make", &["olddefconfig"], &tree)?;
    check_config(&fs::read_to_string(tree.join(".config"))?)?;
    run("make", &[&jobs, "bzImage"], &tree)?;
    fs::write(place.join("source"), format!("{name} {}\n", installed_version(name)))?;
    fs::copy(tree.join(".config"), place.join("config"))?;
    let image = place.join("bzImage");
    fs::rename(tree.join("arch/x86/boot/bzImage"), &image)?;
    println!("built {} in {:.0} s", image.display(), begin.elapsed().as_secs_f64());
    Ok(image)
}

/// `make` drops silently what it does not know or what depends on something that is off.
fn check_config(result: &str) -> Result<()> {
    let lost = lost_options(CONFIG, result);
    if !lost.is_empty() {
        bail!("the kernel's configuration lost {}", lost.join(", "));
    }
    Ok(())
}

fn lost_options<'a>(wanted: &'a str, result: &str) -> Vec<&'a str> {
    let has = |line: &&str| result.lines().any(|other| other == *line);
    wanted.lines().filter(|line| line.starts_with("CONFIG_")).filter(|line| !has(line)).collect()
}

/// The package with a source that is unpacked nowhere yet.
fn find_source() -> Result<Result<String, String>> {
    if installed_sources().is_empty() {
        package::install(&[&offered_source()])?;
    }
    let mut names = installed_sources();
    let preferred = names.iter().position(|name| name == SOURCE).unwrap_or(names.len().saturating_sub(1));
    if names.is_empty() {
        return Ok(Err(package::reason(&[SOURCE])));
    }
    Ok(Ok(names.swap_remove(preferred)))
}

/// What apt has: ours, or the newest of its kind.
fn offered_source() -> String {
    let output = Command::new("apt-cache").args(["pkgnames", "linux-source-"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let mut names: Vec<&str> = text.lines().filter(|name| version_of(name).is_some()).collect();
    names.sort_by_key(|name| version_of(name));
    if names.contains(&SOURCE) { SOURCE } else { names.last().unwrap_or(&SOURCE) }.to_owned()
}

/// Names such as `linux-source-6.12` whose source lies here, oldest first.
fn installed_sources() -> Vec<String> {
    let files = fs::read_dir(SOURCES).into_iter().flatten().flatten();
    let names = files.filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        Some(name.strip_suffix(".tar.xz")?.to_owned())
    });
    let mut names: Vec<String> = names.filter(|name| version_of(name).is_some()).collect();
    names.sort_by_key(|name| version_of(name));
    names
}

/// 6 and 12 of `linux-source-6.12`.
fn version_of(name: &str) -> Option<(u32, u32)> {
    let (major, minor) = name.strip_prefix("linux-source-")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

fn installed_version(name: &str) -> String {
    let output = Command::new("dpkg-query").args(["-W", "-f", "${Version}", name]).output();
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default()
}

fn cache() -> Result<PathBuf> {
    Ok(workspace::cache_folder()?.join("guest"))
}

fn folder(name: &str) -> Result<PathBuf> {
    Ok(cache()?.join(format!("{:016x}", fingerprint(name.bytes().chain(CONFIG.bytes())))))
}

/// FNV-1a.
fn fingerprint(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert_eq!(version_of("linux-source-6.12"), Some((6, 12)));
        assert!(version_of("linux-source-6.12") > version_of("linux-source-6.1"));
        assert_eq!(version_of("linux-source"), None);
        assert_eq!(version_of("linux-source-6.12-doc"), None);
    }

    #[test]
    fn an_option_that_make_dropped_is_found() {
        let wanted = "# a comment\nCONFIG_A=y\nCONFIG_B=\"x\"\n# CONFIG_C is not set\n";
        assert_eq!(lost_options(wanted, "CONFIG_A=y\n"), ["CONFIG_B=\"x\""]);
        assert!(lost_options(wanted, "CONFIG_B=\"x\"\nCONFIG_A=y\nCONFIG_D=y\n").is_empty());
    }

    #[test]
    fn another_source_is_another_folder() {
        assert_ne!(folder("linux-source-6.1").unwrap(), folder("linux-source-6.12").unwrap());
    }
}
