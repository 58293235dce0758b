//! What a mapping is for, told from its name and permissions; sums per kind.

use std::collections::HashMap;

use super::maps::Mapping;
use super::smaps::Usage;

/// How many files are named in a summary.
const LARGEST: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// `[heap]`: what `brk` gave to malloc.
    Heap,
    /// Private memory without a file; most of what an allocator uses.
    Anonymous,
    /// Programs and libraries, their data segments included.
    Code,
    /// Other files.
    File,
    /// Shared memory: `/dev/shm`, memfd, System V, shared anonymous.
    Shared,
    Stack,
    /// Memory of a GPU driver.
    Device,
    /// Pages that the kernel put there.
    Kernel,
}

impl Kind {
    pub const ALL: [Self; 8] = [
        Self::Heap,
        Self::Anonymous,
        Self::Code,
        Self::File,
        Self::Shared,
        Self::Stack,
        Self::Device,
        Self::Kernel,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Heap => "heap",
            Self::Anonymous => "anonymous",
            Self::Code => "code",
            Self::File => "file",
            Self::Shared => "shared",
            Self::Stack => "stack",
            Self::Device => "device",
            Self::Kernel => "kernel",
        }
    }
}

/// A file, with all its mappings in the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub kind: Kind,
    pub rss_kib: u64,
    pub pss_kib: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Summary {
    pub mappings: u64,
    pub total: Usage,
    /// Kind, number of mappings, sum; in the order of `Kind`, only those that occur.
    pub kinds: Vec<(Kind, u64, Usage)>,
    /// The files with the most resident memory, largest first.
    pub largest: Vec<Named>,
}

/// What is known of one path.
#[derive(Debug)]
struct Path {
    /// `Code` as soon as an executable mapping was seen.
    kind: Kind,
    rss: u64,
    pss: u64,
    /// Private mappings that are `Code` or `File` depending on mappings yet to come.
    undecided: Sum,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    mappings: u64,
    usage: Usage,
}

impl Sum {
    fn add(&mut self, mappings: u64, usage: Usage) {
        self.mappings += mappings;
        self.usage += usage;
    }
}

/// Adds up mappings, fed in the order of `smaps`. About 250 bytes per distinct path, kept by `clear`.
#[derive(Debug, Default)]
pub struct KindSums {
    total: Sum,
    decided: [Sum; Kind::ALL.len()],
    paths: Vec<Path>,
    numbers: HashMap<Box<[u8]>, usize>,
    /// The path before: a file's segments follow each other.
    last: Option<usize>,
    last_name: Vec<u8>,
}

impl KindSums {
    pub fn new() -> Self {
        Self::default()
    }

    /// Forgets everything but keeps the tables.
    pub fn clear(&mut self) {
        self.total = Sum::default();
        self.decided = Default::default();
        self.paths.clear();
        self.numbers.clear();
        self.last = None;
    }

    pub fn add(&mut self, mapping: &Mapping<'_>, usage: &Usage) {
        self.total.add(1, *usage);
        match judge(mapping) {
            Verdict::Unnamed(kind) => self.decided[kind as usize].add(1, *usage),
            Verdict::Path(kind) => {
                self.path(mapping.name, kind, usage);
                self.decided[kind as usize].add(1, *usage);
            }
            Verdict::Undecided => {
                let path = self.path(mapping.name, Kind::File, usage);
                path.undecided.add(1, *usage);
            }
        }
    }

    pub fn finish(&self) -> Summary {
        let mut sums = self.decided;
        for path in &self.paths {
            let kind = if path.kind == Kind::Code { Kind::Code } else { Kind::File };
            sums[kind as usize].add(path.undecided.mappings, path.undecided.usage);
        }
        let kinds = Kind::ALL.iter().zip(sums).filter(|(_, sum)| sum.mappings > 0);
        Summary {
            mappings: self.total.mappings,
            total: self.total.usage,
            kinds: kinds.map(|(kind, sum)| (*kind, sum.mappings, sum.usage)).collect(),
            largest: self.largest(),
        }
    }

