//! What a target that has gone wrong may have written into its rings and its book.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_ring::Decoder;
use nilometer_ring::cursor::Source;
use nilometer_ring::definition::{self, Code};
use nilometer_ring::hello::Hello;

fuzz_target!(|bytes: &[u8]| {
    let (mut decoder, mut cursor) = (Decoder::default(), Source::new(bytes));
    while let Ok(Some(_)) = decoder.next(&mut cursor) {
        let _ = decoder.weight_bytes(decoder.ticks());
    }
    for raw in definition::all(bytes) {
        if let Some(code) = Code::from_raw(&raw) {
            for offset in [0, 2, 100, u32::MAX] {
                let _ = nilometer_ring::lines::line_of(&code, offset);
            }
        }
    }
    if let Some(hello) = bytes.first_chunk() {
        let _ = Hello::from_bytes(hello);
    }
});
