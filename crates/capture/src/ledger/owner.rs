//! The claims of a ledger by address: whose each stretch of memory is, for pictures of it.
//!
//! The target is not stopped: a stretch that changes hands meanwhile has the name of one of both. The one invariant:
//! stretches are in order of address and do not overlap.

use std::ops::Range;

use nilometer_image::live::{self, CaptureOptions, Peek};
use nilometer_kernel::parse::kind::Kind;
use nilometer_native::torch::{Role, Roles};
use nilometer_trace::heap::{Graph, Payload};
use nilometer_trace::ledger::Line;

use super::claim::{Claim, cut};
use super::count::{self, Counted};
use super::ground::{self, Circumstances, Ground};
use super::holder::{self, Holders};
use super::sight::{Looker, Sight, Vma};
use super::survey::Known;
use super::{Error, Found, Mode, usages};
use crate::census::{Places, Readers};

/// Stretches are no finer than this: the owner of most of it has it.
const BLOCK: u64 = 64 << 10;
/// Arrays from this size on have their length in their name.
const LARGE: u64 = 1 << 20;

/// A stretch of memory and its name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stretch {
    pub range: Range<u64>,
    pub name: String,
}

/// Reads the memory while it runs: of a Python process the heap, which is copied for it, else headers only. Mappings
/// that have a name of their own (files) are left out.
pub fn owners(pid: i32) -> Result<Vec<Stretch>, Error> {
    let peek = Peek::open(pid)?;
    let modules = peek.modules();
    let readers = Readers::find(&peek, &modules);
    if readers.python.is_err() {
        return Ok(survey(pid, &peek, &readers));
    }
    let buffers = readers.prescan(&peek);
    let looker = Looker::new(pid);
    let capture = CaptureOptions { mode: Mode::Off, ..CaptureOptions::default() };
    let captured = live::capture_while(&peek, &capture, &buffers, |deadline_ns| looker.look(deadline_ns))?;
    let mut sight = looker.finish();
    join(&mut sight.vmas);
    let Places { graph, footprint, roles, malloc } = readers.decode_places(&captured.image, true);
    let arrays = Arrays::of(&graph, &roles);
    let mut found = Found { image: &captured.image, graph, footprint, roles, malloc, allocators: Vec::new() };
    let claims = found.claims();
    let grounds = grounds(&sight);
    let holders = holders(&found, &sight, &grounds, &claims);
    Ok(name(&sight, &grounds, &claims, &arrays, &holders))
}

/// Without a copy: nothing is kept but headers.
fn survey(pid: i32, peek: &Peek, readers: &Readers<'_>) -> Vec<Stretch> {
    let looker = Looker::new(pid);
    looker.look(u64::MAX);
    let mut sight = looker.finish();
    join(&mut sight.vmas);
    let claims = Known::read(peek, readers, &sight).claims();
    name(&sight, &grounds(&sight), &claims, &Arrays(Vec::new()), &Holders::new())
}

fn grounds(sight: &Sight) -> Vec<Ground> {
    let circumstances = Circumstances {
        stack_pointers: sight.stack_pointers.clone(),
        has_other_allocator: false,
        readable: true,
    };
    ground::grounds(&sight.vmas, &circumstances)
}

fn holders(found: &Found<'_>, sight: &Sight, grounds: &[Ground], claims: &[Claim]) -> Holders {
    let counted: Vec<Counted> = if sight.has_pages {
        let count = |of| count::count_pages(of, &sight.pages, claims, |_| false);
        sight.vmas.iter().zip(grounds).map(count).collect()
    } else {
        usages(&sight.vmas, grounds)
    };
    holder::find(&holder::Scene {
        image: found.image,
        malloc: found.malloc.as_ref(),
        vmas: &sight.vmas,
        grounds,
        counted: &counted,
        claims,
    })
}

fn name(
    sight: &Sight,
    grounds: &[Ground],
    claims: &[Claim],
    arrays: &Arrays,
    holders: &Holders,
) -> Vec<Stretch> {
    let mut blocks = Blocks::default();
    for (vma, ground) in sight.vmas.iter().zip(grounds) {
        let range = vma.start..vma.end;
        match (&ground.package, ground.own) {
            (Some(package), _) if !ground.open => blocks.add(range, package),
            (Some(package), _) => name_pieces(&mut blocks, claims, range, arrays, Some(package)),
            (None, Line::Stacks) => blocks.add(range, "stacks"),
            (None, _) if ground.open => {
                let holder = holders.get(&vma.start).map(|holder| format!("held by {holder}"));
                name_pieces(&mut blocks, claims, range, arrays, holder.as_deref());
            }
            _ => {}
        }
    }
    blocks.finish()
}

/// Chunks into which a mapping was split are one again.
fn join(vmas: &mut Vec<Vma>) {
    vmas.dedup_by(|next, last| {
        let same = (last.kind, last.write, &last.name) == (next.kind, next.write, &next.name);
        let joined = same && last.end == next.start && next.kind == Kind::Anonymous;
        if joined {
            last.end = next.end;
            last.usage += next.usage;
        }
        joined
    });
}