    /// Equal sizes are in the order of their names, so that the same input gives the same summary.
    fn largest(&self) -> Vec<Named> {
        let mut all: Vec<(&[u8], &Path)> =
            self.numbers.iter().filter_map(|(name, n)| Some((&**name, self.paths.get(*n)?))).collect();
        all.retain(|(_, path)| path.rss > 0);
        let order = |a: &(&[u8], &Path), b: &(&[u8], &Path)| b.1.rss.cmp(&a.1.rss).then(a.0.cmp(b.0));
        if all.len() > LARGEST {
            all.select_nth_unstable_by(LARGEST, order);
            all.truncate(LARGEST);
        }
        all.sort_unstable_by(order);
        all.into_iter()
            .map(|(name, path)| Named {
                name: String::from_utf8_lossy(name).into_owned(),
                kind: path.kind,
                rss_kib: path.rss,
                pss_kib: path.pss,
            })
            .collect()
    }

    fn path(&mut self, name: &[u8], kind: Kind, usage: &Usage) -> &mut Path {
        let number = self.number(name, kind);
        let path = &mut self.paths[number];
        path.rss = path.rss.saturating_add(usage.rss);
        path.pss = path.pss.saturating_add(usage.pss);
        if kind == Kind::Code {
            path.kind = kind;
        }
        path
    }

    fn number(&mut self, name: &[u8], kind: Kind) -> usize {
        if let Some(last) = self.last.filter(|_| self.last_name == name) {
            return last;
        }
        let number = self.numbers.get(name).copied().unwrap_or_else(|| {
            self.paths.push(Path { kind, rss: 0, pss: 0, undecided: Sum::default() });
            self.numbers.insert(name.into(), self.paths.len() - 1);
            self.paths.len() - 1
        });
        self.last = Some(number);
        self.last_name.clear();
        self.last_name.extend_from_slice(name);
        number
    }
}

/// The kind of one mapping; `is_code` tells whether a file has an executable mapping in the same process.
pub fn kind_of(mapping: &Mapping<'_>, is_code: impl Fn(&[u8]) -> bool) -> Kind {
    match judge(mapping) {
        Verdict::Unnamed(kind) | Verdict::Path(kind) => kind,
        Verdict::Undecided if is_code(mapping.name) => Kind::Code,
        Verdict::Undecided => Kind::File,
    }
}

enum Verdict {
    Unnamed(Kind),
    Path(Kind),
    /// A private file mapping: code if the same file is mapped executable too.
    Undecided,
}

fn judge(mapping: &Mapping<'_>) -> Verdict {
    let name = mapping.name;
    match name.first() {
        None if mapping.is_shared() => Verdict::Unnamed(Kind::Shared),
        None => Verdict::Unnamed(Kind::Anonymous),
        Some(b'[') => Verdict::Unnamed(judge_bracketed(name)),
        Some(b'/') => judge_path(mapping),
        // `anon_inode:[perf_event]`, `socket:[42]`: buffers of the kernel.
        Some(_) => Verdict::Unnamed(Kind::Kernel),
    }
}

fn judge_bracketed(name: &[u8]) -> Kind {
    let is_named_by_program = name.starts_with(b"[anon:");
    // glibc with `glibc.mem.decorate_maps=1` names the stacks of threads.
    let is_thread_stack = is_named_by_program && contains(name, b"stack");
    if name == b"[heap]" {
        Kind::Heap
    } else if name == b"[stack]" || name.starts_with(b"[stack:") || is_thread_stack {
        Kind::Stack
    } else if is_named_by_program {
        Kind::Anonymous
    } else if name.starts_with(b"[anon_shmem:") {
        Kind::Shared // named shared anonymous memory, since Linux 6.2
    } else {
        Kind::Kernel // [vdso], [vvar], [vvar_vclock], [vsyscall], [uprobes]
    }
}

fn judge_path(mapping: &Mapping<'_>) -> Verdict {
    const DEVICES: [&[u8]; 3] = [b"/dev/nvidia", b"/dev/dri/", b"/dev/kfd"];
    const SHARED: [&[u8]; 3] = [b"/dev/shm/", b"/memfd:", b"/SYSV"];
    let name = mapping.name;
    let begins_with_any = |prefixes: &[&[u8]]| prefixes.iter().any(|prefix| name.starts_with(prefix));
    if begins_with_any(&DEVICES) {
        Verdict::Path(Kind::Device)
    } else if begins_with_any(&SHARED) {
        Verdict::Path(Kind::Shared)
    } else if without_deleted(name) == b"/dev/zero" {
        // `MAP_SHARED | MAP_ANONYMOUS` shows as a deleted /dev/zero (`shmem_zero_setup`, mm/shmem.c); a
        // private mapping of it is plain anonymous memory (`mmap_zero`, drivers/char/mem.c).
        if mapping.is_shared() { Verdict::Path(Kind::Shared) } else { Verdict::Unnamed(Kind::Anonymous) }
    } else if mapping.is_exec() {
        Verdict::Path(Kind::Code)
    } else if mapping.is_shared() {
        Verdict::Path(Kind::File)
    } else if is_library(name) {
        Verdict::Path(Kind::Code)
    } else {
        Verdict::Undecided
    }
}

