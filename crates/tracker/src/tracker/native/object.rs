//! The loaded libraries: which one an address is in, and what the book says about it.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize};

use nilometer_ring::definition::Kind;

use super::rule;
use crate::tracker::process::{BOOK, BOOK_FD, control};
use crate::tracker::{node, real, sys};

/// An object that holds an address.
pub struct Object {
    pub start: usize,
    pub end: usize,
    /// Its `.eh_frame_hdr`.
    pub index: usize,
    /// What is added to the file's addresses.
    bias: usize,
    /// Null where the system does not tell.
    link_map: *const LinkMap,
}

impl Object {
    /// The bytes from an address inside the object to its end. They are mapped as far as the tables in them
    /// say; nobody reads further.
    pub fn bytes_from(&self, address: usize) -> &[u8] {
        if address < self.start || address >= self.end {
            return &[];
        }
        // SAFETY: inside a loaded object that a frame on our stack lies in, so it stays loaded.
        unsafe { core::slice::from_raw_parts(address as *const u8, self.end - address) }
    }
}

/// The public head of glibc's `struct link_map`.
#[repr(C)]
struct LinkMap {
    bias: usize,
    name: *const c_char,
}

/// glibc's `struct dl_find_object` (2.35 and later).
#[repr(C)]
struct Found {
    flags: u64,
    start: usize,
    end: usize,
    link_map: *const LinkMap,
    index: usize,
    reserved: [u64; 8],
}

type Find = unsafe extern "C" fn(*mut c_void, *mut Found) -> c_int;

/// `_dl_find_object`, which takes no lock. Null on older systems.
static FIND: AtomicPtr<c_void> = AtomicPtr::new(core::ptr::null_mut());

pub fn begin() {
    FIND.store(real::visible(c"_dl_find_object"), Release);
}

/// The object around a return address.
pub fn find(ip: usize) -> Option<Object> {
    let finder = FIND.load(Acquire);
    if finder.is_null() {
        return find_by_headers(ip);
    }
    // SAFETY: the function of that name has this type; all zero is a valid result to overwrite.
    let found = unsafe {
        let finder: Find = core::mem::transmute(finder);
        let mut found: Found = core::mem::zeroed();
        (finder((ip - 1) as *mut c_void, &raw mut found) == 0).then_some(found)?
    };
    // SAFETY: the loader's record of a loaded object.
    let bias = if found.link_map.is_null() { found.start } else { unsafe { (*found.link_map).bias } };
    let (start, end, index, link_map) = (found.start, found.end, found.index, found.link_map);
    (index != 0).then_some(Object { start, end, index, bias, link_map })
}

/// True if both addresses lie in one loaded object.
pub fn are_of_one_object(one: usize, other: usize) -> bool {
    match (one != 0).then(|| find(one + 1)).flatten() {
        Some(object) => object.start <= other && other < object.end,
        None => false,
    }
}

/// The slow way, for glibc before 2.35: its lock is held for a moment by whoever loads a library.
fn find_by_headers(ip: usize) -> Option<Object> {
    unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, state: *mut c_void) -> c_int {
        // SAFETY: `dl_iterate_phdr` gives a valid entry, and `state` is the search below.
        let (info, search) = unsafe { (&*info, &mut *state.cast::<(usize, Option<Object>)>()) };
        search.1 = object_of(info, search.0);
        c_int::from(search.1.is_some())
    }
    let mut search: (usize, Option<Object>) = (ip - 1, None);
    // SAFETY: the callback gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.1
}

fn object_of(info: &libc::dl_phdr_info, address: usize) -> Option<Object> {
    // SAFETY: the loader's own table.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let bias = info.dlpi_addr as usize;
    let (mut start, mut end, mut index) = (usize::MAX, 0, 0);
    for header in headers {
        let at = bias.wrapping_add(header.p_vaddr as usize);
        match header.p_type {
            libc::PT_LOAD => {
                start = start.min(at & !4095);
                end = end.max(at + header.p_memsz as usize);
            }
            libc::PT_GNU_EH_FRAME => index = at,
            _ => {}
        }
    }
    let inside = address >= start && address < end && index != 0;
    inside.then_some(Object { start, end, index, bias, link_map: core::ptr::null() })
}

