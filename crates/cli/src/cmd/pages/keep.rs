//! The directory of a recording: every look as it was, the answer, pictures.

use std::fs::File;
use std::io::{BufReader, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use nilometer_analysis::pages::{Builder, Pages};
use nilometer_capture::rundir;
use nilometer_report::pages::picture;
use nilometer_trace::pages::PAGES_FILE;

use crate::path::AtPath as _;
use crate::talk::Failure;

const DOCUMENT: &str = "pages.json";
/// Without its kind: the map, or the curve of a trace.
const MAP: &str = "heat";
const CURVE: &str = "misses";

/// A directory that is being written.
#[derive(Debug)]
pub struct Kept {
    path: PathBuf,
    /// Each line is written by one call: what was seen stays, whatever happens to us.
    pub lines: File,
}

impl Kept {
    /// An existing one is replaced by force only, and only if it is one of these.
    pub fn create(path: &Path, force: bool) -> Result<Self, Failure> {
        if force && path.join(PAGES_FILE).exists() {
            std::fs::remove_dir_all(path).with_context(|| format!("cannot replace {}", path.display()))?;
        }
        let made = rundir::create_named(path, false).map_err(super::super::run::failure)?;
        let lines = create(&made.path.join(PAGES_FILE))?;
        Ok(Self { path: made.path, lines })
    }

    pub fn finish(&self, pages: &Pages, document: &str) -> Result<(), Failure> {
        create(&self.path.join(DOCUMENT))?.write_all(document.as_bytes())?;
        let name = if pages.trace.is_some() { CURVE } else { MAP };
        let picture = |kind: &str| self.path.join(name).with_extension(kind);
        create(&picture("svg"))?.write_all(picture::render_svg(pages).as_bytes())?;
        if let Ok(bytes) = picture::render_png(pages) {
            create(&picture("png"))?.write_all(&bytes)?;
        }
        Ok(())
    }
}

fn create(path: &Path) -> Result<File, Failure> {
    let file = File::options().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.writing(path)
}

/// Reads a directory, or its file.
pub fn read(path: &Path, into: &mut Builder) -> Result<u64, Failure> {
    let file = if path.is_dir() { path.join(PAGES_FILE) } else { path.to_owned() };
    let opened = File::open(&file).map_err(|error| {
        let sentence = anyhow!("{} has no looks at pages: {error}", path.display());
        Failure::from(sentence).hint(format!("record some:  nilo pages PID -o {}", path.display()))
    })?;
    Builder::read(&mut BufReader::new(opened), into).reading(&file)
}
