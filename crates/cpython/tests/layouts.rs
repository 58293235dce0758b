//! The tables, against what Python says of its own objects.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

mod target;

use nilometer_cpython::layout::{Layout, Member};
use nilometer_cpython::{Python, locate};
use nilometer_image::Memory;
use nilometer_image::live::Peek;
use serde_json::Value;
use target::{Target, interpreters};

fn for_each_interpreter(check: impl Fn(&Value, &Python, &Peek)) {
    for program in interpreters() {
        let target = Target::start(&program, "objects.py");
        let peek = Peek::open(target.pid()).unwrap();
        let python =
            locate(&peek, &peek.modules()).unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        check(&target.truth, &python, &peek);
    }
}

fn owned(layout: &Layout) -> [(&'static str, &'static [Member]); 13] {
    let owned = &layout.owned;
    [
        ("function", owned.function),
        ("code", owned.code),
        ("method", owned.method),
        ("builtin", owned.builtin),
        ("cell", owned.cell),
        ("slice", owned.slice),
        ("property", owned.property),
        ("static_method", owned.static_method),
        ("class_method", owned.class_method),
        ("descriptor", owned.descriptor),
        ("traceback", owned.traceback),
        ("exception", owned.exception),
        ("memory_view", owned.memory_view),
    ]
}

#[test]
fn owned_references_are_where_the_tables_say() {
    for_each_interpreter(|truth, python, peek| {
        for (kind, members) in owned(&python.layout) {
            let [object, parts] = &truth["objects"][kind].as_array().unwrap()[..] else { panic!("{kind}") };
            let found = |name: &str| {
                let (_, offset) =
                    members.iter().find(|(member, _)| *member == name).unwrap_or_else(|| panic!("{name}"));
                peek.u64(object.as_u64().unwrap() + offset)
            };
            for (name, id) in parts.as_object().unwrap() {
                assert_eq!(found(name), id.as_u64(), "{} {kind}.{name}", python.version);
            }
            // What Python does not show must at least be objects.
            for (name, offset) in members {
                let word = peek.u64(object.as_u64().unwrap() + offset).unwrap();
                assert!(word == 0 || is_object(python, peek, word), "{} {kind}.{name}", python.version);
            }
        }
    });
}

/// Its type's type is `type` or one of `type`'s own instances.
fn is_object(python: &Python, peek: &Peek, address: u64) -> bool {
    let type_of = |object: u64| peek.u64(object.checked_add(python.layout.object.type_)?);
    let metatype = type_of(address).and_then(type_of);
    metatype == Some(python.type_type) || metatype.and_then(type_of) == Some(python.type_type)
}

#[test]
fn sizes_are_those_of_the_tables() {
    for_each_interpreter(|truth, python, _| {
        let layout = &python.layout;
        let sizes = [
            ("dict", layout.dict.size),
            ("list", layout.list.size),
            ("set", layout.set.size),
            ("str", layout.str_.size),
            ("bytes", layout.bytes.size),
            ("bytearray", layout.byte_array.size),
            ("type", layout.heap_type.size),
            ("module", layout.module.size),
            ("code", layout.code.size),
            // From 3.11 on both have room for a frame behind them.
            ("frame", layout.frame_object.size + layout.frame.size),
            ("generator", layout.generator.size + layout.frame.size),
        ];
        for (name, size) in sizes {
            assert_eq!(truth["sizes"][name].as_u64(), Some(size), "{} {name}", python.version);
        }
    });
}

/// A kind of object, the number that Python tells, and where the table has it.
type Field<'a> = (&'a str, &'a str, u64);

fn fields(layout: &Layout) -> Vec<Field<'static>> {
    let (type_, heap) = (&layout.type_, &layout.heap_type);
    vec![
        ("type", "basicsize", type_.basicsize),
        ("type", "itemsize", type_.itemsize),
        ("type", "flags", type_.flags),
        ("type", "base", type_.base),
        ("type", "bases", type_.bases),
        ("type", "mro", type_.mro),
        ("type", "dict", type_.dict),
        ("type", "ht_name", heap.name),
        ("type", "ht_qualname", heap.qualname),
        ("dict", "used", layout.dict.used),
        ("tuple", "first", layout.tuple.items),
        ("tuple", "second", layout.tuple.items + 8),
        ("set", "used", layout.set.used),
        ("bytearray", "exports", layout.byte_array.exports),
        ("module", "dict", layout.module.dict),
        ("module", "name", layout.module.name),
        ("weakref", "referent", layout.weakref.object),
        ("weakref", "callback", layout.weakref.callback),
        ("str", "length", layout.str_.length),
    ]
}

