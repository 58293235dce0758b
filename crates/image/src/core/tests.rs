use std::io::Write;

use super::*;
use crate::Memory;

const NAME: &[u8; 5] = b"CORE\0";

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn note(kind: u32, content: &[u8]) -> Vec<u8> {
    let mut note: Vec<u8> = [5, content.len() as u32, kind].iter().flat_map(|n| n.to_le_bytes()).collect();
    note.extend(NAME);
    note.extend([0; 3]);
    note.extend(content);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

/// A thread, a file that is mapped at 0x10000 and not dumped, and eight bytes of memory at 0x20000.
fn core_with(file: &str) -> Vec<u8> {
    let mut status = vec![0; 336];
    status[32..36].copy_from_slice(&7_i32.to_le_bytes());
    status[112 + 8 * 19..][..8].copy_from_slice(&0x20008_u64.to_le_bytes());
    let mut process = vec![0; 136];
    process[24..28].copy_from_slice(&5_i32.to_le_bytes());
    process[40..46].copy_from_slice(b"python");
    process[56..65].copy_from_slice(b"python x ");
    let mut files = words(&[1, 4096, 0x10000, 0x11000, 0]);
    files.extend(file.as_bytes());
    files.push(0);
    let mut notes = note(1, &status);
    notes.extend(note(3, &process));
    notes.extend(note(6, &words(&[9, 0x1234, 0, 0])));
    notes.extend(note(0x4649_4c45, &files));
    let (table, memory) = (64, 64 + 3 * 56 + notes.len() as u64);
    let segment = |kind: u32, flags: u32, rest: &[u64]| {
        let mut segment = kind.to_le_bytes().to_vec();
        segment.extend(flags.to_le_bytes());
        segment.extend(words(rest));
        segment
    };
    let mut bytes = b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x04\0\x3e\0\x01\0\0\0".to_vec();
    bytes.extend(words(&[0, table, 0]));
    bytes.extend([0, 0, 0, 0, 64, 0, 56, 0, 3, 0, 64, 0, 0, 0, 0, 0]);
    bytes.extend(segment(4, 0, &[table + 3 * 56, 0, 0, notes.len() as u64, 0, 4]));
    bytes.extend(segment(1, 4, &[memory, 0x10000, 0, 0, 0x1000, 4096]));
    bytes.extend(segment(1, 6, &[memory, 0x20000, 0, 8, 8, 4096]));
    bytes.extend(notes);
    bytes.extend(b"contents");
    bytes
}

fn write(bytes: &[u8]) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn open_bytes(bytes: &[u8]) -> Result<Core, Error> {
    open(write(bytes).path(), None)
}

#[test]
fn memory_threads_and_command_are_read() {
    let core = open_bytes(&core_with("/no/such/lib.so")).unwrap();
    assert_eq!(core.image.slice(0x20000, 8), Some(&b"contents"[..]));
    assert_eq!(core.image.slice(0x20000, 9), None);
    assert_eq!((core.threads.len(), core.threads[0].id, core.threads[0].registers.rsp), (1, 7, 0x20008));
    assert_eq!((core.pid, &core.command[..], &core.arguments[..]), (5, "python", "python x"));
    assert_eq!(core.auxiliary, [(9, 0x1234)]);
    assert_eq!((core.image.resident(0x20000..0x20008), core.partial.len()), (None, 0));
    let mapping = &core.image.mappings()[0];
    assert_eq!((mapping.path.to_str(), mapping.read, mapping.write), (Some("/no/such/lib.so"), true, false));
    assert_eq!(core.modules.iter().count(), 1);
}

#[test]
fn a_file_whose_first_page_is_unknown_is_used_and_named() {
    let own = std::env::current_exe().unwrap();
    let core = open_bytes(&core_with(own.to_str().unwrap())).unwrap();
    assert_eq!(core.image.u32(0x10000), Some(u32::from_le_bytes(*b"\x7fELF")));
    assert_eq!(core.missing, [MissingFile { path: own, build_id: None, reason: Missing::Unverified }]);
    let text = write(b"not a program").into_temp_path();
    let core = open_bytes(&core_with(text.to_str().unwrap())).unwrap();
    assert_eq!(core.image.u8(0x10000), None, "nothing tells whether it is still the same");
}

#[test]
fn what_is_no_core_is_told_by_kind() {
    assert!(matches!(open_bytes(b""), Err(Error::NotACore { .. })));
    assert!(matches!(open_bytes(b"some text"), Err(Error::NotACore { .. })));
    assert!(matches!(open(Path::new("/proc/self/exe"), None), Err(Error::NotACore { .. })));
    assert!(matches!(open(Path::new("/dev/null"), None), Err(Error::NotACore { .. })));
    assert!(matches!(open(Path::new("/no/such/core"), None), Err(Error::Unreadable { .. })));
    for (magic, format, _) in COMPRESSED {
        let error = open_bytes(&[magic, &[0; 64]].concat()).unwrap_err();
        assert!(matches!(error, Error::Compressed { format: told, .. } if told == format));
    }
    let mut other = core_with("/x");
    other[18] = 183; // EM_AARCH64
    assert!(matches!(open_bytes(&other), Err(Error::OtherMachine { .. })));
    other[4] = 1;
    assert!(matches!(open_bytes(&other), Err(Error::OtherMachine { .. })));
}

/// Everything that can be asked; the answers do not matter.
fn ask(bytes: &[u8]) -> Option<Core> {
    let core = open_bytes(bytes).ok()?;
    for address in [0, 0x10000, 0x10fff, 0x20000, 0x20007, u64::MAX - 7] {
        let _ = (core.image.word(address), core.image.name(address), core.image.slice(address, usize::MAX));
    }
    let _ = core.image.segments().map(|(start, bytes)| start as usize + bytes.len()).max();
    for module in &core.modules {
        let _ = (module.symbols(&["main"]), module.bias(), module.data_range(), module.build_id());
    }
    Some(core)
}

#[test]
fn a_core_cut_anywhere_is_partial_or_refused() {
    let whole = core_with("/no/such/lib.so");
    let table_end = 64 + 3 * 56;
    for cut in 0..whole.len() {
        let core = ask(&whole[..cut]);
        assert_eq!(core.is_some(), cut >= table_end, "cut at {cut}");
        assert!(core.is_none_or(|core| core.partial.len() == 1), "cut at {cut}");
    }
}

#[test]
fn segments_may_promise_more_than_there_are_addresses() {
    let mut bytes = core_with("/no/such/lib.so");
    for (segment, start) in [(1, 0), (2, 1_u64)] {
        let header = 64 + segment * 56;
        bytes[header + 16..][..8].copy_from_slice(&start.to_le_bytes());
        bytes[header + 32..][..8].copy_from_slice(&(u64::MAX - 1).to_le_bytes());
    }
    let core = ask(&bytes).unwrap();
    assert_eq!(core.partial, [format!("the core is cut off: {} bytes of its memory are missing", u64::MAX)]);
}

#[test]
fn no_damage_panics_or_takes_memory() {
    let whole = core_with(std::env::current_exe().unwrap().to_str().unwrap());
    for position in 0..whole.len() {
        for value in [0, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[position] = value;
            ask(&bytes);
        }
    }
    let mut state = 1_u64;
    for _ in 0..1000 {
        let mut bytes = whole.clone();
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let position = (state >> 33) as usize % bytes.len();
            bytes[position] = (state >> 24) as u8;
        }
        ask(&bytes);
    }
}
