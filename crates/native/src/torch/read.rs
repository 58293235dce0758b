//! From words in memory to storages and tensors, each checked.

use nilometer_image::{Image, Mapping};
use nilometer_trace::heap::Backing;

use super::device::Device;
use super::element::Element;
use super::layout::{INLINE, LAYOUTS, Layout};
use super::vtable::Vtables;
use super::{Doubt, Storage, TensorImpl, Torch};
use crate::glibc::{HIGHEST, Malloc};
use crate::runs::Runs;

/// Objects of torch are no longer, and no shorter.
const SIZES: std::ops::RangeInclusive<u64> = 64..=4096;
const MOST_DIMENSIONS: u64 = 64;
/// No process has more memory than that.
const MOST_BYTES: u64 = 1 << 47;
/// A count above it is no count.
const MOST_REFERENCES: u64 = 1 << 31;
/// The counts' top bit: a Python object is kept.
const KEEPS_PYTHON: u64 = 1 << 31;
/// A table of offsets that fewer objects agree with is not believed: of a hundred.
const ENOUGH: usize = 90;
/// In `AutogradMeta`: a name, then the gradient; with the new and with the old `std::string`.
const GRADIENTS: [u64; 2] = [40, 16];

/// Where objects begin whose first word is one of torch's virtual tables.
pub(super) fn candidates(runs: &Runs<'_>, vtables: &Vtables, malloc: Option<&Malloc>) -> Vec<Candidate> {
    match malloc {
        Some(malloc) => at_chunks(runs, vtables, malloc),
        None => everywhere(runs, vtables),
    }
}

/// An object that may be of torch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub address: u64,
    /// What it occupies in the allocator, where that is known.
    pub own_bytes: u64,
}

/// Objects have a chunk of their own each.
fn at_chunks(runs: &Runs<'_>, vtables: &Vtables, malloc: &Malloc) -> Vec<Candidate> {
    let chunks = malloc.chunks().filter(|chunk| chunk.in_use() && SIZES.contains(&chunk.usable));
    let mut reader = runs.reader();
    let ours = chunks.filter(|chunk| reader.word(chunk.start).is_some_and(|word| vtables.all.contains(word)));
    ours.map(|chunk| Candidate { address: chunk.start, own_bytes: chunk.usable + 8 }).collect()
}

pub(super) fn everywhere(runs: &Runs<'_>, vtables: &Vtables) -> Vec<Candidate> {
    let mut found = Vec::new();
    for run in runs.all().iter().filter(|run| run.start.is_multiple_of(8) && run.end() < HIGHEST) {
        let mut at = |offset| found.push(Candidate { address: run.start + offset as u64, own_bytes: 0 });
        vtables.all.find(run.bytes, &mut at);
    }
    found
}

/// Reads what stands at an address by one table of offsets.
#[derive(Clone, Copy)]
struct Reader<'a> {
    image: &'a Image,
    runs: &'a Runs<'a>,
    vtables: &'a Vtables,
    layout: Layout,
}

pub(super) fn read(
    image: &Image,
    runs: &Runs<'_>,
    vtables: &Vtables,
    candidates: &[Candidate],
    malloc: Option<&Malloc>,
) -> Torch {
    let readings = LAYOUTS.map(|layout| {
        let reader = Reader { image, runs, vtables, layout };
        reader.read_all(candidates)
    });
    // Newest first, and `max_by_key` takes the last of equals.
    let best = readings.into_iter().rev().max_by_key(|torch| torch.storages.len() + torch.tensors.len());
    let mut torch = best.unwrap_or_default();
    torch.judge();
    if malloc.is_none() {
        torch.doubts.push(Doubt::NoMalloc);
    }
    torch
}

impl Torch {
    /// What was rejected is nothing, or a sign that the offsets are wrong.
    fn judge(&mut self) {
        let [storages, tensors] = self.rejected;
        let few = |kept: usize, rejected: usize| kept * (100 - ENOUGH) < rejected * ENOUGH;
        if few(self.storages.len(), storages) {
            self.doubts.push(Doubt::Storages { kept: self.storages.len(), rejected: storages });
            self.storages.clear();
        }
        if few(self.tensors.len(), tensors) {
            self.doubts.push(Doubt::Tensors { kept: self.tensors.len(), rejected: tensors });
            self.tensors.clear();
        }
    }
}