fn name_pieces(
    blocks: &mut Blocks,
    claims: &[Claim],
    range: Range<u64>,
    arrays: &Arrays,
    rest: Option<&str>,
) {
    cut(claims, range, |piece, line| match line {
        Some(Line::Arrays) => arrays.cut(piece, |part, name| blocks.add(part, name)),
        Some(line) => blocks.add(piece, line_name(line)),
        None => rest.into_iter().for_each(|name| blocks.add(piece.clone(), name)),
    });
}

/// Both halves of the Python heap have one name: a block holds some of each.
fn line_name(line: Line) -> &'static str {
    match line {
        Line::PythonObjects | Line::PythonSlack => "Python heap",
        Line::MallocInUse => "malloc in use",
        Line::MallocHeld => "malloc free but held",
        Line::MallocMetadata | Line::MallocUnknown => "malloc",
        _ => "other",
    }
}

/// Buffers of arrays and tensors with their names, in order of address.
struct Arrays(Vec<(Range<u64>, String)>);

impl Arrays {
    fn of(graph: &Graph, roles: &Roles) -> Self {
        let named = |payload: &Payload| {
            let range = payload.address..payload.address.saturating_add(payload.bytes);
            let name = role_of(roles, payload.address).map_or_else(|| name_of(graph, payload), str::to_owned);
            (range, name)
        };
        let mut arrays: Vec<(Range<u64>, String)> = graph.payloads.iter().map(named).collect();
        arrays.sort_by_key(|(range, _)| range.start);
        Self(arrays)
    }

    fn cut(&self, piece: Range<u64>, mut visit: impl FnMut(Range<u64>, &str)) {
        let first = self.0.partition_point(|(range, _)| range.end <= piece.start);
        let mut at = piece.start;
        for (range, name) in self.0[first..].iter().take_while(|(range, _)| range.start < piece.end) {
            let (from, to) = (range.start.max(at), range.end.min(piece.end));
            if from < to {
                visit(from..to, name);
                at = to;
            }
        }
        if at < piece.end {
            visit(at..piece.end, "arrays");
        }
    }
}

fn role_of(roles: &Roles, address: u64) -> Option<&'static str> {
    let after = roles.places.partition_point(|(range, _)| range.start <= address);
    let (range, role) = roles.places.get(after.checked_sub(1)?)?;
    range.contains(&address).then_some(match role {
        Role::Weights => "weights",
        Role::Gradients => "gradients",
        Role::Optimizer => "optimizer state",
    })
}

/// `numpy.ndarray of 1048576 float32`, `arrays`.
fn name_of(graph: &Graph, payload: &Payload) -> String {
    let kind = graph.objects.kind.get(payload.owner as usize).copied();
    let kind =
        kind.and_then(|kind| graph.kinds.get(kind as usize)).map_or("arrays", |kind| kind.name.as_str());
    if payload.bytes < LARGE {
        return format!("{kind}, small ones");
    }
    let element = payload.element.and_then(|element| graph.names.get(element as usize));
    let element = element.map_or("", |element| element.as_str());
    match payload.elements {
        Some(elements) => format!("{kind} of {elements} {element}").trim_end().to_owned(),
        None => format!("{kind} of {} KiB", payload.bytes >> 10),
    }
}

/// Puts pieces together in blocks.
#[derive(Default)]
struct Blocks {
    done: Vec<Stretch>,
    /// The block that is being filled: bytes by name.
    number: u64,
    open: Vec<(String, u64)>,
}

impl Blocks {
    fn add(&mut self, range: Range<u64>, name: &str) {
        let mut at = range.start;
        while at < range.end {
            let number = at / BLOCK;
            let until = range.end.min((number + 1) * BLOCK);
            if number != self.number {
                self.close();
                self.number = number;
            }
            match self.open.iter_mut().find(|(other, _)| other == name) {
                Some((_, bytes)) => *bytes += until - at,
                None => self.open.push((name.to_owned(), until - at)),
            }
            at = until;
        }
    }

    fn close(&mut self) {
        let most = std::mem::take(&mut self.open).into_iter().max_by_key(|(_, bytes)| *bytes);
        let Some((name, _)) = most else { return };
        let range = self.number * BLOCK..(self.number + 1) * BLOCK;
        match self.done.last_mut() {
            Some(last) if last.name == name && last.range.end == range.start => last.range.end = range.end,
            _ => self.done.push(Stretch { range, name }),
        }
    }

    fn finish(mut self) -> Vec<Stretch> {
        self.close();
        self.done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_most_of_a_block_has_it() {
        let mut blocks = Blocks::default();
        blocks.add(0..BLOCK / 4, "a");
        blocks.add(BLOCK / 4..3 * BLOCK, "b");
        blocks.add(3 * BLOCK..3 * BLOCK + 10, "c");
        blocks.add(9 * BLOCK..10 * BLOCK, "c");
        let told: Vec<(Range<u64>, String)> =
            blocks.finish().into_iter().map(|stretch| (stretch.range, stretch.name)).collect();
        let expected = [(0..3 * BLOCK, "b"), (3 * BLOCK..4 * BLOCK, "c"), (9 * BLOCK..10 * BLOCK, "c")];
        assert_eq!(told, expected.map(|(range, name)| (range, name.to_owned())));
    }
}
