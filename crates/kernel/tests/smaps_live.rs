//! Our reading of a living process against that of the `procfs` crate, and against the kernel's own sum.
#![allow(clippy::unwrap_used)] // helpers of tests are outside `#[test]` functions

mod holder;

use holder::Holder;
use nilometer_kernel::parse::kind::{Kind, KindSums, Summary};
use nilometer_kernel::parse::smaps::{Rollup, Scanner, parse_rollup};

fn summary(text: &[u8]) -> Summary {
    let (mut scanner, mut sums) = (Scanner::new(), KindSums::new());
    for chunk in text.chunks(4096) {
        scanner.feed(chunk, &mut |mapping, usage| sums.add(mapping, usage));
    }
    scanner.finish(&mut |mapping, usage| sums.add(mapping, usage));
    sums.finish()
}

/// A child that stands still, so that all readings are of the same memory.
fn child() -> (Holder, Summary, Rollup) {
    let mut child = Holder::start(32 << 20);
    child.touch();
    let read = |file: &str| std::fs::read(format!("/proc/{}/{file}", child.pid())).unwrap();
    let (smaps, rollup) = (summary(&read("smaps")), parse_rollup(&read("smaps_rollup")).unwrap());
    (child, smaps, rollup)
}

#[test]
fn smaps_agree_with_the_procfs_crate() {
    let (child, ours, _) = child();
    let theirs = procfs::process::Process::new(child.pid()).unwrap().smaps().unwrap();
    assert_eq!(ours.mappings, theirs.iter().count() as u64);
    let sum = |name: &str| theirs.iter().filter_map(|m| m.extension.map.get(name)).sum::<u64>() / 1024;
    let u = ours.total;
    for (name, value) in [
        ("Size", u.size),
        ("Rss", u.rss),
        ("Shared_Dirty", u.shared_dirty),
        ("Private_Dirty", u.private_dirty),
        ("Anonymous", u.anonymous),
        ("AnonHugePages", u.anon_huge),
        ("Swap", u.swap),
        ("Locked", u.locked),
    ] {
        assert_eq!(value, sum(name), "{name}");
    }
    // The program's pages are shared with other tests, which start and end meanwhile.
    assert_eq!(u.shared_clean + u.private_clean, sum("Shared_Clean") + sum("Private_Clean"));
    assert!(u.private_dirty >= 32 << 10, "{u:?}");
}

#[test]
fn the_rollup_is_the_sum_of_smaps_within_rounding() {
    let (_child, smaps, rollup) = child();
    assert_eq!(rollup.usage.rss, smaps.total.rss);
    assert_eq!(rollup.usage.anonymous, smaps.total.anonymous);
    assert_eq!(rollup.usage.private_dirty, smaps.total.private_dirty);
    // Each mapping's Pss loses less than 1 kB; sharing of the program's file may change in between.
    let file_kib = rollup.pss_file.unwrap_or(0);
    assert!(rollup.usage.pss.abs_diff(smaps.total.pss) <= smaps.mappings + file_kib, "{rollup:?} {smaps:?}");
    if let (Some(anon), Some(file), Some(shmem)) = (rollup.pss_anon, rollup.pss_file, rollup.pss_shmem) {
        assert!((anon + file + shmem).abs_diff(rollup.usage.pss) <= 3);
    }
}

#[test]
fn a_process_has_code_and_a_stack_and_its_memory_is_anonymous() {
    let (_child, smaps, _) = child();
    let of = |kind: Kind| smaps.kinds.iter().find(|(k, ..)| *k == kind).map_or(0, |(_, _, usage)| usage.rss);
    assert!(of(Kind::Anonymous) >= 32 << 10);
    assert!(of(Kind::Code) > 0 && of(Kind::Stack) > 0);
    let program = std::env::current_exe().unwrap().canonicalize().unwrap();
    assert!(smaps.largest.iter().any(|n| n.kind == Kind::Code && n.name == program.to_string_lossy()));
}
