//! pprof's `profile.proto`, gzipped: every figure is a sample type of its own, so that `-sample_index` chooses.
//!
//! The fields of a message may come in pieces: sample types first, samples one by one, the tables after them.

use std::io::{self, Write};
use std::sync::Arc;

use flate2::Compression;
use flate2::write::GzEncoder;
use nilometer_analysis::allocs::model::{Frame, FrameKind, Site, What};
use nilometer_analysis::allocs::profile::Profile as Source;
use nilometer_wire::Message as _;
use nilometer_wire::pprof::{Function, Line, Location, Mapping, Profile, Sample, ValueType};

use super::number::Numbers;
use super::{LeftOut, Subject};

/// Sample types: name, unit, and of what it is the default.
const TYPES: [(&str, &str, Option<What>); 9] = [
    ("peak_objects", "count", None),
    ("peak_space", "bytes", Some(What::Peak)),
    ("inuse_objects", "count", None),
    ("inuse_space", "bytes", Some(What::Live)),
    ("alloc_objects", "count", None),
    ("alloc_space", "bytes", Some(What::Cumulative)),
    ("temporary_objects", "count", None),
    ("temporary_space", "bytes", Some(What::Temporary)),
    ("growth_per_step", "bytes", Some(What::Growth)),
];

pub fn write(
    profile: &Source<'_>,
    subject: &Subject<'_>,
    what: What,
    out: &mut dyn Write,
) -> io::Result<LeftOut> {
    let mut out = GzEncoder::new(out, Compression::default());
    let mut book = Book::new();
    // Readers tell the format from its first field.
    let sample_type = book.types();
    put(&Profile { sample_type, ..Profile::default() }, &mut out)?;
    // pprof takes the first mapping for the program.
    book.mapping(&program(subject));
    let mut written = Ok(());
    profile.each(None, |site| {
        if written.is_ok() {
            let sample = book.sample(site);
            written = put(&Profile { sample: vec![sample], ..Profile::default() }, &mut out);
        }
    });
    written?;
    book.head(profile, subject, what);
    book.tables.string_table = std::mem::take(&mut book.strings);
    put(&book.tables, &mut out)?;
    out.finish()?.flush()?;
    Ok(left_out(profile))
}

fn program(subject: &Subject<'_>) -> String {
    let path = subject.run.command.first().map_or("", String::as_str);
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(subject.name).to_owned()
}

fn put(part: &Profile, out: &mut impl Write) -> io::Result<()> {
    out.write_all(&part.encode_to_vec())
}

fn left_out(profile: &Source<'_>) -> LeftOut {
    let several = profile.whole.processes.len() > 1;
    let mut left: LeftOut =
        several.then(|| "which of the processes allocated is not in it".to_owned()).into_iter().collect();
    left.extend(profile.whole.sampling.map(|_| "the intervals of sampled figures are not in it".to_owned()));
    left
}

/// The tables of the profile so far.
struct Book {
    texts: Numbers<String>,
    strings: Vec<String>,
    functions: Numbers<(i64, i64)>,
    mappings: Numbers<String>,
    locations: Numbers<Arc<Frame>>,
    tables: Profile,
}

impl Book {
    fn new() -> Self {
        let mut book = Self {
            texts: Numbers::starting_at(0),
            strings: Vec::new(),
            functions: Numbers::starting_at(1),
            mappings: Numbers::starting_at(1),
            locations: Numbers::starting_at(1),
            tables: Profile::default(),
        };
        // The format wants the empty text first.
        book.text("");
        book
    }

    fn text(&mut self, text: &str) -> i64 {
        let strings = &mut self.strings;
        self.texts.of(text, |_| strings.push(text.to_owned())) as i64
    }

    fn sample(&mut self, site: &Site) -> Sample {
        let it = &site.amounts;
        let growth = it.growth_bytes_per_step.unwrap_or(0.0).round() as i64;
        let values = [
            it.peak_count,
            it.peak_bytes,
            it.live_end_count,
            it.live_end_bytes,
            it.count,
            it.cumulative_bytes,
            it.temporary_count,
            it.temporary_bytes,
        ];
        let value = values.iter().map(|value| i64::try_from(*value).unwrap_or(i64::MAX)).chain([growth]);
        Sample {
            location_id: site.stack.iter().map(|frame| self.location(frame)).collect(),
            value: value.collect(),
            label: Vec::new(),
        }
    }

    fn location(&mut self, frame: &Arc<Frame>) -> u64 {
        let mut told = false;
        let id = self.locations.of(frame, |_| told = true);
        if told {
            // Number 0 is none.
            let library = frame.library.as_deref().filter(|_| frame.kind == FrameKind::Native);
            let location = Location {
                id,
                mapping_id: library.map_or(0, |library| self.mapping(library)),
                address: 0,
                line: vec![Line { function_id: self.function(frame), line: frame.line.unwrap_or(0).into() }],
            };
            self.tables.location.push(location);
        }
        id
    }

    fn function(&mut self, frame: &Frame) -> u64 {
        let name = self.text(&frame.function);
        let file = frame.file.as_deref().filter(|_| frame.kind != FrameKind::Note).unwrap_or("");
        let filename = self.text(file);
        let functions = &mut self.tables.function;
        self.functions.of(&(name, filename), |id| functions.push(Function { id, name, filename }))
    }

    fn mapping(&mut self, library: &str) -> u64 {
        let filename = self.text(library);
        let mappings = &mut self.tables.mapping;
        self.mappings.of(library, |id| {
            mappings.push(Mapping {
                id,
                filename,
                has_functions: true,
                has_filenames: true,
                has_line_numbers: true,
            });
        })
    }

    fn types(&mut self) -> Vec<ValueType> {
        TYPES
            .iter()
            .map(|(name, unit, _)| ValueType { kind: self.text(name), unit: self.text(unit) })
            .collect()
    }

    fn head(&mut self, profile: &Source<'_>, subject: &Subject<'_>, what: What) {
        let default = TYPES.iter().find(|(_, _, of)| *of == Some(what));
        self.tables.default_sample_type = default.map_or(0, |(name, _, _)| self.text(name));
        self.tables.period_type = Some(ValueType { kind: self.text("space"), unit: self.text("bytes") });
        self.tables.period = profile.whole.sampling.map_or(1, |sampling| sampling.mean_bytes as i64);
        self.tables.comment = vec![self.text(&format!("nilo: {}", subject.run.command.join(" ")))];
        let times = &profile.times;
        self.tables.time_nanos = (subject.origin.unix_s(times.started_ns) * 1e9) as i64;
        self.tables.duration_nanos = times.ended_ns.saturating_sub(times.started_ns) as i64;
    }
}
