//! `nilo pages` against programs that touch stated pages: what is promised to be exact is compared page by page.

use std::collections::BTreeMap;
use std::io::{BufReader, Write as _};
use std::ops::Range;
use std::process::Command;

use nilometer_trace::pages::{Line, Look, PAGES_FILE, Process, read_lines};
use serde_json::Value;

use crate::harness::{Dialogue, Lab, c_program, finish, skip, text};

const PAGE: u64 = 4096;
const CHUNK: u64 = 64;
pub(crate) const MIB: u64 = 1 << 20;

/// A program with a mapping of which some pages are touched over and over.
pub(crate) struct Hot {
    pub(crate) dialogue: Dialogue,
    base: u64,
    pages: u64,
}

impl Hot {
    pub(crate) fn start(bytes: u64, how: &str) -> Self {
        let mut dialogue = Dialogue::start(&mut Command::new(c_program("hot_pages.c")));
        dialogue.say(&format!("map {bytes} {how}"));
        let line = dialogue.line();
        let base = line.strip_prefix("mapped ").expect("an address").parse().unwrap();
        Self { dialogue, base, pages: bytes / PAGE }
    }

    /// `count` pages from `first` on, every `stride`th.
    fn touch(&mut self, first: u64, count: u64, stride: u64, how: &str) {
        self.ask(&format!("hot {first} {count} {stride} {how}"), "hot");
    }

    fn ask(&mut self, line: &str, answer: &str) {
        self.dialogue.say(line);
        assert_eq!(self.dialogue.line(), answer);
    }

    /// Looks of the whole recording.
    fn looks(&self, lab: &Lab, options: &[&str]) -> (Vec<Look>, Value) {
        let pid = self.dialogue.pid().to_string();
        let mut nilo = lab.nilo(["pages", &pid, "-o", "look", "--force", "--json"]);
        let output = finish(nilo.args(options));
        assert!(output.status.success(), "{}", text(&output.stderr));
        let document: Value = serde_json::from_slice(&output.stdout).expect("one document");
        (stored(lab), document)
    }

    fn contains(&self, page: u64) -> bool {
        let first = self.base / PAGE;
        (first..first + self.pages).contains(&page)
    }

    /// Touched pages of the mapping.
    fn touched(&self, look: &Look) -> u64 {
        self.spans(look).map(|(_, touched)| touched).sum()
    }

    /// First page within the mapping and touched pages of each span.
    fn spans<'a>(&'a self, look: &'a Look) -> impl Iterator<Item = (u64, u64)> + 'a {
        let first = self.base / PAGE;
        let spans = own(look, self.dialogue.pid()).spans.iter();
        spans
            .filter(move |span| self.contains(span.first))
            .map(move |span| (span.first - first, span.touched))
    }

    /// Anonymous memory, as numbers of pages: what nobody else can have.
    fn private_mappings(&self) -> Vec<Range<u64>> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.dialogue.pid())).expect("maps");
        let page = |hex: &str| u64::from_str_radix(hex, 16).expect("an address") / PAGE;
        let anonymous = maps.lines().filter(|line| line.split_whitespace().nth(4) == Some("0"));
        let ranges = anonymous.filter_map(|line| line.split_whitespace().next()?.split_once('-'));
        ranges.map(|(start, end)| page(start)..page(end)).collect()
    }

    /// Written pages of the mapping, as numbers in it.
    fn written(&self, look: &Look) -> Vec<u64> {
        let first = self.base / PAGE;
        let runs = own(look, self.dialogue.pid()).written.iter().flatten();
        let pages = runs.flat_map(|(start, count)| *start..start + count);
        pages.filter(|page| self.contains(*page)).map(|page| page - first).collect()
    }
}

fn own(look: &Look, pid: i32) -> &Process {
    look.processes.iter().find(|process| process.pid == pid).expect("the process")
}

fn stored(lab: &Lab) -> Vec<Look> {
    let file = std::fs::File::open(lab.path("look").join(PAGES_FILE)).unwrap();
    let mut looks = Vec::new();
    let bad = read_lines(&mut BufReader::new(file), |line| {
        if let Line::Look(look) = line {
            looks.push(look);
        }
    });
    assert_eq!(bad.unwrap(), 0);
    looks
}

/// Windows long enough for many turns of the program, on a busy machine too.
const LOOK: [&str; 4] = ["--window", "400ms", "--duration", "900ms"];

