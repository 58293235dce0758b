//! Memory profiles of pprof, usually gzipped: of JAX's devices (`jax.profiler.save_device_memory_profile`), of
//! `nilo export --format pprof`, and of others that name their sample types as Go does.
//!
//! JAX's is one moment: what was live then, by the stack that allocated it; each device is a process here. In the others
//! the name of a sample type says what it is of: `peak_`, `inuse_`, `alloc_` or `temporary_`, `space` or `objects`.

use std::collections::HashMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use nilometer_trace::allocs::{Amount, Site};
use nilometer_wire::Message as _;
use nilometer_wire::pprof::{Function, Location, Mapping, Profile, Sample};

use crate::detect::Format;
use crate::error::Error;
use crate::sites::Sites;
use crate::stacks::{Stacks, Told, add};
use crate::time::FIRST_NS;

/// Unpacked profiles are some megabytes.
const MOST_BYTES: u64 = 512 << 20;
const SHAPE: &str = "write one with jax.profiler.save_device_memory_profile(\"memory.prof\")";
/// Allocations and space; who has more says more than one moment.
const TYPES_OF_JAX: usize = 2;
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Could a file that begins so be one, and is it JAX's? Sample types come first, their names last.
pub(crate) fn profile_of(head: &[u8]) -> Option<Format> {
    let mut start = Vec::new();
    if head.starts_with(&GZIP) {
        // The head is cut, so the end is an error; what was unpacked until then is enough.
        let _ = GzDecoder::new(head).take(64).read_to_end(&mut start);
    } else {
        start.extend_from_slice(&head[..head.len().min(64)]);
    }
    match sample_types(&start) {
        0 => None,
        1..=TYPES_OF_JAX => Some(Format::Jax),
        _ => Some(Format::Pprof),
    }
}

/// How many there are at the start of a message: fields of two small numbers each.
fn sample_types(mut start: &[u8]) -> usize {
    let mut count = 0;
    while let [0x0a, length @ 0..=22, 0x08, ..] = start {
        count += 1;
        start = start.get(2 + usize::from(*length)..).unwrap_or_default();
    }
    count
}

/// Where in a sample bytes and blocks of one figure stand.
#[derive(Debug, Clone, Copy)]
struct Columns {
    bytes: usize,
    count: Option<usize>,
}

impl Columns {
    fn named(book: &Book<'_>, figure: &str) -> Option<Self> {
        let at = |of: &str| {
            let name = format!("{figure}_{of}");
            book.profile.sample_type.iter().position(|kind| book.text(kind.kind) == name)
        };
        Some(Self { bytes: at("space")?, count: at("objects") })
    }

    /// Without names that are known: the first of the unit.
    fn by_unit(book: &Book<'_>) -> Option<Self> {
        let at = |unit| book.profile.sample_type.iter().position(|kind| book.text(kind.unit) == unit);
        Some(Self { bytes: at("bytes")?, count: at("count") })
    }

    fn of(self, sample: &Sample) -> Amount {
        let value = |at: usize| sample.value.get(at).map_or(0, |value| (*value).max(0) as u64);
        Amount { bytes: value(self.bytes), count: self.count.map_or(0, value), variance: 0 }
    }
}

/// What the profile tells of each stack; all the same where it is of one moment.
struct Figures {
    live: Columns,
    peak: Columns,
    total: Columns,
    temporary: Option<Columns>,
    /// Its sample types have no names that are known: a moment of JAX.
    is_moment: bool,
}

impl Figures {
    fn of(book: &Book<'_>) -> Option<Self> {
        let [live, peak, total, temporary] =
            ["inuse", "peak", "alloc", "temporary"].map(|figure| Columns::named(book, figure));
        let is_moment = live.is_none() && peak.is_none() && total.is_none();
        let any = live.or(peak).or(total).or_else(|| Columns::by_unit(book))?;
        Some(Self {
            live: live.unwrap_or(any),
            peak: peak.unwrap_or(any),
            total: total.unwrap_or(any),
            temporary,
            is_moment,
        })
    }

    fn add(&self, site: &mut Site, sample: &Sample) {
        add(&mut site.live, &self.live.of(sample));
        add(&mut site.peak, &self.peak.of(sample));
        add(&mut site.total, &self.total.of(sample));
        if let Some(temporary) = self.temporary.map(|columns| columns.of(sample)) {
            site.temporary_bytes = site.temporary_bytes.saturating_add(temporary.bytes);
            site.temporary_count = site.temporary_count.saturating_add(temporary.count);
        }
        site.own_peak_bytes = site.peak.bytes;
        site.highest_bytes = site.live.bytes.max(site.peak.bytes);
    }

