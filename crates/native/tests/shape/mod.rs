//! One shape of heap: the program's own words, and ours.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use nilometer_native::glibc::{Malloc, State};

use crate::process::{Ready, compile};

/// A running program of `shapes.c`.
pub struct Shape {
    pub ready: Ready,
    pub truth: Truth,
}

/// What `mallinfo2` and `malloc_info` say, and the blocks that the program names.
#[derive(Debug, Default)]
pub struct Truth {
    /// arena, uordblks, fordblks, fsmblks, hblks, hblkhd, keepcost
    pub mallinfo: [u64; 7],
    pub arenas: Vec<ArenaTruth>,
    /// Kind, address, usable size.
    pub blocks: Vec<(String, u64, u64)>,
}

/// One `<heap>` of `malloc_info`.
#[derive(Debug, Default)]
pub struct ArenaTruth {
    pub system: u64,
    /// Bins and top: their number, and bytes with the flags of each header left in (`chunksize_nomask`).
    pub rest_count: u64,
    pub rest: u64,
    pub fast: u64,
}

impl Shape {
    pub fn new(name: &str) -> Self {
        Self::start(Command::new(program()).arg(name))
    }

    pub fn start(command: &mut Command) -> Self {
        let ready = Ready::start(command);
        let truth = Truth::parse(&ready.lines);
        Self { ready, truth }
    }

    pub fn read(&self) -> Malloc {
        let (capture, modules) = self.ready.capture();
        Malloc::read(&capture.image, &modules).unwrap()
    }

    pub fn check(&self) {
        let malloc = self.read();
        assert_eq!(malloc.doubts, []);
        self.check_totals(&malloc);
        self.check_arenas(&malloc);
        self.check_blocks(&malloc);
    }

    pub fn check_totals(&self, malloc: &Malloc) {
        let total = malloc.total();
        let [arena, used, free, fast, maps, mapped, top] = self.truth.mallinfo;
        let own = [
            total.system_bytes,
            total.in_use_bytes + total.tcache_bytes + total.metadata_bytes + total.unknown_bytes,
            total.free_bytes + total.fastbin_bytes + total.top_bytes,
            total.fastbin_bytes,
            malloc.mapped.count,
            malloc.mapped.bytes,
            malloc.arenas[0].top_bytes,
        ];
        assert_eq!(own, [arena, used, free, fast, maps, mapped, top]);
    }

    pub fn check_arenas(&self, malloc: &Malloc) {
        assert_eq!(malloc.arenas.len(), self.truth.arenas.len());
        for (own, truth) in malloc.arenas.iter().zip(&self.truth.arenas) {
            // The top is counted since 2.28.
            let top = u64::from(truth.rest_count != own.free_chunks);
            let counted = (own.system_bytes, own.free_chunks + top, own.fastbin_bytes);
            assert_eq!(counted, (truth.system, truth.rest_count, truth.fast));
            let flags = truth.rest - own.free_bytes - own.top_bytes * top;
            let most = if own.main { 1 } else { 5 };
            assert!((own.free_chunks..=own.free_chunks * most).contains(&flags), "{own:?} {truth:?}");
        }
    }

    pub fn check_blocks(&self, malloc: &Malloc) {
        for (kind, address, usable) in &self.truth.blocks {
            let state = match kind.as_str() {
                "used" => State::InUse,
                "mapped" => State::Mapped,
                "cached" => State::Cached,
                other => panic!("{other}"),
            };
            let chunk = malloc.chunk_at(*address).unwrap_or_else(|| panic!("{kind} {address:#x}"));
            assert_eq!(
                (chunk.start, chunk.usable, chunk.state),
                (*address, *usable, state),
                "{kind} {address:#x}"
            );
            assert_eq!(malloc.chunk_at(address + usable - 1), Some(chunk));
            assert_ne!(malloc.chunk_at(address + usable), Some(chunk));
        }
    }
}

impl Truth {
    fn parse(lines: &[String]) -> Self {
        let mut truth = Self::default();
        // What follows the last heap are totals.
        let mut inside = false;
        for line in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            match words[..] {
                ["mallinfo", ..] => truth.mallinfo = std::array::from_fn(|i| words[i + 1].parse().unwrap()),
                ["<heap", _] => {
                    truth.arenas.push(ArenaTruth::default());
                    inside = true;
                }
                ["</heap>"] => inside = false,
                [kind, address, usable] if !kind.starts_with('<') => {
                    truth.blocks.push((kind.to_owned(), address.parse().unwrap(), usable.parse().unwrap()));
                }
                _ if inside => truth.arena_line(line),
                _ => {}
            }
        }
        truth
    }

    fn arena_line(&mut self, line: &str) {
        let Some(arena) = self.arenas.last_mut() else { return };
        let number =
            |key| line.split(key).nth(1).and_then(|rest| rest.split('"').next()).unwrap().parse().unwrap();
        let size = || number("size=\"");
        if line.starts_with("<total type=\"rest\"") {
            arena.rest = size();
            arena.rest_count = number("count=\"");
        } else if line.starts_with("<total type=\"fast\"") {
            arena.fast = size();
        } else if line.starts_with("<system type=\"current\"") {
            arena.system = size();
        }
    }
}

/// Built once per test process.
pub fn program() -> &'static PathBuf {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| compile("shapes", "shapes.c", &["-lpthread"]))
}
