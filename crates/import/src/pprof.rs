//! Device memory profiles of JAX (`jax.profiler.save_device_memory_profile`): pprof, usually gzipped.
//!
//! A profile is one moment: what was live then, by the stack that allocated it. Each device is a process here.

use std::collections::HashMap;
use std::io::Read as _;

use flate2::read::GzDecoder;
use nilometer_wire::Message as _;
use nilometer_wire::pprof::{Function, Location, Mapping, Profile, Sample};

use crate::error::Error;
use crate::sites::Sites;
use crate::stacks::{Stacks, Told, add};
use crate::time::FIRST_NS;

/// Unpacked profiles are some megabytes.
const MOST_BYTES: u64 = 512 << 20;
const SHAPE: &str = "write one with jax.profiler.save_device_memory_profile(\"memory.prof\")";
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Could a file that begins so be one?
pub(crate) fn is_profile(head: &[u8]) -> bool {
    if head.starts_with(&GZIP) {
        let mut start = Vec::new();
        // The head is cut, so the end is an error; what was unpacked until then is enough.
        let _ = GzDecoder::new(head).take(64).read_to_end(&mut start);
        return is_message(&start);
    }
    is_message(head)
}

/// The first field is a sample type: two small numbers.
fn is_message(start: &[u8]) -> bool {
    matches!(start, [0x0a, length, 0x08, ..] if *length <= 22)
}

pub(crate) fn parse(bytes: &[u8]) -> Result<Sites, Error> {
    let unpacked = unpack(bytes)?;
    let profile = Profile::decode(unpacked.as_slice())
        .map_err(|error| Error::Unknown { what: format!("no pprof profile: {error}"), hint: SHAPE })?;
    let book = Book::new(&profile);
    let position = |unit: &str| profile.sample_type.iter().position(|kind| book.text(kind.unit) == unit);
    let Some(bytes_at) = position("bytes") else {
        let what = "no sample type in bytes: this profile is not of memory".to_owned();
        return Err(Error::Unknown { what, hint: SHAPE });
    };
    let count_at = position("count");
    let (mut stacks, mut devices) = (Stacks::default(), HashMap::new());
    for sample in &profile.sample {
        let value = |at: Option<usize>| {
            at.and_then(|at| sample.value.get(at)).map_or(0, |value| (*value).max(0) as u64)
        };
        let amount = nilometer_trace::allocs::Amount {
            bytes: value(Some(bytes_at)),
            count: value(count_at),
            variance: 0,
        };
        let device = book.label(sample, "device").unwrap_or("device").to_owned();
        let process = *devices.entry(device).or_insert_with_key(|name| stacks.process(name));
        let site = stacks.site(process, &book.stack(sample));
        if let Some(site) = stacks.site_mut(site) {
            for sum in [&mut site.live, &mut site.peak, &mut site.total] {
                add(sum, &amount);
            }
            site.highest_bytes = site.live.bytes;
        }
    }
    let notes = vec!["one moment: live, peak and cumulative are the same".to_owned()];
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

    /// Innermost first; the first frame says what it is: a buffer where nothing is told, or a compiled program.
    fn stack(&self, sample: &Sample) -> Vec<Told> {
        let kind = self.label(sample, "kind").filter(|kind| !kind.is_empty()).unwrap_or("buffer");
        let mut frames = vec![Told::named(&format!("({kind})"), "")];
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
        assert!(is_profile(&bytes));
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
        assert!(!is_profile(b"\x1f\x8b\x08"));
    }
}
