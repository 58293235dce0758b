//! apt with directories of its own: what the suites of this machine's distribution offer, unpacked and not installed.
//!
//! Mirror, components and signing keys are those of the machine's own configuration; the suite may be another.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};

const SOURCES: &str = "/etc/apt";

/// What is asked of a suite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packages {
    Binary,
    Source,
}

/// One suite.
#[derive(Debug)]
pub struct Apt {
    folder: PathBuf,
}

impl Apt {
    /// Lists what the suite has; lists of today are used again.
    pub fn open(folder: PathBuf, suite: &str, packages: Packages) -> Result<Self> {
        for part in ["lists/partial", "archives/partial", "parts"] {
            fs::create_dir_all(folder.join(part))?;
        }
        let source = parse_sources(&read_sources()?, &read_codename()?)
            .context("no apt source for this machine's own release in /etc/apt")?;
        let (path, text) = (folder.join("parts/suite.sources"), source.with_suite(suite, packages));
        let apt = Self { folder };
        let updated = apt.folder.join("updated");
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) || !is_fresh(&updated) {
            fs::write(&path, text)?;
            apt.run("apt-get", &["update", "-q"], &apt.folder)?;
            fs::write(updated, "")?;
        }
        Ok(apt)
    }

    /// `python3.14-minimal` and its like, with the version offered.
    pub fn interpreters(&self) -> Result<Vec<(String, String)>> {
        let names = self.run("apt-cache", &["pkgnames", "python3."], &self.folder)?;
        let minors = names.lines().filter_map(|name| name.strip_suffix("-minimal"));
        minors.map(|name| Ok((name.to_owned(), self.version(&format!("{name}-minimal"))?))).collect()
    }

    fn version(&self, package: &str) -> Result<String> {
        let shown = self.run("apt-cache", &["show", "--no-all-versions", package], &self.folder)?;
        let version = shown.lines().find_map(|line| line.strip_prefix("Version: "));
        Ok(version.with_context(|| format!("{package} has no version"))?.to_owned())
    }

    /// The packages and the libraries they need, the C library included.
    pub fn closure(&self, packages: &[String]) -> Result<Vec<String>> {
        let mut args = vec!["depends", "--recurse"];
        let hide = ["recommends", "suggests", "conflicts", "breaks", "replaces", "enhances"]
            .map(|kind| format!("--no-{kind}"));
        args.extend(hide.iter().map(String::as_str));
        args.extend(packages.iter().map(String::as_str));
        let text = self.run("apt-cache", &args, &self.folder)?;
        let library = |name: &&str| ["lib", "zlib", "python3."].iter().any(|start| name.starts_with(start));
        let mut names: Vec<String> = text.lines().filter(library).map(str::to_owned).collect();
        names.sort();
        names.dedup();
        Ok(names)
    }

    /// All that an installation on an empty machine would bring, by apt's own choice among alternatives.
    pub fn needs(&self, package: &str) -> Result<Vec<String>> {
        let args = ["install", "-qq", "--print-uris", "--no-install-recommends", package];
        let names = parse_uris(&self.run("apt-get", &args, &self.folder)?);
        ensure!(!names.is_empty(), "apt-get names nothing to fetch for {package}");
        Ok(names)
    }

    pub fn download(&self, packages: &[String], into: &Path) -> Result<()> {
        let args: Vec<&str> =
            ["download", "-q"].into_iter().chain(packages.iter().map(String::as_str)).collect();
        self.run("apt-get", &args, into).map(drop)
    }

    pub fn download_source(&self, package: &str, into: &Path) -> Result<()> {
        self.run("apt-get", &["source", "-q", "--download-only", package], into).map(drop)
    }

    fn run(&self, program: &str, args: &[&str], directory: &Path) -> Result<String> {
        let own = |option: &str, path: &str| format!("{option}={}", self.folder.join(path).display());
        let options = [
            own("Dir::State::lists", "lists"),
            own("Dir::Cache", "archives"),
            own("Dir::Etc::sourceparts", "parts"),
            "Dir::Etc::sourcelist=/dev/null".to_owned(),
            // What is installed here says nothing about another suite, nor what a folder of its own needs.
            "Dir::State::status=/dev/null".to_owned(),
            "APT::Sandbox::User=".to_owned(),
            // Nothing is changed that others change.
            "Debug::NoLocking=1".to_owned(),
            "Acquire::Languages=none".to_owned(),
            "Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false".to_owned(),
        ];
        let mut command = Command::new(program);
        command.current_dir(directory).args(options.iter().flat_map(|option| ["-o", option])).args(args);
        let output = command.output().with_context(|| format!("cannot start {program}"))?;
        let talk = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{program} {}: {}", args.first().unwrap_or(&""), talk.trim());
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }
}

/// Every package of a folder into one tree.
pub fn unpack_all(archives: &Path, root: &Path) -> Result<()> {
    for archive in fs::read_dir(archives)? {
        unpack(&archive?.path(), root)?;
    }
    Ok(())
}

fn unpack(archive: &Path, root: &Path) -> Result<()> {
    let status =
        Command::new("dpkg-deb").arg("-x").args([archive, root]).status().context("cannot start dpkg-deb")?;
    ensure!(status.success(), "cannot unpack {}", archive.display());
    Ok(())
}

/// Names of the packages in lines of `'URI' NAME_VERSION_ARCHITECTURE.deb SIZE HASH`.
fn parse_uris(text: &str) -> Vec<String> {
    let files = text.lines().filter(|line| line.starts_with('\'')).filter_map(|line| line.split(' ').nth(1));
    files.filter_map(|file| file.split_once('_')).map(|(name, _)| name.to_owned()).collect()
}

