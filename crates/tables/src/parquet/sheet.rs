//! One Parquet file, written row by row in bounded memory, under a temporary name until it is complete.

use std::{
    fs::{self, File},
    path::PathBuf,
    sync::Arc,
};

use arrow_array::{
    ArrayRef, RecordBatch,
    builder::{BooleanBuilder, Float64Builder, Int64Builder, StringBuilder},
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding, ZstdLevel},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties},
    },
    schema::types::ColumnPath,
};

use crate::{Error, Identity};

/// The time column, in every table that has a time.
pub(super) const TIME: &str = "ts_ns";

/// Cells gathered before they are handed to the encoder.
const BATCH_CELLS: usize = 64 << 10;
/// A row group is closed when it has this many encoded bytes, …
const GROUP_BYTES: usize = 8 << 20;
/// … or rows.
const GROUP_ROWS: usize = 1 << 20;
const DICTIONARY_BYTES: usize = 64 << 10;
/// Open pages of all columns together; each column has a compressor of its own, as large as its pages.
const PAGE_CELLS: usize = 256 << 10;
const ZSTD_LEVEL: i32 = 1;

pub(super) fn int(name: &str) -> Field {
    Field::new(name, DataType::Int64, false)
}

pub(super) fn float(name: &str) -> Field {
    Field::new(name, DataType::Float64, false)
}

pub(super) fn text(name: &str) -> Field {
    Field::new(name, DataType::Utf8, false)
}

pub(super) fn flag(name: &str) -> Field {
    Field::new(name, DataType::Boolean, false)
}

pub(super) fn maybe(field: Field) -> Field {
    field.with_nullable(true)
}

/// One value of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    Null,
    Int(i64),
    Float(f64),
    Text(&'a str),
    Flag(bool),
}

impl From<i64> for Cell<'_> {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<i32> for Cell<'_> {
    fn from(value: i32) -> Self {
        Self::Int(value.into())
    }
}

impl From<u32> for Cell<'_> {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

/// Signed, because few engines have unsigned numbers; what does not fit is not a size or a count.
impl From<u64> for Cell<'_> {
    fn from(value: u64) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX))
    }
}

impl From<f64> for Cell<'_> {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<bool> for Cell<'_> {
    fn from(value: bool) -> Self {
        Self::Flag(value)
    }
}

impl<'a> From<&'a str> for Cell<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(value)
    }
}

impl<'a> From<&'a String> for Cell<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(value)
    }
}

impl<'a, T: Into<Cell<'a>>> From<Option<T>> for Cell<'a> {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[derive(Debug)]
enum Builder {
    Int(Int64Builder),
    Float(Float64Builder),
    Text(StringBuilder),
    Flag(BooleanBuilder),
}

impl Builder {
    fn of(field: &Field) -> Self {
        match field.data_type() {
            DataType::Int64 => Self::Int(Int64Builder::new()),
            DataType::Float64 => Self::Float(Float64Builder::new()),
            DataType::Boolean => Self::Flag(BooleanBuilder::new()),
            _ => Self::Text(StringBuilder::new()),
        }
    }

    /// A cell of another type than the column's is a mistake of ours and becomes a null.
    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Int(builder), Cell::Int(value)) => builder.append_value(value),
            (Self::Int(builder), _) => builder.append_null(),
            (Self::Float(builder), Cell::Float(value)) => builder.append_value(value),
            (Self::Float(builder), _) => builder.append_null(),
            (Self::Text(builder), Cell::Text(value)) => builder.append_value(value),
            (Self::Text(builder), _) => builder.append_null(),
            (Self::Flag(builder), Cell::Flag(value)) => builder.append_value(value),
            (Self::Flag(builder), _) => builder.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Float(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Flag(builder) => Arc::new(builder.finish()),
        }
    }
}

/// A table that is being written.
#[derive(Debug)]
pub(super) struct Sheet {
    file: Unfinished,
    schema: SchemaRef,
    builders: Vec<Builder>,
    writer: ArrowWriter<File>,
    rows: usize,
    batch_rows: usize,
}

