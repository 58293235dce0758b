//! A file of looks at pages.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_trace::pages::read_lines;

fuzz_target!(|bytes: &[u8]| {
    let _ = read_lines(&mut &bytes[..], drop);
});
