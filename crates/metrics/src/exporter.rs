//! The threads that tell: one for each outlet, none on the way of the tick loop.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use crate::file::MetricsFile;
use crate::listen::Listener;
use crate::push::Collector;
use crate::slot::Slot;
use crate::snapshot::Snapshot;

/// Where values go: prepared and checked, not yet started.
#[derive(Debug, Default)]
pub struct Outlets {
    pub file: Option<MetricsFile>,
    pub listener: Option<Listener>,
    pub collector: Option<Collector>,
}

impl Outlets {
    pub fn is_empty(&self) -> bool {
        self.file.is_none() && self.listener.is_none() && self.collector.is_none()
    }

    /// Starts a thread for each. They inherit the caller's signal mask: block signals first.
    pub fn start(&self) -> Exporter {
        let (done, ends) = channel();
        let mut exporter = Exporter {
            slot: Arc::new(Slot::default()),
            listener: None,
            ends,
            waited_for: 0,
            notes: Vec::new(),
        };
        if let Some(file) = self.file.clone() {
            exporter.spawn("nilo-textfile", &done, move |slot| file.tell(slot));
        }
        if let Some(collector) = self.collector.clone() {
            exporter.spawn("nilo-otlp", &done, move |slot| collector.tell(slot));
        }
        if let Some(listener) = self.listener.as_ref().and_then(Listener::share) {
            exporter.listener = listener.share();
            let slot = Arc::clone(&exporter.slot);
            exporter.begin("nilo-listen", move || listener.serve(&slot));
        }
        exporter
    }
}

/// Running threads and what they are told.
#[derive(Debug)]
pub struct Exporter {
    slot: Arc<Slot>,
    listener: Option<Listener>,
    ends: Receiver<Vec<String>>,
    /// Threads with a last word.
    waited_for: usize,
    notes: Vec<String>,
}

impl Exporter {
    /// The values of a tick. Never waits.
    pub fn publish(&self, snapshot: Snapshot) {
        self.slot.leave(snapshot);
    }

    /// The last values: they are told now, while the caller still has other things to do.
    pub fn close(&self, last: Option<Snapshot>) {
        self.slot.close(last);
        if let Some(listener) = &self.listener {
            listener.wake();
        }
    }

    /// Waits for the last words, no longer than this; what is to be told of the outlets.
    pub fn finish(mut self, patience: Duration) -> Vec<String> {
        let end = Instant::now() + patience;
        while self.waited_for > 0 {
            let Ok(notes) = self.ends.recv_timeout(end.saturating_duration_since(Instant::now())) else {
                self.notes.push("the last metrics were not delivered in time".into());
                break;
            };
            self.waited_for -= 1;
            self.notes.extend(notes);
        }
        self.notes
    }

    fn spawn(
        &mut self,
        name: &str,
        done: &Sender<Vec<String>>,
        tell: impl FnOnce(&Slot) -> Vec<String> + Send + 'static,
    ) {
        let (slot, done) = (Arc::clone(&self.slot), done.clone());
        // Whoever waited may have gone: then nobody needs the word.
        if self.begin(name, move || drop(done.send(tell(&slot)))) {
            self.waited_for += 1;
        }
    }

    fn begin(&mut self, name: &str, work: impl FnOnce() + Send + 'static) -> bool {
        let started = std::thread::Builder::new().name(name.to_owned()).spawn(work);
        let note = started.as_ref().err().map(|error| format!("metrics are not told: no thread: {error}"));
        self.notes.extend(note);
        started.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::TcpListener;

    use super::*;
    use crate::push::Variables;

    fn collector(address: &str) -> Outlets {
        let collector = Collector::new(Some(&format!("http://{address}")), &Variables(&|_| None)).unwrap();
        Outlets { collector: Some(collector), ..Outlets::default() }
    }

    #[test]
    fn a_receiver_that_hangs_is_not_waited_for() {
        let receiver = TcpListener::bind("127.0.0.1:0").unwrap();
        let exporter = collector(&receiver.local_addr().unwrap().to_string()).start();
        exporter.publish(Snapshot { ticks: 1, ..Snapshot::default() });
        let (mut client, _) = receiver.accept().unwrap(); // and never answers
        client.read_exact(&mut [0; 4]).unwrap();
        let began = Instant::now();
        exporter.close(None);
        let notes = exporter.finish(Duration::from_millis(50));
        assert!(began.elapsed() < Duration::from_millis(500), "{:?}", began.elapsed());
        assert_eq!(notes, ["the last metrics were not delivered in time"]);
    }

    #[test]
    fn a_receiver_that_is_not_there_is_told() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let exporter = collector(&nobody.to_string()).start();
        exporter.close(Some(Snapshot::default()));
        let notes = exporter.finish(Duration::from_secs(20));
        assert!(notes[0].starts_with("1 of 1 pushes of metrics to http://127.0.0.1:"), "{notes:?}");
        assert!(notes[0].contains("refused"), "{notes:?}");
    }
}
