//! A second look at single objects, with the names of what they refer to: for questions that a census without names
//! leaves open.

use super::heap::{Found as Number, Heap};
use crate::reference::{Context, Found, Object, Reference, Visitor, span};

/// What an object refers to.
pub(crate) fn references(heap: &mut Heap<'_>, context: &mut Context, number: Number) -> Vec<Reference> {
    let (address, id) = (heap.address[number as usize], heap.type_of[number as usize]);
    let pool_end = heap.pools.at(address).map(|pool| heap.pools.block_end(pool, address));
    let block_end = pool_end.unwrap_or_else(|| address.saturating_add(heap.bytes_outside(number as usize)));
    let (type_, names) = heap.types.split(id);
    let body = span::bytes(heap.image, address, type_.basicsize.min(block_end - address)).unwrap_or_default();
    let object = Object { address, type_, body: &body, block_end };
    let mut found = Found::default();
    let labelled = std::mem::replace(&mut context.labelled, true);
    Visitor { image: heap.image, layout: heap.layout }.visit(
        &object,
        &heap.pools,
        context,
        names,
        &mut found,
    );
    context.labelled = labelled;
    found.references
}
