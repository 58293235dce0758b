//! What was measured on: date, machine, versions.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};

use crate::workspace;

/// Today in UTC, as `2025-01-31`.
pub fn read_date() -> Result<String> {
    read_output("date", &["-u", "+%F"])
}

/// What a command prints, trimmed.
pub fn read_output(program: impl AsRef<Path>, args: &[&str]) -> Result<String> {
    let program = program.as_ref();
    let output = Command::new(program)
        .args(args)
        .output()
        .with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The processors we may use.
pub fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// `CPU model, N cores, memory, kernel` in one line.
pub fn read_machine() -> Result<String> {
    let model = read_field("/proc/cpuinfo", "model name")?;
    let memory_kib: u64 = read_kib("/proc/meminfo", "MemTotal")?;
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    let memory_gib = memory_kib as f64 / f64::from(1 << 20);
    Ok(format!("{model}, {} cores, {memory_gib:.1} GiB, Linux {}", cores(), kernel.trim()))
}

/// Memory that can be had without swapping.
pub fn read_available_bytes() -> Result<u64> {
    Ok(read_kib("/proc/meminfo", "MemAvailable")? * 1024)
}

/// All processes of the machine, kernel threads included.
pub fn count_processes() -> Result<usize> {
    let entries = fs::read_dir("/proc")?.filter_map(Result::ok);
    Ok(entries.filter(|entry| entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit)).count())
}

/// The commit measured, with a mark where files differ from it.
pub fn read_commit() -> String {
    let root = workspace::root();
    let describe = Command::new("git").args(["describe", "--always", "--dirty"]).current_dir(root).output();
    let text = describe.ok().filter(|output| output.status.success()).map(|output| output.stdout);
    text.map_or_else(|| "unknown".to_owned(), |text| String::from_utf8_lossy(&text).trim().to_owned())
}

/// `nilo` with the commit, the interpreter, and the packages (`NAME==VERSION`) that were installed for it.
pub fn read_versions(nilo: &Path, python: &Path, packages: &[&str]) -> Result<Vec<String>> {
    let nilo = format!("{} (commit {})", read_output(nilo, &["--version"])?, read_commit());
    let python = read_output(python, &["--version"])?;
    let packages = packages.iter().map(|package| package.replace("==", " "));
    Ok([nilo, python].into_iter().chain(packages).collect())
}

/// A field `name: N kB` of a kernel file.
pub fn read_kib(path: impl AsRef<Path>, name: &str) -> Result<u64> {
    let value = read_field(&path, name)?;
    let number = value.split_whitespace().next().unwrap_or_default();
    number.parse().with_context(|| format!("{}: {name} is not a number: {value}", path.as_ref().display()))
}

fn read_field(path: impl AsRef<Path>, name: &str) -> Result<String> {
    let path = path.as_ref();
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse_field(&text, name).with_context(|| format!("{} has no `{name}`", path.display()))
}

fn parse_field(text: &str, name: &str) -> Option<String> {
    let mut fields = text.lines().filter_map(|line| line.split_once(':'));
    fields.find(|(field, _)| field.trim() == name).map(|(_, value)| value.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_whole_name() {
        let text = "model\t\t: 85\nmodel name\t: A Processor @ 2.50GHz\nmodel name\t: B\n";
        assert_eq!(parse_field(text, "model name").as_deref(), Some("A Processor @ 2.50GHz"));
        assert_eq!(parse_field(text, "name"), None);
    }
}
