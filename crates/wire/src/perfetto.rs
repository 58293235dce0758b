//! `trace_packet.proto` of Perfetto and what hangs on it: processes, counters, slices, heap profiles.
//!
//! A trace is a `Trace` message, so packets can be written one after the other, each as its field 1.

use prost::Message;

/// Before each packet and its length: field 1 of `Trace`, a message.
pub const TRACE_PACKET: u8 = 1 << 3 | 2;

/// What earlier packets of the sequence interned is forgotten.
pub const STATE_CLEARED: u32 = 1;
/// The packet uses what earlier ones interned.
pub const NEEDS_STATE: u32 = 2;

/// `ClockSnapshot.Clock.BuiltinClocks`.
pub const CLOCK_REALTIME: u32 = 1;
pub const CLOCK_MONOTONIC: u32 = 3;
/// That of the times in heap profiles.
pub const CLOCK_MONOTONIC_COARSE: u32 = 4;

#[derive(Clone, PartialEq, Message)]
pub struct Packet {
    #[prost(message, optional, tag = "2")]
    pub process_tree: Option<ProcessTree>,
    #[prost(message, optional, tag = "6")]
    pub clock_snapshot: Option<ClockSnapshot>,
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(message, optional, tag = "9")]
    pub process_stats: Option<ProcessStats>,
    #[prost(uint32, tag = "10")]
    pub trusted_packet_sequence_id: u32,
    #[prost(message, optional, tag = "11")]
    pub track_event: Option<TrackEvent>,
    #[prost(message, optional, tag = "12")]
    pub interned_data: Option<InternedData>,
    #[prost(uint32, tag = "13")]
    pub sequence_flags: u32,
    #[prost(message, optional, tag = "37")]
    pub profile_packet: Option<ProfilePacket>,
    #[prost(uint32, optional, tag = "58")]
    pub timestamp_clock_id: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub track_descriptor: Option<TrackDescriptor>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<Clock>,
    #[prost(uint32, tag = "2")]
    pub primary_trace_clock: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Clock {
    #[prost(uint32, tag = "1")]
    pub clock_id: u32,
    #[prost(uint64, tag = "2")]
    pub timestamp: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProcessTree {
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<TreeProcess>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TreeProcess {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(int32, tag = "2")]
    pub ppid: i32,
    #[prost(string, repeated, tag = "3")]
    pub cmdline: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProcessStats {
    #[prost(message, repeated, tag = "1")]
    pub processes: Vec<StatsProcess>,
}

/// The kernel's words: `status` and (`smr_`) `smaps_rollup`.
#[derive(Clone, PartialEq, Message)]
pub struct StatsProcess {
    #[prost(int32, tag = "1")]
    pub pid: i32,
    #[prost(uint64, optional, tag = "3")]
    pub vm_rss_kb: Option<u64>,
    #[prost(uint64, optional, tag = "4")]
    pub rss_anon_kb: Option<u64>,
    #[prost(uint64, optional, tag = "5")]
    pub rss_file_kb: Option<u64>,
    #[prost(uint64, optional, tag = "6")]
    pub rss_shmem_kb: Option<u64>,
    #[prost(uint64, optional, tag = "7")]
    pub vm_swap_kb: Option<u64>,
    #[prost(uint64, optional, tag = "9")]
    pub vm_hwm_kb: Option<u64>,
    #[prost(uint64, optional, tag = "16")]
    pub smr_rss_kb: Option<u64>,
    #[prost(uint64, optional, tag = "17")]
    pub smr_pss_kb: Option<u64>,
    #[prost(uint64, optional, tag = "18")]
    pub smr_pss_anon_kb: Option<u64>,
    #[prost(uint64, optional, tag = "19")]
    pub smr_pss_file_kb: Option<u64>,
    #[prost(uint64, optional, tag = "20")]
    pub smr_pss_shmem_kb: Option<u64>,
    #[prost(uint64, optional, tag = "23")]
    pub smr_swap_pss_kb: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub uuid: u64,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "8")]
    pub counter: Option<CounterDescriptor>,
}

