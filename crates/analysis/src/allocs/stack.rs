//! The stack of a site as it is shown: both stored stacks merged, folded, with a note where something is missing.

use std::ops::Range;

use nilometer_trace::allocs::{Frame as Stored, Recording, Site, special};

use super::frames::{Frames, Note, native_place};
use super::merge::{self, FrameId, Native, Python, Role};

/// Buffers that are used again from site to site.
#[derive(Debug, Default)]
pub struct Stacks {
    native: Vec<(Range<usize>, Role)>,
    python: Vec<Python>,
    pub merged: Vec<FrameId>,
}

impl Stacks {
    /// Puts the stack of a site, innermost first, into `merged`. True if its outer frames are missing.
    pub fn read(
        &mut self,
        recording: &Recording,
        site: &Site,
        frames: &mut Frames<'_>,
        internals: bool,
    ) -> bool {
        self.merged.clear();
        let native_end = self.read_native(recording, site.native, frames);
        let python_end = self.read_python(recording, site.python, frames, internals);
        self.merge(frames, internals);
        if self.merged.is_empty() {
            let note = self.why_empty(site);
            self.merged.push(frames.note(note));
        }
        let cut = native_end == special::CUT || python_end == special::CUT;
        if cut {
            self.merged.push(frames.note(Note::Cut));
        }
        cut
    }

    fn read_native(&mut self, recording: &Recording, node: u32, frames: &mut Frames<'_>) -> u32 {
        self.native.clear();
        let mut stack = recording.stack(node);
        for (_, node) in stack.by_ref() {
            if let Some((module, address)) = native_place(&node.frame) {
                self.native.push(frames.native(module, address));
            }
        }
        stack.next
    }

    fn read_python(
        &mut self,
        recording: &Recording,
        node: u32,
        frames: &mut Frames<'_>,
        internals: bool,
    ) -> u32 {
        self.python.clear();
        let mut stack = recording.stack(node);
        for (_, node) in stack.by_ref() {
            if let Stored::Python { code, line, entry } = node.frame {
                let hidden = !internals && frames.is_import(code);
                self.python.push(Python { frame: (!hidden).then(|| frames.python(code, line)), entry });
            }
        }
        stack.next
    }

    fn merge(&mut self, frames: &Frames<'_>, internals: bool) {
        let spelt = |(range, role): &(Range<usize>, Role)| Native {
            frames: frames.expanded(range.clone()),
            role: *role,
        };
        let native: Vec<Native<'_>> = self.native.iter().map(spelt).collect();
        merge::merge(&native, &self.python, internals, &mut self.merged);
    }

    fn why_empty(&self, site: &Site) -> Note {
        if site.native == special::FOLDED || site.python == special::FOLDED {
            return Note::Folded;
        }
        if site.native == special::DROPPED || site.python == special::DROPPED {
            return Note::Dropped;
        }
        let roles: Vec<Native<'_>> =
            self.native.iter().map(|(_, role)| Native { frames: &[], role: *role }).collect();
        match merge::remainder(&roles) {
            Some(Role::Evaluator | Role::Interpreter) => Note::Interpreter,
            Some(Role::Linker) => Note::Linker,
            Some(_) => Note::Runtime,
            None => Note::NoStack,
        }
    }
}
