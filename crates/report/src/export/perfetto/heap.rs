//! Allocations as two heap profiles of each process: what was live at the peak, and all that was handed out and given back.

use std::sync::Arc;

use nilometer_analysis::allocs::model::{Frame, FrameKind, Site};
use nilometer_analysis::allocs::profile::{Part, Profile};
use nilometer_wire::perfetto::{
    Callstack, Frame as PerfettoFrame, HeapSample, InternedData, InternedString, Mapping, NEEDS_STATE,
    Packet, ProcessDump, ProfilePacket, STATE_CLEARED,
};

use super::super::number::Numbers;
use super::{LeftOut, Packets, at};

/// The sequence of the first profile: each has its own, as if they came from two programs.
const FIRST_SEQUENCE: u32 = 2;
/// Stacks in one packet.
const SAMPLES: usize = 512;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    Peak,
    All,
}

pub(super) fn write(profile: &Profile<'_>, packets: &mut Packets<'_>) {
    let (peak, ended) = (profile.times.peak_ns, profile.times.ended_ns);
    for (figure, at_ns) in [(Figure::Peak, peak), (Figure::All, ended)] {
        let mut book = Book::new(packets, FIRST_SEQUENCE + figure as u32);
        for part in profile.parts() {
            book.dump(profile, &part, figure, at_ns);
        }
        book.end(at_ns);
    }
}

pub(super) fn left_out(profile: &Profile<'_>) -> LeftOut {
    let sampled = profile.whole.sampling.is_some();
    sampled.then(|| "the intervals of sampled figures are not in it".to_owned()).into_iter().collect()
}

struct Book<'p, 'o> {
    packets: &'p mut Packets<'o>,
    sequence: u32,
    index: u64,
    functions: Numbers<String>,
    libraries: Numbers<String>,
    sources: Numbers<String>,
    frames: Numbers<Arc<Frame>>,
    stacks: Numbers<Vec<u64>>,
    fresh: InternedData,
}

impl<'p, 'o> Book<'p, 'o> {
    fn new(packets: &'p mut Packets<'o>, sequence: u32) -> Self {
        Self {
            packets,
            sequence,
            index: 0,
            functions: Numbers::starting_at(1),
            libraries: Numbers::starting_at(1),
            sources: Numbers::starting_at(1),
            frames: Numbers::starting_at(1),
            stacks: Numbers::starting_at(1),
            fresh: InternedData::default(),
        }
    }

    fn dump(&mut self, profile: &Profile<'_>, part: &Part, figure: Figure, at_ns: u64) {
        let mean_bytes = profile.whole.sampling.map_or(1, |sampling| sampling.mean_bytes);
        let mut dump = ProcessDump {
            pid: part.pid as u64,
            from_startup: true,
            timestamp: at_ns,
            heap_name: if figure == Figure::Peak { "live at the peak" } else { "allocations" }.to_owned(),
            sampling_interval_bytes: mean_bytes,
            orig_sampling_interval_bytes: mean_bytes,
            samples: Vec::new(),
        };
        profile.each(Some(part.number), |site| {
            if figure == Figure::Peak && site.amounts.peak_bytes == 0 {
                return;
            }
            let callstack_id = self.stack(site);
            dump.samples.push(sample(site, figure, callstack_id, at_ns));
            if dump.samples.len() >= SAMPLES {
                self.put(at_ns, Some(&dump), true);
                dump.samples.clear();
            }
        });
        if !dump.samples.is_empty() {
            self.put(at_ns, Some(&dump), true);
        }
    }

    fn end(&mut self, at_ns: u64) {
        self.put(at_ns, None, false);
    }

    fn put(&mut self, at_ns: u64, dump: Option<&ProcessDump>, continued: bool) {
        let process_dumps = dump.cloned().into_iter().collect();
        let first = self.index == 0;
        self.packets.put(&Packet {
            trusted_packet_sequence_id: self.sequence,
            sequence_flags: if first { STATE_CLEARED | NEEDS_STATE } else { NEEDS_STATE },
            interned_data: Some(std::mem::take(&mut self.fresh)),
            profile_packet: Some(ProfilePacket { process_dumps, continued, index: self.index }),
            ..at(at_ns)
        });
        self.index += 1;
    }

    /// Outermost frame first.
    fn stack(&mut self, site: &Site) -> u64 {
        let frames: Vec<u64> = site.stack.iter().rev().map(|frame| self.frame(frame)).collect();
        let fresh = &mut self.fresh.callstacks;
        self.stacks.of(&frames, |iid| fresh.push(Callstack { iid, frame_ids: frames.clone() }))
    }

    fn frame(&mut self, frame: &Arc<Frame>) -> u64 {
        let mut told = false;
        let iid = self.frames.of(frame, |_| told = true);
        if told {
            let file = frame.file.as_deref().filter(|_| frame.kind != FrameKind::Note);
            let function_name_id =
                intern(&mut self.functions, &mut self.fresh.function_names, &frame.function);
            let mapping_id = self.mapping(frame);
            let source_path_iid =
                file.map(|file| intern(&mut self.sources, &mut self.fresh.source_paths, file));
            self.fresh.frames.push(PerfettoFrame {
                iid,
                function_name_id,
                mapping_id,
                // Tells lines of one function apart.
                rel_pc: frame.line.unwrap_or(0).into(),
                source_path_iid,
                line_number: frame.line,
            });
        }
        iid
    }

    /// Every frame needs one.
    fn mapping(&mut self, frame: &Frame) -> u64 {
        let path = frame.library.as_deref().filter(|name| !name.is_empty()).unwrap_or("[unknown]");
        let (paths, mappings) = (&mut self.fresh.mapping_paths, &mut self.fresh.mappings);
        self.libraries.of(path, |iid| {
            paths.push(InternedString { iid, text: path.as_bytes().to_vec() });
            mappings.push(Mapping { iid, path_string_ids: vec![iid] });
        })
    }
}

fn intern(numbers: &mut Numbers<String>, fresh: &mut Vec<InternedString>, text: &str) -> u64 {
    numbers.of(text, |iid| fresh.push(InternedString { iid, text: text.as_bytes().to_vec() }))
}

fn sample(site: &Site, figure: Figure, callstack_id: u64, timestamp: u64) -> HeapSample {
    let it = &site.amounts;
    let empty = HeapSample { callstack_id, timestamp, ..HeapSample::default() };
    match figure {
        Figure::Peak => HeapSample { self_max: it.peak_bytes, self_max_count: it.peak_count, ..empty },
        Figure::All => HeapSample {
            self_allocated: it.cumulative_bytes,
            self_freed: it.cumulative_bytes.saturating_sub(it.live_end_bytes),
            alloc_count: it.count,
            free_count: it.count.saturating_sub(it.live_end_count),
            ..empty
        },
    }
}