impl Reader<'_> {
    fn read_all(self, candidates: &[Candidate]) -> Torch {
        let mut torch = Torch { layout: Some(self.layout), ..Torch::default() };
        let (storages, tensors): (Vec<Candidate>, Vec<Candidate>) =
            candidates.iter().partition(|candidate| {
                self.runs.word(candidate.address).is_some_and(|word| self.vtables.storages.contains(word))
            });
        torch.storages = storages.iter().filter_map(|candidate| self.storage(*candidate)).collect();
        torch.storages.sort_by_key(|storage| storage.address);
        torch.tensors = tensors.iter().filter_map(|candidate| self.tensor(*candidate, &torch)).collect();
        torch.tensors.sort_by_key(|tensor| tensor.address);
        torch.rejected = [storages.len() - torch.storages.len(), tensors.len() - torch.tensors.len()];
        torch.name_elements();
        torch
    }

    fn storage(self, Candidate { address, own_bytes }: Candidate) -> Option<Storage> {
        let Fields { references, data, device, bytes } = storage_fields(self.runs, self.layout, address)?;
        let end = data.checked_add(bytes)?;
        let (backing, resident) = if device.is_host() {
            (backing(self.image.mappings(), data, end)?, self.image.resident(data..end))
        } else {
            (Backing::Device, None)
        };
        let bytes = if device.is_meta() || data == 0 { 0 } else { bytes };
        Some(Storage {
            address,
            data,
            bytes,
            device,
            refcount: references,
            resident,
            backing,
            element: None,
            own_bytes,
        })
    }

    fn tensor(self, candidate: Candidate, torch: &Torch) -> Option<TensorImpl> {
        let layout = self.layout;
        let address = candidate.address;
        let refcount = references(self.runs, layout, address)?;
        let held = self.runs.word(address + layout.storage())?;
        let storage = torch.storage_at(held);
        // None for undefined, sparse and wrapper tensors.
        (held == 0 || storage.is_some()).then_some(())?;
        let elements = self.runs.word(address + layout.elements())?;
        let element = Element::new(self.runs.half(address + layout.element())? as u16)?;
        let shape = self.shape(address)?;
        let count = shape.iter().try_fold(1u64, |count, (size, _)| count.checked_mul(*size))?;
        // Nested tensors and those with symbolic shapes have none of their own.
        let is_own = count == elements;
        if let Some(storage) = storage.and_then(|index| torch.storages.get(index as usize)).filter(|_| is_own)
        {
            let offset = self.runs.word(address + layout.offset())?;
            let last = shape.iter().try_fold(offset, |at, (size, stride)| {
                at.checked_add(size.saturating_sub(1).checked_mul(*stride)?)
            })?;
            let fits = elements == 0
                || storage.bytes == 0
                || last.checked_add(1)?.checked_mul(element.bytes())? <= storage.bytes;
            fits.then_some(())?;
        }
        // Its low bits tell who keeps whom alive.
        let python =
            self.runs.word(address + layout.python).map(|python| python & !7).filter(|python| *python != 0);
        let gradient = self.gradient(address);
        let shape = if is_own { shape.into_iter().map(|(size, _)| size).collect() } else { Vec::new() };
        Some(TensorImpl {
            address,
            storage,
            shape,
            elements,
            element,
            refcount,
            python,
            gradient,
            inner: self.inner(candidate),
        })
    }

    /// Pointers to tensors behind the fields that every tensor has.
    fn inner(self, Candidate { address, own_bytes }: Candidate) -> Vec<u64> {
        if self.runs.word(address).is_none_or(|word| self.vtables.plain.contains(word)) {
            return Vec::new();
        }
        let words = (self.layout.element() + 8..own_bytes).step_by(8);
        let pointers = words.filter_map(|offset| self.runs.word(address + offset));
        pointers.filter(|pointer| self.is_tensor(*pointer)).collect()
    }

    fn is_tensor(self, address: u64) -> bool {
        self.runs.word(address).is_some_and(|word| self.vtables.tensors.contains(word))
    }

    /// Sizes with strides.
    fn shape(self, address: u64) -> Option<Vec<(u64, u64)>> {
        let at = address + self.layout.dimensions();
        let count = self.runs.word(at)?;
        (count <= MOST_DIMENSIONS).then_some(())?;
        let (sizes, strides) = if count <= INLINE {
            (at + 8, at + 8 + 8 * INLINE)
        } else {
            let outside = self.runs.word(at + 8)?;
            (outside, outside.checked_add(8 * count)?)
        };
        (0..count)
            .map(|i| {
                Some((
                    self.runs.word(sizes.checked_add(8 * i)?)?,
                    self.runs.word(strides.checked_add(8 * i)?)?,
                ))
            })
            .collect()
    }

    /// The tensor that is its gradient.
    fn gradient(self, address: u64) -> Option<u64> {
        let meta = self.runs.word(address + self.layout.gradient())?;
        let is_meta = self.runs.word(meta).is_some_and(|word| self.vtables.gradients.contains(word));
        let at =
            |offset| self.runs.word(meta.checked_add(offset)?).filter(|pointer| self.is_tensor(*pointer));
        is_meta.then(|| GRADIENTS.into_iter().find_map(at))?
    }
}

