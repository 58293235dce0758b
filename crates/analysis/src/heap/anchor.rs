//! Where paths begin: modules by their names, locals of frames, and what else holds objects.
//!
//! The module table itself is not shown: a module that stands in it under a name is an anchor.

use nilometer_trace::heap::{Fold, Graph, Holder, Label, Nature, ObjectId, Part, Root};

use super::model;

/// The second name that multiprocessing gives the main module of a child.
const SECOND_MAIN: &str = "__mp_main__";

/// One way in. Strong anchors have names that a user would write.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Anchor {
    pub(super) object: ObjectId,
    pub(super) what: model::Anchor,
    pub(super) name: String,
    pub(super) strong: bool,
}

#[derive(Debug)]
pub(super) struct Anchors {
    /// By object; several may name the same.
    rows: Vec<Anchor>,
    /// Dicts that are namespaces although no module object was found for them.
    namespaces: Vec<ObjectId>,
    /// `__main__` is a notebook's namespace.
    pub(super) notebook: bool,
}

impl Anchors {
    pub(super) fn of(graph: &Graph, fold: &Fold) -> Self {
        let mut rows = modules(graph);
        let mut named: Vec<ObjectId> = rows.iter().map(|row| row.object).collect();
        named.sort_unstable();
        let known = |root: &&Root| {
            let owner = fold.dict_owner(root.object).unwrap_or(root.object);
            // The frame of a module's own code holds the module's dict, which has a better name.
            let is_space = root.holder == Holder::Frame && owner != root.object;
            let is_told = matches!(root.holder, Holder::Sys | Holder::Builtins | Holder::Modules);
            (is_told || is_space) && named.binary_search(&owner).is_ok()
        };
        let others: Vec<&Root> = graph.roots.iter().filter(|root| !known(root)).collect();
        let is_space = |root: &&&Root| matches!(root.holder, Holder::Sys | Holder::Builtins);
        let namespaces = others.iter().filter(is_space).map(|root| root.object).collect();
        rows.extend(others.iter().map(|root| from_root(root)));
        rows.sort_by_key(|row| (row.object, row.name == SECOND_MAIN));
        // What has this name has a better one, which is told before it.
        rows.dedup_by(|row, before| {
            row == before || (row.object == before.object && row.name == SECOND_MAIN)
        });
        let mut anchors = Self { rows, namespaces, notebook: false };
        anchors.notebook = anchors.has_notebook(graph);
        anchors
    }

    pub(super) fn rows(&self) -> &[Anchor] {
        &self.rows
    }

    /// Those that name an object.
    pub(super) fn at(&self, object: ObjectId) -> &[Anchor] {
        let first = self.rows.partition_point(|row| row.object < object);
        let rest = &self.rows[first..];
        &rest[..rest.iter().take_while(|row| row.object == object).count()]
    }

    pub(super) fn is_module(&self, object: ObjectId) -> bool {
        self.at(object).iter().any(|row| row.what == model::Anchor::Module && row.strong)
    }

    pub(super) fn is_namespace(&self, dict: ObjectId) -> bool {
        self.namespaces.contains(&dict)
    }

    pub(super) fn module(&self, name: &str) -> Option<ObjectId> {
        self.rows
            .iter()
            .find(|row| row.what == model::Anchor::Module && row.name == name)
            .map(|row| row.object)
    }

    fn has_notebook(&self, graph: &Graph) -> bool {
        let Some(main) = self.module("__main__") else { return false };
        let dicts = graph.referents(main).iter().copied();
        dicts.chain([main]).any(|dict| has_key(graph, dict, "Out") && has_key(graph, dict, "In"))
    }
}

fn has_key(graph: &Graph, dict: ObjectId, key: &str) -> bool {
    let labels = graph.edges.label.get(graph.edges.range(dict)).unwrap_or_default();
    labels.iter().any(|label| name_of(graph, *label).is_some_and(|name| name == key))
}

/// The name that a label carries.
pub(super) fn name_of(graph: &Graph, label: Label) -> Option<&str> {
    match label.part()? {
        Part::Attribute(name) | Part::Key(name) | Part::Local(name) => {
            graph.names.get(name as usize).map(String::as_str)
        }
        _ => None,
    }
}

fn modules(graph: &Graph) -> Vec<Anchor> {
    let tables = graph.roots.iter().filter(|root| root.holder == Holder::Modules);
    tables.flat_map(|root| modules_of(graph, root)).collect()
}

/// A root of this holder is a module itself, or the table of them.
fn modules_of(graph: &Graph, root: &Root) -> Vec<Anchor> {
    let named =
        |object, name: &str| Anchor { object, what: model::Anchor::Module, name: name.into(), strong: true };
    if graph.kind_of(root.object).nature == Nature::Module {
        return vec![named(root.object, &root.name)];
    }
    let labels = graph.edges.label.get(graph.edges.range(root.object)).unwrap_or_default();
    let entries = graph.referents(root.object).iter().zip(labels);
    let values = entries.filter(|(_, label)| matches!(label.part(), Some(Part::Key(_) | Part::Attribute(_))));
    let modules = values.filter(|(module, _)| graph.kind_of(**module).name != "NoneType");
    modules.filter_map(|(module, label)| Some(named(*module, name_of(graph, *label)?))).collect()
}

fn from_root(root: &Root) -> Anchor {
    let (what, strong) = match root.holder {
        Holder::Modules | Holder::Sys | Holder::Builtins => (model::Anchor::Module, true),
        Holder::Frame => (model::Anchor::Frame, true),
        Holder::Interpreter => (model::Anchor::Interpreter, false),
        Holder::StaticType => (model::Anchor::StaticType, false),
        Holder::Native => (model::Anchor::Native, false),
    };
    Anchor { object: root.object, what, name: root.name.clone(), strong }
}
