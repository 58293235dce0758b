//! What a set refers to, and what refers to it.

use std::cmp::Reverse;

use nilometer_trace::heap::ObjectId;

use super::bits::Bits;
use super::model::{By, Direction, Link, Links};
use super::{Error, Grouping, Heap, Set, path};

/// Kinds listed in the table of the other ends.
const ROWS: usize = 10;

pub(super) fn links(heap: &Heap<'_>, set: &Set, direction: Direction, limit: usize) -> Result<Links, Error> {
    if set.ids.is_empty() {
        return Err(Error::NothingSelected);
    }
    let others = others(heap, set, direction);
    let grouping = Grouping { by: By::Kind, top: Some(ROWS), ..Grouping::default() };
    let table = heap.table(&others, grouping)?;
    let mut listed: Vec<ObjectId> = others.ids.clone();
    if direction == Direction::Referents {
        listed.sort_by_key(|id| Reverse(heap.amounts().of(*id).total()));
    } else {
        listed.sort_by_key(|id| heap.reach().distance[*id as usize]);
    }
    let more = listed.len().saturating_sub(limit) as u64;
    listed.truncate(limit);
    let members = Bits::of(heap.len(), &set.ids);
    let links = listed.into_iter().map(|other| link(heap, &members, direction, other)).collect();
    Ok(Links { direction, of: heap.sum(set), table, links, more })
}

/// The other ends, each once; for referents without the set itself.
fn others(heap: &Heap<'_>, set: &Set, direction: Direction) -> Set {
    let mut found = Bits::new(heap.len());
    for id in &set.ids {
        let ends = match direction {
            Direction::Referrers => heap.referrers_of(*id),
            Direction::Referents => heap.graph().referents(*id),
        };
        for end in ends {
            found.set(*end);
        }
    }
    let word = if direction == Direction::Referrers { "what refers to" } else { "what is referred to by" };
    let what = set.selection.last().map_or_else(|| "the heap".to_owned(), Clone::clone);
    Set { ids: found.ids(), selection: vec![format!("{word} {what}")] }
}

fn link(heap: &Heap<'_>, members: &Bits, direction: Direction, other: ObjectId) -> Link {
    let graph = heap.graph();
    let pair = match direction {
        Direction::Referrers => {
            graph.referents(other).iter().find(|to| members.has(**to)).map(|to| (other, *to))
        }
        Direction::Referents => {
            heap.referrers_of(other).iter().find(|from| members.has(**from)).map(|from| (*from, other))
        }
    };
    let label = pair.map(|(from, to)| path::step_text(heap, from, path::label_between(graph, from, to), to));
    Link { label: label.unwrap_or_default(), item: heap.item(other), path: path::shortest_text(heap, other) }
}
