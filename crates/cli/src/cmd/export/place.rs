//! Where an export goes: standard output, a device, or a file that gets its name when it is complete.

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use flate2::Compression;
use flate2::write::GzEncoder;
use nilometer_tables::Error;

use super::{Done, failure};
use crate::path::AtPath as _;
use crate::talk::Failure;

const BUFFER_BYTES: usize = 64 << 10;

/// Is it a file, and not standard output?
pub fn is_named(place: &Path) -> bool {
    place != Path::new("-")
}

pub fn has_word(place: &Path, word: &str) -> bool {
    place.file_name().is_some_and(|name| name.to_string_lossy().contains(word))
}

/// Without a place, or with `-`, to standard output.
pub fn write(
    place: Option<&Path>,
    force: bool,
    packs: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<Done, Failure>,
) -> Result<Done, Failure> {
    let Some(place) = place.filter(|place| is_named(place)) else {
        return write(&mut buffered(io::stdout().lock()));
    };
    let packed = packs && place.extension().is_some_and(|end| end == "gz");
    match fs::metadata(place) {
        Ok(there) if there.is_dir() => Err(Failure::from(anyhow!("{} is a directory", place.display()))
            .hint(format!("name a file in it:  -o {}", place.join("run").display()))),
        Ok(there) if !there.is_file() => to_device(place, packed, write),
        Ok(_) if !force => Err(failure(Error::Exists { path: place.to_owned() })),
        _ => to_file(place, packed, write),
    }
}

fn buffered(out: impl Write) -> impl Write {
    BufWriter::with_capacity(BUFFER_BYTES, out)
}

/// A pipe or device cannot be replaced: it is written to as it is.
fn to_device(
    place: &Path,
    packed: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<Done, Failure>,
) -> Result<Done, Failure> {
    let file = File::options().write(true).open(place);
    let file = file.with_context(|| format!("cannot open {}", place.display()))?;
    to_open(file, packed, write)
}

fn to_file(
    place: &Path,
    packed: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<Done, Failure>,
) -> Result<Done, Failure> {
    let temporary = temporary_name(place);
    let file = File::create(&temporary).writing(place)?;
    let written = to_open(file, packed, write).and_then(|done| {
        fs::rename(&temporary, place).writing(place)?;
        Ok(done)
    });
    if written.is_err() {
        drop(fs::remove_file(&temporary));
    }
    written
}

fn to_open(
    file: File,
    packed: bool,
    write: impl FnOnce(&mut dyn Write) -> Result<Done, Failure>,
) -> Result<Done, Failure> {
    if !packed {
        return write(&mut buffered(file));
    }
    // Writers write line by line: the packer gets larger pieces.
    let mut out =
        BufWriter::with_capacity(BUFFER_BYTES, GzEncoder::new(buffered(file), Compression::default()));
    let done = write(&mut out)?;
    let packer = out.into_inner().map_err(io::IntoInnerError::into_error)?;
    packer.finish()?.flush()?;
    Ok(done)
}

fn temporary_name(place: &Path) -> PathBuf {
    let mut name = place.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    name.into()
}
