//! What the pages of a mapping are when nobody knows better.

use nilometer_kernel::parse::kind::Kind;
use nilometer_trace::ledger::Line;

use super::library::package;
use super::sight::Vma;

/// The tracker's two files (the ring's layout names them so).
const TRACKER: &[u8] = b"/memfd:nilo-";

/// One mapping's lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ground {
    /// Pages of its own: anonymous memory, copies of a file's pages.
    pub own: Line,
    /// Pages of the file, or shared ones.
    pub file: Line,
    /// Others may know better what its own pages are.
    pub open: bool,
    /// Of programs and libraries, and what is mapped with them.
    pub package: Option<String>,
}

/// What decides besides the mappings.
#[derive(Debug, Clone, Default)]
pub(super) struct Circumstances {
    pub stack_pointers: Vec<u64>,
    /// An allocator that is known by name only is loaded.
    pub has_other_allocator: bool,
    /// The memory itself was read.
    pub readable: bool,
}

/// The ground of each mapping; `vmas` in order of address.
pub(super) fn grounds(vmas: &[Vma], circumstances: &Circumstances) -> Vec<Ground> {
    let mut grounds: Vec<Ground> = Vec::with_capacity(vmas.len());
    for (index, vma) in vmas.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| vmas.get(before)).zip(grounds.last());
        let ground = variables(vma, before).unwrap_or_else(|| ground(vma, circumstances));
        grounds.push(ground);
    }
    grounds
}

/// Variables that begin as zeros stand behind the writable part of their file, without a name.
fn variables(vma: &Vma, before: Option<(&Vma, &Ground)>) -> Option<Ground> {
    let (last, ground) = before?;
    let follows = last.end == vma.start && last.write && ground.own == Line::LibraryData;
    let nameless = vma.kind == Kind::Anonymous && vma.name.is_empty() && vma.write;
    (follows && nameless).then(|| Ground { open: true, ..ground.clone() })
}

fn ground(vma: &Vma, circumstances: &Circumstances) -> Ground {
    let plain = |line| Ground { own: line, file: line, open: false, package: None };
    match vma.kind {
        Kind::Code => Ground {
            own: Line::LibraryData,
            file: Line::Code,
            open: false,
            package: Some(package(&vma.name)),
        },
        Kind::File => plain(Line::Files),
        Kind::Shared if vma.name.starts_with(TRACKER) => plain(Line::Tracker),
        Kind::Shared => plain(Line::SharedMemory),
        Kind::Stack => plain(Line::Stacks),
        Kind::Device | Kind::Kernel => plain(Line::OtherMaps),
        Kind::Heap | Kind::Anonymous => anonymous(vma, circumstances),
    }
}

fn anonymous(vma: &Vma, circumstances: &Circumstances) -> Ground {
    let is_stack = circumstances.stack_pointers.iter().any(|pointer| (vma.start..vma.end).contains(pointer));
    let line = if is_stack && vma.kind == Kind::Anonymous {
        Line::Stacks
    } else if !circumstances.readable {
        Line::Anonymous
    } else if circumstances.has_other_allocator && vma.write {
        Line::OtherAllocator
    } else {
        Line::OtherMaps
    };
    Ground { own: line, file: line, open: line != Line::Stacks, package: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_kernel::parse::smaps::Usage;

    fn vma(start: u64, end: u64, kind: Kind, name: &str) -> Vma {
        Vma {
            start,
            end,
            kind,
            write: true,
            name: name.as_bytes().to_vec(),
            usage: Usage::default(),
            scaled: false,
        }
    }

    #[test]
    fn what_follows_a_library_without_a_name_is_its_own() {
        let vmas = [
            vma(0, 10, Kind::Code, "/usr/lib/libc.so.6"),
            vma(10, 20, Kind::Anonymous, ""),
            vma(30, 40, Kind::Anonymous, ""),
            vma(40, 50, Kind::Anonymous, ""),
            vma(60, 70, Kind::Shared, "/memfd:nilo-book (deleted)"),
        ];
        let circumstances =
            Circumstances { stack_pointers: vec![45], readable: true, ..Circumstances::default() };
        let grounds = grounds(&vmas, &circumstances);
        let lines: Vec<Line> = grounds.iter().map(|ground| ground.own).collect();
        assert_eq!(
            lines,
            [Line::LibraryData, Line::LibraryData, Line::OtherMaps, Line::Stacks, Line::Tracker]
        );
        assert_eq!(grounds[1].package.as_deref(), Some("libc"));
    }

    #[test]
    fn what_cannot_be_read_or_belongs_to_a_stranger_says_so() {
        let heap = [vma(0, 10, Kind::Heap, "[heap]")];
        let with = |circumstances: Circumstances| grounds(&heap, &circumstances)[0].own;
        assert_eq!(with(Circumstances::default()), Line::Anonymous);
        let readable = Circumstances { readable: true, ..Circumstances::default() };
        assert_eq!(with(readable.clone()), Line::OtherMaps);
        assert_eq!(with(Circumstances { has_other_allocator: true, ..readable }), Line::OtherAllocator);
    }
}
