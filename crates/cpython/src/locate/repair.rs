//! Offsets inside the interpreter's state that a patch release has moved: found by what stands there.
//!
//! A search goes over one structure of bounded size, and what it finds is said in a sentence.

use nilometer_image::Memory;

use super::verify::{is_builtins, is_modules, is_sys, read_roots};
use crate::layout::{Layout, flag};
use crate::reader::Reader;

/// How far from where a table has them the fields are looked for, at least.
const WINDOW: u64 = 16 << 10;
/// Of the collector's four lists, where nothing else speaks for them.
const ENOUGH_LISTS: usize = 3;

/// Looks for the dicts of modules, `sys` and `builtins`; the sentence to tell, or None without success.
pub fn roots<M: Memory + ?Sized>(memory: &M, layout: &mut Layout, interpreter: u64) -> Option<String> {
    let mut found = *layout;
    let reader = Reader::new(memory, layout);
    let offsets = || window(layout, layout.interpreter.modules);
    let search = |accepts: fn(&Reader<M>, u64) -> bool| {
        offsets().find(|at| reader.pointer(interpreter, *at).is_some_and(|dict| accepts(&reader, dict)))
    };
    found.interpreter.modules = search(is_modules)?;
    found.interpreter.sysdict = search(is_sys)?;
    found.interpreter.builtins = search(is_builtins)?;
    read_roots(&Reader::new(memory, &found), interpreter)?;
    let places = |layout: &Layout| {
        let offsets = &layout.interpreter;
        (offsets.modules, offsets.sysdict, offsets.builtins)
    };
    if places(&found) == places(layout) {
        return None; // nothing has moved: they were being changed a moment ago
    }
    *layout = found;
    Some(
        "this release keeps its table of modules elsewhere than those known; it was found by search"
            .to_owned(),
    )
}

/// Makes sure that the list of threads is one; a sentence if it had to be looked for.
pub fn threads<M: Memory + ?Sized>(memory: &M, layout: &mut Layout, interpreter: u64) -> Option<String> {
    let reader = Reader::new(memory, layout);
    let is_thread = |at: u64| {
        let thread = reader.pointer(interpreter, at);
        thread.is_some_and(|thread| reader.word(thread, layout.thread.interpreter) == Some(interpreter))
    };
    let expected = layout.interpreter.threads_head;
    if is_thread(expected) || reader.word(interpreter, expected) == Some(0) {
        return None;
    }
    let found = window(layout, expected).find(|at| is_thread(*at));
    layout.interpreter.threads_head = found.unwrap_or(expected);
    Some(match found {
        Some(_) => {
            "this release keeps its list of threads elsewhere than those known; it was found by search"
                .to_owned()
        }
        None => "the list of threads was not found: no stacks, and local variables are no roots".to_owned(),
    })
}

/// Makes sure that the collector's lists are lists; a sentence if they had to be looked for.
pub fn collector<M: Memory + ?Sized>(
    memory: &M,
    layout: &mut Layout,
    runtime: u64,
    interpreter: u64,
) -> Option<String> {
    let reader = Reader::new(memory, layout);
    if collector_state(layout, runtime, interpreter).is_some_and(|state| is_collector(&reader, state)) {
        return None;
    }
    let found = layout.interpreter.gc.and_then(|expected| {
        window(layout, expected)
            .find(|at| count_lists(&reader, interpreter.wrapping_add(*at)) >= ENOUGH_LISTS)
    });
    layout.interpreter.gc = found.or(layout.interpreter.gc);
    Some(match found {
        Some(_) => {
            "this release keeps its collector elsewhere than those known; it was found by search".to_owned()
        }
        None => {
            "the collector's lists were not found: large containers are found by reference only".to_owned()
        }
    })
}

/// Fields of the interpreter's state that nothing tells and no search finds: not believed where their neighbours have
/// moved, or where what must be there is not.
pub fn others<M: Memory + ?Sized>(
    memory: &M,
    layout: &mut Layout,
    table: &Layout,
    interpreter: u64,
) -> Option<String> {
    let reader = Reader::new(memory, layout);
    let (found, known) = (&layout.interpreter, &table.interpreter);
    let stayed =
        (found.modules, found.sysdict, found.builtins) == (known.modules, known.sysdict, known.builtins);
    let is_dict =
        |at| reader.pointer(interpreter, at).is_some_and(|object| reader.has_flag(object, flag::DICT));
    let interned = found.interned.is_none_or(is_dict);
    let first_type = layout.static_types.builtins.and_then(|at| at.checked_add(layout.static_types.type_));
    let is_type =
        |at| reader.pointer(interpreter, at).is_some_and(|object| reader.has_flag(object, flag::TYPE));
    if stayed && interned && first_type.is_none_or(is_type) {
        return None;
    }
    layout.interpreter.owned = &[];
    layout.interpreter.interned = None;
    layout.interpreter.small_ints = None;
    layout.static_types.builtins = None;
    layout.static_types.extensions = None;
    layout.obmalloc.state = None;
    Some("this release keeps other fields than those known: interned strings, static types and codecs are no roots".to_owned())
}

/// In the runtime (3.8) or in the interpreter.
pub fn collector_state(layout: &Layout, runtime: u64, interpreter: u64) -> Option<u64> {
    let in_runtime = layout.runtime.gc.and_then(|at| runtime.checked_add(at));
    in_runtime.or_else(|| interpreter.checked_add(layout.interpreter.gc?))
}

/// Whether the collector is where it was expected: one list speaks for it. Not all do: of a process that runs, head
/// and neighbour are read at different times, and while a collection runs the links are in use for other things.
pub fn is_collector<M: Memory + ?Sized>(reader: &Reader<M>, state: u64) -> bool {
    count_lists(reader, state) > 0
}

/// How many of the four are lists whose head a neighbour knows.
fn count_lists<M: Memory + ?Sized>(reader: &Reader<M>, state: u64) -> usize {
    let gc = &reader.layout.gc;
    let generation = |index| state.checked_add(gc.generations)?.checked_add(gc.stride * index);
    let heads = [generation(0), generation(1), generation(2), state.checked_add(gc.permanent)];
    heads.iter().flatten().filter(|head| is_list(reader, **head)).count()
}

fn is_list<M: Memory + ?Sized>(reader: &Reader<M>, head: u64) -> bool {
    // Two low bits of both links may be flags; the third belongs to the address (see `layout::Gc`).
    let link = |at: u64, offset| reader.word(at, offset).map(|word| word & !3);
    let known = |at: Option<u64>, offset| at.and_then(|at| link(at, offset)) == Some(head);
    known(link(head, 0), 8) || known(link(head, 8), 0)
}

/// Offsets of words, the nearest to `expected` first.
fn window(layout: &Layout, expected: u64) -> impl Iterator<Item = u64> {
    let reach = layout.interpreter.size.min(expected.saturating_add(WINDOW));
    let mut offsets: Vec<u64> =
        (expected.saturating_sub(WINDOW) / 8..reach / 8).map(|word| word * 8).collect();
    offsets.sort_by_key(|at| at.abs_diff(expected));
    offsets.into_iter()
}
