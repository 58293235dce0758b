//! One Parquet file, written row by row in bounded memory, under a temporary name until it is complete.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    path::PathBuf,
    sync::Arc,
};

use parquet::{
    basic::{Compression, Encoding, LogicalType, Repetition, Type as Physical, ZstdLevel},
    data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties},
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::types::{ColumnPath, Type},
};

use crate::{Error, Identity};

/// The time column, in every table that has a time.
pub(super) const TIME: &str = "ts_ns";

/// A row group is written when this many cells are gathered, …
const GROUP_CELLS: usize = 1 << 20;
/// … or bytes of text.
const GROUP_TEXT_BYTES: usize = 8 << 20;
const DICTIONARY_BYTES: usize = 64 << 10;
/// Rows of a page times columns.
const PAGE_CELLS: usize = 256 << 10;
const ZSTD_LEVEL: i32 = 1;

/// A column: its name, what is in it, and whether it may be missing.
#[derive(Debug, Clone)]
pub(super) struct Field {
    name: String,
    kind: Physical,
    is_optional: bool,
    /// Where its name does not end in it.
    unit: Option<&'static str>,
}

impl Field {
    fn new(name: &str, kind: Physical) -> Self {
        Self { name: name.to_owned(), kind, is_optional: false, unit: None }
    }

    pub(super) fn in_units_of(self, unit: &'static str) -> Self {
        Self { unit: Some(unit), ..self }
    }

