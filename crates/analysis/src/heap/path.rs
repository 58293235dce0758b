//! Paths in words: objects from an anchor to a target become `train.cache['history'][3].c`.
//!
//! Folded away: the step to an object's own dict, and the dicts in which torch modules keep children and parameters.

use nilometer_trace::heap::{Graph, Label, Nature, ObjectId, Part};

use super::Heap;
use super::anchor::{Anchor, name_of};
use super::attribute::link_name;
use super::model::{self, Path, Segment};

/// A path with more objects is told by its begin and its end; those between are counted.
const LONG: usize = 64;
const HEAD: usize = 24;
const TAIL: usize = 8;
/// Dicts of a torch module whose entries are its attributes.
pub(super) const TORCH_DICTS: [&str; 3] = ["_modules", "_parameters", "_buffers"];

/// Objects from one that an anchor names to the target.
#[derive(Debug, Clone)]
pub(super) struct Route<'h> {
    pub(super) anchor: &'h Anchor,
    pub(super) objects: Vec<ObjectId>,
}

/// A shortest one, where a root reaches the object.
pub(super) fn shortest<'h>(heap: &'h Heap<'_>, object: ObjectId) -> Option<Route<'h>> {
    if !heap.reach().has(object) {
        return None;
    }
    let mut objects = vec![object];
    let mut at = object;
    while let Some(via) =
        heap.reach().via.get(at as usize).copied().filter(|via| (*via as usize) < heap.len())
    {
        objects.push(via);
        at = via;
    }
    objects.reverse();
    let anchors = heap.anchors().at(at);
    let anchor = anchors.iter().find(|anchor| anchor.strong).or(anchors.first())?;
    Some(Route { anchor, objects })
}

pub(super) fn shortest_text(heap: &Heap<'_>, object: ObjectId) -> Option<String> {
    shortest(heap, object).map(|route| render(heap, &route).text)
}

pub(super) fn render(heap: &Heap<'_>, route: &Route<'_>) -> Path {
    let first = *route.objects.first().unwrap_or(&route.anchor.object);
    let mut segments = vec![segment(heap, route.anchor.name.clone(), first)];
    let named = |steps: Vec<NamedStep>| steps.into_iter().map(|step| segment(heap, step.text, step.to));
    if route.objects.len() <= LONG {
        segments.extend(named(steps(heap, &route.objects)));
    } else {
        let (head, tail) = (&route.objects[..HEAD], &route.objects[route.objects.len() - TAIL..]);
        segments.extend(named(steps(heap, head)));
        let more = format!(" … {} more … ", route.objects.len() - HEAD - TAIL);
        segments.push(segment(heap, more, tail[0]));
        segments.extend(named(steps(heap, tail)));
    }
    let anchor = name_anchor(heap, route.anchor, &mut segments);
    Path { text: segments.iter().map(|segment| segment.text.as_str()).collect(), anchor, segments }
}

/// One named step.
#[derive(Debug, Clone)]
pub(super) struct NamedStep {
    pub(super) text: String,
    pub(super) to: ObjectId,
}

/// Names of the steps along some objects, folded.
pub(super) fn steps(heap: &Heap<'_>, objects: &[ObjectId]) -> Vec<NamedStep> {
    let graph = heap.graph();
    let mut steps = Vec::new();
    let mut in_torch = false;
    for (place, pair) in objects.windows(2).enumerate() {
        let (from, to) = (pair[0], pair[1]);
        let label = label_between(graph, from, to);
        let next = objects.get(place + 2).map(|next| label_between(graph, to, *next));
        if next.is_some() && heap.fold().dict_owner(to) == Some(from) {
            continue;
        }
        if next.is_some_and(is_entry) && is_torch_dict(heap, from, label) {
            in_torch = true;
            continue;
        }
        let text = if in_torch { torch_text(graph, label) } else { step_text(heap, from, label, to) };
        in_torch = false;
        steps.push(NamedStep { text, to });
    }
    steps
}

fn is_entry(label: Label) -> bool {
    matches!(label.part(), Some(Part::Key(_) | Part::Index(_) | Part::Position(_)))
}

/// The label leads from a torch module to one of its dicts.
fn is_torch_dict(heap: &Heap<'_>, from: ObjectId, label: Label) -> bool {
    let named = name_of(heap.graph(), label).is_some_and(|name| TORCH_DICTS.contains(&name));
    let owner = heap.fold().dict_owner(from).unwrap_or(from);
    named && is_torch_module(heap, owner)
}

pub(super) fn is_torch_module(heap: &Heap<'_>, object: ObjectId) -> bool {
    heap.graph().kind_of(object).nature == Nature::Instance
        && heap.attribute(object, "_modules").is_some()
        && heap.attribute(object, "_parameters").is_some()
}

fn torch_text(graph: &Graph, label: Label) -> String {
    match (label.part(), name_of(graph, label)) {
        (Some(Part::Index(place) | Part::Position(place)), _) => format!("[{place}]"),
        (_, Some(name)) if name.bytes().all(|byte| byte.is_ascii_digit()) => format!("[{name}]"),
        (_, Some(name)) => attribute_text(name),
        _ => "[?]".into(),
    }
}

