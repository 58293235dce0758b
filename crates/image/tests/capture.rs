//! A copy holds what the program wrote, and the program does not notice.
#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used)] // helpers of tests are outside `#[test]` functions
#![allow(clippy::print_stderr)] // skips are told

mod lab;

use std::ops::Range;
use std::process::Command;
use std::time::Duration;

use lab::{FILLED, Target, c_program, pattern};
use nilometer_image::Memory;
use nilometer_image::live::{Capture, CaptureOptions, Mode, Peek, capture};
use nilometer_kernel::sys::pagemap::{PageRun, Pagemap};

fn take(pid: i32, mode: Mode, exclude: &[Range<u64>]) -> Capture {
    let options = CaptureOptions { mode, ..CaptureOptions::default() };
    capture(&Peek::open(pid).unwrap(), &options, exclude).unwrap()
}

fn area(target: &Target, name: &str) -> Range<u64> {
    let (start, bytes) = target.areas[name];
    start..start + bytes as u64
}

fn read(memory: &impl Memory, range: &Range<u64>) -> Option<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    memory.read(range.start, &mut bytes)?;
    Some(bytes)
}

fn assert_patterns(target: &Target, memory: &impl Memory, without: &[&str]) {
    for name in FILLED.into_iter().filter(|name| !without.contains(name)) {
        let range = area(target, name);
        let expected = pattern(name, (range.end - range.start) as usize);
        assert!(
            read(memory, &range).unwrap_or_else(|| panic!("{name} is missing")) == expected,
            "{name} differs"
        );
    }
    let rodata = target.address("rodata");
    assert_eq!(memory.name(rodata).as_deref(), Some("a constant that no copy holds"));
    let relro = target.address("relro");
    assert_eq!((memory.u64(relro), memory.u64(relro + 16)), (Some(rodata), Some(0)), "relocated");
    assert_eq!(memory.u64(target.address("untouched_data")), Some(2), "never written: from the file");
}

#[test]
fn every_kind_of_memory_is_copied_in_every_mode() {
    let mut target = Target::patterns();
    let before = target.ask();
    for mode in [Mode::Copy, Mode::Off, Mode::Fork] {
        let copy = take(target.pid(), mode, &[]);
        assert_patterns(&target, &copy.image, &["shared"]);
        assert_eq!(copy.partial, [] as [&str; 0], "{mode:?}");
        let held = if mode == Mode::Off { (0, false) } else { (2, true) };
        assert_eq!((copy.pause.threads, copy.pause.stopped_ns > 0), held, "{mode:?}");
        assert_eq!(copy.threads.len(), 2);
        assert_eq!(target.ask(), before, "{mode:?}");
    }
    assert_patterns(&target, &Peek::open(target.pid()).unwrap(), &[]);
}

#[test]
fn a_touched_page_brings_its_whole_pool() {
    let target = Target::patterns();
    let copy = take(target.pid(), Mode::Copy, &[]);
    let start = target.address("sparse") - 4096;
    let pool = copy.image.slice(start, 16 << 10).expect("the pool in one piece");
    assert!(pool[..4096].iter().chain(&pool[8192..]).all(|byte| *byte == 0));
    assert_eq!(copy.image.slice(start + (16 << 10), 1), None);
}

#[test]
fn excluded_pages_are_left_out_but_their_residency_is_known() {
    let target = Target::patterns();
    let range = area(&target, "excluded");
    let wish = range.start + 100..range.end - 100;
    let copy = take(target.pid(), Mode::Copy, std::slice::from_ref(&wish));
    let left_out = range.start + 4096..range.end - 4096;
    assert_eq!(copy.excluded_bytes, left_out.end - left_out.start);
    assert_eq!((copy.image.slice(left_out.start, 1), copy.image.slice(left_out.end - 1, 1)), (None, None));
    assert!(copy.image.slice(range.start, 4096).is_some() && copy.image.slice(left_out.end, 4096).is_some());
    assert_eq!(copy.image.resident(range.clone()), Some(range.end - range.start));
    let shared = area(&target, "shared");
    assert_eq!((copy.image.slice(shared.start, 1), copy.image.resident(shared)), (None, Some(64 * 4096)));
    let untouched = area(&target, "untouched");
    assert_eq!(copy.image.resident(untouched.start..untouched.start + (1 << 20)), Some(0));
    assert_eq!(copy.image.resident(0..4096), None);
    assert_patterns(&target, &copy.image, &["excluded", "shared"]);
}

