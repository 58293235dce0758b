//! Known objects that must be where a layout says.

use nilometer_image::Memory;

use super::{Claim, Interpreter, Python, repair};
use crate::layout::{Layout, flag};
use crate::reader::Reader;
use crate::{Error, Level, Version};

/// No process has so many; a list that goes on is none.
const MAX_INTERPRETERS: usize = 4096;

/// The interpreters at the claimed place, if the layout is theirs or can be made so.
pub fn check<M: Memory + ?Sized>(memory: &M, claim: &Claim) -> Result<Python, Error> {
    let (version, runtime) = (claim.version, claim.runtime);
    let unknown = |what| Error::UnknownLayout { version, what };
    let mut addresses =
        read_interpreters(memory, &claim.layout, runtime).ok_or(unknown("its list of interpreters"))?;
    addresses.reverse(); // the newest stands first in the list
    let main = *addresses.first().ok_or_else(|| not_started(claim))?;
    let (layout, mut limits) = fit(memory, claim, main)?;
    let reader = Reader::new(memory, &layout);
    let roots = read_roots(&reader, main).ok_or(unknown("its table of modules"))?;
    let type_type = check_types(&reader, roots).ok_or(unknown("its built-in types"))?;
    check_constants(&reader, roots.builtins).ok_or(unknown("its constants"))?;
    let version =
        check_version(&reader, roots.sys, version).ok_or(unknown("sys.hexversion says another version"))?;
    let interpreters: Vec<_> =
        addresses.iter().filter_map(|at| read_interpreter(&reader, runtime, *at)).collect();
    if interpreters.first().is_none_or(|first| first.address != main) {
        return Err(unknown("its main interpreter"));
    }
    let skipped = addresses.len() - interpreters.len();
    if skipped > 0 {
        limits.push(format!("{skipped} interpreters are starting or ending and were left out"));
    }
    if version.level != Level::Final {
        limits.push(format!("{version} is not a final release: what is not checked may be elsewhere"));
    }
    Ok(Python { version, layout, runtime, type_type, interpreters, file: claim.path.to_path_buf(), limits })
}

fn not_started(claim: &Claim) -> Error {
    Error::NotStarted { path: claim.path.to_path_buf() }
}

/// The claimed layout, with what has moved put right and what cannot be checked left out; and sentences that say so.
fn fit<M: Memory + ?Sized>(memory: &M, claim: &Claim, main: u64) -> Result<(Layout, Vec<String>), Error> {
    let mut layout = claim.layout;
    let mut limits = Vec::new();
    let reader = Reader::new(memory, &claim.layout);
    if read_roots(&reader, main).is_none() {
        if reader.word(main, layout.interpreter.modules) == Some(0) {
            return Err(not_started(claim));
        }
        let what = "its table of modules";
        let found = repair::roots(memory, &mut layout, main);
        limits.push(found.ok_or(Error::UnknownLayout { version: claim.version, what })?);
    }
    limits.extend(repair::threads(memory, &mut layout, main));
    limits.extend(repair::collector(memory, &mut layout, claim.runtime, main));
    limits.extend(repair::others(memory, &mut layout, &claim.table.layout, main));
    Ok((layout, limits))
}

/// All of the list; None if it does not end.
fn read_interpreters<M: Memory + ?Sized>(memory: &M, layout: &Layout, runtime: u64) -> Option<Vec<u64>> {
    let reader = Reader::new(memory, layout);
    let mut found = Vec::new();
    let mut next = reader.word(runtime, layout.runtime.interpreters_head)?;
    while next != 0 {
        if next % 8 != 0 || found.len() == MAX_INTERPRETERS || found.contains(&next) {
            return None;
        }
        found.push(next);
        next = reader.word(next, layout.interpreter.next)?;
    }
    Some(found)
}

/// The three dicts that everything can be reached from.
#[derive(Debug, Clone, Copy)]
pub struct Roots {
    pub modules: u64,
    pub sys: u64,
    pub builtins: u64,
}