#[test]
fn a_hot_set_is_counted_exactly_from_outside() {
    // A fifth of the mapping, in one piece and scattered, read and written.
    for (stride, how) in [(1, "r"), (5, "r"), (5, "w")] {
        let mut hot = Hot::start(64 * MIB, "private");
        let count = 64 * MIB / PAGE / 5;
        hot.touch(0, count, stride, how);
        let (looks, document) = hot.looks(&Lab::new(), &LOOK);
        assert!(looks.len() >= 2, "{document:#}");
        for look in &looks {
            let touched = hot.touched(look);
            assert_eq!(touched, count, "stride {stride}, {how}: {touched} of {count} pages");
        }
        assert_eq!(document["backend"], "mappings");
        assert_eq!((&document["unit_bytes"], &document["reuse"]), (&Value::Null, &Value::Null));
        assert!(document["reuse_why_not"].as_str().unwrap().contains("--split"));
        hot.dialogue.end();
    }
}

#[test]
fn split_mappings_tell_every_chunk() {
    let mut hot = Hot::start(64 * MIB, "private");
    // Every 100th page, so that chunks of 64 pages have none or one.
    let count = 64 * MIB / PAGE / 100;
    hot.touch(7, count, 100, "w");
    let lab = Lab::new();
    let (looks, document) = hot.looks(&lab, &[&LOOK[..], &["--split", "--chunk", "256K"]].concat());
    assert_eq!((&document["backend"], &document["unit_bytes"]), (&"split".into(), &(CHUNK * PAGE).into()));
    let expected: BTreeMap<u64, u64> = (0..64 * MIB / PAGE / CHUNK)
        .map(|chunk| {
            let pages = (0..count).map(|i| 7 + i * 100).filter(|page| page / CHUNK == chunk).count();
            (chunk * CHUNK, pages as u64)
        })
        .collect();
    for look in &looks {
        let seen: BTreeMap<u64, u64> = hot.spans(look).collect();
        assert_eq!(seen, expected);
        check_written(&hot, look, &document, &(0..count).map(|i| 7 + i * 100).collect::<Vec<_>>());
    }
    assert!(document["reuse"]["bounds"].as_array().is_some_and(|bounds| !bounds.is_empty()), "{document:#}");
    assert!(document["pause_share"].as_f64().unwrap() > 0.0 && document["injects"].is_string());
    // The target goes on, and is as it was: the chunks are joined again.
    hot.ask("next 0 10 1 r", "next");
    let maps = std::fs::read_to_string(format!("/proc/{}/maps", hot.dialogue.pid())).unwrap();
    assert!(maps.lines().count() < 60, "{} mappings", maps.lines().count());
    assert!(hot.dialogue.end().status.success());
}

/// Exact where it is seen, and part of what was accessed.
fn check_written(hot: &Hot, look: &Look, document: &Value, expected: &[u64]) {
    if document["written"].is_null() {
        return skip("soft-dirty or userfaultfd", document["written_why_not"].as_str().unwrap_or("?"));
    }
    let written = hot.written(look);
    assert_eq!(written, expected);
    for (first, touched) in hot.spans(look) {
        let inside = written.iter().filter(|page| (first..first + CHUNK).contains(page)).count() as u64;
        assert!(inside <= touched, "{inside} written and {touched} accessed pages at {first}");
    }
}

/// 16,384 pages that are written all the time cost far more than 1 % of windows of 200 ms.
#[test]
fn written_pages_that_cost_the_target_much_are_looked_for_in_some_windows_only() {
    let mut hot = Hot::start(64 * MIB, "private");
    let count = 64 * MIB / PAGE;
    hot.touch(0, count, 1, "w");
    let options = ["--split", "--single", "--window", "200ms", "--duration", "4s"];
    let (looks, document) = hot.looks(&Lab::new(), &options);
    let every: Vec<u64> = (0..count).collect();
    check_written(&hot, &looks[0], &document, &every);
    if document["written"].is_null() {
        return;
    }
    let is_known = |look: &Look| own(look, hot.dialogue.pid()).written.is_some();
    let known = looks.iter().filter(|look| is_known(look)).count();
    assert!(known >= 2 && known < looks.len(), "{known} of {} windows", looks.len());
    for (look, window) in looks.iter().zip(document["windows"].as_array().unwrap()) {
        assert_eq!(hot.touched(look), count, "what is touched is exact in every window");
        assert_eq!(window["written_bytes"].is_null(), !is_known(look), "{window}");
        if is_known(look) {
            check_written(&hot, look, &document, &every);
        }
    }
    let note = format!("looked for in {known} of {} windows", looks.len());
    assert!(document["notes"].to_string().contains(&note), "{document:#}");
    let (looks, document) = hot.looks(&Lab::new(), &[&options[..], &["--written", "always"]].concat());
    for look in &looks {
        check_written(&hot, look, &document, &every);
    }
    assert!(!document["notes"].to_string().contains("--written"), "{document:#}");
    hot.dialogue.end();
}

