//! What mappings and stretches of memory are called.

use std::collections::BTreeMap;

use nilometer_trace::pages::{Mapping, Owner};

/// Memory without a file of which nothing else is known.
pub(super) const ANONYMOUS: &str = "anonymous";

/// Names by address.
#[derive(Debug, Default)]
pub(super) struct Names {
    mappings: BTreeMap<u32, String>,
    /// By process and start.
    owners: BTreeMap<(i32, u64), (u64, String)>,
}

impl Names {
    pub fn add(&mut self, mapping: &Mapping) {
        self.mappings.insert(mapping.id, name(mapping));
    }

    pub fn own(&mut self, owner: Owner) {
        self.owners.insert((owner.pid, owner.start), (owner.end, owner.name));
    }

    /// The owner of most of a stretch, else the name of its mapping.
    pub fn of(&self, pid: i32, start: u64, end: u64, mapping: u32) -> &str {
        let first = self.owners.range((pid, 0)..=(pid, start)).next_back();
        let rest = self.owners.range((pid, start.saturating_add(1))..(pid, end.max(start.saturating_add(1))));
        let inside = first.into_iter().chain(rest).map(|((_, from), (to, name))| {
            ((*to).min(end).saturating_sub((*from).max(start)), name.as_str())
        });
        let owner = inside.filter(|(bytes, _)| *bytes > 0).max_by_key(|(bytes, _)| *bytes);
        match owner {
            Some((_, name)) => name,
            None => self.mappings.get(&mapping).map_or(ANONYMOUS, String::as_str),
        }
    }
}

/// `libtorch_cpu.so`, `[heap]`, `anonymous`.
fn name(mapping: &Mapping) -> String {
    let path = mapping.name.trim_end_matches(" (deleted)");
    match path.rsplit_once('/') {
        Some((_, file)) if !file.is_empty() => file.to_owned(),
        _ if path.is_empty() => ANONYMOUS.to_owned(),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_of_most_is_named_before_the_mapping() {
        let mut names = Names::default();
        names.add(&Mapping { id: 3, name: "/usr/lib/libc.so.6 (deleted)".into(), ..Mapping::default() });
        for (start, end, name) in [(0, 100, "weights"), (100, 1000, "data")] {
            names.own(Owner { pid: 1, start, end, name: name.into() });
        }
        assert_eq!((names.of(1, 10, 90, 3), names.of(1, 90, 200, 3)), ("weights", "data"));
        assert_eq!((names.of(1, 1000, 1100, 3), names.of(2, 10, 90, 3)), ("libc.so.6", "libc.so.6"));
        assert_eq!((names.of(1, 2000, 2001, 9), names.of(1, 5, 5, 9)), (ANONYMOUS, ANONYMOUS));
    }
}
