//! A recorder that counts: `record SOCKET` listens, drains and prints a line per process at its end.
//!
//! For tests (it can be killed) and for measuring the tracker without anything behind it. Ends with its
//! input.
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::error::Error;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nilometer_ring::Event;
use nilometer_ring::reader::{Book, Process, receive};

#[derive(Default)]
struct Sums {
    allocations: u64,
    frees: u64,
    others: u64,
    bytes: u64,
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("usage: record SOCKET")?;
    let listener = UnixListener::bind(path)?;
    listener.set_nonblocking(true)?;
    println!("listening");
    io::stdout().flush()?;
    let ended = watch_input();
    let mut open: Vec<(Process, Option<Book>, Sums)> = Vec::new();
    let mut buffer = Vec::new();
    loop {
        let last = ended.load(Ordering::SeqCst);
        while let Ok((socket, _)) = listener.accept() {
            socket.set_nonblocking(false)?;
            let Ok(introduced) = receive(socket.as_fd()) else { continue };
            let book = introduced.book.map(|file| Book::open(&file)).transpose()?;
            open.push((Process::open(&introduced.control)?, book, Sums::default()));
        }
        let mut taken = 0;
        for (process, _, sums) in &mut open {
            process.beat()?;
            let bytes = process.drain(&mut buffer, |_, _, event| sums.take(event));
            sums.bytes += bytes as u64;
            taken += bytes;
        }
        if last && taken == 0 {
            break;
        }
        if taken == 0 {
            thread::sleep(Duration::from_micros(500));
        }
    }
    open.iter().try_for_each(|(process, book, sums)| print(process, book.as_ref(), sums))
}

impl Sums {
    fn take(&mut self, event: Event) {
        match event {
            Event::Alloc { .. } => self.allocations += 1,
            Event::Free { .. } => self.frees += 1,
            _ => self.others += 1,
        }
    }
}

fn print(process: &Process, book: Option<&Book>, sums: &Sums) -> Result<(), Box<dyn Error>> {
    let (facts, totals) = (process.facts()?, process.totals()?);
    let events = sums.allocations + sums.frees;
    let nodes = book.map(Book::size).transpose()?.unwrap_or_default();
    println!(
        "pid {} allocs {} frees {} others {} bytes {} per_event {:.2} nodes {} book {} {totals:?}",
        facts.pid,
        sums.allocations,
        sums.frees,
        sums.others,
        sums.bytes,
        sums.bytes as f64 / events.max(1) as f64,
        nodes.0,
        nodes.1,
    );
    Ok(())
}

/// True when standard input has ended. At a terminal or in tests without one, never.
fn watch_input() -> Arc<AtomicBool> {
    let ended = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&ended);
    thread::spawn(move || {
        let mut rest = Vec::new();
        let _ = io::stdin().read_to_end(&mut rest);
        flag.store(true, Ordering::SeqCst);
    });
    ended
}