#[test]
fn reads_are_not_written() {
    let mut hot = Hot::start(16 * MIB, "private");
    hot.touch(0, 1000, 2, "r");
    let (looks, document) = hot.looks(&Lab::new(), &[&LOOK[..], &["--split"]].concat());
    for look in &looks {
        assert_eq!(hot.touched(look), 1000);
        check_written(&hot, look, &document, &[]);
    }
    hot.dialogue.end();
}

#[test]
fn huge_pages_count_whole_and_it_is_said() {
    let mut hot = Hot::start(64 * MIB, "huge");
    hot.touch(0, 64 * MIB / PAGE / 1024, 1024, "r"); // one page in every other huge page
    let (looks, document) = hot.looks(&Lab::new(), &LOOK);
    if document["huge_share"].as_f64().unwrap() < 0.5 {
        return skip("transparent huge pages", "the kernel gave none");
    }
    for look in &looks {
        assert_eq!(hot.touched(look), 32 * MIB / PAGE, "half of the huge pages, each whole");
    }
    hot.dialogue.end();
}

#[test]
fn shared_and_forked_memory_gives_bounds() {
    let mut hot = Hot::start(32 * MIB, "private");
    hot.ask("fork", "forked");
    hot.touch(0, 2000, 1, "r");
    let (looks, document) = hot.looks(&Lab::new(), &LOOK);
    assert_eq!(looks[0].processes.len(), 2, "the child is part of the tree");
    assert_eq!(hot.touched(&looks[0]), 2000, "the pages are shared, and touched by one");
    let window = &document["windows"][0];
    let [low, high] = ["wss_low_bytes", "wss_bytes"].map(|name| window[name].as_u64().unwrap());
    assert!(low <= high && high >= 2000 * PAGE, "{window}");
    let (single, _) = hot.looks(&Lab::new(), &[&LOOK[..], &["--single"]].concat());
    assert_eq!(single[0].processes.len(), 1);
    hot.dialogue.end();
}

/// A file in the page cache. In pieces of a page the kernel has no reason to take larger ones.
fn file_of(lab: &Lab, bytes: u64, piece: u64) -> String {
    let path = lab.path("weights.bin");
    let mut file = std::fs::File::create(&path).unwrap();
    let piece = vec![1; piece as usize];
    (0..bytes / piece.len() as u64).for_each(|_| file.write_all(&piece).unwrap());
    path.display().to_string()
}

#[test]
fn a_mapped_file_is_counted_exactly_and_its_huge_pages_whole() {
    for piece in [PAGE, 8 * MIB] {
        let lab = Lab::new();
        let mut hot = Hot::start(8 * MIB, &file_of(&lab, 8 * MIB, piece));
        hot.touch(3, 300, 4, "r");
        let (looks, document) = hot.looks(&lab, &LOOK);
        for look in &looks {
            let (touched, huge) = (hot.touched(look), own(look, hot.dialogue.pid()).huge_bytes);
            // 1,200 pages lie in three pages of 2 MiB, where the file system gives such.
            let whole =
                touched == 3 * 512 && huge == touched * PAGE && document["huge_share"].as_f64() > Some(0.5);
            assert!(
                touched == 300 || (piece > PAGE && whole),
                "{touched} pages, {huge} B huge: {document:#}"
            );
        }
        let owners = document["owners"].as_array().unwrap();
        assert!(owners.iter().any(|owner| owner["name"] == "weights.bin"), "{document:#}");
        hot.dialogue.end();
    }
}

/// A hundred pages are read for the first time while it is looked at, each where the kernel maps sixteen.
#[test]
fn pages_that_are_mapped_beside_a_touched_one_are_in_doubt() {
    const READ: u64 = 100;
    let lab = Lab::new();
    let mut hot = Hot::start(8 * MIB, &format!("lazy:{}", file_of(&lab, 8 * MIB, PAGE)));
    let pid = hot.dialogue.pid().to_string();
    let referenced_kib = || -> u64 {
        let rollup = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
        let line = rollup.lines().find_map(|line| line.strip_prefix("Referenced:")).unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    };
    assert!(referenced_kib() > 256, "it has just been started");
    let mut nilo = lab.nilo(["pages", &pid, "--window", "600ms", "--duration", "1500ms", "-o", "look"]);
    let nilo = Dialogue::start(&mut nilo);
    // It waits for a line: what was touched is forgotten when the mark is made, and the first window begins.
    while referenced_kib() > 64 {
        std::thread::yield_now();
    }
    hot.touch(0, READ, 16, "r");
    let output = nilo.end();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let looks = stored(&lab);
    let last = looks.last().expect("a look");
    assert_eq!(hot.touched(last), READ, "what is mapped is exact");
    let doubt = |look: &Look| own(look, hot.dialogue.pid()).around_bytes / PAGE;
    assert!(looks.iter().all(|look| hot.touched(look) <= READ + doubt(look)), "{looks:?}");
    let doubts: u64 = looks.iter().map(doubt).sum();
    // Some pages of the program's own code are mapped meanwhile; more where somebody takes them away.
    let code = if damon_is_at_work() { 512 } else { 64 };
    assert!((15 * READ..15 * READ + code).contains(&doubts), "{doubts} pages of doubt");
    assert!(text(&output.stdout).contains("(fault-around)"), "{}", text(&output.stdout));
    hot.dialogue.end();
}

