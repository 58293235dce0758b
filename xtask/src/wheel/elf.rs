//! Which libraries a program asks for, and which versions of the C library's symbols.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use object::Endianness;
use object::elf::{DT_NEEDED, FileHeader64};
use object::read::elf::{Dyn as _, FileHeader as _};

/// The highest `GLIBC_x.y` that a file needs; none in a static one.
pub fn read_highest_glibc(file: &Path) -> Result<Option<(u32, u32)>> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse_highest_glibc(&bytes).with_context(|| format!("{} is no ELF file", file.display()))
}

fn parse_highest_glibc(bytes: &[u8]) -> Result<Option<(u32, u32)>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let mut highest = None;
    let Some((mut needs, link)) = sections.gnu_verneed(endian, bytes)? else { return Ok(None) };
    let strings = sections.strings(endian, bytes, link)?;
    while let Some((_, mut versions)) = needs.next()? {
        while let Some(version) = versions.next()? {
            let name = strings.get(version.vna_name.get(endian)).unwrap_or_default();
            highest = highest.max(parse_version(&String::from_utf8_lossy(name)));
        }
    }
    Ok(highest)
}

/// The libraries that a file needs to start; none of a static one.
pub fn read_needed(file: &Path) -> Result<Vec<String>> {
    let bytes = fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    parse_needed(&bytes).with_context(|| format!("{} is no ELF file", file.display()))
}

fn parse_needed(bytes: &[u8]) -> Result<Vec<String>> {
    let header = FileHeader64::<Endianness>::parse(bytes)?;
    let endian = header.endian()?;
    let sections = header.sections(endian, bytes)?;
    let Some((entries, link)) = sections.dynamic(endian, bytes)? else { return Ok(Vec::new()) };
    let strings = sections.strings(endian, bytes, link)?;
    let needed = entries.iter().filter(|entry| entry.tag(endian) == DT_NEEDED);
    needed.map(|entry| Ok(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned())).collect()
}

/// `GLIBC_2.28`; a third number is not told apart.
fn parse_version(name: &str) -> Option<(u32, u32)> {
    let mut numbers = name.strip_prefix("GLIBC_")?.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_numbers() {
        assert_eq!(parse_version("GLIBC_2.2.5"), Some((2, 2)));
        assert!(parse_version("GLIBC_2.4") < parse_version("GLIBC_2.28"));
        assert_eq!(parse_version("GLIBC_PRIVATE"), None);
        assert_eq!(parse_version("GCC_3.0"), None);
    }

    #[test]
    fn our_own_binary_asks_for_something() {
        let highest = read_highest_glibc(Path::new("/proc/self/exe")).unwrap();
        assert!(highest >= Some((2, 2)), "{highest:?}");
        let needed = read_needed(Path::new("/proc/self/exe")).unwrap();
        assert!(needed.iter().any(|name| name == "libc.so.6"), "{needed:?}");
    }
}