/// What a storage says of itself.
#[derive(Debug, Clone, Copy)]
pub(super) struct Fields {
    pub references: u32,
    pub data: u64,
    pub device: Device,
    pub bytes: u64,
}

pub(super) fn storage_fields(runs: &Runs<'_>, layout: Layout, address: u64) -> Option<Fields> {
    let references = references(runs, layout, address)?;
    let data = runs.word(address + layout.data())?;
    let [kind, index] = *runs.slice(address + layout.device(), 2)?.first_chunk()?;
    let device = Device::new(kind, index)?;
    let bytes = runs.word(address + layout.bytes())?;
    // A symbolic size is a tagged pointer: not a number of bytes.
    (bytes < MOST_BYTES).then_some(Fields { references, data, device, bytes })
}

/// The strong count; none if the two counts cannot be.
fn references(runs: &Runs<'_>, layout: Layout, address: u64) -> Option<u32> {
    let (strong, weak) = if layout.header == 16 {
        let counts = runs.word(address + 8)?;
        (counts & u64::from(u32::MAX), counts >> 32 & !KEEPS_PYTHON)
    } else {
        (runs.word(address + 8)?, runs.word(address + 16)?)
    };
    // Whoever holds an object strongly holds it weakly once more.
    let sound = (1..MOST_REFERENCES).contains(&strong) && (1..MOST_REFERENCES).contains(&weak);
    sound.then_some(strong as u32)
}

/// What a buffer lies in; none if it does not lie in anything.
pub(super) fn backing(mappings: &[Mapping], start: u64, end: u64) -> Option<Backing> {
    if start == 0 || start == end {
        return Some(Backing::Memory);
    }
    let first = mappings.partition_point(|mapping| mapping.end <= start);
    let mut reached = start;
    for mapping in mappings.get(first..)? {
        if mapping.start > reached || !mapping.read || reached >= end {
            break;
        }
        reached = mapping.end;
    }
    (reached >= end).then(|| mappings.get(first).map(backing_of))?
}

fn backing_of(mapping: &Mapping) -> Backing {
    match (mapping.is_file() && !mapping.is_named_memory(), mapping.shared) {
        (true, _) => Backing::File,
        (false, true) => Backing::Shared,
        (false, false) => Backing::Memory,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_memory_and_no_file() {
        let of = |path: &str, shared: bool| {
            let (start, end) = (0x1000, 0x2000);
            let mapping = Mapping { start, end, read: true, shared, path: path.into(), ..Mapping::default() };
            backing(&[mapping], 0x1000, 0x1800)
        };
        assert_eq!(of("/dev/hugepages/weights", true), Some(Backing::Shared));
        assert_eq!(of("/dev/shm/weights", false), Some(Backing::Memory));
        assert_eq!(of("/data/weights", true), Some(Backing::File));
    }
}