fn runs(pid: i32) -> Vec<PageRun> {
    let pagemap = Pagemap::open(pid).unwrap();
    let mut runs = Vec::new();
    for mapping in Peek::open(pid).unwrap().mappings().iter().filter(|m| !m.is_of_kernel()) {
        pagemap.read_runs(mapping.range(), &mut runs).unwrap();
    }
    runs
}

#[test]
fn reading_faults_nothing_in() {
    let mut target = Target::patterns();
    target.settle();
    let untouched = area(&target, "untouched");
    let before = (runs(target.pid()), target.status("VmRSS"));
    for mode in [Mode::Copy, Mode::Off] {
        take(target.pid(), mode, &[]);
    }
    let peek = Peek::open(target.pid()).unwrap();
    assert!(
        read(&peek, &(untouched.start..untouched.start + (1 << 20))).unwrap().iter().all(|byte| *byte == 0)
    );
    let mut bytes = Vec::new();
    let spans = [(untouched.start, 100), (8, 8), (target.address("heap"), 16), (untouched.end - 8, 8)];
    assert_eq!(peek.read_many(&spans, &mut bytes), [1]);
    assert_eq!((bytes.len(), &bytes[108..124]), (132, &pattern("heap", 16)[..]));
    for module in &peek.modules() {
        for mapping in module.mappings().iter().filter(|mapping| mapping.read && !mapping.is_of_kernel()) {
            let _ = read(&peek, &mapping.range());
        }
    }
    assert_eq!((runs(target.pid()), target.status("VmRSS")), before);
}

#[test]
fn five_hundred_threads_stop_and_go_on() {
    let mut target = Target::start(Command::new(c_program("threads.c", &[])).arg("500"));
    for _ in 0..5 {
        let copy = take(target.pid(), Mode::Copy, &[]);
        assert_eq!((copy.pause.threads, copy.threads.len(), copy.partial.len()), (501, 501, 0));
    }
    let forked = take(target.pid(), Mode::Fork, &[]);
    assert_eq!((forked.pause.threads, forked.partial), (501, Vec::new()));
    assert_eq!(target.ask(), "all");
}

#[test]
fn what_takes_too_long_is_read_later_and_said() {
    let mut target = Target::patterns();
    let options = CaptureOptions { max_pause: Duration::from_nanos(1), ..CaptureOptions::default() };
    let copy = capture(&Peek::open(target.pid()).unwrap(), &options, &[]).unwrap();
    let why: Vec<&str> = copy.partial.iter().map(|why| why.split_once(' ').unwrap().1).collect();
    assert_eq!(why, ["bytes were read while it ran again, after the longest pause of 0 ms"]);
    assert_patterns(&target, &copy.image, &["shared"]);
    target.ask();
}

/// Reading by calls copies each shared page first: who forks after it was first looked at would have twice the memory.
#[test]
fn a_process_that_forks_while_it_is_looked_at_goes_on_sharing() {
    for mode in [Mode::Copy, Mode::Off] {
        let mut target = Target::start(&mut Command::new(c_program("forks.c", &[])));
        let peek = Peek::open(target.pid()).unwrap();
        assert_eq!(target.ask(), "forked");
        let range = area(&target, "area");
        assert_eq!(read(&peek, &range).unwrap(), vec![7; 16 << 20]);
        let options = CaptureOptions { mode, ..CaptureOptions::default() };
        let copy = capture(&peek, &options, &[]).unwrap();
        assert_eq!(read(&copy.image, &range).unwrap(), vec![7; 16 << 20]);
        let mut own = Vec::new();
        Pagemap::open(target.pid()).unwrap().read_exclusive(&range, &mut own).unwrap();
        assert_eq!(own, [], "{mode:?} made it copy pages");
    }
}

/// Small readings come from pages that are kept: who looks again must ask for what is there now.
#[test]
fn what_was_forgotten_is_read_anew() {
    let number = std::sync::atomic::AtomicU64::new(1);
    let peek = Peek::open(std::process::id() as i32).unwrap();
    let told = || peek.u64(number.as_ptr() as u64);
    assert_eq!(told(), Some(1));
    number.store(2, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(told(), Some(1), "kept");
    peek.forget();
    assert_eq!(told(), Some(2));
}