/// Suites move: lists are used for a day.
fn is_fresh(stamp: &Path) -> bool {
    let age =
        fs::metadata(stamp).and_then(|found| found.modified()).ok().and_then(|time| time.elapsed().ok());
    age.is_some_and(|age| age < Duration::from_secs(86_400))
}

/// Where packages come from, in apt's deb822 form without the suite.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    uri: String,
    signed_by: Option<String>,
}

impl Source {
    fn with_suite(&self, suite: &str, packages: Packages) -> String {
        let types = match packages {
            Packages::Binary => "deb",
            Packages::Source => "deb-src",
        };
        let signed = self.signed_by.as_ref().map_or_else(String::new, |key| format!("Signed-By: {key}\n"));
        format!(
            "Types: {types}\nURIs: {}\nSuites: {suite}\nComponents: main\nArchitectures: amd64\n{signed}",
            self.uri
        )
    }
}

/// Of this machine's own release.
pub fn read_codename() -> Result<String> {
    let text = fs::read_to_string("/etc/os-release").context("cannot read /etc/os-release")?;
    let name = text.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    Ok(name.context("/etc/os-release names no release")?.trim_matches('"').to_owned())
}

/// All source files, one after the other; stanzas stay apart.
fn read_sources() -> Result<String> {
    let mut paths = vec![Path::new(SOURCES).join("sources.list")];
    let parts = fs::read_dir(Path::new(SOURCES).join("sources.list.d")).into_iter().flatten();
    paths.extend(parts.filter_map(Result::ok).map(|entry| entry.path()));
    let known = |path: &PathBuf| path.extension().is_some_and(|end| end == "list" || end == "sources");
    let texts: Vec<String> =
        paths.iter().filter(|path| known(path)).filter_map(|path| fs::read_to_string(path).ok()).collect();
    if texts.is_empty() {
        bail!("no apt sources in {SOURCES}");
    }
    Ok(texts.join("\n\n"))
}

fn parse_sources(text: &str, codename: &str) -> Option<Source> {
    let line = text.lines().find_map(|line| parse_line(line, codename));
    line.or_else(|| text.split("\n\n").find_map(|stanza| parse_stanza(stanza, codename)))
}

/// `deb [signed-by=KEY] URI SUITE COMPONENTS`
fn parse_line(line: &str, codename: &str) -> Option<Source> {
    let rest = line.trim().strip_prefix("deb ")?.trim();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let uri = words.next()?.to_owned();
    let wanted = words.next() == Some(codename) && words.any(|component| component == "main");
    let key = options.split_whitespace().find_map(|option| option.strip_prefix("signed-by="));
    wanted.then(|| Source { uri, signed_by: key.map(str::to_owned) })
}

fn parse_stanza(stanza: &str, codename: &str) -> Option<Source> {
    let field = |name: &str| {
        let mut lines = stanza.lines().filter_map(|line| line.split_once(':'));
        lines.find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim())
    };
    let has =
        |name: &str, word: &str| field(name).is_some_and(|value| value.split_whitespace().any(|w| w == word));
    let wanted = has("Types", "deb") && has("Suites", codename) && has("Components", "main");
    let uri = field("URIs")?.split_whitespace().next()?.to_owned();
    wanted.then(|| Source { uri, signed_by: field("Signed-By").map(str::to_owned) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STANZAS: &str = "Types: deb\n# a remark\nURIs: http://mirror.invalid/debian\nSuites: bookworm bookworm-updates\n\
        Components: main\nSigned-By: /usr/share/keyrings/k.gpg\n\nTypes: deb\nURIs: http://mirror.invalid/security\n\
        Suites: bookworm-security\nComponents: main\n";

    #[test]
    fn the_source_of_the_own_release_is_taken() {
        let source = parse_sources(STANZAS, "bookworm").unwrap();
        assert_eq!(source.uri, "http://mirror.invalid/debian");
        assert_eq!(source.signed_by.as_deref(), Some("/usr/share/keyrings/k.gpg"));
        assert!(
            source
                .with_suite("unstable", Packages::Source)
                .starts_with("Types: deb-src\nURIs: http://mirror.invalid/debian\nSuites: unstable\n")
        );
        assert_eq!(parse_sources(STANZAS, "trixie"), None);
    }

    #[test]
    fn packages_are_told_by_the_files_that_would_be_fetched() {
        let text = "'http://mirror.invalid/a/libtorch1.13_1.13.1%2bdfsg-4_amd64.deb' libtorch1.13_1.13.1+dfsg-4_amd64.deb 9 MD5Sum:0\n\
            'http://mirror.invalid/a/x_1%3a2_all.deb' x_1%3a2_all.deb 7 \nW: a remark_of apt\n";
        assert_eq!(parse_uris(text), ["libtorch1.13", "x"]);
    }

    #[test]
    fn the_older_form_is_understood() {
        let line = "deb [arch=amd64 signed-by=/k.gpg] http://mirror.invalid/debian bookworm main contrib";
        let expected =
            Source { uri: "http://mirror.invalid/debian".into(), signed_by: Some("/k.gpg".into()) };
        assert_eq!(parse_sources(line, "bookworm"), Some(expected));
        assert_eq!(parse_sources("# deb http://mirror.invalid/debian bookworm main", "bookworm"), None);
    }
}