    fn schema(&self) -> Result<Type, ParquetError> {
        let repetition = if self.is_optional { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        Type::primitive_type_builder(&self.name, self.kind)
            .with_repetition(repetition)
            .with_logical_type((self.kind == Physical::BYTE_ARRAY).then_some(LogicalType::String))
            .build()
    }
}

pub(super) fn int(name: &str) -> Field {
    Field::new(name, Physical::INT64)
}

pub(super) fn float(name: &str) -> Field {
    Field::new(name, Physical::DOUBLE)
}

pub(super) fn text(name: &str) -> Field {
    Field::new(name, Physical::BYTE_ARRAY)
}

pub(super) fn flag(name: &str) -> Field {
    Field::new(name, Physical::BOOLEAN)
}

pub(super) fn maybe(field: Field) -> Field {
    Field { is_optional: true, ..field }
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

/// The values of a column that are not in the file yet.
#[derive(Debug)]
enum Values {
    Int(Vec<i64>),
    Float(Vec<f64>),
    Text(Vec<ByteArray>),
    Flag(Vec<bool>),
}

/// A column of the row group that is being gathered.
#[derive(Debug)]
struct Column {
    values: Values,
    /// For each row whether it has a value, 1 or 0; only of columns in which one may be missing.
    levels: Option<Vec<i16>>,
}

impl Column {
    fn of(field: &Field) -> Self {
        let values = match field.kind {
            Physical::INT64 => Values::Int(Vec::new()),
            Physical::DOUBLE => Values::Float(Vec::new()),
            Physical::BOOLEAN => Values::Flag(Vec::new()),
            _ => Values::Text(Vec::new()),
        };
        Self { values, levels: field.is_optional.then(Vec::new) }
    }

    /// Whether it could be taken: a column that must have a value refuses a null, and a cell of another type is one. Adds the
    /// bytes of new text.
    fn push(&mut self, cell: Cell<'_>, text_bytes: &mut usize) -> bool {
        let mut has_value = true;
        match (&mut self.values, cell) {
            (Values::Int(values), Cell::Int(value)) => values.push(value),
            (Values::Float(values), Cell::Float(value)) => values.push(value),
            (Values::Flag(values), Cell::Flag(value)) => values.push(value),
            (Values::Text(values), Cell::Text(value)) => {
                // Names repeat: a row like the one before has the same bytes, not a copy of them.
                let same = values.last().filter(|last| last.data() == value.as_bytes()).cloned();
                *text_bytes += if same.is_some() { 0 } else { value.len() };
                values.push(same.unwrap_or_else(|| ByteArray::from(value)));
            }
            _ => has_value = false,
        }
        if let Some(levels) = &mut self.levels {
            levels.push(i16::from(has_value));
        }
        has_value || self.levels.is_some()
    }

    fn write(&mut self, into: SerializedColumnWriter<'_>) -> Result<(), ParquetError> {
        let levels = self.levels.as_deref();
        match &self.values {
            Values::Int(values) => write::<Int64Type>(into, values, levels),
            Values::Float(values) => write::<DoubleType>(into, values, levels),
            Values::Text(values) => write::<ByteArrayType>(into, values, levels),
            Values::Flag(values) => write::<BoolType>(into, values, levels),
        }?;
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        match &mut self.values {
            Values::Int(values) => values.clear(),
            Values::Float(values) => values.clear(),
            Values::Text(values) => values.clear(),
            Values::Flag(values) => values.clear(),
        }
        self.levels.iter_mut().for_each(Vec::clear);
    }
}

fn write<T: DataType>(
    mut into: SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: Option<&[i16]>,
) -> Result<(), ParquetError> {
    into.typed::<T>().write_batch(values, levels, None)?;
    into.close()
}

/// A table that is being written.
#[derive(Debug)]
pub(super) struct Sheet {
    file: Unfinished,
    columns: Vec<Column>,
    writer: SerializedFileWriter<File>,
    rows: usize,
    group_rows: usize,
    text_bytes: usize,
}

impl Sheet {
    pub(super) fn create(place: PathBuf, fields: &[Field], identity: &Identity) -> Result<Self, Error> {
        let file = Unfinished::new(place);
        let opened = File::create(&file.temporary);
        let opened = opened.map_err(|source| Error::Io { path: file.temporary.clone(), source })?;
        let writer = schema(fields)
            .and_then(|schema| {
                SerializedFileWriter::new(opened, Arc::new(schema), Arc::new(properties(fields, identity)?))
            })
            .map_err(|source| file.failed(source))?;
        let columns: Vec<Column> = fields.iter().map(Column::of).collect();
        let group_rows = (GROUP_CELLS / columns.len().max(1)).max(1);
        Ok(Self { file, columns, writer, rows: 0, group_rows, text_bytes: 0 })
    }

    /// The cells stand in the order of the columns.
    pub(super) fn row<'a>(&mut self, cells: impl IntoIterator<Item = Cell<'a>>) -> Result<(), Error> {
        let mut cells = cells.into_iter();
        for (number, column) in self.columns.iter_mut().enumerate() {
            if !column.push(cells.next().unwrap_or(Cell::Null), &mut self.text_bytes) {
                let missing = ParquetError::General(format!("no value in column {number}"));
                return Err(self.file.failed(missing));
            }
        }
        debug_assert!(cells.next().is_none(), "more cells than columns: {}", self.file.place.display());
        self.rows += 1;
        let is_full = self.rows >= self.group_rows || self.text_bytes >= GROUP_TEXT_BYTES;
        if is_full { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), Error> {
        (self.rows, self.text_bytes) = (0, 0);
        write_columns(&mut self.writer, &mut self.columns).map_err(|source| self.file.failed(source))
    }

    /// All rows are in the file; it still has its temporary name.
    pub(super) fn close(mut self) -> Result<Unfinished, Error> {
        if self.rows > 0 {
            self.write_group()?;
        }
        self.writer.close().map_err(|source| self.file.failed(source))?;
        Ok(self.file)
    }
}

fn write_columns(
    writer: &mut SerializedFileWriter<File>,
    columns: &mut [Column],
) -> Result<(), ParquetError> {
    let mut group = writer.next_row_group()?;
    for column in columns {
        if let Some(into) = group.next_column()? {
            column.write(into)?;
        }
    }
    group.close().map(drop)
}

fn schema(fields: &[Field]) -> Result<Type, ParquetError> {
    let columns =
        fields.iter().map(|field| Ok(Arc::new(field.schema()?))).collect::<Result<_, ParquetError>>()?;
    Type::group_type_builder("schema").with_fields(columns).build()
}

fn properties(fields: &[Field], identity: &Identity) -> Result<WriterProperties, ParquetError> {
    let mut builder = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL)?))
        .set_dictionary_page_size_limit(DICTIONARY_BYTES)
        .set_data_page_row_count_limit((PAGE_CELLS / fields.len().max(1)).max(1 << 10))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_column_statistics_enabled(ColumnPath::from(TIME), EnabledStatistics::Page)
        .set_created_by(concat!("nilometer ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_key_value_metadata(Some(key_values(fields, identity)));
    for field in fields.iter().filter(|field| field.kind == Physical::INT64) {
        // Sizes and counters change by little, and a dictionary for each would be most of our memory.
        let column = ColumnPath::new(vec![field.name.clone()]);
        builder = builder
            .set_column_dictionary_enabled(column.clone(), false)
            .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED);
    }
    Ok(builder.build())
}

/// A file that was taken out of its partition still says where it belongs, and what its columns are counted in.
fn key_values(fields: &[Field], identity: &Identity) -> Vec<KeyValue> {
    let units: BTreeMap<&str, &str> =
        fields.iter().filter_map(|field| Some((field.name.as_str(), field.unit?))).collect();
    let units = serde_json::to_string(&units).ok().filter(|_| !units.is_empty());
    [
        ("nilo.run", Some(identity.run.clone())),
        ("nilo.node", Some(identity.node.clone())),
        ("nilo.rank", Some(identity.rank.to_string())),
        ("nilo.units", units),
    ]
    .into_iter()
    .filter_map(|(key, value)| Some(KeyValue::new(key.to_owned(), value?)))
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