impl Sheet {
    pub(super) fn create(place: PathBuf, fields: Vec<Field>, identity: &Identity) -> Result<Self, Error> {
        let schema = Arc::new(Schema::new(fields));
        let file = Unfinished::new(place);
        let opened = File::create(&file.temporary);
        let opened = opened.map_err(|source| Error::Io { path: file.temporary.clone(), source })?;
        let writer = properties(&schema, identity)
            .and_then(|properties| ArrowWriter::try_new(opened, schema.clone(), Some(properties)))
            .map_err(|source| file.failed(source))?;
        let builders: Vec<Builder> = schema.fields().iter().map(|field| Builder::of(field)).collect();
        let batch_rows = (BATCH_CELLS / builders.len().max(1)).max(1);
        Ok(Self { file, schema, builders, writer, rows: 0, batch_rows })
    }

    /// The cells stand in the order of the columns.
    pub(super) fn row<'a>(&mut self, cells: impl IntoIterator<Item = Cell<'a>>) -> Result<(), Error> {
        let mut cells = cells.into_iter();
        for builder in &mut self.builders {
            builder.push(cells.next().unwrap_or(Cell::Null));
        }
        debug_assert!(cells.next().is_none(), "more cells than columns: {}", self.file.place.display());
        self.rows += 1;
        if self.rows >= self.batch_rows { self.write_batch() } else { Ok(()) }
    }

    fn write_batch(&mut self) -> Result<(), Error> {
        self.rows = 0;
        let arrays = self.builders.iter_mut().map(Builder::finish).collect();
        RecordBatch::try_new(self.schema.clone(), arrays)
            .map_err(ParquetError::from)
            .and_then(|batch| self.writer.write(&batch))
            .map_err(|source| self.file.failed(source))
    }

    /// All rows are in the file; it still has its temporary name.
    pub(super) fn close(mut self) -> Result<Unfinished, Error> {
        if self.rows > 0 {
            self.write_batch()?;
        }
        self.writer.close().map_err(|source| self.file.failed(source))?;
        Ok(self.file)
    }
}

fn properties(schema: &Schema, identity: &Identity) -> Result<WriterProperties, ParquetError> {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_max_row_group_bytes(Some(GROUP_BYTES))
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_data_page_row_count_limit((PAGE_CELLS / schema.fields().len().max(1)).max(1 << 10))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_statistics_enabled(ColumnPath::from(TIME), EnabledStatistics::Page)
        .set_created_by(concat!("nilometer ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(key_values(identity)));
    for field in schema.fields().iter().filter(|field| *field.data_type() == DataType::Int64) {
        // Sizes and counters change by little, and a dictionary for each would be most of our memory.
        let column = ColumnPath::new(vec![field.name().clone()]);
        builder = builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(builder.build())
}

/// A file that was taken out of its partition still says where it belongs.
fn key_values(identity: &Identity) -> Vec<KeyValue> {
    [("nilo.run", &identity.run), ("nilo.node", &identity.node), ("nilo.rank", &identity.rank.to_string())]
        .into_iter()
        .map(|(key, value)| KeyValue::new(key.to_owned(), value.clone()))
        .collect()
}

/// A file under its temporary name, which goes away with this unless it gets its own.
#[derive(Debug)]
pub(super) struct Unfinished {
    temporary: PathBuf,
    place: PathBuf,
    renamed: bool,
}

impl Unfinished {
    fn new(place: PathBuf) -> Self {
        let name = place.file_name().unwrap_or_default().to_string_lossy();
        // No reader's pattern (`*.parquet`) matches it.
        let temporary = place.with_file_name(format!(".{name}.new"));
        Self { temporary, place, renamed: false }
    }

    pub(super) fn rename(mut self) -> Result<(), Error> {
        let renamed = fs::rename(&self.temporary, &self.place);
        renamed.map_err(|source| Error::Io { path: self.place.clone(), source })?;
        self.renamed = true;
        Ok(())
    }

    fn failed(&self, source: ParquetError) -> Error {
        Error::Parquet { path: self.place.clone(), source }
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.renamed {
            drop(fs::remove_file(&self.temporary));
        }
    }
}