/// Where the function around a return address begins; the address itself if that is not known.
pub fn function_start(ip: usize) -> usize {
    find(ip).and_then(|object| rule::function_start(&object, ip)).unwrap_or(ip)
}

/// Where the function around a return address begins and ends, or the part of it that is there.
pub fn function_range(ip: usize) -> Option<(usize, usize)> {
    find(ip).and_then(|object| rule::function_range(&object, ip))
}

/// A library that was seen in a stack.
struct Module {
    start: AtomicUsize,
    end: AtomicUsize,
    id: AtomicU32,
    epoch: AtomicU32,
    /// Tells one library from another at the same address.
    identity: AtomicU32,
    gone: AtomicU32,
}

const MODULES: usize = 4096;
static LIST: [Module; MODULES] = [const {
    Module {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        id: AtomicU32::new(0),
        epoch: AtomicU32::new(0),
        identity: AtomicU32::new(0),
        gone: AtomicU32::new(0),
    }
}; MODULES];
static COUNT: AtomicUsize = AtomicUsize::new(0);
static ADDING: AtomicU32 = AtomicU32::new(0);

fn modules() -> &'static [Module] {
    LIST.get(..COUNT.load(Acquire).min(MODULES)).unwrap_or(&[])
}

fn live_at(start: usize) -> Option<&'static Module> {
    modules()
        .iter()
        .rev()
        .find(|module| module.start.load(Relaxed) == start && module.gone.load(Relaxed) == 0)
}

/// The epoch of an object's addresses; defines it when it is new.
pub fn epoch_of(object: &Object) -> u16 {
    if let Some(module) = live_at(object.start) {
        return module.epoch.load(Relaxed) as u16;
    }
    if ADDING.swap(1, AcqRel) != 0 {
        return 0; // another thread is defining one: this frame's epoch is corrected at its next lookup
    }
    let epoch = live_at(object.start).map_or_else(|| add(object), |module| module.epoch.load(Relaxed));
    ADDING.store(0, Release);
    epoch as u16
}

fn add(object: &Object) -> u32 {
    let mut path = [0_u8; 512];
    let length = path_of(object, &mut path);
    let path = path.get(..length).unwrap_or(&[]);
    let bias = object.bias;
    let build_id = build_id(object, bias).unwrap_or(&[]);
    let identity = fingerprint(path) ^ fingerprint(build_id).rotate_left(7);
    let epoch = next_epoch(object, identity);
    let id = BOOK.next_id();
    let word = |value: usize| (value as u64).to_le_bytes();
    let parts: [&[u8]; 6] =
        [path, build_id, &word(object.start), &word(object.end), &word(bias), &word(epoch as usize)];
    BOOK.define(&BOOK_FD, Kind::Module, id, &parts);
    let index = COUNT.load(Relaxed);
    if let Some(module) = LIST.get(index) {
        module.end.store(object.end, Relaxed);
        module.id.store(id, Relaxed);
        module.epoch.store(epoch, Relaxed);
        module.identity.store(identity, Relaxed);
        module.gone.store(0, Relaxed);
        module.start.store(object.start, Relaxed);
        COUNT.store(index + 1, Release);
    }
    epoch
}

/// Addresses that belonged to another library before get a new epoch.
fn next_epoch(object: &Object, identity: u32) -> u32 {
    modules()
        .iter()
        .filter(|module| module.start.load(Relaxed) < object.end && module.end.load(Relaxed) > object.start)
        .map(|module| {
            let again =
                module.identity.load(Relaxed) == identity && module.start.load(Relaxed) == object.start;
            module.epoch.load(Relaxed) + u32::from(!again)
        })
        .max()
        .unwrap_or(0)
}