#[test]
fn arrays_touched_in_turn_are_seen_in_turn() {
    // MemSnoop's program for its own tests: 2,000,000 doubles are 3,907 pages, or 3,908 where they do not begin at a page.
    let array = 3907;
    let mut hot = Hot::start(4 * array * PAGE, "private");
    hot.touch(0, 0, 1, "r");
    let lab = Lab::new();
    for (first, count) in [(0, 0), (0, array), (2 * array, array), (0, 0)] {
        hot.ask(&format!("next {first} {count} 1 w"), "next");
        let (looks, _) = hot.looks(&lab, &LOOK);
        // A mark precedes the first window: it is not larger than the others.
        for look in &looks {
            assert_eq!(hot.touched(look), count);
        }
    }
    hot.dialogue.end();
}

fn touched_within(look: &Look, ranges: &[Range<u64>]) -> u64 {
    let inside = |first: u64| ranges.iter().any(|range| range.contains(&first));
    look.processes[0].spans.iter().filter(|span| inside(span.first)).map(|span| span.touched).sum()
}

/// The machine's owner may look at accessed bits too, and take away pages that nobody touches (`mm/damon/sysfs.c`): some machines
/// in a cloud do so all the time. Seen on such a one: a page fewer than before, and more code mapped again. That this is why was
/// not proven, so nothing is allowed elsewhere.
fn damon_is_at_work() -> bool {
    let Ok(daemons) = std::fs::read_dir("/sys/kernel/mm/damon/admin/kdamonds") else { return false };
    let is_on = |folder: std::path::PathBuf| {
        std::fs::read_to_string(folder.join("state")).is_ok_and(|state| state.trim() == "on")
    };
    daemons.flatten().any(|daemon| is_on(daemon.path()))
}

#[test]
fn several_windows_come_from_one_mark() {
    let mut hot = Hot::start(16 * MIB, "private");
    hot.touch(0, 1000, 1, "r");
    let (looks, document) = hot.looks(&Lab::new(), &["--windows", "0.1,200ms,0.4", "--duration", "800ms"]);
    let rounds: Vec<u32> = looks.iter().take(3).map(|look| look.round).collect();
    assert_eq!(rounds, [0, 0, 0]);
    assert!(looks.iter().all(|look| look.last == (look.asked_ns == 400_000_000)));
    let by = document["wss_by_window_s"].as_array().unwrap();
    assert_eq!(by.len(), 3, "{document:#}");
    // What was touched stays touched. Not so pages of libraries: their bits are cleared by all who look at them.
    let private = hot.private_mappings();
    let mut sizes: Vec<u64> = looks.iter().take(3).map(|look| touched_within(look, &private)).collect();
    let told = document["notes"].to_string().contains("kdamond");
    assert!(told || !damon_is_at_work(), "{document:#}");
    if damon_is_at_work() {
        sizes.dedup_by(|later, earlier| later.abs_diff(*earlier) <= 2); // a page fewer now and then
    }
    assert!(sizes.is_sorted() && sizes[0] > 1000, "what was touched stays touched: {sizes:?}");
    for look in &looks {
        assert_eq!(hot.touched(look), 1000);
    }
    hot.dialogue.end();
}

#[test]
fn filters_leave_out_and_say_so() {
    let mut hot = Hot::start(16 * MIB, "private");
    hot.touch(0, 1000, 1, "r");
    let filters = ["--skip", "executable,no-access", "--min-pages", "4"];
    let (_, document) = hot.looks(&Lab::new(), &[&LOOK[..], &filters].concat());
    let coverage = document["coverage"].as_f64().unwrap();
    assert!(coverage < 1.0 && coverage > 0.8, "{coverage}");
    assert_eq!(document["filters"].as_array().unwrap().len(), 3);
    hot.dialogue.end();
}

#[test]
fn a_pause_is_counted() {
    let mut hot = Hot::start(16 * MIB, "private");
    hot.touch(0, 1000, 1, "r");
    let (looks, document) = hot.looks(&Lab::new(), &[&LOOK[..], &["--pause", "on"]].concat());
    assert!(document["pause_share"].as_f64().unwrap() > 0.0);
    for look in &looks {
        assert_eq!(hot.touched(look), 1000);
    }
    assert!(hot.dialogue.end().status.success());
}
