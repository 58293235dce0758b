//! Recordings of other tools: the first byte says as what the rest is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_import::{Error, Format, Known, convert, damon, detect, sites};

const FORMATS: [Format; 8] = [
    Format::MeminfoLog,
    Format::FreeLog,
    Format::MxnetLog,
    Format::Torch,
    Format::Jax,
    Format::Heapy,
    Format::Muppy,
    Format::Smaps,
];

fuzz_target!(|bytes: &[u8]| {
    let Some((way, content)) = bytes.split_first() else { return };
    match FORMATS.get(usize::from(*way)) {
        Some(format) if format.has_sites() => match sites(*format, "a", content) {
            Ok(sites) => assert_eq!(sites.recording.check(), Ok(())),
            Err(error) => check(&error),
        },
        Some(format) => {
            let known = Known { array_bytes: Some(4096) };
            let mut records = 0;
            let outline = convert(*format, &known, &mut &content[..], &mut |_| {
                records += 1;
                Ok(())
            });
            match outline {
                Ok(outline) => drop((outline.duration_s(), outline.end(records))),
                Err(error) => check(&error),
            }
        }
        None if way % 2 == 0 => drop(detect(content)),
        None => drop((damon::recognises(content), damon::convert(content, "a"))),
    }
});

/// A refusal says what to do, in words that a terminal may show.
fn check(error: &Error) {
    assert!(error.hint().is_some() && error.to_string().chars().all(|c| !c.is_control()), "{error:?}");
}
