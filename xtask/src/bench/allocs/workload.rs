//! What is run, under whom.

use std::ffi::OsString;
use std::path::Path;

use super::workshop::Workshop;

/// A program and how much of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Workload {
    pub name: &'static str,
    kind: Kind,
    pub size: u64,
    quick_size: u64,
    pub tools: &'static [Tool],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Stress { threads: u32 },
    Python(&'static str),
    Torch(&'static str),
}

/// Who watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Tool {
    Nobody,
    NiloSampled,
    NiloAll,
    NiloDeep,
    Memray,
    MemrayNative,
    MemrayDeep,
    Heaptrack,
}

use Tool::{Heaptrack, Memray, MemrayDeep, MemrayNative, NiloAll, NiloDeep, NiloSampled, Nobody};

const NATIVE: &[Tool] = &[Nobody, NiloSampled, NiloAll, Heaptrack];
const OBJECTS: &[Tool] = &[Nobody, NiloSampled, NiloDeep, Memray, MemrayDeep, Heaptrack];
const LIBRARIES: &[Tool] = &[Nobody, NiloSampled, NiloAll, Memray, MemrayNative, Heaptrack];

pub const ALL: &[Workload] = &[
    Workload::new("stress-1", Kind::Stress { threads: 1 }, 8_000_000, 500_000, NATIVE),
    Workload::new("stress-2", Kind::Stress { threads: 2 }, 4_000_000, 250_000, NATIVE),
    Workload::new("churn", Kind::Python("churn"), 400_000, 20_000, OBJECTS),
    Workload::new("numpy", Kind::Python("arrays"), 24_000, 500, LIBRARIES),
    Workload::new("sklearn", Kind::Python("pipeline"), 2, 1, LIBRARIES),
    Workload::new("cnn", Kind::Torch("cnn"), 100, 5, LIBRARIES),
    Workload::new("transformer", Kind::Torch("transformer"), 60, 3, LIBRARIES),
];

impl Workload {
    const fn new(name: &'static str, kind: Kind, size: u64, quick_size: u64, tools: &'static [Tool]) -> Self {
        Self { name, kind, size, quick_size, tools }
    }

    #[must_use]
    pub fn quick(self) -> Self {
        Self { size: self.quick_size, ..self }
    }

    #[must_use]
    pub fn sized(self, size: u64) -> Self {
        Self { size, ..self }
    }

    pub fn is_torch(&self) -> bool {
        matches!(self.kind, Kind::Torch(_))
    }

    fn interpreter<'a>(&self, workshop: &'a Workshop) -> &'a Path {
        if self.is_torch() { &workshop.torch_python } else { &workshop.python }
    }

    /// The program with nobody watching.
    pub fn plain(&self, workshop: &Workshop) -> Vec<OsString> {
        let size = self.size.to_string();
        match self.kind {
            Kind::Stress { threads } => {
                vec![workshop.stress.clone().into(), threads.to_string().into(), size.into()]
            }
            Kind::Python(name) | Kind::Torch(name) => {
                let program = workshop.folder.join("work.py");
                vec![self.interpreter(workshop).into(), program.into(), name.into(), size.into()]
            }
        }
    }

    /// The whole command line; the record goes to `record`.
    pub fn command(&self, tool: Tool, workshop: &Workshop, record: &Path) -> Vec<OsString> {
        let plain = self.plain(workshop);
        let mut words: Vec<OsString> = match tool {
            Nobody => Vec::new(),
            NiloSampled | NiloAll | NiloDeep => {
                let mode = tool.mode();
                let nilo = workshop.nilo.clone();
                vec![
                    nilo.into(),
                    "run".into(),
                    "-q".into(),
                    mode.into(),
                    "-o".into(),
                    record.into(),
                    "--".into(),
                ]
            }
            Heaptrack => vec!["heaptrack".into(), "-o".into(), record.into()],
            Memray | MemrayNative | MemrayDeep => return self.memray(tool, workshop, &plain, record),
        };
        words.extend(plain);
        words
    }

    fn memray(&self, tool: Tool, workshop: &Workshop, plain: &[OsString], record: &Path) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.interpreter(workshop).into()];
        words.extend(["-m", "memray", "run", "-q", "-f"].map(OsString::from));
        words.extend(matches!(tool, MemrayNative | MemrayDeep).then(|| "--native".into()));
        words.extend((tool == MemrayDeep).then(|| "--trace-python-allocators".into()));
        words.extend(["-o".into(), record.into()]);
        words.extend_from_slice(plain.get(1..).unwrap_or_default());
        words
    }
}

impl Tool {
    pub fn label(self) -> &'static str {
        match self {
            Nobody => "nobody",
            NiloSampled => "nilo --allocs",
            NiloAll => "nilo --allocs=all",
            NiloDeep => "nilo --allocs=deep",
            Memray => "memray",
            MemrayNative => "memray --native",
            MemrayDeep => "memray --native --trace-python-allocators",
            Heaptrack => "heaptrack",
        }
    }

    fn mode(self) -> &'static str {
        match self {
            NiloAll => "--allocs=all",
            NiloDeep => "--allocs=deep",
            _ => "--allocs",
        }
    }

    pub fn is_nilo(self) -> bool {
        matches!(self, NiloSampled | NiloAll | NiloDeep)
    }

    pub fn is_memray(self) -> bool {
        matches!(self, Memray | MemrayNative | MemrayDeep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_workload_has_a_baseline_first() {
        assert!(ALL.iter().all(|workload| workload.tools.first() == Some(&Nobody)));
        assert!(ALL.iter().all(|workload| workload.quick().size < workload.size));
    }
}
