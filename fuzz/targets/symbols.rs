//! A file of names of any content is refused, or tells names.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_trace::symbols::decode;

fuzz_target!(|bytes: &[u8]| {
    let Ok(symbols) = decode(&nilometer_fuzz::seal(bytes)) else { return };
    for id in 0..=symbols.names() as u32 + 1 {
        let _ = symbols.name(id);
    }
    let _ = symbols.library("/lib/libc.so.6", &[]).map(|library| library.places(0).len());
});
