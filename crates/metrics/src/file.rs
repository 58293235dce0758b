//! The textfile for `node_exporter`: a whole file each time, put in place by a rename.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::slot::Slot;
use crate::{Error, prometheus};

/// How often it is written.
const PERIOD: Duration = Duration::from_secs(1);
const ENDING: &str = "prom";

/// A file that can be written, as was tried.
#[derive(Debug, Clone)]
pub struct MetricsFile {
    path: PathBuf,
    next: PathBuf,
}

impl MetricsFile {
    /// The file appears with the first values; what stood there before stays until then.
    pub fn prepare(path: &Path) -> Result<Self, Error> {
        if path.extension().is_none_or(|ending| ending != ENDING) {
            return Err(Error::FileName(path.to_owned()));
        }
        let failed = |source| Error::File { path: path.to_owned(), source };
        if path.is_dir() {
            return Err(failed(std::io::ErrorKind::IsADirectory.into()));
        }
        let path = std::path::absolute(path).map_err(failed)?;
        // Beside it, so that the rename stays on one file system; with an ending that nobody collects.
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let next = path.with_file_name(format!(".{name}.{}", std::process::id()));
        fs::File::create(&next).map_err(failed)?;
        fs::remove_file(&next).map_err(failed)?;
        Ok(Self { path, next })
    }

    /// Writes until the end, and once more then. What is told at the end: how often that failed, and why last.
    pub(crate) fn tell(&self, slot: &Slot) -> Vec<String> {
        let (mut failures, mut last_tick) = (0_u64, None);
        let mut why = String::new();
        loop {
            let closing = slot.wait(PERIOD);
            // The same tick again says nothing new, unless it is the last word.
            let news = slot.latest().filter(|latest| closing || last_tick != Some(latest.ticks));
            if let Some(latest) = news {
                last_tick = Some(latest.ticks);
                if let Err(error) = self.write(&prometheus::render(&latest)) {
                    failures += 1;
                    why = error.to_string();
                }
            }
            if closing {
                break;
            }
        }
        let note = format!("the metrics file could not be written {failures} times: {why}");
        (failures > 0).then_some(note).into_iter().collect()
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        fs::write(&self.next, text)
            .and_then(|()| fs::rename(&self.next, &self.path))
            .inspect_err(|_| drop(fs::remove_file(&self.next)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Snapshot;

    #[test]
    fn only_whole_files_are_seen_and_nothing_else_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("train.prom");
        fs::write(&path, "old").unwrap();
        let file = MetricsFile::prepare(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        let slot = Slot::default();
        slot.close(Some(Snapshot { ticks: 7, ..Snapshot::default() }));
        assert!(file.tell(&slot).is_empty());
        assert!(fs::read_to_string(&path).unwrap().contains("nilo_ticks_total{run=\"\"} 7\n"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_cannot_be_written_is_told_before_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let wrong = |path: PathBuf| MetricsFile::prepare(&path).unwrap_err().to_string();
        assert!(wrong(folder.path().join("train.txt")).ends_with("does not end in .prom"));
        assert!(wrong(folder.path().join("no/such/train.prom")).contains("No such file"));
        fs::create_dir(folder.path().join("a.prom")).unwrap();
        assert!(wrong(folder.path().join("a.prom")).contains("directory"));
    }

    #[test]
    fn a_directory_that_goes_away_is_told_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let file = MetricsFile::prepare(&folder.path().join("train.prom")).unwrap();
        drop(folder);
        let slot = Slot::default();
        slot.close(Some(Snapshot::default()));
        assert!(file.tell(&slot)[0].contains("could not be written 1 times"));
    }
}
