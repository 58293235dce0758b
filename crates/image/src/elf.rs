//! What is asked of an ELF file: where its parts are loaded, its symbols, its build id.
//!
//! Addresses here are those of the file; [`Module`](crate::Module) adds the bias. The file is not trusted.

use std::ops::Range;

use object::LittleEndian;
use object::elf::{self, FileHeader64, ProgramHeader64, Sym64};
use object::read::elf::{
    FileHeader, ProgramHeader, SectionHeader, SectionTable, Sym, SymbolTable, VersionTable,
};

use crate::export::Exports;

type Header = FileHeader64<LittleEndian>;
pub(crate) const LE: LittleEndian = LittleEndian;

/// A 64-bit little-endian ELF file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elf<'a> {
    bytes: &'a [u8],
    header: &'a Header,
}

impl<'a> Elf<'a> {
    pub fn parse(bytes: &'a [u8]) -> Option<Self> {
        let header = Header::parse(bytes).ok()?;
        header.endian().ok()?;
        Some(Self { bytes, header })
    }

    fn segments(&self) -> &'a [ProgramHeader64<LittleEndian>] {
        self.header.program_headers(LE, self.bytes).unwrap_or_default()
    }

    fn sections(&self) -> SectionTable<'a, Header> {
        self.header.sections(LE, self.bytes).unwrap_or_default()
    }

    /// What to add to an address of the file, given where one page of it is mapped.
    pub fn bias(&self, mapped_at: u64, offset: u64) -> Option<u64> {
        let load = self.segments().iter().filter(|s| s.p_type(LE) == elf::PT_LOAD).find(|segment| {
            let (start, size) = segment.file_range(LE);
            let start_of_page = start - start % 4096;
            (start_of_page..start.saturating_add(size)).contains(&offset)
        })?;
        Some(mapped_at.wrapping_sub(offset).wrapping_add(load.p_offset(LE)).wrapping_sub(load.p_vaddr(LE)))
    }

    /// The writable segment: first what comes from the file, then what begins as zeros.
    pub fn writable(&self) -> Option<(Range<u64>, Range<u64>)> {
        let segment =
            self.segments().iter().rev().find(|segment| {
                segment.p_type(LE) == elf::PT_LOAD && segment.p_flags(LE).contains(elf::PF_W)
            })?;
        let start = segment.p_vaddr(LE);
        let filled = start.checked_add(segment.p_filesz(LE))?;
        Some((start..filled, filled..start.checked_add(segment.p_memsz(LE))?.max(filled)))
    }

    pub fn section(&self, name: &str) -> Option<Range<u64>> {
        let (_, section) = self.sections().section_by_name(LE, name.as_bytes())?;
        let start = section.sh_addr(LE);
        Some(start..start.checked_add(section.sh_size(LE))?)
    }

    pub fn build_id(&self) -> Option<&'a [u8]> {
        let notes = self.segments().iter().filter_map(|segment| segment.notes(LE, self.bytes).ok().flatten());
        notes.into_iter().find_map(|mut notes| {
            while let Ok(Some(note)) = notes.next() {
                if note.name() == elf::ELF_NOTE_GNU && note.n_type(LE) == elf::NT_GNU_BUILD_ID {
                    return Some(note.desc());
                }
            }
            None
        })
    }

    /// Addresses of symbols: exported ones by their hash table, the rest by going through all of them.
    pub fn symbols(&self, names: &[&str]) -> Vec<Option<u64>> {
        let sections = self.sections();
        let dynamic = sections.symbols(LE, self.bytes, elf::SHT_DYNSYM).unwrap_or_default();
        let mut found = self.exported(&sections, &dynamic, names);
        search(&dynamic, names, &mut found, |_| true);
        if found.iter().any(Option::is_none) {
            let all = sections.symbols(LE, self.bytes, elf::SHT_SYMTAB).unwrap_or_default();
            search(&all, names, &mut found, |symbol| !symbol.is_local());
            search(&all, names, &mut found, |_| true);
        }
        found
    }

    /// Exported variables; see [`Exports`].
    pub fn exports(&self) -> Option<Exports<'a>> {
        let sections = self.sections();
        let dynamic = sections.symbols(LE, self.bytes, elf::SHT_DYNSYM).ok()?;
        let (names_at, names_bytes) = sections.section(dynamic.string_section()).ok()?.file_range(LE)?;
        let (symbols_at, _) = sections.section(dynamic.section()).ok()?.file_range(LE)?;
        let names_at = usize::try_from(names_at).ok()?;
        let names = self.bytes.get(names_at..names_at.checked_add(usize::try_from(names_bytes).ok()?)?)?;
        Some(Exports {
            names,
            names_at,
            symbols: dynamic.symbols(),
            symbols_at: usize::try_from(symbols_at).ok()?,
        })
    }

    fn exported(
        &self,
        sections: &SectionTable<'a, Header>,
        dynamic: &SymbolTable<'a, Header>,
        names: &[&str],
    ) -> Vec<Option<u64>> {
        let Ok(Some((table, _))) = sections.gnu_hash(LE, self.bytes) else { return vec![None; names.len()] };
        let versions = VersionTable::default();
        let find = |name: &&str| {
            let name = name.as_bytes();
            let (_, symbol) = table.find(LE, name, elf::gnu_hash(name), None, dynamic, &versions)?;
            address(symbol)
        };
        names.iter().map(find).collect()
    }
}

/// Fills what is still `None` from `table`.
fn search(
    table: &SymbolTable<Header>,
    names: &[&str],
    found: &mut [Option<u64>],
    accepts: impl Fn(&Sym64<LittleEndian>) -> bool,
) {
    if found.iter().all(Option::is_some) {
        return;
    }
    for symbol in table.iter().filter(|symbol| accepts(symbol)) {
        let Ok(name) = symbol.name(LE, table.strings()) else { continue };
        let wanted = names
            .iter()
            .zip(found.iter_mut())
            .filter(|(wanted, found)| found.is_none() && wanted.as_bytes() == name);
        wanted.for_each(|(_, found)| *found = address(symbol));
    }
}

/// Of something that is defined here and has one address for all threads.
pub(crate) fn address(symbol: &Sym64<LittleEndian>) -> Option<u64> {
    let is_here = !symbol.is_undefined(LE) && symbol.st_type() != elf::STT_TLS;
    is_here.then(|| symbol.st_value(LE)).filter(|address| *address != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_program_has_its_parts() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let elf = Elf::parse(&bytes).unwrap();
        let found = elf.symbols(&["main", "no_such_symbol_anywhere"]);
        let text = elf.section(".text").unwrap();
        assert!(text.contains(&found[0].unwrap()));
        assert_eq!(found[1], None);
        let (filled, zeroed) = elf.writable().unwrap();
        assert!(filled.start < filled.end && filled.end == zeroed.start);
        assert_eq!(elf.section(".nothing"), None);
    }

    #[test]
    fn what_is_no_elf_file_is_none() {
        for bytes in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0; 64]] {
            assert!(Elf::parse(bytes).is_none());
        }
    }

    #[test]
    fn no_damage_panics() {
        let bytes = std::fs::read("/proc/self/exe").unwrap();
        let mut bytes = bytes[..bytes.len().min(1 << 16)].to_vec();
        for position in 0..1024 {
            let kept = std::mem::replace(&mut bytes[position], 0xff);
            if let Some(elf) = Elf::parse(&bytes) {
                let _ = (elf.symbols(&["main"]), elf.build_id(), elf.writable(), elf.bias(0, 0));
            }
            bytes[position] = kept;
        }
    }
}
