//! The bytes of format 1, kept for ever. `golden/v1/README.md` says how they were made.

use std::{env, fmt::Write as _, fs, path::PathBuf};

use nilometer_trace::{LogWriter, Reader};

use crate::story;

fn golden(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/v1").join(name)
}

/// One record per line, then the ending.
fn dump(mut reader: Reader) -> String {
    let mut text = String::new();
    for record in reader.by_ref() {
        writeln!(text, "{:?}", record.unwrap()).unwrap();
    }
    writeln!(text, "{:?}: {}", reader.ending(), reader.ending()).unwrap();
    text
}

/// Compares with the file, or writes it where that was asked for.
fn check(name: &str, bytes: &[u8]) {
    let path = golden(name);
    if env::var_os("NILO_BLESS").is_some_and(|value| value == "1") {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
    }
    let there = fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    assert!(there == bytes, "{name} differs: a format change needs a new version, see FORMAT.md");
}

#[test]
fn format_1_is_written_and_read_as_ever() {
    check_written();
    for name in ["clean", "cut"] {
        let text = dump(Reader::open(&golden(name)).unwrap());
        check(&format!("{name}.txt"), text.as_bytes());
    }
}

fn check_written() {
    let dir = tempfile::tempdir().unwrap();
    let mut writer = LogWriter::create(dir.path()).unwrap();
    let records = story::records();
    let (before, after) = records.split_at(records.len() - 12);
    story::play(before, &mut writer);
    check("cut/trace.nlog", &fs::read(dir.path().join("trace.nlog")).unwrap());
    check("cut/open.nlog", &fs::read(dir.path().join("open.nlog")).unwrap());
    story::play(after, &mut writer);
    writer.finish(story::end()).unwrap();
    check("clean/trace.nlog", &fs::read(dir.path().join("trace.nlog")).unwrap());
}
