//! Whether the numbers of a recording name what they should.

use super::{Frame, Recording, special};

/// A recording that contradicts itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{what} {index} names nothing")]
pub struct Unsound {
    pub what: &'static str,
    pub index: usize,
}

impl Recording {
    /// Every index is in range, and callers come before those they call.
    pub fn check(&self) -> Result<(), Unsound> {
        self.check_nodes()?;
        self.check_sites()?;
        let steps = self.about.steps.len();
        find("series", &self.series, |series| {
            (series.site as usize) < self.sites.len() && series.bytes.len() == steps
        })?;
        find("kept site", &self.about.kept, |kept| (kept.site as usize) < self.sites.len())?;
        find("size", &self.about.kept_sizes, |size| (size.site as usize) < self.sites.len())?;
        find("process", &self.processes, |process| {
            process.forked_from.is_none_or(|from| (from as usize) < self.processes.len())
        })
    }

    fn check_nodes(&self) -> Result<(), Unsound> {
        let in_range = |frame: Frame| match frame {
            Frame::Native { module, .. } => {
                module.is_none_or(|module| (module as usize) < self.modules.len())
            }
            Frame::Python { code, .. } => (code as usize) < self.codes.len(),
        };
        let position = self.nodes.iter().enumerate().position(|(index, node)| {
            let number = index as u64 + u64::from(special::FIRST);
            u64::from(node.parent) >= number || !in_range(node.frame)
        });
        position.map_or(Ok(()), |index| Err(Unsound { what: "node", index }))
    }

    fn check_sites(&self) -> Result<(), Unsound> {
        let end = self.nodes.len() as u64 + u64::from(special::FIRST);
        find("site", &self.sites, |site| {
            (site.process as usize) < self.processes.len()
                && u64::from(site.python) < end
                && u64::from(site.native) < end
        })
    }
}

fn find<T>(what: &'static str, rows: &[T], is_sound: impl Fn(&T) -> bool) -> Result<(), Unsound> {
    rows.iter().position(|row| !is_sound(row)).map_or(Ok(()), |index| Err(Unsound { what, index }))
}
