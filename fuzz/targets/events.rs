//! A stream of events of any content is read to where it is damaged.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_ring::Decoder;
use nilometer_ring::cursor::Source;
use nilometer_trace::allocs::stream::read;

fuzz_target!(|bytes: &[u8]| {
    let _ = read(nilometer_fuzz::seal(bytes).as_slice(), |_, _, run| {
        let (mut decoder, mut bytes) = (Decoder::default(), Source::new(run));
        while let Ok(Some(_)) = decoder.next(&mut bytes) {}
    });
});
