//! How long it takes to read the native memory of a process: `speed PID [TIMES]`.
#![allow(clippy::print_stdout)]

use std::time::Instant;

use nilometer_image::live::{CaptureOptions, Peek, capture};
use nilometer_native::glibc::Malloc;
use nilometer_native::torch::storages;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut words = std::env::args().skip(1);
    let pid: i32 = words.next().ok_or("speed PID [TIMES]")?.parse()?;
    let times: usize = words.next().map_or(Ok(5), |times| times.parse())?;
    let peek = Peek::open(pid)?;
    let capture = capture(&peek, &CaptureOptions::default(), &[])?;
    let modules = peek.modules();
    let image = &capture.image;
    println!("{} bytes copied", image.copied_bytes());
    for _ in 0..times {
        let began = Instant::now();
        let malloc = Malloc::read(image, &modules)?;
        let read_ms = began.elapsed().as_secs_f64() * 1e3;
        println!("{:?} {:?}", malloc.version, malloc.doubts);
        let chunks: Vec<u64> = malloc.chunks().map(|chunk| chunk.start).collect();
        let began = Instant::now();
        let step = 2_654_435_761 % chunks.len().max(1);
        let found = (0..1_000_000).filter(|i| malloc.is_in_use(chunks[i * step % chunks.len()])).count();
        let ask_ns = began.elapsed().as_secs_f64() * 1e3;
        println!(
            "malloc: {read_ms:.1} ms for {} chunks; {ask_ns:.0} ns per question ({found} in use)",
            chunks.len()
        );
    }
    let malloc = Malloc::read(image, &modules).ok();
    for _ in 0..times {
        let began = Instant::now();
        let Some(torch) = storages(image, &modules, malloc.as_ref()) else { return Ok(()) };
        let checked_ms = began.elapsed().as_secs_f64() * 1e3;
        let began = Instant::now();
        let all = storages(image, &modules, None).unwrap_or_default();
        let scanned_ms = began.elapsed().as_secs_f64() * 1e3;
        let releases = torch.layout.map_or("?", |layout| layout.releases);
        let counts = (torch.storages.len(), torch.tensors.len(), all.storages.len(), all.tensors.len());
        println!(
            "torch ({releases}): {checked_ms:.1} ms by chunks, {scanned_ms:.1} ms by scanning; {counts:?}"
        );
    }
    Ok(())
}
