//! What storages are for, as far as torch itself says so: a `Parameter` is a weight, what a tensor names as its
//! gradient is one, and an optimizer's own is what hangs below its `state`.

use std::collections::HashSet;
use std::ops::Range;

use nilometer_trace::heap::Graph;

use super::Torch;

/// Bytes of storages by role; each storage in one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    pub weights_bytes: u64,
    pub gradients_bytes: u64,
    pub optimizer_bytes: u64,
    /// Where they are, in order of address.
    pub places: Vec<(Range<u64>, Role)>,
}

/// What a storage is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Weights,
    Gradients,
    Optimizer,
}

impl Roles {
    /// `graph` has the Python objects of the tensors; `state` are addresses of those that optimizers keep.
    pub fn of(torch: &Torch, graph: &Graph, state: &[u64]) -> Self {
        let is_parameter: Vec<bool> = graph.kinds.iter().map(|kind| is_parameter(&kind.name)).collect();
        let kind_of = |address: u64| graph.at(address).map(|object| graph.objects.kind[object as usize]);
        let is_weight = |python: u64| {
            kind_of(python).and_then(|kind| is_parameter.get(kind as usize)).copied().unwrap_or(false)
        };
        let weights = torch.tensors.iter().filter(|tensor| tensor.python.is_some_and(is_weight));
        let weights: HashSet<u32> = weights.filter_map(|tensor| tensor.storage).collect();
        let gradients = torch.tensors.iter().filter_map(|tensor| torch.tensor_at(tensor.gradient?)?.storage);
        let gradients: HashSet<u32> = gradients.filter(|storage| !weights.contains(storage)).collect();
        let state: HashSet<u64> = state.iter().copied().collect();
        let kept = torch.tensors.iter().filter(|tensor| tensor.python.is_some_and(|at| state.contains(&at)));
        let is_other = |storage: &u32| !weights.contains(storage) && !gradients.contains(storage);
        let kept: HashSet<u32> = kept.filter_map(|tensor| tensor.storage).filter(is_other).collect();
        let mut roles = Self::default();
        roles.weights_bytes = roles.place(torch, &weights, Role::Weights);
        roles.gradients_bytes = roles.place(torch, &gradients, Role::Gradients);
        roles.optimizer_bytes = roles.place(torch, &kept, Role::Optimizer);
        roles.places.sort_by_key(|(range, _)| range.start);
        roles
    }

    /// Notes storages of one role; their bytes.
    fn place(&mut self, torch: &Torch, storages: &HashSet<u32>, role: Role) -> u64 {
        let host = storages.iter().filter_map(|index| torch.storages.get(*index as usize));
        let host: Vec<_> = host.filter(|storage| storage.device.is_host()).collect();
        let place =
            |storage: &&super::Storage| (storage.data..storage.data.saturating_add(storage.bytes), role);
        self.places.extend(host.iter().map(place));
        host.iter().map(|storage| storage.bytes).sum()
    }
}

/// As kinds are named with and without their module.
fn is_parameter(name: &str) -> bool {
    matches!(name.rsplit('.').next(), Some("Parameter" | "Buffer" | "UninitializedParameter"))
        && (name.starts_with("torch.") || !name.contains('.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_told_by_their_class() {
        assert!(is_parameter("torch.nn.parameter.Parameter") && is_parameter("Parameter"));
        assert!(!is_parameter("torch.Tensor") && !is_parameter("inspect.Parameter"));
    }
}
