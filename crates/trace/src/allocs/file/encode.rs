//! A recording to frames.

use std::io::Write;

use serde::Serialize;
use zstd::bulk::Compressor;

use super::{ALLOCS_VERSION, CHUNK, CHUNK_BYTES, END, Error, HEADER, Header, Table};
use crate::allocs::{About, Amount, Code, Frame, Module, Node, Recording, Series, Site};
use crate::frame;
use crate::varint::{put, put_signed};

/// Fast enough for the end of a run; higher ones gain little on numbers.
const LEVEL: i32 = 3;

pub(super) fn write(recording: &Recording, out: impl Write) -> Result<(), Error> {
    let mut file = File {
        out,
        frame: Vec::new(),
        packed: Vec::new(),
        compressor: Compressor::new(LEVEL)?,
        raw: Vec::with_capacity(CHUNK_BYTES + 64),
        rows: 0,
    };
    file.json(HEADER, &header(recording))?;
    file.table(Table::Processes, &recording.processes, put_json)?;
    file.table(Table::Modules, &recording.modules, put_module)?;
    file.table(Table::Codes, &recording.codes, put_code)?;
    let mut nodes = Nodes::default();
    file.table(Table::Nodes, &recording.nodes, |raw, node| nodes.put(raw, node))?;
    let mut last = Site::default();
    file.table(Table::Sites, &recording.sites, |raw, site| {
        put_site(raw, site, &last);
        last = *site;
    })?;
    file.table(Table::Series, &recording.series, put_series)?;
    file.json(END, &serde_json::json!({}))
}

fn header(recording: &Recording) -> Header {
    let mut rows = [0; Table::ALL.len()];
    for (count, table) in rows.iter_mut().zip(Table::ALL) {
        *count = match table {
            Table::Processes => recording.processes.len(),
            Table::Modules => recording.modules.len(),
            Table::Codes => recording.codes.len(),
            Table::Nodes => recording.nodes.len(),
            Table::Sites => recording.sites.len(),
            Table::Series => recording.series.len(),
        } as u64;
    }
    let about = About {
        allocs_version: ALLOCS_VERSION,
        nilo_version: env!("CARGO_PKG_VERSION").to_owned(),
        ..recording.about.clone()
    };
    Header { allocs_version: ALLOCS_VERSION, about, rows }
}

fn put_json(raw: &mut Vec<u8>, it: &impl Serialize) {
    // Strings and numbers always have a form in JSON.
    put_bytes(raw, &serde_json::to_vec(it).unwrap_or_default());
}

/// What is longer than a chunk is cut: nobody reads such a name.
fn put_bytes(raw: &mut Vec<u8>, bytes: &[u8]) {
    let bytes = &bytes[..bytes.len().min(CHUNK_BYTES)];
    put(raw, bytes.len() as u64);
    raw.extend_from_slice(bytes);
}

fn put_module(raw: &mut Vec<u8>, module: &Module) {
    put_bytes(raw, module.path.as_bytes());
    put_bytes(raw, &module.build_id);
    put(raw, module.eval.len() as u64);
    for (start, end) in &module.eval {
        put(raw, *start);
        put(raw, end.wrapping_sub(*start));
    }
}

fn put_code(raw: &mut Vec<u8>, code: &Code) {
    put_bytes(raw, code.file.as_bytes());
    put_bytes(raw, code.name.as_bytes());
    put(raw, code.first_line.into());
}

/// What differences of nodes are to.
#[derive(Default)]
struct Nodes {
    number: i64,
    address: u64,
    line: i64,
}

impl Nodes {
    /// Tag: 0 native without a file, 1 Python, 2 Python and entry, 3 and more a file.
    fn put(&mut self, raw: &mut Vec<u8>, node: &Node) {
        match node.frame {
            Frame::Native { module, address } => {
                put(raw, module.map_or(0, |module| u64::from(module) + 3));
                put_signed(raw, address.wrapping_sub(self.address) as i64);
                self.address = address;
            }
            Frame::Python { code, line, entry } => {
                put(raw, 1 + u64::from(entry));
                put(raw, code.into());
                put_signed(raw, i64::from(line) - self.line);
                self.line = line.into();
            }
        }
        // Most often the caller stands just before.
        put_signed(raw, self.number - i64::from(node.parent));
        self.number += 1;
    }
}

fn put_site(raw: &mut Vec<u8>, site: &Site, last: &Site) {
    put_signed(raw, i64::from(site.process) - i64::from(last.process));
    put_signed(raw, i64::from(site.python) - i64::from(last.python));
    put_signed(raw, i64::from(site.native) - i64::from(last.native));
    raw.push(site.source as u8);
    for amount in [&site.total, &site.live, &site.peak] {
        put_amount(raw, amount);
    }
    for number in [
        site.own_peak_bytes,
        site.highest_bytes,
        site.temporary_bytes,
        site.temporary_count,
        site.freed_in_step_bytes,
        site.lifetime_ns,
    ] {
        put(raw, number);
    }
}

fn put_amount(raw: &mut Vec<u8>, amount: &Amount) {
    put(raw, amount.bytes);
    put(raw, amount.count);
    put(raw, amount.variance);
}

fn put_series(raw: &mut Vec<u8>, series: &Series) {
    put(raw, series.site.into());
    put(raw, series.bytes.len() as u64);
    let mut before = 0_u64;
    for bytes in &series.bytes {
        put_signed(raw, bytes.wrapping_sub(before) as i64);
        before = *bytes;
    }
}

struct File<W> {
    out: W,
    frame: Vec<u8>,
    packed: Vec<u8>,
    compressor: Compressor<'static>,
    /// The chunk in the making, and its rows.
    raw: Vec<u8>,
    rows: u64,
}

impl<W: Write> File<W> {
    fn json(&mut self, kind: u8, it: &impl Serialize) -> Result<(), Error> {
        frame::encode_numbered(&mut self.frame, kind, |out| Ok(serde_json::to_writer(out, it)?))?;
        Ok(self.out.write_all(&self.frame)?)
    }

    fn table<T>(
        &mut self,
        table: Table,
        rows: &[T],
        mut put: impl FnMut(&mut Vec<u8>, &T),
    ) -> Result<(), Error> {
        for row in rows {
            put(&mut self.raw, row);
            self.rows += 1;
            if self.raw.len() >= CHUNK_BYTES {
                self.chunk(table)?;
            }
        }
        if self.rows > 0 { self.chunk(table) } else { Ok(()) }
    }

    fn chunk(&mut self, table: Table) -> Result<(), Error> {
        self.packed.clear();
        self.packed.reserve(zstd::zstd_safe::compress_bound(self.raw.len()));
        self.compressor.compress_to_buffer(&self.raw, &mut self.packed)?;
        let (rows, length, packed) = (self.rows, self.raw.len() as u64, &self.packed);
        frame::encode_numbered(&mut self.frame, CHUNK, |out| {
            out.push(table as u8);
            put(out, rows);
            put(out, length);
            out.extend_from_slice(packed);
            Ok(())
        })?;
        self.raw.clear();
        self.rows = 0;
        Ok(self.out.write_all(&self.frame)?)
    }
}
