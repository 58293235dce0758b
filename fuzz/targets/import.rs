//! Recordings of other tools: the first byte says as what the rest is read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_analysis::pages::Touches;
use nilometer_import::{Error, Format, Known, convert, damon, detect, lackey, sites};
use nilometer_trace::pages::Accesses;

const FORMATS: [Format; 9] = [
    Format::MeminfoLog,
    Format::FreeLog,
    Format::MxnetLog,
    Format::Torch,
    Format::Jax,
    Format::Heapy,
    Format::Muppy,
    Format::Smaps,
    Format::Pprof,
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
        None if way % 3 == 0 => trace(content),
        None if way % 3 == 1 => drop((damon::recognises(content), damon::convert(content, "a"))),
        None => drop(detect(content)),
    }
});

fn trace(content: &[u8]) {
    let mut touches = Touches::new(4096, 8);
    let told = lackey::read(&mut &content[..], &mut |access| touches.access(access.start, access.bytes));
    match told {
        Ok(told) => {
            let Accesses { loads, stores, modifies, .. } = told.accesses;
            let distances = touches.finish();
            assert!(distances.touches >= loads + stores + modifies && distances.followed <= 8 + 64);
        }
        Err(Error::Read { .. }) => {} // packed, and damaged
        Err(error) => check(&error),
    }
    drop(lackey::recognises(content));
}

/// A refusal says what to do, in words that a terminal may show.
fn check(error: &Error) {
    assert!(error.hint().is_some() && error.to_string().chars().all(|c| !c.is_control()), "{error:?}");
}
