//! A recording of any content is refused, or becomes tables, categories and courses.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_analysis::allocs::{self, Options};
use nilometer_rules::FrameRules;
use nilometer_trace::allocs::read;
use nilometer_trace::symbols::Symbols;

fuzz_target!(|bytes: &[u8]| {
    let Ok(recording) = read(nilometer_fuzz::seal(bytes).as_slice()) else { return };
    let (symbols, rules) = (Symbols::default(), FrameRules::built_in().expect("rules"));
    let mut found = allocs::build(&recording, &symbols, &Options { tree: Some(0.0), ..Options::default() });
    allocs::categorise(&mut found, &recording, &symbols, &rules);
    allocs::courses(&recording, &symbols, &rules);
    serde_json::to_string(&found).expect("JSON");
});
