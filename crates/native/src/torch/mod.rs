//! torch's tensors and storages, as they stand in memory: also those that no Python object knows.
//!
//! Objects are recognised by the virtual table that their first word names, inside a chunk that malloc has handed out,
//! with counts above zero; their fields by tables of offsets that must fit almost all of them. What does not fit is
//! left out and told, never guessed.

mod attach;
mod device;
mod element;
mod graft;
mod layout;
mod prescan;
mod read;
mod role;
mod scan;
mod vtable;

use std::ops::Range;

use nilometer_image::live::Peek;
use nilometer_image::{Image, Modules};
use nilometer_trace::heap::Backing;

pub use attach::{Attached, attach};
pub use device::Device;
pub use element::Element;
pub use layout::Layout;
pub use prescan::Finder;
pub use role::{Role, Roles};

use crate::glibc::Malloc;
use crate::runs::Runs;
use vtable::Vtables;

/// All tensors and storages of a process.
#[derive(Debug, Default)]
pub struct Torch {
    /// Sorted by address.
    pub storages: Vec<Storage>,
    /// Sorted by address.
    pub tensors: Vec<TensorImpl>,
    /// What did not add up; empty when all did.
    pub doubts: Vec<Doubt>,
    /// The table of offsets that fits; none where torch has no objects yet.
    pub layout: Option<Layout>,
    /// Storages and tensors by their first word that fit no table.
    rejected: [usize; 2],
}

/// A block of elements that tensors share: `c10::StorageImpl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Storage {
    pub address: u64,
    /// Where its elements are.
    pub data: u64,
    /// 0 where there are none: on the device `meta`, or released.
    pub bytes: u64,
    pub device: Device,
    pub refcount: u32,
    /// How much of it is in memory; none where that is not known.
    pub resident: Option<u64>,
    pub backing: Backing,
    /// As a tensor sees it, where all that do agree.
    pub element: Option<Element>,
    /// What the object itself occupies in the allocator; 0 where that is not known.
    pub own_bytes: u64,
}

/// A view of a storage: `c10::TensorImpl` or a subclass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorImpl {
    pub address: u64,
    /// Index into [`Torch::storages`]; sparse tensors and wrappers have none.
    pub storage: Option<u32>,
    /// Empty for a scalar, and where it has none of its own (nested and symbolic shapes).
    pub shape: Vec<u64>,
    pub elements: u64,
    pub element: Element,
    pub refcount: u32,
    /// The Python object of it, if it ever had one; it may be gone.
    pub python: Option<u64>,
    /// The tensor that is its gradient.
    pub gradient: Option<u64>,
    /// Tensors that it is made of, where it is of a subclass: a sparse one's indices and values, what a wrapper wraps.
    pub inner: Vec<u64>,
}

/// Found while reading; the figures stand, with this said beside them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Doubt {
    #[error("torch's storages have an unknown layout ({kept} of {} make sense): not sized", kept + rejected)]
    Storages { kept: usize, rejected: usize },
    #[error("torch's tensors have an unknown layout ({kept} of {} make sense): storages only", kept + rejected)]
    Tensors { kept: usize, rejected: usize },
    /// Another allocator: what was freed may still look like an object.
    #[error("torch's objects could not be checked against malloc")]
    NoMalloc,
}

/// torch's classes as this process has loaded them: found once, good for as long as it lives.
#[derive(Debug, Clone)]
pub struct Classes {
    vtables: Vtables,
}

impl Classes {
    /// None where torch is not loaded. Goes through the names that torch's libraries export.
    pub fn of(modules: &Modules) -> Option<Self> {
        Vtables::of(modules).map(|vtables| Self { vtables })
    }

    /// All storages and tensors. Without `malloc` all of the image is searched.
    pub fn storages(&self, image: &Image, malloc: Option<&Malloc>) -> Torch {
        let runs = Runs::of(image);
        let candidates = read::candidates(&runs, &self.vtables, malloc);
        read::read(image, &runs, &self.vtables, &candidates, malloc)
    }

    /// Looks for storages in blocks that somebody else comes across.
    pub fn finder<'a>(&'a self, peek: &'a Peek) -> Finder<'a> {
        Finder::new(&self.vtables, peek.mappings())
    }

    /// The buffers of at least a mebibyte that storages of a running process have, as far as they are found by reading
    /// its small blocks only: what a copy may leave out.
    pub fn prescan(&self, peek: &Peek) -> Vec<Range<u64>> {
        prescan::prescan(peek, &self.vtables)
    }
}

/// [`Classes::storages`] for one time; none where torch is not loaded.
pub fn storages(image: &Image, modules: &Modules, malloc: Option<&Malloc>) -> Option<Torch> {
    Some(Classes::of(modules)?.storages(image, malloc))
}

/// [`Classes::prescan`] for one time; nothing where torch is not loaded.
pub fn prescan(peek: &Peek, modules: &Modules) -> Vec<Range<u64>> {
    Classes::of(modules).map_or_else(Vec::new, |classes| classes.prescan(peek))
}

impl Torch {
    /// Index of the storage at an address.
    pub fn storage_at(&self, address: u64) -> Option<u32> {
        self.storages.binary_search_by_key(&address, |storage| storage.address).ok().map(|index| index as u32)
    }

    pub fn tensor_at(&self, address: u64) -> Option<&TensorImpl> {
        let index = self.tensors.binary_search_by_key(&address, |tensor| tensor.address).ok()?;
        self.tensors.get(index)
    }

    /// Gives storages the element type of their tensors, where all agree.
    fn name_elements(&mut self) {
        let mut seen: Vec<Option<Option<Element>>> = vec![None; self.storages.len()];
        for tensor in &self.tensors {
            let Some(seen) = tensor.storage.and_then(|index| seen.get_mut(index as usize)) else { continue };
            *seen =
                Some(seen.map_or(Some(tensor.element), |element| element.filter(|e| *e == tensor.element)));
        }
        for (storage, seen) in self.storages.iter_mut().zip(seen) {
            storage.element = seen.flatten();
        }
    }
}
