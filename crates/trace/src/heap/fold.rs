//! What stands for what: an instance's dict belongs to the instance, a torch storage is told with a tensor.
//!
//! A storage's teller is the first tensor (by address) that refers to it, else the first Python object that does.

use super::{Graph, Label, Nature, ObjectId, Part, Special};

/// No object: ids end before it.
pub const NO_OBJECT: ObjectId = ObjectId::MAX;

/// Who stands for whom in one graph.
#[derive(Debug)]
pub struct Fold {
    /// For each object whose dict it is; [`NO_OBJECT`] for all else.
    dict_owner: Vec<ObjectId>,
    /// Storage and its teller, by storage.
    tellers: Vec<(ObjectId, ObjectId)>,
}

impl Fold {
    pub fn of(graph: &Graph) -> Self {
        Self { dict_owner: dict_owners(graph), tellers: tellers(graph) }
    }

    /// The object whose own dict this is.
    #[inline]
    pub fn dict_owner(&self, dict: ObjectId) -> Option<ObjectId> {
        self.dict_owner.get(dict as usize).copied().filter(|owner| *owner != NO_OBJECT)
    }

    /// The object with which a storage is told; none for what stands for itself.
    pub fn teller(&self, object: ObjectId) -> Option<ObjectId> {
        let place = self.tellers.binary_search_by_key(&object, |row| row.0).ok()?;
        Some(self.tellers[place].1).filter(|teller| *teller != NO_OBJECT)
    }

    /// Itself, or the tensor of a storage.
    pub fn told_as(&self, object: ObjectId) -> ObjectId {
        self.teller(object).unwrap_or(object)
    }

    /// All storages, and the objects with which they are told ([`NO_OBJECT`]: only C++ holds them), by storage.
    pub fn tellers(&self) -> &[(ObjectId, ObjectId)] {
        &self.tellers
    }
}

fn dict_owners(graph: &Graph) -> Vec<ObjectId> {
    let link = Label::new(Part::Special(Special::Dict));
    let mut owners = vec![NO_OBJECT; graph.len()];
    for (dict, owner) in &graph.dict_owners {
        owners[*dict as usize] = *owner;
    }
    if graph.edges.label.is_empty() {
        return owners;
    }
    for object in 0..graph.len() as ObjectId {
        for edge in graph.edges.range(object) {
            if graph.edges.label[edge] == link {
                let owner = &mut owners[graph.edges.to[edge] as usize];
                *owner = (*owner).min(object);
            }
        }
    }
    owners
}

fn tellers(graph: &Graph) -> Vec<(ObjectId, ObjectId)> {
    let natures: Vec<Nature> = graph.kinds.iter().map(|kind| kind.nature).collect();
    let nature = |object: ObjectId| natures[graph.objects.kind[object as usize] as usize];
    if !natures.contains(&Nature::Storage) {
        return Vec::new();
    }
    let storages = (0..graph.len() as ObjectId).filter(|object| nature(*object) == Nature::Storage);
    let mut tellers: Vec<(ObjectId, ObjectId)> = storages.map(|storage| (storage, NO_OBJECT)).collect();
    for object in 0..graph.len() as ObjectId {
        let own = nature(object);
        if own == Nature::Storage {
            continue;
        }
        for to in graph.referents(object).iter().filter(|to| nature(**to) == Nature::Storage) {
            if let Ok(place) = tellers.binary_search_by_key(to, |row| row.0) {
                let teller = &mut tellers[place].1;
                let better =
                    own == Nature::Tensor && *teller != NO_OBJECT && nature(*teller) != Nature::Tensor;
                if *teller == NO_OBJECT || better {
                    *teller = object;
                }
            }
        }
    }
    tellers
}
