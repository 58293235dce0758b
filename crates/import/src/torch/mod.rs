//! A memory snapshot of torch (`torch.cuda.memory._dump_snapshot`): segments, blocks and the history of events.
//!
//! Live is what the blocks say at the end; the history is replayed for the peak, what it was made of, and all that was
//! allocated. Where the history begins late (its ring is bounded), blocks from before it are in the start's sum.

mod pickle;
mod replay;
mod segment;

use std::collections::HashMap;

use crate::error::Error;
use crate::sites::Sites;
use crate::stacks::{Stacks, Told};
use pickle::{Id, Pickle};
use replay::Event;

const SHAPE: &str =
    "a snapshot has `segments`; make one with torch.cuda.memory._dump_snapshot(\"FILE.pickle\")";
/// The stack of a block from before the history.
const EARLIER: &str = "(allocated before the history begins)";

/// The sites of a snapshot.
pub(crate) fn parse(bytes: &[u8]) -> Result<Sites, Error> {
    let pickle = Pickle::parse(bytes)?;
    let mut snapshot = Snapshot { pickle: &pickle, stacks: Stacks::default(), known: HashMap::new() };
    // Before 1.13 a snapshot was the list of segments alone.
    let segments = pickle.get(pickle.root, "segments").or(Some(pickle.root));
    if pickle.list(segments).is_empty() && pickle.get(pickle.root, "segments").is_none() {
        return Err(Error::Unknown { what: "there are no segments in it".into(), hint: SHAPE });
    }
    let mut notes = Vec::new();
    let mut told = Vec::new();
    let traces = pickle.list(pickle.get(pickle.root, "device_traces"));
    let devices = segment::devices(&pickle, pickle.list(segments), traces.len());
    for (number, segments) in devices {
        let trace = traces.get(number).copied();
        snapshot.device(&format!("cuda:{number}"), &segments, trace, &mut told, &mut notes);
    }
    let host = pickle.list(pickle.get(pickle.root, "host_segments"));
    let host_traces = pickle.list(pickle.get(pickle.root, "host_traces"));
    if !host.is_empty() || !host_traces.is_empty() {
        snapshot.device("pinned host memory", host, host_traces.first().copied(), &mut told, &mut notes);
    }
    Ok(replay::replay(snapshot.stacks, told, notes))
}

struct Snapshot<'p> {
    pickle: &'p Pickle<'p>,
    stacks: Stacks,
    /// Sites by process and list of frames: lists are shared thousandfold.
    known: HashMap<(u32, Id), u32>,
}

impl Snapshot<'_> {
    /// Events of one device: first what was there before its history, then the history.
    fn device(
        &mut self,
        name: &str,
        segments: &[Id],
        trace: Option<Id>,
        told: &mut Vec<Event>,
        notes: &mut Vec<String>,
    ) {
        let process = self.stacks.process(name);
        let (blocks, sum) = segment::read(self.pickle, segments);
        notes.push(sum.sentence(name));
        let mut history = self.history(process, trace);
        let at_end: HashMap<u64, (u64, Option<Id>)> =
            blocks.iter().map(|block| (block.address, (block.bytes, block.frames))).collect();
        let start = history.first().map_or(0, |event| event.at_us);
        for (address, bytes) in replay::before(&history, &at_end) {
            let frames = at_end.get(&address).and_then(|(_, frames)| *frames);
            let site = self.site(process, frames);
            told.push(Event { process, site: Some(site), address, bytes, at_us: start });
        }
        told.append(&mut history);
    }

    fn history(&mut self, process: u32, trace: Option<Id>) -> Vec<Event> {
        let pickle = self.pickle;
        let mut events = Vec::new();
        for &entry in pickle.list(trace) {
            let of = |key| pickle.get(entry, key);
            let site = match pickle.text(of("action")) {
                "alloc" => Some(self.site(process, of("frames"))),
                "free_requested" | "free_completed" | "free" => None,
                _ => continue,
            };
            let (address, bytes) = (pickle.number(of("addr")), pickle.number(of("size")));
            events.push(Event { process, site, address, bytes, at_us: pickle.number(of("time_us")) });
        }
        events
    }

    fn site(&mut self, process: u32, frames: Option<Id>) -> u32 {
        let key = (process, frames.unwrap_or(Id::MAX));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let told: Vec<Told> = self.pickle.list(frames).iter().map(|frame| self.frame(*frame)).collect();
        let site = if told.is_empty() {
            self.stacks.site(process, &[Told::named(EARLIER, "")])
        } else {
            self.stacks.site(process, &told)
        };
        self.known.insert(key, site);
        site
    }

    fn frame(&self, frame: Id) -> Told {
        let of = |key| self.pickle.get(frame, key);
        let file = self.pickle.text(of("filename"));
        Told {
            function: self.pickle.text(of("name")).to_owned(),
            file: if file == "??" { String::new() } else { file.to_owned() },
            line: u32::try_from(self.pickle.number(of("line"))).unwrap_or(0),
            library: None,
        }
    }
}
