//! Whatever the bytes are, there is an answer: records or words.

use nilometer_import::{Format, Known, convert, detect, sites};
use proptest::prelude::*;

const LOGS: [&str; 3] = [
    include_str!("../fixtures/repeats.log"),
    include_str!("../fixtures/free_sampled.log"),
    include_str!("../fixtures/mem_info.log"),
];
/// Enough of each log to reach every state.
const START: usize = 2_500;

/// Words of the formats, and what could stand in their place.
const WORDS: [&str; 20] = [
    "microtime",
    "program_usage",
    "MemTotal:",
    "MemFree:",
    "kB",
    "total",
    "used",
    "free",
    "shared",
    "buffers",
    "cached",
    "Mem:",
    "-/+ buffers/cache:",
    "Swap:",
    "\n",
    "0",
    "18446744073709551615",
    "1461465313",
    "-1",
    "1.5",
];

fn answers(bytes: &[u8]) {
    let _ = detect(bytes);
    for format in [Format::MeminfoLog, Format::FreeLog, Format::Heapy, Format::Muppy, Format::Smaps] {
        let result = convert(format, &Known::default(), &mut &*bytes, &mut |_| Ok(()));
        if let Err(error) = result {
            assert!(error.hint().is_some() && error.to_string().chars().all(|c| !c.is_control()));
        }
    }
    for format in [Format::MxnetLog, Format::Torch, Format::Jax, Format::Pprof] {
        match sites(format, "any", bytes) {
            Ok(sites) => assert_eq!(sites.recording.check(), Ok(())),
            Err(error) => {
                assert!(error.hint().is_some() && error.to_string().chars().all(|c| !c.is_control()));
            }
        }
    }
}

/// Small recordings of each other format.
const OTHERS: [&[u8]; 5] = [
    include_bytes!("../fixtures/snapshot.pickle"),
    include_bytes!("../fixtures/mxnet.log"),
    include_bytes!("../fixtures/heapy.hpy"),
    include_bytes!("../fixtures/muppy.txt"),
    include_bytes!("../fixtures/smaps.log"),
];

proptest! {
    #[test]
    fn other_recordings_with_bytes_changed_or_cut(
        which in 0usize..OTHERS.len(),
        changes in proptest::collection::vec((0usize..4000, any::<u8>()), 0..6),
        cut in 0usize..4000,
    ) {
        let mut bytes = OTHERS[which].to_vec();
        for (place, byte) in changes {
            let length = bytes.len();
            bytes[place % length] = byte;
        }
        bytes.truncate(cut);
        answers(&bytes);
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
        answers(&bytes);
    }

    #[test]
    fn any_words(words in proptest::collection::vec(proptest::sample::select(WORDS.to_vec()), 0..60)) {
        answers(words.join(" ").as_bytes());
    }

    #[test]
    fn logs_with_bytes_changed(
        log in 0usize..3,
        changes in proptest::collection::vec((0usize..START, any::<u8>()), 1..6),
        cut in 0usize..START,
    ) {
        let mut bytes = LOGS[log].as_bytes().to_vec();
        for (place, byte) in changes {
            if let Some(there) = bytes.get_mut(place) {
                *there = byte;
            }
        }
        bytes.truncate(START.min(cut + 20));
        answers(&bytes);
    }

    #[test]
    fn logs_with_lines_lost(log in 0usize..3, lost in proptest::collection::vec(0usize..120, 1..4)) {
        let lines = LOGS[log].lines().enumerate().filter(|(number, _)| !lost.contains(number));
        let text: Vec<&str> = lines.take(150).map(|(_, line)| line).collect();
        answers(text.join("\n").as_bytes());
    }
}
