//! Other allocators, before us and behind us. Fetched once from the distribution; without it, skipped.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::hazards::number_after;
use super::session::{Session, describe, program};

const PACKAGES: [(&str, &str); 3] = [
    ("libjemalloc2", "libjemalloc.so.2"),
    ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
    ("libmimalloc2.0", "libmimalloc.so.2"),
];

/// Blocks that constructors made before ours ran may be freed later.
const OLDER: u64 = 4;

fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let output = Command::new("find").arg(folder).args(["-name", &format!("{name}*")]).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().min_by_key(|line| line.len()).map(PathBuf::from)
}

/// The library of a package, downloaded and unpacked below the test folder.
pub fn fetch(package: &str, library: &str) -> Option<PathBuf> {
    static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock();
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("packages");
    let folder = root.join(package);
    if find(&folder, library).is_none() {
        std::fs::create_dir_all(&root).ok()?;
        let work = tempfile::tempdir_in(&root).ok()?;
        let script = format!("apt-get download {package} >/dev/null 2>&1 && dpkg-deb -x {package}_*.deb .");
        let done = Command::new("sh").args(["-c", &script]).current_dir(work.path()).status().ok()?.success();
        if done && std::fs::rename(work.path(), &folder).is_ok() {
            let _ = work.keep();
        }
    }
    let found = find(&folder, library);
    if found.is_none() {
        nilometer_lab::skip(package, "apt-get download");
    }
    found
}

fn run(preload: &str, session: &Session, name: &str, args: &[&str]) -> String {
    let mut command = session.command(program(name), "mode=all,stamp=1");
    let output = command.env("LD_PRELOAD", preload).args(args).output().unwrap();
    assert!(output.status.success(), "{preload}: {}", describe(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn allocators_behind_us_are_told_exactly() {
    for (package, library) in PACKAGES {
        let Some(path) = fetch(package, library) else { continue };
        let session = Session::new();
        let preload = format!("{}:{}", session.library.display(), path.display());
        let text = run(&preload, &session, "threads.c", &["short", "400"]);
        let heard = session.finish();
        let told = heard.only();
        let made = number_after(&text, "made");
        assert!(
            told.allocations >= made && told.allocations < made + 2000,
            "{package}: {}",
            told.allocations
        );
        assert_eq!(told.totals.lost, 0, "{package}: {:?}", told.totals);
        assert!(told.unknown_frees() <= OLDER, "{package}: {:?}", told.oddities());
        let live = told.live();
        let left = live.iter().find(|(_, block)| (30_000..30_050).contains(&block.bytes));
        assert!(
            left.is_none(),
            "{package}: {:#?}",
            left.map(|(address, block)| (block, told.story_of(*address)))
        );
    }
}

#[test]
fn operators_of_allocators_behind_us_work() {
    for (package, library) in PACKAGES {
        let Some(path) = fetch(package, library) else { continue };
        let session = Session::new();
        let preload = format!("{}:{}", session.library.display(), path.display());
        // Debian's mimalloc is built as C: it aborts where new should throw.
        let can_throw = !package.contains("mimalloc");
        let text = run(&preload, &session, "throw.cc", if can_throw { &[] } else { &["mild"] });
        assert_eq!(number_after(&text, "caught"), if can_throw { 250 } else { 200 }, "{package}");
        // Their own `new` is not told, so its blocks must not seem to live.
        assert_eq!(session.finish().only().live_of(50_021), 0, "{package}");
    }
}

#[test]
fn allocators_before_us_run_and_show_their_mappings() {
    for (package, library) in PACKAGES {
        let Some(path) = fetch(package, library) else { continue };
        let session = Session::new();
        let preload = format!("{}:{}", path.display(), session.library.display());
        let text = run(&preload, &session, "threads.c", &["short", "400"]);
        assert_eq!(number_after(&text, "made"), 40_000, "{package}");
        let heard = session.finish();
        assert_eq!(heard.only().totals.lost, 0, "{package}");
    }
}
