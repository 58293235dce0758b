//! What the first word of a torch object tells: the class it is of.
//!
//! A class's virtual table is exported, by several libraries at once for some of them (a weak symbol), and which one an
//! object points at is the dynamic linker's choice: all are taken.

use nilometer_image::Modules;

use super::scan::Needles;

/// From a table's symbol to what objects point at.
const FIRST_FUNCTION: u64 = 16;
/// How the names of virtual tables of classes in a namespace begin.
const PREFIX: &str = "_ZTVN";
/// The class that the others are derived from.
const PLAIN: &str = "_ZTVN3c1010TensorImplE";

/// The first words of objects of a class and its subclasses.
#[derive(Debug, Clone)]
pub(super) struct Vtables {
    pub storages: Needles,
    pub tensors: Needles,
    /// Tensors of no subclass.
    pub plain: Needles,
    /// What a tensor keeps for its gradient.
    pub gradients: Needles,
    pub all: Needles,
}

impl Vtables {
    /// None where torch is not loaded. Only torch's own libraries are opened.
    pub fn of(modules: &Modules) -> Option<Self> {
        let libraries = modules.find_all(is_of_torch);
        let exports: Vec<(String, u64)> =
            libraries.flat_map(|module| module.variables(PREFIX, |name| class_of(name).is_some())).collect();
        let of = |accepts: &dyn Fn(&str) -> bool| {
            let tables = exports.iter().filter(|(name, _)| accepts(name));
            Needles::new(tables.map(|(_, table)| table.wrapping_add(FIRST_FUNCTION)).collect())
        };
        let is = |class: Class| move |name: &str| class_of(name) == Some(class);
        let vtables = Self {
            storages: of(&is(Class::Storage)),
            tensors: of(&is(Class::Tensor)),
            plain: of(&|name| name == PLAIN),
            gradients: of(&is(Class::Gradient)),
            all: of(&|name| matches!(class_of(name), Some(Class::Storage | Class::Tensor))),
        };
        (!vtables.storages.is_empty() && !vtables.tensors.is_empty()).then_some(vtables)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    Storage,
    Tensor,
    Gradient,
}

/// `libc10.so`, `libtorch_cpu.so.1.13`, `libtorch_python.so`, and extensions that say so.
fn is_of_torch(name: &str) -> bool {
    name.starts_with("libc10") || name.contains("torch") || name.starts_with("_XLAC")
}

/// By the mangled name of a virtual table.
fn class_of(symbol: &str) -> Option<Class> {
    let class = symbol.strip_prefix(PREFIX)?;
    let ends = |name: &str| class.strip_suffix('E').is_some_and(|class| class.ends_with(name));
    // `OpaqueTensorImpl<…>` and the like.
    let is_template =
        |name: &str| class.find(name).is_some_and(|at| class[at + name.len()..].starts_with('I'));
    if ends("StorageImpl") {
        Some(Class::Storage)
    } else if ends("TensorImpl") || ends("TensorWrapper") || is_template("OpaqueTensorImpl") {
        Some(Class::Tensor)
    } else if symbol == "_ZTVN5torch8autograd12AutogradMetaE" {
        Some(Class::Gradient)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subclasses_are_known_by_their_names() {
        for (symbol, class) in [
            ("_ZTVN3c1011StorageImplE", Some(Class::Storage)),
            ("_ZTVN2at17functionalization21FunctionalStorageImplE", Some(Class::Storage)),
            ("_ZTVN3c1010TensorImplE", Some(Class::Tensor)),
            ("_ZTVN2at16SparseTensorImplE", Some(Class::Tensor)),
            ("_ZTVN2at9functorch13TensorWrapperE", Some(Class::Tensor)),
            ("_ZTVN2at16OpaqueTensorImplIN3c1013intrusive_ptrIiEEEE", Some(Class::Tensor)),
            ("_ZTVN5torch8autograd12AutogradMetaE", Some(Class::Gradient)),
            ("_ZTVN3c1014TensorImplThingE", None),
            ("_ZTSN3c1010TensorImplE", None),
            ("_ZTVSt23_Sp_counted_ptr_inplaceIN3c1010TensorImplESaIS1_EE", None),
        ] {
            assert_eq!(class_of(symbol), class, "{symbol}");
        }
    }
}
