//! Filters: which objects of a set stay.

use nilometer_trace::heap::{Nature, ObjectId};

use super::bits::Bits;
use super::{Error, Filter, Heap, Set, reach, resolve};
use crate::text;

pub(super) fn select(heap: &Heap<'_>, within: Set, filter: &Filter) -> Result<Set, Error> {
    let mut set = within;
    if let Some(pattern) = &filter.kind {
        let passing: Vec<bool> = heap.kinds().names.iter().map(|name| matches(pattern, name)).collect();
        keep(&mut set, format!("kind {pattern}"), |id| {
            passing[heap.kinds().shown(heap.fold().told_as(id)) as usize]
        });
    }
    if let Some(module) = &filter.module {
        let kinds = heap.graph().kinds.iter();
        let passing: Vec<bool> = kinds.map(|kind| is_in(&kind.module, module)).collect();
        let kind = &heap.graph().objects.kind;
        keep(&mut set, format!("module {module}"), |id| {
            passing[kind[heap.fold().told_as(id) as usize] as usize]
        });
    }
    if filter.min_bytes > 0 {
        keep_large(heap, &mut set, filter.min_bytes);
    }
    if filter.unreachable {
        keep(&mut set, "reached by no root".into(), |id| !heap.reach().has(id));
    }
    if let Some(path) = &filter.under {
        let below = under(heap, resolve::find(heap, path)?);
        keep(&mut set, format!("under {path}"), |id| below.has(id));
    }
    Ok(set)
}

fn keep(set: &mut Set, what: String, passes: impl Fn(ObjectId) -> bool) {
    set.ids.retain(|id| passes(*id));
    set.selection.push(what);
}

fn keep_large(heap: &Heap<'_>, set: &mut Set, min_bytes: u64) {
    let amounts = heap.amounts_among(&set.ids);
    let mut large = Bits::new(heap.len());
    for (id, amount) in set.ids.iter().zip(amounts.each(&set.ids)) {
        if amount.total() >= min_bytes {
            large.set(*id);
        }
    }
    // A storage goes with its teller, which has its bytes.
    for (storage, teller) in heap.told_among(&set.ids) {
        if large.has(teller) {
            large.set(storage);
        }
    }
    set.ids = large.ids();
    set.selection.push(format!("at least {}", text::bytes(min_bytes)));
}

/// What belongs to an object: all that can be reached without entering modules, classes, functions, code and
/// frames, which others share.
pub(super) fn under(heap: &Heap<'_>, object: ObjectId) -> Bits {
    let graph = heap.graph();
    let shared: Vec<bool> = graph.kinds.iter().map(|kind| is_shared(kind.nature)).collect();
    reach::reachable(graph, &[object], |id| id != object && shared[graph.objects.kind[id as usize] as usize])
}

fn is_shared(nature: Nature) -> bool {
    matches!(nature, Nature::Module | Nature::Type | Nature::Function | Nature::Code | Nature::Frame)
}

/// The module itself or one inside it.
fn is_in(module: &str, package: &str) -> bool {
    module.strip_prefix(package).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// A glob when it has `*` or `?`, otherwise a part of the name, without regard to case.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.to_lowercase(), name.to_lowercase());
    if pattern.contains(['*', '?']) {
        glob(pattern.as_bytes(), name.as_bytes())
    } else {
        name.contains(&pattern)
    }
}

/// Linear in practice: only the last star is ever tried again.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    let (mut p, mut n) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                star = Some((p + 1, n));
                p += 1;
            }
            Some(byte) if *byte == b'?' || *byte == name[n] => {
                p += 1;
                n += 1;
            }
            _ => match star {
                Some((after, from)) => {
                    star = Some((after, from + 1));
                    (p, n) = (after, from + 1);
                }
                None => return false,
            },
        }
    }
    pattern[p..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_parts_or_globs() {
        for (pattern, name, good) in [
            ("node", "dict of __main__.Node", true),
            ("*node", "dict of __main__.Node", true),
            ("*node", "Nodes", false),
            ("?ist", "list", true),
            ("numpy.*", "numpy.ndarray", true),
            ("a*b*c", "a-b-b-c", true),
            ("a*b*c", "a-b-b-d", false),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(matches(pattern, name), good, "{pattern} {name}");
        }
    }

    #[test]
    fn a_package_has_its_modules() {
        assert!(is_in("torch.nn", "torch") && is_in("torch", "torch"));
        assert!(!is_in("torchvision", "torch"));
    }
}
