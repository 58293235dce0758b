//! The files behind mappings, opened when they are first needed.
//!
//! A file is used only where it is still the one that was mapped: found under the kernel's own link to it, or under
//! its name with the same inode, or (a core) with the same build id.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nilometer_kernel::sys::mapped::Mapped;

use crate::Mapping;
use crate::elf::Elf;

/// Where the target's paths begin.
#[derive(Debug)]
pub(crate) enum Place {
    /// A process: its own root directory, kept open so that it outlives the process.
    Live { pid: i32, root: Option<File> },
    /// A core: the files as they were, or as they are here.
    Sysroot(PathBuf),
}

/// Files by mapping.
#[derive(Debug, Default)]
pub(crate) struct Files {
    /// By index of the mapping.
    of_mapping: Vec<Option<Arc<Backing>>>,
}

/// One file that may be behind several mappings.
#[derive(Debug)]
pub(crate) struct Backing {
    place: Arc<Place>,
    path: PathBuf,
    inode: u64,
    deleted: bool,
    /// Of its first mapping: names the kernel's link.
    start: u64,
    end: u64,
    /// Its first page as a core holds it.
    head: Option<Vec<u8>>,
    found: OnceLock<(Option<Mapped>, Match)>,
}

/// Whether the file is the one that was mapped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Match {
    Same,
    /// A program or library that the core holds too little of to tell.
    Unverified,
    /// There is none, or none that can be opened.
    Missing,
    /// Another one, with this build id.
    Other(Option<Vec<u8>>),
}

impl Place {
    pub fn live(pid: i32) -> Self {
        // `O_PATH`: the directory is only named, which needs no right to read it.
        let root = OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(format!("/proc/{pid}/root"));
        Self::Live { pid, root: root.ok() }
    }

    /// A path of the target as we would open it.
    fn resolve(&self, path: &Path) -> PathBuf {
        let relative = path.strip_prefix("/").unwrap_or(path);
        match self {
            Self::Live { root: Some(root), .. } => {
                Path::new("/proc/self/fd").join(root.as_raw_fd().to_string()).join(relative)
            }
            Self::Live { pid, root: None } => {
                Path::new("/proc").join(pid.to_string()).join("root").join(relative)
            }
            Self::Sysroot(root) => root.join(relative),
        }
    }
}

impl Files {
    pub fn new(mappings: &[Mapping], place: &Arc<Place>) -> Self {
        Self::with_heads(mappings, place, |_| None)
    }

    /// `head_of` gives the first page of a file by its path.
    pub fn with_heads(
        mappings: &[Mapping],
        place: &Arc<Place>,
        head_of: impl Fn(&Path) -> Option<Vec<u8>>,
    ) -> Self {
        let mut known: HashMap<(&Path, u64), Arc<Backing>> = HashMap::new();
        let of_mapping = mappings.iter().map(|mapping| {
            if !mapping.is_file() || mapping.is_device() {
                return None;
            }
            let backing = known
                .entry((&mapping.path, mapping.inode))
                .or_insert_with(|| Backing::new(mapping, place, head_of(&mapping.path)));
            Some(Arc::clone(backing))
        });
        let files = Self { of_mapping: of_mapping.collect() };
        files.open_deleted();
        files
    }

    pub fn of(&self, mapping: usize) -> Option<&Arc<Backing>> {
        self.of_mapping.get(mapping)?.as_ref()
    }

    /// Deleted files are reached through the process only: now, or perhaps never.
    fn open_deleted(&self) {
        let deleted = self.of_mapping.iter().flatten().filter(|backing| backing.deleted);
        deleted.for_each(|backing| _ = backing.bytes());
    }
}

impl Backing {
    fn new(mapping: &Mapping, place: &Arc<Place>, head: Option<Vec<u8>>) -> Arc<Self> {
        let Mapping { start, end, inode, deleted, .. } = *mapping;
        let (place, path) = (Arc::clone(place), mapping.path.clone());
        Arc::new(Self { place, path, inode, deleted, start, end, head, found: OnceLock::new() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The whole file, if it is still the one that was mapped.
    pub fn bytes(&self) -> Option<&[u8]> {
        self.found().0.as_deref()
    }

    /// A part of it will not be needed soon.
    pub fn give_back(&self, part: &Range<usize>) {
        if let Some(mapped) = &self.found().0 {
            mapped.give_back(part);
        }
    }

    pub fn is_match(&self) -> &Match {
        &self.found().1
    }

    /// Its build id, from the core if that holds it.
    pub fn expected_build_id(&self) -> Option<&[u8]> {
        Elf::parse(self.head.as_deref()?)?.build_id()
    }

    fn found(&self) -> &(Option<Mapped>, Match) {
        self.found.get_or_init(|| {
            let Some(mapped) = self.open().and_then(|file| Mapped::file(&file).ok()) else {
                return (None, Match::Missing);
            };
            let is_match = match &*self.place {
                Place::Live { .. } => Match::Same, // told by its inode
                Place::Sysroot(_) => self.compare(&mapped),
            };
            let is_usable = matches!(is_match, Match::Same | Match::Unverified);
            (is_usable.then_some(mapped), is_match)
        })
    }

    /// By build id, or by the first page where there is none.
    fn compare(&self, bytes: &[u8]) -> Match {
        let Some(elf) = Elf::parse(bytes) else {
            return Match::Missing; // nothing tells whether a file without a build id is still the same
        };
        let Some(head) = &self.head else {
            return if self.deleted { Match::Missing } else { Match::Unverified };
        };
        let is_same = match (self.expected_build_id(), elf.build_id()) {
            (Some(expected), Some(found)) => expected == found,
            (Some(_), None) => false,
            (None, _) => bytes.starts_with(head),
        };
        if is_same { Match::Same } else { Match::Other(elf.build_id().map(<[u8]>::to_vec)) }
    }

    fn open(&self) -> Option<File> {
        match &*self.place {
            Place::Live { pid, .. } => {
                self.open_link(*pid).or_else(|| self.open_path()).or_else(|| self.open_program(*pid))
            }
            Place::Sysroot(_) => regular(&self.place.resolve(&self.path)),
        }
    }

    /// The kernel's link to exactly this file; takes `CAP_CHECKPOINT_RESTORE` or `CAP_SYS_ADMIN`.
    fn open_link(&self, pid: i32) -> Option<File> {
        let link = format!("/proc/{pid}/map_files/{:x}-{:x}", self.start, self.end);
        regular(Path::new(&link)).filter(|file| self.is_same(file))
    }

    fn open_path(&self) -> Option<File> {
        if self.deleted {
            return None; // another file may have the name now
        }
        regular(&self.place.resolve(&self.path)).filter(|file| self.is_same(file))
    }

    /// The program itself can be opened also after it was deleted.
    fn open_program(&self, pid: i32) -> Option<File> {
        regular(Path::new(&format!("/proc/{pid}/exe"))).filter(|file| self.is_same(file))
    }

    fn is_same(&self, file: &File) -> bool {
        file.metadata().is_ok_and(|metadata| metadata.ino() == self.inode)
    }
}

/// Opens what is a plain file; opening a pipe would wait, a device might act.
fn regular(path: &Path) -> Option<File> {
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    File::open(path).ok()
}