pub fn read_roots<M: Memory + ?Sized>(reader: &Reader<M>, interpreter: u64) -> Option<Roots> {
    let offsets = &reader.layout.interpreter;
    let modules = reader.pointer(interpreter, offsets.modules).filter(|dict| is_modules(reader, *dict))?;
    let sys = reader.pointer(interpreter, offsets.sysdict).filter(|dict| is_sys(reader, *dict))?;
    let builtins = reader.pointer(interpreter, offsets.builtins).filter(|dict| is_builtins(reader, *dict))?;
    Some(Roots { modules, sys, builtins })
}

pub fn is_modules<M: Memory + ?Sized>(reader: &Reader<M>, dict: u64) -> bool {
    ["sys", "builtins"].iter().all(|name| reader.get(dict, name).is_some())
}

pub fn is_sys<M: Memory + ?Sized>(reader: &Reader<M>, dict: u64) -> bool {
    ["hexversion", "maxsize"].iter().all(|name| reader.get(dict, name).is_some())
}

pub fn is_builtins<M: Memory + ?Sized>(reader: &Reader<M>, dict: u64) -> bool {
    ["None", "True", "dict"].iter().all(|name| reader.get(dict, name).is_some())
}

/// `type`, if types look as they should and the built-in ones have the sizes of the table.
fn check_types<M: Memory + ?Sized>(reader: &Reader<M>, roots: Roots) -> Option<u64> {
    let dict_type = reader.type_of(roots.modules)?;
    let type_type = reader.type_of(dict_type)?;
    let is_type = reader.type_of(type_type)? == type_type && reader.type_name(type_type)? == "type";
    let layout = reader.layout;
    let sizes = [
        ("dict", layout.dict.size),
        ("list", layout.list.size),
        ("set", layout.set.size),
        ("tuple", layout.tuple.items),
        ("str", layout.str_.size),
        ("bytes", layout.bytes.size),
        ("bytearray", layout.byte_array.size),
        ("int", layout.int.digits),
        ("float", layout.float.value + 8),
        ("type", layout.heap_type.size),
    ];
    let fits = |(name, size): &(&str, u64)| {
        basicsize(reader, roots.builtins, name).is_none_or(|found| found == *size)
    };
    (is_type && sizes.iter().all(fits)).then_some(type_type)
}

/// None for a name that somebody has given another meaning.
fn basicsize<M: Memory + ?Sized>(reader: &Reader<M>, builtins: u64, name: &str) -> Option<u64> {
    let type_ = reader.get(builtins, name).filter(|object| reader.has_flag(*object, flag::TYPE))?;
    let is_it = reader.type_name(type_)? == name;
    reader.word(type_, reader.layout.type_.basicsize).filter(|_| is_it)
}

/// `None` is of its own type, and `True` a number: the layouts of names, types and ints hold.
fn check_constants<M: Memory + ?Sized>(reader: &Reader<M>, builtins: u64) -> Option<()> {
    let none = reader.get(builtins, "None")?;
    let one = reader.get(builtins, "True")?;
    let good = reader.is_a(none, "NoneType") && reader.is_a(one, "bool") && reader.number(one) == Some(1);
    good.then_some(())
}

/// What the running interpreter says, if it is the same minor version.
fn check_version<M: Memory + ?Sized>(reader: &Reader<M>, sys: u64, version: Version) -> Option<Version> {
    let said = Version::from_hex(reader.number(reader.get(sys, "hexversion")?)?)?;
    ((said.major, said.minor) == (version.major, version.minor)).then_some(said)
}

/// None for one that is just being made or taken down.
fn read_interpreter<M: Memory + ?Sized>(
    reader: &Reader<M>,
    runtime: u64,
    address: u64,
) -> Option<Interpreter> {
    let offsets = &reader.layout.interpreter;
    let Roots { modules, sys, builtins } = read_roots(reader, address)?;
    let id = reader.word(address, offsets.id)?;
    let threads = reader.word(address, offsets.threads_head)?;
    let interned = offsets
        .interned
        .and_then(|at| reader.pointer(address, at))
        .filter(|at| reader.has_flag(*at, flag::DICT));
    let gc = repair::collector_state(reader.layout, runtime, address);
    let gc = gc.filter(|state| repair::is_collector(reader, *state));
    Some(Interpreter { address, id, modules, sys, builtins, gc, threads, interned })
}