    fn note(&self) -> &'static str {
        if self.is_moment {
            "one moment: live, peak and cumulative are the same"
        } else {
            "sums of each stack: steps, processes and times are not in a profile of pprof"
        }
    }
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Sites, Error> {
    let unpacked = unpack(bytes)?;
    let profile = Profile::decode(unpacked.as_slice())
        .map_err(|error| Error::Unknown { what: format!("no pprof profile: {error}"), hint: SHAPE })?;
    let book = Book::new(&profile);
    let Some(figures) = Figures::of(&book) else {
        let what = "no sample type in bytes: this profile is not of memory".to_owned();
        return Err(Error::Unknown { what, hint: SHAPE });
    };
    let (mut stacks, mut processes) = (Stacks::default(), HashMap::new());
    let program = if figures.is_moment { "device" } else { book.program() };
    for sample in &profile.sample {
        let process = book.label(sample, "device").unwrap_or(program);
        let process = *processes.entry(process).or_insert_with_key(|name| stacks.process(name));
        let site = stacks.site(process, &book.stack(sample, figures.is_moment));
        if let Some(site) = stacks.site_mut(site) {
            figures.add(site, sample);
        }
    }
    let notes = vec![figures.note().to_owned()];
    let (mut recording, symbols) = stacks.finish();
    (recording.about.started_ns, recording.about.ended_ns) = (FIRST_NS, FIRST_NS);
    let realtime_ns = u64::try_from(profile.time_nanos).unwrap_or(0);
    Ok(Sites { recording, symbols, realtime_ns, last_ns: FIRST_NS, notes })
}

fn unpack(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    if !bytes.starts_with(&GZIP) {
        return Ok(bytes.to_vec());
    }
    let mut unpacked = Vec::new();
    let read = GzDecoder::new(bytes).take(MOST_BYTES + 1).read_to_end(&mut unpacked);
    match read {
        Ok(_) if unpacked.len() as u64 <= MOST_BYTES => Ok(unpacked),
        Ok(_) => {
            Err(Error::Unknown { what: format!("it unpacks to more than {MOST_BYTES} bytes"), hint: SHAPE })
        }
        Err(error) => Err(Error::Unknown { what: format!("it cannot be unpacked: {error}"), hint: SHAPE }),
    }
}

/// The profile's tables by number.
struct Book<'p> {
    profile: &'p Profile,
    locations: HashMap<u64, &'p Location>,
    functions: HashMap<u64, &'p Function>,
    mappings: HashMap<u64, &'p Mapping>,
}

impl<'p> Book<'p> {
    fn new(profile: &'p Profile) -> Self {
        Self {
            profile,
            locations: profile.location.iter().map(|it| (it.id, it)).collect(),
            functions: profile.function.iter().map(|it| (it.id, it)).collect(),
            mappings: profile.mapping.iter().map(|it| (it.id, it)).collect(),
        }
    }