pub(super) fn step_text(heap: &Heap<'_>, from: ObjectId, label: Label, to: ObjectId) -> String {
    let graph = heap.graph();
    let name = name_of(graph, label).unwrap_or_default();
    let is_dict = graph.kind_of(from).nature == Nature::Dict;
    let is_space = is_dict && (heap.fold().dict_owner(from).is_some() || heap.anchors().is_namespace(from));
    match label.part() {
        Some(Part::Attribute(_) | Part::Key(_)) if is_space => attribute_text(name),
        Some(Part::Attribute(_)) if is_dict => key_text(name),
        Some(Part::Attribute(_) | Part::Local(_)) => attribute_text(name),
        Some(Part::Key(_)) => key_text(name),
        Some(Part::Index(place)) => format!("[{place}]"),
        Some(Part::Position(place)) => format!("[#{place}]"),
        Some(Part::Member) => format!("{{{}}}", heap.kinds().name(to)),
        Some(Part::Special(special)) => format!(".{}", link_name(special)),
        None | Some(Part::Unnamed) => format!(".<{}>", heap.kinds().name(to)),
    }
}

fn attribute_text(name: &str) -> String {
    if is_identifier(name) || is_bracketed(name) { format!(".{name}") } else { key_text(name) }
}

fn key_text(name: &str) -> String {
    format!("['{}']", name.replace('\\', "\\\\").replace('\'', "\\'"))
}

fn is_identifier(name: &str) -> bool {
    let mut chars = name.chars();
    chars.next().is_some_and(|first| first.is_alphabetic() || first == '_')
        && chars.all(|rest| rest.is_alphanumeric() || rest == '_')
}

/// Names that census or interpreter give to what has none: `<lambda>`, `<closure>`.
fn is_bracketed(name: &str) -> bool {
    name.len() > 2 && name.starts_with('<') && name.ends_with('>')
}

/// Of several references from one to the other, the one that says most.
pub(super) fn label_between(graph: &Graph, from: ObjectId, to: ObjectId) -> Label {
    let range = graph.edges.range(from);
    let labels = graph.edges.label.get(range.clone()).unwrap_or_default();
    let between = graph.edges.to[range].iter().zip(labels).filter(|edge| *edge.0 == to);
    between.map(|edge| *edge.1).min_by_key(|label| plainness(*label)).unwrap_or_default()
}

fn plainness(label: Label) -> u8 {
    match label.part() {
        Some(Part::Attribute(_) | Part::Key(_) | Part::Local(_)) => 0,
        Some(Part::Index(_)) => 1,
        Some(Part::Position(_)) => 2,
        Some(Part::Special(_)) => 3,
        Some(Part::Member) => 4,
        Some(Part::Unnamed) | None => 5,
    }
}

fn segment(heap: &Heap<'_>, text: String, object: ObjectId) -> Segment {
    let amount = heap.amounts().of(object);
    Segment {
        text,
        kind: heap.kinds().name(object).to_owned(),
        address: heap.address(object),
        bytes: amount.bytes,
        payload_bytes: amount.payload,
    }
}

/// What a notebook keeps is known by its own names, and the last error has a name of its own.
fn name_anchor(heap: &Heap<'_>, anchor: &Anchor, segments: &mut Vec<Segment>) -> model::Anchor {
    let first = segments.get(1).and_then(|segment| segment.text.strip_prefix('.')).unwrap_or_default();
    if anchor.what != model::Anchor::Module {
        return anchor.what;
    }
    if anchor.name == "sys" && first.starts_with("last_") {
        return model::Anchor::LastError;
    }
    if anchor.name == "__main__" && heap.anchors().notebook && is_notebook_name(first) {
        let name = first.to_owned();
        segments.remove(0);
        segments[0].text = name;
        return model::Anchor::Notebook;
    }
    model::Anchor::Module
}

/// `Out`, `In`, `_`, `__`, `___`, `_17`, `_i`, `_i17`, `_ih`, `_oh`, `_dh`.
fn is_notebook_name(name: &str) -> bool {
    let number = name.strip_prefix('_').map(|rest| rest.strip_prefix('i').unwrap_or(rest));
    let numbered = number.is_some_and(|it| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit()));
    numbered || ["Out", "In", "_", "__", "___", "_i", "_ii", "_iii", "_ih", "_oh", "_dh"].contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_notebooks_are_known() {
        assert!(["Out", "_", "___", "_17", "_i3", "_oh"].iter().all(|name| is_notebook_name(name)));
        assert!(["out", "_x", "_1a", "model", "", "_i_"].iter().all(|name| !is_notebook_name(name)));
    }

    #[test]
    fn odd_names_are_keys() {
        assert_eq!(attribute_text("größe"), ".größe");
        assert_eq!(attribute_text("<lambda>"), ".<lambda>");
        assert_eq!(attribute_text("a b"), "['a b']");
        assert_eq!(key_text("it's"), "['it\\'s']");
    }
}
