//! DAMON by sysfs: `/sys/kernel/mm/damon/admin` (`CONFIG_DAMON_SYSFS`, since Linux 5.18; `tried_regions` since 6.2).
//!
//! The tree has one owner. Where somebody has set up a kdamond already, nothing is touched; what was set up here is
//! taken down when dropped. Documentation/admin-guide/mm/damon/usage.rst

use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Below the file system's root.
const KDAMONDS: &str = "sys/kernel/mm/damon/admin/kdamonds";

/// A stretch of addresses in which accesses were sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Region {
    pub start: u64,
    pub end: u64,
    /// Samples in which it was touched.
    pub accesses: u32,
}

/// A kdamond of our own that watches one process.
#[derive(Debug)]
pub struct Damon {
    kdamonds: PathBuf,
}

/// How closely is looked.
#[derive(Debug, Clone, Copy)]
pub struct Attributes {
    pub sample: Duration,
    pub aggregation: Duration,
    pub fewest_regions: u64,
    pub most_regions: u64,
}

impl Damon {
    /// Can one be started? EBUSY where the tree has an owner.
    pub fn check(root: &Path) -> io::Result<()> {
        let number = std::fs::read_to_string(root.join(KDAMONDS).join("nr_kdamonds"))?;
        if number.trim() == "0" { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBUSY)) }
    }

    pub fn start(root: &Path, pid: i32, attributes: &Attributes) -> io::Result<Self> {
        Self::check(root)?;
        let kdamonds = root.join(KDAMONDS);
        write(&kdamonds.join("nr_kdamonds"), 1)?;
        let damon = Self { kdamonds };
        damon.set_up(pid, attributes)?;
        write(&damon.path("state"), "on")?;
        Ok(damon)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.kdamonds.join("0").join(below)
    }

    fn set_up(&self, pid: i32, attributes: &Attributes) -> io::Result<()> {
        let context = |below: &str| self.path("contexts/0").join(below);
        write(&self.path("contexts/nr_contexts"), 1)?;
        write(&context("operations"), "vaddr")?;
        let intervals = |below: &str| context("monitoring_attrs/intervals").join(below);
        write(&intervals("sample_us"), attributes.sample.as_micros())?;
        write(&intervals("aggr_us"), attributes.aggregation.as_micros())?;
        write(&intervals("update_us"), attributes.aggregation.as_micros())?;
        write(&context("monitoring_attrs/nr_regions/max"), attributes.most_regions)?;
        write(&context("monitoring_attrs/nr_regions/min"), attributes.fewest_regions)?;
        write(&context("targets/nr_targets"), 1)?;
        write(&context("targets/0/pid_target"), pid)?;
        write(&context("schemes/nr_schemes"), 1)?;
        write(&context("schemes/0/action"), "stat")?;
        for range in ["sz", "nr_accesses", "age"] {
            let pattern = context("schemes/0/access_pattern").join(range);
            write(&pattern.join("min"), 0)?;
            write(&pattern.join("max"), u32::MAX)?;
        }
        Ok(())
    }

    /// The regions of the last aggregation; waits for the one that is going on.
    pub fn read(&self) -> io::Result<Vec<Region>> {
        write(&self.path("state"), "update_schemes_tried_regions")?;
        let mut regions = Vec::new();
        for entry in std::fs::read_dir(self.path("contexts/0/schemes/0/tried_regions"))?.flatten() {
            let number = |name: &str| read_number(&entry.path().join(name));
            if let (Some(start), Some(end), Some(accesses)) =
                (number("start"), number("end"), number("nr_accesses"))
            {
                regions.push(Region { start, end, accesses: accesses as u32 });
            }
        }
        regions.sort_unstable_by_key(|region| region.start);
        Ok(regions)
    }
}

impl Drop for Damon {
    fn drop(&mut self) {
        let _ = write(&self.path("state"), "off");
        let _ = write(&self.kdamonds.join("nr_kdamonds"), 0);
    }
}

fn write(path: &Path, value: impl Display) -> io::Result<()> {
    std::fs::write(path, format!("{value}"))
}

fn read_number(path: &Path) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTRIBUTES: Attributes = Attributes {
        sample: Duration::from_millis(5),
        aggregation: Duration::from_millis(100),
        fewest_regions: 10,
        most_regions: 1000,
    };

    #[test]
    fn a_tree_that_has_an_owner_is_left_alone() {
        let root = tempfile::tempdir().unwrap();
        let kdamonds = root.path().join(KDAMONDS);
        std::fs::create_dir_all(&kdamonds).unwrap();
        std::fs::write(kdamonds.join("nr_kdamonds"), "1\n").unwrap();
        let refused = Damon::start(root.path(), 1, &ATTRIBUTES).unwrap_err();
        assert_eq!(refused.raw_os_error(), Some(libc::EBUSY));
        assert_eq!(std::fs::read_to_string(kdamonds.join("nr_kdamonds")).unwrap(), "1\n");
    }

    #[test]
    fn what_cannot_be_set_up_is_taken_down() {
        let root = tempfile::tempdir().unwrap();
        let kdamonds = root.path().join(KDAMONDS);
        std::fs::create_dir_all(&kdamonds).unwrap();
        std::fs::write(kdamonds.join("nr_kdamonds"), "0\n").unwrap();
        assert!(Damon::start(root.path(), 1, &ATTRIBUTES).is_err());
        assert_eq!(std::fs::read_to_string(kdamonds.join("nr_kdamonds")).unwrap(), "0");
    }
}