/// `libc.so.6`, `x.cpython-312.so`: `.so` as a whole part of the file name (`data.sorted.bin` is none).
fn is_library(path: &[u8]) -> bool {
    let path = without_deleted(path);
    let start = path.iter().rposition(|b| *b == b'/').map_or(0, |slash| slash + 1);
    path[start..].split(|b| *b == b'.').skip(1).any(|part| part == b"so")
}

fn without_deleted(name: &[u8]) -> &[u8] {
    name.strip_suffix(b" (deleted)").unwrap_or(name)
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::smaps::Scanner;

    const SMAPS: &[u8] = include_bytes!("../../fixtures/numpy.smaps");

    fn mapping(perms: [u8; 4], name: &str) -> Mapping<'_> {
        let name = name.as_bytes();
        Mapping { start: 0, end: 4096, perms, offset: 0, dev: (0, 0), inode: 0, name }
    }

    fn rss(rss: u64) -> Usage {
        Usage { rss, pss: rss / 2, ..Usage::default() }
    }

    /// The kind of each mapping of a process, found by weighing each with a bit of its own.
    fn kinds(mappings: &[(&[u8; 4], &str)]) -> Vec<Kind> {
        let mut sums = KindSums::new();
        for (i, (perms, name)) in mappings.iter().enumerate() {
            sums.add(&mapping(**perms, name), &rss(1 << i));
        }
        let summary = sums.finish();
        let kind =
            |i: usize| summary.kinds.iter().find(|(_, _, u)| u.rss >> i & 1 == 1).map(|(kind, ..)| *kind);
        (0..mappings.len()).filter_map(kind).collect()
    }

    #[test]
    fn a_captured_process_is_sorted() {
        let mut sums = KindSums::new();
        for _ in 0..2 {
            sums.clear();
            let mut scanner = Scanner::new();
            let mut add = |m: &Mapping<'_>, u: &Usage| sums.add(m, u);
            scanner.feed(SMAPS, &mut add);
            scanner.finish(&mut add);
        }
        let summary = sums.finish();
        let numbers: Vec<_> =
            summary.kinds.iter().map(|(kind, n, u)| (*kind, *n, u.size, u.rss, u.pss, u.uss_kib())).collect();
        let expected = [
            (Kind::Heap, 1, 7636, 7440, 7440, 7440),
            (Kind::Anonymous, 18, 115_988, 41_152, 41_152, 41_152),
            (Kind::Code, 217, 58_076, 18_512, 13_774, 11_704),
            (Kind::File, 3, 1400, 1180, 1042, 1024),
            (Kind::Shared, 3, 13_312, 13_312, 13_312, 13_312),
            (Kind::Stack, 1, 132, 56, 56, 56),
            (Kind::Kernel, 4, 36, 4, 0, 0),
        ];
        assert_eq!(numbers, expected);
        assert_eq!((summary.mappings, summary.total.rss), (247, 81_656));
        let largest: Vec<_> = summary.largest.iter().map(|n| (n.kind, n.rss_kib, n.pss_kib)).collect();
        let expected = [
            (Kind::Shared, 8192, 8192),
            (Kind::Code, 5232, 2693),
            (Kind::Code, 3412, 3412),
            (Kind::Shared, 3072, 3072),
            (Kind::Code, 2904, 2904),
            (Kind::Shared, 2048, 2048),
            (Kind::Code, 1528, 1528),
            (Kind::Code, 1400, 110),
        ];
        assert_eq!(largest, expected);
        assert_eq!(summary.largest[3].name, "/memfd:weights (deleted)");
    }

    #[test]
    fn each_rule() {
        for (perms, name, kind) in [
            (b"rw-p", "", Kind::Anonymous),
            (b"rwxp", "", Kind::Anonymous),
            (b"rw-s", "", Kind::Shared),
            (b"rw-p", "[heap]", Kind::Heap),
            (b"rw-p", "[anon: glibc: malloc]", Kind::Anonymous),
            (b"rw-p", "[anon: glibc: pthread stack: 42]", Kind::Stack),
            (b"rw-s", "[anon_shmem:ring]", Kind::Shared),
            (b"rw-p", "[stack]", Kind::Stack),
            (b"rw-p", "[stack:42]", Kind::Stack),
            (b"r-xp", "[vdso]", Kind::Kernel),
            (b"r--p", "[vvar_vclock]", Kind::Kernel),
            (b"--xp", "[vsyscall]", Kind::Kernel),
            (b"rw-s", "anon_inode:[perf_event]", Kind::Kernel),
            (b"r-xp", "/usr/bin/python3.11", Kind::Code),
            (b"r--p", "/usr/lib/libc.so.6", Kind::Code),
            (b"rw-p", "/x/a.cpython-312.so (deleted)", Kind::Code),
            (b"r--p", "/x.so/weights.bin", Kind::File),
            (b"r--p", "/data/sorted.source.bin", Kind::File),
            (b"r--p", "/data/so", Kind::File),
            (b"rw-s", "/data/weights.bin", Kind::File),
            (b"r--s", "/data/libx.so", Kind::File),
            (b"rw-s", "/dev/shm/torch_1", Kind::Shared),
            (b"rw-p", "/dev/shm/torch_1 (deleted)", Kind::Shared),
            (b"rw-s", "/memfd:x (deleted)", Kind::Shared),
            (b"rw-s", "/SYSV00000000 (deleted)", Kind::Shared),
            (b"rw-s", "/dev/zero (deleted)", Kind::Shared),
            (b"rw-p", "/dev/zero", Kind::Anonymous),
            (b"rw-s", "/dev/nvidia0", Kind::Device),
            (b"rw-s", "/dev/nvidia-uvm", Kind::Device),
            (b"rw-s", "/dev/dri/renderD128", Kind::Device),
            (b"rw-s", "/dev/kfd", Kind::Device),
        ] {
            assert_eq!(kinds(&[(perms, name)]), [kind], "{name}");
        }
    }

    #[test]
    fn an_executable_segment_makes_all_private_ones_code_before_and_after() {
        let program = [
            (b"r--p", "/bin/x"),
            (b"r-xp", "/bin/x"),
            (b"rw-p", "/bin/x"),
            (b"rw-p", ""),
            (b"r--s", "/bin/x"),
        ];
        let expected = [Kind::Code, Kind::Code, Kind::Code, Kind::Anonymous, Kind::File];
        assert_eq!(kinds(&program.map(|(perms, name)| (perms, name))), expected);
        assert_eq!(kinds(&[(b"r--p", "/bin/x"), (b"r--p", "/bin/y"), (b"r-xp", "/bin/y")])[0], Kind::File);
    }

    #[test]
    fn many_files_give_eight_names_summed_by_path() {
        let mut sums = KindSums::new();
        for round in 0..2 {
            for i in 0..60_000u64 {
                sums.add(&mapping(*b"r--p", &format!("/data/{i:05}")), &rss(i * 10 + round));
            }
        }
        let summary = sums.finish();
        assert_eq!((summary.mappings, summary.largest.len()), (120_000, 8));
        let first =
            Named { name: "/data/59999".into(), kind: Kind::File, rss_kib: 1_199_981, pss_kib: 599_990 };
        assert_eq!(summary.largest[0], first);
        assert_eq!(summary.largest[7].name, "/data/59992");
        sums.clear();
        assert_eq!(sums.finish(), Summary::default());
    }

    #[test]
    fn equal_sizes_are_in_the_order_of_names() {
        let mut sums = KindSums::new();
        for name in ["/c", "/a", "/b", "/unused"] {
            sums.add(&mapping(*b"r--s", name), &rss(if name == "/unused" { 0 } else { 8 }));
        }
        let names: Vec<_> = sums.finish().largest.into_iter().map(|n| n.name).collect();
        assert_eq!(names, ["/a", "/b", "/c"]);
    }

    proptest::proptest! {
        #[test]
        fn kinds_always_add_up_to_the_total(list: Vec<(bool, bool, String, u32)>) {
            let mut sums = KindSums::new();
            for (exec, shared, name, kib) in &list {
                let perms = [b'r', b'-', if *exec { b'x' } else { b'-' }, if *shared { b's' } else { b'p' }];
                sums.add(&mapping(perms, name), &rss(u64::from(*kib)));
            }
            let summary = sums.finish();
            let mut total = Usage::default();
            summary.kinds.iter().for_each(|(_, _, usage)| total += *usage);
            proptest::prop_assert_eq!(total, summary.total);
            proptest::prop_assert_eq!(summary.kinds.iter().map(|(_, n, _)| n).sum::<u64>(), list.len() as u64);
        }
    }
}