pub const UNIT_SIZE_BYTES: i32 = 3;

#[derive(Clone, PartialEq, Message)]
pub struct CounterDescriptor {
    #[prost(int32, tag = "3")]
    pub unit: i32,
}

pub const SLICE_BEGIN: i32 = 1;
pub const SLICE_END: i32 = 2;
pub const INSTANT: i32 = 3;
pub const COUNTER: i32 = 4;

#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    #[prost(int32, tag = "9")]
    pub kind: i32,
    #[prost(uint64, tag = "11")]
    pub track_uuid: u64,
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
    #[prost(int64, optional, tag = "30")]
    pub counter_value: Option<i64>,
}

/// Numbers (`iid`) begin with 1 and hold for the rest of the sequence.
#[derive(Clone, PartialEq, Message)]
pub struct InternedData {
    #[prost(message, repeated, tag = "5")]
    pub function_names: Vec<InternedString>,
    #[prost(message, repeated, tag = "6")]
    pub frames: Vec<Frame>,
    #[prost(message, repeated, tag = "7")]
    pub callstacks: Vec<Callstack>,
    #[prost(message, repeated, tag = "17")]
    pub mapping_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "18")]
    pub source_paths: Vec<InternedString>,
    #[prost(message, repeated, tag = "19")]
    pub mappings: Vec<Mapping>,
}

#[derive(Clone, PartialEq, Message)]
pub struct InternedString {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(bytes = "vec", tag = "2")]
    pub text: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Frame {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(uint64, tag = "2")]
    pub function_name_id: u64,
    #[prost(uint64, tag = "3")]
    pub mapping_id: u64,
    #[prost(uint64, tag = "4")]
    pub rel_pc: u64,
    #[prost(uint64, optional, tag = "5")]
    pub source_path_iid: Option<u64>,
    #[prost(uint32, optional, tag = "6")]
    pub line_number: Option<u32>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Mapping {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    #[prost(uint64, repeated, packed = "false", tag = "7")]
    pub path_string_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Callstack {
    #[prost(uint64, tag = "1")]
    pub iid: u64,
    /// Outermost first.
    #[prost(uint64, repeated, packed = "false", tag = "2")]
    pub frame_ids: Vec<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub struct ProfilePacket {
    #[prost(message, repeated, tag = "5")]
    pub process_dumps: Vec<ProcessDump>,
    /// More packets belong to the same dump.
    #[prost(bool, tag = "6")]
    pub continued: bool,
    #[prost(uint64, tag = "7")]
    pub index: u64,
}

/// `ProfilePacket.ProcessHeapSamples`.
#[derive(Clone, PartialEq, Message)]
pub struct ProcessDump {
    #[prost(uint64, tag = "1")]
    pub pid: u64,
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<HeapSample>,
    #[prost(bool, tag = "3")]
    pub from_startup: bool,
    #[prost(uint64, tag = "9")]
    pub timestamp: u64,
    #[prost(string, tag = "11")]
    pub heap_name: String,
    #[prost(uint64, tag = "12")]
    pub sampling_interval_bytes: u64,
    /// Without it numbers of blocks at the peak are not believed.
    #[prost(uint64, tag = "13")]
    pub orig_sampling_interval_bytes: u64,
}

/// Either `self_max`, or what was allocated and freed.
#[derive(Clone, PartialEq, Message)]
pub struct HeapSample {
    #[prost(uint64, tag = "1")]
    pub callstack_id: u64,
    #[prost(uint64, tag = "2")]
    pub self_allocated: u64,
    #[prost(uint64, tag = "3")]
    pub self_freed: u64,
    #[prost(uint64, tag = "4")]
    pub timestamp: u64,
    #[prost(uint64, tag = "5")]
    pub alloc_count: u64,
    #[prost(uint64, tag = "6")]
    pub free_count: u64,
    #[prost(uint64, tag = "8")]
    pub self_max: u64,
    #[prost(uint64, tag = "9")]
    pub self_max_count: u64,
}
