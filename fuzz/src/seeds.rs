//! `seeds FOLDER`: what fuzzing begins with, one folder for each target, from the golden files and from this machine.

use std::fs;
use std::path::{Path, PathBuf};

use libfuzzer_sys as _; // the coverage of what it calls must be told to somebody
use nilometer_fuzz::unseal;

/// How a recording may be read: see `targets/import.rs`.
const WAYS: u8 = 11;
/// Enough of a recording to reach every state.
const MOST_BYTES: usize = 4000;

fn main() -> std::io::Result<()> {
    let corpus = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "corpus".to_owned()));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let golden = root.join("crates/trace/golden/v1");
    for name in ["clean/trace.nlog", "cut/trace.nlog"] {
        put(&corpus, "log", name, &unseal(&fs::read(golden.join(name))?))?;
    }
    put(&corpus, "heap", "story", &unseal(&fs::read(golden.join("heap/story.heap"))?))?;
    put(&corpus, "allocs", "story", &unseal(&fs::read(golden.join("allocs/story.nal"))?))?;
    for file in ["status", "stat", "statm", "maps", "smaps", "smaps_rollup", "cgroup", "mountinfo", "environ"]
    {
        put(&corpus, "proc", file, &fs::read(format!("/proc/self/{file}"))?)?;
    }
    for file in ["meminfo", "vmstat", "loadavg", "pressure/memory"] {
        let read = fs::read(format!("/proc/{file}")).unwrap_or_default(); // not every kernel tells pressure
        put(&corpus, "proc", file, &read)?;
    }
    for file in fs::read_dir(root.join("crates/rules/rules"))?.flatten() {
        put(&corpus, "rules", &file.file_name().to_string_lossy(), &fs::read(file.path())?)?;
    }
    put_imports(&corpus, &root.join("crates/import/fixtures"))
}

/// Each recording of another tool, once for every way to read it.
fn put_imports(corpus: &Path, fixtures: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(fixtures)?.flatten().filter(|entry| entry.path().is_file()) {
        let mut content = fs::read(entry.path())?;
        content.truncate(MOST_BYTES);
        for way in 0..WAYS {
            let name = format!("{way}-{}", entry.file_name().to_string_lossy());
            put(corpus, "import", &name, &[&[way], &content[..]].concat())?;
        }
    }
    Ok(())
}

fn put(corpus: &Path, target: &str, name: &str, content: &[u8]) -> std::io::Result<()> {
    let folder = corpus.join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name.replace('/', "-")), content)
}