    fn text(&self, at: i64) -> &'p str {
        usize::try_from(at).ok().and_then(|at| self.profile.string_table.get(at)).map_or("", String::as_str)
    }

    fn label(&self, sample: &Sample, key: &str) -> Option<&'p str> {
        sample.label.iter().find(|label| self.text(label.key) == key).map(|label| self.text(label.text))
    }

    /// What ran, as we export it or as the first mapping tells.
    fn program(&self) -> &'p str {
        let command = self.profile.comment.iter().find_map(|at| self.text(*at).strip_prefix("nilo: "));
        let mapped = self.profile.mapping.first().map(|mapping| self.text(mapping.filename));
        command.or(mapped).filter(|name| !name.is_empty()).unwrap_or("program")
    }

    /// Innermost first. On a device the first frame says what it is: a buffer where nothing is told, or a compiled program.
    fn stack(&self, sample: &Sample, on_device: bool) -> Vec<Told> {
        let kind = self.label(sample, "kind").filter(|kind| !kind.is_empty()).unwrap_or("buffer");
        let mut frames: Vec<Told> =
            on_device.then(|| Told::named(&format!("({kind})"), "")).into_iter().collect();
        for location in sample.location_id.iter().filter_map(|id| self.locations.get(id)) {
            let library = self.mappings.get(&location.mapping_id).map(|mapping| self.text(mapping.filename));
            let library = library.filter(|name| !name.is_empty()).map(str::to_owned);
            if location.line.is_empty() {
                frames.push(Told {
                    library: library.clone(),
                    ..Told::named(&format!("{:#x}", location.address), "")
                });
            }
            for line in &location.line {
                let function = self.functions.get(&line.function_id);
                frames.push(Told {
                    function: function.map_or("", |function| self.text(function.name)).to_owned(),
                    file: function.map_or("", |function| self.text(function.filename)).to_owned(),
                    line: u32::try_from(line.line).unwrap_or(0),
                    library: library.clone(),
                });
            }
        }
        frames
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nilometer_wire::pprof::{Label, Line, ValueType};

    fn profile() -> Profile {
        let texts = [
            "",
            "allocations",
            "count",
            "space",
            "bytes",
            "device",
            "cpu:0",
            "kind",
            "executable",
            "train",
            "/x/train.py",
        ];
        Profile {
            sample_type: vec![ValueType { kind: 1, unit: 2 }, ValueType { kind: 3, unit: 4 }],
            sample: vec![
                Sample { location_id: vec![1], value: vec![2, 4096], label: vec![Label { key: 5, text: 6 }] },
                Sample { location_id: vec![1], value: vec![1, 100], label: vec![Label { key: 7, text: 8 }] },
            ],
            location: vec![Location {
                id: 1,
                line: vec![Line { function_id: 9, line: 12 }],
                ..Location::default()
            }],
            function: vec![Function { id: 9, name: 9, filename: 10 }],
            string_table: texts.map(str::to_owned).to_vec(),
            ..Profile::default()
        }
    }

    #[test]
    fn samples_become_sites_of_their_device() {
        let bytes = profile().encode_to_vec();
        assert_eq!(profile_of(&bytes), Some(Format::Jax));
        let sites = parse(&bytes).unwrap().recording;
        sites.check().unwrap();
        assert_eq!(sites.processes[0].name, "cpu:0");
        assert_eq!((sites.sites[0].live.bytes, sites.sites[0].live.count), (4096, 2));
        assert_eq!((sites.about.live.bytes, sites.about.peak.count), (4196, 3));
        assert_eq!(sites.codes[0].name, "train");
    }

    #[test]
    fn a_profile_of_something_else_is_refused() {
        let mut it = profile();
        it.sample_type.truncate(1);
        assert!(parse(&it.encode_to_vec()).unwrap_err().to_string().contains("not of memory"));
        assert!(parse(b"\x0a\xff\xff\xff").is_err());
        assert_eq!(profile_of(b"\x1f\x8b\x08"), None);
    }

    /// As `nilo export --format pprof` writes it.
    fn exported() -> Profile {
        let kinds = ["peak", "inuse", "alloc", "temporary"];
        let mut texts: Vec<String> = ["", "count", "bytes"].map(str::to_owned).to_vec();
        let mut sample_type = Vec::new();
        for kind in kinds {
            for (of, unit) in [("objects", 1), ("space", 2)] {
                sample_type.push(ValueType { kind: texts.len() as i64, unit });
                texts.push(format!("{kind}_{of}"));
            }
        }
        let names = texts.len() as i64;
        texts.extend(["keep", "/x/train.py", "nilo: python3 train.py"].map(str::to_owned));
        Profile {
            sample_type,
            sample: vec![Sample {
                location_id: vec![1],
                value: vec![3, 3_000, 1, 1_000, 40, 40_000, 30, 30_000],
                label: Vec::new(),
            }],
            location: vec![Location {
                id: 1,
                line: vec![Line { function_id: 9, line: 12 }],
                ..Location::default()
            }],
            function: vec![Function { id: 9, name: names, filename: names + 1 }],
            comment: vec![names + 2],
            string_table: texts,
            ..Profile::default()
        }
    }

    #[test]
    fn what_we_exported_comes_back_figure_by_figure() {
        let bytes = exported().encode_to_vec();
        assert_eq!(profile_of(&bytes), Some(Format::Pprof));
        let sites = parse(&bytes).unwrap().recording;
        sites.check().unwrap();
        let site = &sites.sites[0];
        assert_eq!((site.peak.bytes, site.peak.count), (3_000, 3));
        assert_eq!((site.live.bytes, site.live.count), (1_000, 1));
        assert_eq!((site.total.bytes, site.total.count), (40_000, 40));
        assert_eq!((site.temporary_bytes, site.temporary_count), (30_000, 30));
        let about = &sites.about;
        assert_eq!((about.peak.bytes, about.live.bytes, about.total.bytes), (3_000, 1_000, 40_000));
        assert_eq!(sites.processes[0].name, "python3 train.py");
        assert_eq!((sites.codes[0].name.as_str(), sites.modules.len()), ("keep", 0), "no frame is made up");
    }

    #[test]
    fn a_heap_profile_of_go_has_no_peak_of_its_own() {
        let mut it = exported();
        it.sample_type.drain(..2);
        it.sample[0].value.drain(..2);
        let sites = parse(&it.encode_to_vec()).unwrap().recording;
        assert_eq!(
            (sites.about.peak.bytes, sites.about.live.bytes, sites.about.total.bytes),
            (1_000, 1_000, 40_000)
        );
    }
}