fn fingerprint(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, &byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

fn path_of(object: &Object, into: &mut [u8]) -> usize {
    // SAFETY: the loader's record of a loaded object; its name ends with a zero.
    let name = (!object.link_map.is_null()).then(|| unsafe { CStr::from_ptr((*object.link_map).name) });
    let name = name.map_or(&[][..], CStr::to_bytes);
    if name.is_empty() {
        return sys::mapped_file(object.start, into); // the program itself, or a system that does not tell
    }
    let length = name.len().min(into.len());
    if let (Some(to), Some(from)) = (into.get_mut(..length), name.get(..length)) {
        to.copy_from_slice(from);
    }
    length
}

/// Bytes of an object, if they are mapped. Tools that rewrite libraries move headers and notes about, so that
/// nothing in them can be believed before it is tried.
fn peek(object: &Object, address: usize, length: usize) -> Option<&[u8]> {
    let end = address.checked_add(length)?;
    let inside = address >= object.start && end <= object.end && (8..4096).contains(&length);
    if !inside || !sys::readable(address) || !sys::readable(end - 8) {
        return None;
    }
    // SAFETY: inside the object, shorter than a page, and readable at both ends.
    Some(unsafe { core::slice::from_raw_parts(address as *const u8, length) })
}

/// The GNU build id, from the program headers in memory.
fn build_id(object: &Object, bias: usize) -> Option<&[u8]> {
    let header = peek(object, object.start, 64)?;
    let long = |bytes: &[u8], at: usize| bytes.get(at..at + 8)?.try_into().ok().map(usize::from_le_bytes);
    let short = |at: usize| header.get(at..at + 2)?.try_into().ok().map(u16::from_le_bytes);
    if header.get(..4)? != b"\x7fELF" {
        return None;
    }
    let (table, size, count) = (long(header, 32)?, usize::from(short(54)?), usize::from(short(56)?));
    let segments = peek(object, object.start.checked_add(table)?, size * count)?;
    segments.chunks_exact(size.max(1)).find_map(|segment| {
        let is_note = segment.get(..4)? == libc::PT_NOTE.to_le_bytes();
        let (start, length) = (long(segment, 16)?, long(segment, 32)?); // p_vaddr, p_filesz
        is_note.then(|| find_note(peek(object, bias.wrapping_add(start), length)?)).flatten()
    })
}

fn find_note(mut notes: &[u8]) -> Option<&[u8]> {
    const BUILD_ID: u32 = 3; // NT_GNU_BUILD_ID
    let int = |bytes: &[u8], at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    loop {
        let (name, description, kind) = (int(notes, 0)?, int(notes, 4)?, int(notes, 8)?);
        let start = 12 + (name as usize).next_multiple_of(4);
        let end = start + description as usize;
        if kind == BUILD_ID && notes.get(12..16)? == b"GNU\0" {
            return notes.get(start..end).filter(|id| id.len() <= 64);
        }
        notes = notes.get(end.next_multiple_of(4)..)?;
    }
}

/// After a `dlclose`: hands each library that is no longer there to `tell`, and forgets its rules.
pub fn unloaded(mut tell: impl FnMut(u32)) {
    let mut any = false;
    for module in modules() {
        let start = module.start.load(Relaxed);
        let here = || find(start + 1).is_some_and(|object| object.start == start);
        if module.gone.load(Relaxed) == 0 && !here() {
            module.gone.store(1, Relaxed);
            any = true;
            tell(module.id.load(Relaxed));
        }
    }
    if any {
        rule::forget_all();
        control().generation.fetch_add(1, Release);
    }
}

/// In a forked child: whoever was at work is not here any more.
pub fn forked() {
    ADDING.store(0, Relaxed);
    node::forked();
}