#[test]
fn fields_are_where_the_tables_say() {
    for_each_interpreter(|truth, python, peek| {
        let layout = &python.layout;
        let kinds = &truth["kinds"];
        let object = |kind: &str| kinds[kind]["object"].as_u64().unwrap();
        for (kind, field, offset) in fields(layout) {
            let found = peek.u64(object(kind) + offset);
            assert_eq!(found, kinds[kind][field].as_u64(), "{} {kind}.{field}", python.version);
        }
        let signed = |offset: u64| peek.u64(object("type") + offset).map(|word| word as i64);
        assert_eq!(
            signed(layout.type_.dictoffset),
            kinds["type"]["dictoffset"].as_i64(),
            "{}",
            python.version
        );
        assert_eq!(
            signed(layout.type_.weaklistoffset),
            kinds["type"]["weaklistoffset"].as_i64(),
            "{}",
            python.version
        );
        let slotted = kinds["type"]["slotted"].as_u64().unwrap();
        // A tuple of its own, with the names in order: `first` and `second`.
        let slots = peek.u64(slotted + layout.heap_type.slots).unwrap();
        let names =
            [0, 8].map(|at| peek.u64(slots + layout.tuple.items + at).unwrap() + layout.str_.ascii_size);
        assert_eq!(names.map(|at| peek.name(at).unwrap()), ["first", "second"], "{}", python.version);
        let items = peek.u64(object("list") + layout.list.items).unwrap();
        assert_eq!(peek.u64(items), kinds["list"]["first"].as_u64());
        assert_eq!(peek.u64(object("float") + layout.float.value).map(f64::from_bits), Some(1.5));
        for (name, offset) in &layout.generator.owned[..2] {
            let said = &kinds["generator"][name.trim_start_matches("gi_")];
            assert_eq!(peek.u64(object("generator") + offset), said.as_u64(), "{} {name}", python.version);
        }
    });
}

#[test]
fn what_the_interpreter_owns_are_objects() {
    for_each_interpreter(|_, python, peek| {
        let layout = &python.layout;
        let interpreter = &python.interpreters[0];
        for (name, offset) in layout.interpreter.owned {
            let word = peek.u64(interpreter.address + offset).unwrap();
            assert!(word == 0 || is_object(python, peek, word), "{} {name} {word:x}", python.version);
        }
        for (name, offset) in layout.thread.owned {
            let word = peek.u64(interpreter.threads + offset).unwrap();
            assert!(word == 0 || is_object(python, peek, word), "{} {name} {word:x}", python.version);
        }
        if let Some(small_ints) = layout.interpreter.small_ints {
            for index in 0..layout.interpreter.small_ints_count {
                let word = peek.u64(interpreter.address + small_ints + 8 * index).unwrap();
                assert!(is_object(python, peek, word), "{} small int {index}", python.version);
            }
        }
    });
}

#[test]
fn static_types_have_their_dicts_in_the_interpreter() {
    for_each_interpreter(|_, python, peek| {
        let (layout, interpreter) = (&python.layout.static_types, &python.interpreters[0]);
        let Some((entries, count)) = layout.builtins.zip(layout.builtins_count) else { return };
        let count = peek.u64(interpreter.address + count).unwrap();
        assert!((100..=layout.builtins_max).contains(&count), "{} {count}", python.version);
        for index in 0..count {
            let entry = interpreter.address + entries + layout.size * index;
            let type_ = peek.u64(entry + layout.type_).unwrap();
            let name = peek.name(peek.u64(type_ + python.layout.type_.name).unwrap());
            assert!(is_object(python, peek, type_) && name.is_some(), "{} {index}", python.version);
            let dict = peek.u64(entry + layout.dict).unwrap();
            assert!(is_object(python, peek, dict), "{} {name:?}", python.version);
        }
    });
}

#[test]
fn the_allocator_has_its_arenas() {
    for_each_interpreter(|_, python, peek| {
        let layout = &python.layout.obmalloc;
        let Some(state) = layout.state else { return };
        let at = python.interpreters[0].address + state;
        let state = if layout.pointer { peek.u64(at).unwrap() } else { at };
        let count = peek.u32(state + layout.max_arenas.unwrap()).unwrap();
        assert!((16..1 << 16).contains(&count), "{} {count}", python.version);
        let first = peek.u64(peek.u64(state + layout.arenas.unwrap()).unwrap()).unwrap();
        assert!(first == 0 || peek.u8(first).is_some(), "{} {first:x}", python.version);
    });
}
