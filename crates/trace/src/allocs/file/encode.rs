//! A recording to frames.

use std::io::Write;

use super::{ALLOCS_VERSION, Error, Header, SORT, Table};
use crate::allocs::{About, Amount, Code, Frame, Module, Node, Recording, Series, Site};
use crate::columns::{Writer, put_bytes, put_json};
use crate::varint::{put, put_signed};

pub(super) fn write(recording: &Recording, out: impl Write) -> Result<(), Error> {
    let mut file = Writer::new(out, SORT, &header(recording))?;
    file.column(Table::Processes as u8, &recording.processes, put_json)?;
    file.column(Table::Modules as u8, &recording.modules, put_module)?;
    file.column(Table::Codes as u8, &recording.codes, put_code)?;
    let mut nodes = Nodes::default();
    file.column(Table::Nodes as u8, &recording.nodes, |raw, node| nodes.put(raw, node))?;
    let mut last = Site::default();
    file.column(Table::Sites as u8, &recording.sites, |raw, site| {
        put_site(raw, site, &last);
        last = *site;
    })?;
    file.column(Table::Series as u8, &recording.series, put_series)?;
    Ok(file.end()?)
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
