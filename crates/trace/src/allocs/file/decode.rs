//! Frames to a recording. Every number is doubted; what does not fit is an error with its place in the file.

use std::io::Read;

use super::{ALLOCS_VERSION, Error, Header, SORT, Table};
use crate::allocs::{About, Amount, Code, Frame, Module, Node, Recording, Series, Site, Source};
use crate::columns::{Reader, bytes, each, json, short, text};
use crate::varint::Cursor;

pub(super) fn read_about(from: impl Read) -> Result<About, Error> {
    Ok(header(&mut Reader::new(from, SORT)?)?.about)
}

pub(super) fn read(from: impl Read) -> Result<Recording, Error> {
    let mut file = Reader::new(from, SORT)?;
    let header = header(&mut file)?;
    let mut recording = Recording { about: header.about, ..Recording::default() };
    let mut state = State::default();
    for (table, rows) in Table::ALL.into_iter().zip(header.rows) {
        let cost = (table.row_bytes(), table.spread());
        file.column(table as u8, rows, cost, |rows, from| state.rows(table, rows, &mut recording, from))?;
    }
    file.end()?;
    recording.check()?;
    Ok(recording)
}

fn header<R: Read>(file: &mut Reader<R>) -> Result<Header, Error> {
    let json = file.header()?;
    let version = serde_json::from_slice::<Version>(json).map_or(0, |v| v.allocs_version);
    if version > ALLOCS_VERSION {
        return Err(Error::Newer { found: version, supported: ALLOCS_VERSION });
    }
    let header = serde_json::from_slice(json).ok();
    header.ok_or_else(|| file.damaged("the header makes no sense").into())
}

#[derive(serde::Deserialize)]
struct Version {
    allocs_version: u32,
}

/// What differences are to.
#[derive(Default)]
struct State {
    number: i64,
    address: u64,
    line: i64,
    site: Site,
}

impl State {
    /// Appends so many rows; `None` where the bytes make none.
    fn rows(
        &mut self,
        table: Table,
        rows: u64,
        recording: &mut Recording,
        from: &mut Cursor<'_>,
    ) -> Option<()> {
        match table {
            Table::Processes => each(rows, &mut recording.processes, || json(from)),
            Table::Modules => each(rows, &mut recording.modules, || module(from)),
            Table::Codes => each(rows, &mut recording.codes, || code(from)),
            Table::Nodes => each(rows, &mut recording.nodes, || self.node(from)),
            Table::Sites => each(rows, &mut recording.sites, || self.site(from)),
            Table::Series => each(rows, &mut recording.series, || series(from)),
        }
    }

    fn node(&mut self, from: &mut Cursor<'_>) -> Option<Node> {
        let frame = match from.varint()? {
            tag @ (1 | 2) => {
                let code = short(from)?;
                self.line = self.line.checked_add(from.signed()?)?;
                Frame::Python { code, line: u32::try_from(self.line).ok()?, entry: tag == 2 }
            }
            tag => {
                self.address = self.address.wrapping_add(from.signed()? as u64);
                let module = match tag {
                    0 => None,
                    tag => Some(u32::try_from(tag - 3).ok()?),
                };
                Frame::Native { module, address: self.address }
            }
        };
        let parent = u32::try_from(self.number.checked_sub(from.signed()?)?).ok()?;
        self.number += 1;
        Some(Node { frame, parent })
    }

    fn site(&mut self, from: &mut Cursor<'_>) -> Option<Site> {
        let last = self.site;
        let mut moved = |before: u32| u32::try_from(i64::from(before).checked_add(from.signed()?)?).ok();
        let (process, python, native) = (moved(last.process)?, moved(last.python)?, moved(last.native)?);
        let source = match from.byte()? {
            0 => Source::Heap,
            1 => Source::Python,
            2 => Source::Mapping,
            _ => return None,
        };
        let (total, live, peak) = (amount(from)?, amount(from)?, amount(from)?);
        self.site = Site {
            process,
            python,
            native,
            source,
            live,
            peak,
            total,
            own_peak_bytes: from.varint()?,
            highest_bytes: from.varint()?,
            temporary_bytes: from.varint()?,
            temporary_count: from.varint()?,
            freed_in_step_bytes: from.varint()?,
            lifetime_ns: from.varint()?,
        };
        Some(self.site)
    }
}

fn module(from: &mut Cursor<'_>) -> Option<Module> {
    let (path, build_id) = (text(from)?, bytes(from)?.to_vec());
    let mut eval = Vec::new();
    for _ in 0..from.varint()? {
        let start = from.varint()?;
        eval.push((start, start.wrapping_add(from.varint()?)));
    }
    Some(Module { path, build_id, eval })
}

fn code(from: &mut Cursor<'_>) -> Option<Code> {
    Some(Code { file: text(from)?, name: text(from)?, first_line: short(from)? })
}

fn amount(from: &mut Cursor<'_>) -> Option<Amount> {
    Some(Amount { bytes: from.varint()?, count: from.varint()?, variance: from.varint()? })
}

fn series(from: &mut Cursor<'_>) -> Option<Series> {
    let site = short(from)?;
    let count = from.varint()?;
    let (mut values, mut value) = (Vec::new(), 0_u64);
    for _ in 0..count {
        value = value.wrapping_add(from.signed()? as u64);
        values.push(value);
    }
    Some(Series { site, bytes: values })
}
