//! Finding what the loaded libraries define, by name.
//!
//! `dlsym` would do, but it lives in another library before glibc 2.34, so that linking it ties the tracker to newer
//! systems; and it may allocate. `dl_iterate_phdr` is everywhere and lists the libraries in the order in which names are
//! searched. Hidden versions of a symbol are passed over, as the linker does for new programs.

use core::ffi::{CStr, c_int, c_void};
use core::ptr::null_mut;

/// The definition of `name` that comes after ours.
pub fn next(name: &CStr) -> *mut c_void {
    find(name, true)
}

/// The definition of `name` that the program sees; never ours.
pub fn visible(name: &CStr) -> *mut c_void {
    find(name, false)
}

struct Search<'a> {
    name: &'a CStr,
    /// Libraries up to our own do not count.
    waiting: bool,
    found: *mut c_void,
}

fn find(name: &CStr, after_us: bool) -> *mut c_void {
    let mut search = Search { name, waiting: after_us, found: null_mut() };
    // SAFETY: the callback gets what it expects.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut search).cast()) };
    search.found
}

unsafe extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, state: *mut c_void) -> c_int {
    // SAFETY: `dl_iterate_phdr` gives a valid entry, and `state` is the search above.
    let (info, search) = unsafe { (&*info, &mut *state.cast::<Search<'_>>()) };
    // SAFETY: the loader's own table.
    let headers = unsafe { core::slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let bias = info.dlpi_addr as usize;
    let here = look as *const () as usize;
    let is_ours = headers.iter().filter(|header| header.p_type == libc::PT_LOAD).any(|header| {
        here.wrapping_sub(bias.wrapping_add(header.p_vaddr as usize)) < header.p_memsz as usize
    });
    if is_ours {
        search.waiting = false;
        return 0;
    }
    let dynamic = headers.iter().find(|header| header.p_type == libc::PT_DYNAMIC);
    if let (false, Some(dynamic)) = (search.waiting, dynamic) {
        // SAFETY: the dynamic section of a loaded object.
        let tables = unsafe { Tables::read(bias, bias.wrapping_add(dynamic.p_vaddr as usize)) };
        // SAFETY: as above.
        search.found = tables.map_or(null_mut(), |tables| unsafe { tables.find(search.name) });
    }
    c_int::from(!search.found.is_null())
}

/// `Elf64_Sym`.
#[repr(C)]
struct Symbol {
    name: u32,
    info: u8,
    other: u8,
    section: u16,
    value: usize,
    size: u64,
}

/// Where an object keeps its symbols; 0 for tables it does not have.
#[derive(Default)]
struct Tables {
    bias: usize,
    symbols: usize,
    strings: usize,
    versions: usize,
    hashes: usize,
    gnu_hashes: usize,
}

impl Tables {
    /// # Safety
    /// `dynamic` is the dynamic section of an object that stays loaded.
    unsafe fn read(bias: usize, dynamic: usize) -> Option<Self> {
        const MOST: usize = 1000;
        let mut tables = Self { bias, ..Self::default() };
        for index in 0..MOST {
            // SAFETY: entries go on until one with tag 0.
            let [tag, value] = unsafe { ((dynamic + index * 16) as *const [usize; 2]).read() };
            // glibc has put addresses there, other loaders (and the kernel's own object) have offsets.
            let address = if value < bias { value.wrapping_add(bias) } else { value };
            match tag {
                0 => break,
                4 => tables.hashes = address,
                5 => tables.strings = address,
                6 => tables.symbols = address,
                0x6fff_fef5 => tables.gnu_hashes = address,
                0x6fff_fff0 => tables.versions = address,
                _ => {}
            }
        }
        (tables.symbols != 0 && tables.strings != 0).then_some(tables)
    }

    /// # Safety
    /// The object is still loaded.
    unsafe fn find(&self, name: &CStr) -> *mut c_void {
        // SAFETY: by the caller's promise.
        unsafe {
            let found = if self.gnu_hashes == 0 { self.find_old(name) } else { self.find_gnu(name) };
            found.unwrap_or(null_mut())
        }
    }

    /// By the table of GNU: a filter, buckets, and rows of hashes that end with an odd one.
    unsafe fn find_gnu(&self, name: &CStr) -> Option<*mut c_void> {
        let hash =
            name.to_bytes().iter().fold(5381_u32, |h, &c| h.wrapping_mul(33).wrapping_add(u32::from(c)));
        // SAFETY: the table's own layout.
        unsafe {
            let [buckets, first, words, shift] = (self.gnu_hashes as *const [u32; 4]).read();
            if buckets == 0 || words == 0 {
                return None;
            }
            let filter = self.gnu_hashes + 16;
            let word = at::<u64>(filter, (hash / 64) & (words - 1));
            let wanted = (1_u64 << (hash % 64)) | (1_u64 << ((hash >> (shift & 31)) % 64));
            if word & wanted != wanted {
                return None;
            }
            let bucket = filter + words as usize * 8;
            let chain = bucket + buckets as usize * 4;
            let mut index = at::<u32>(bucket, hash % buckets);
            while index >= first {
                let entry = at::<u32>(chain, index - first);
                if entry | 1 == hash | 1
                    && let Some(found) = self.accept(index, name)
                {
                    return Some(found);
                }
                index = if entry & 1 == 0 { index + 1 } else { 0 };
            }
            None
        }
    }

    /// By the table of System V, which few objects have alone.
    unsafe fn find_old(&self, name: &CStr) -> Option<*mut c_void> {
        if self.hashes == 0 {
            return None;
        }
        // SAFETY: the table's own layout: two counts, buckets, chains. The second count is that of all symbols.
        unsafe {
            let [_, symbols] = (self.hashes as *const [u32; 2]).read();
            (1..symbols).find_map(|index| self.accept(index, name))
        }
    }

    /// The symbol's address, if it is the one and defined here.
    unsafe fn accept(&self, index: u32, name: &CStr) -> Option<*mut c_void> {
        const HIDDEN: u16 = 0x8000;
        // SAFETY: an index from the hash table is one of the symbol table; names end with a zero.
        unsafe {
            let symbol = &*(self.symbols as *const Symbol).add(index as usize);
            let (kind, binding) = (symbol.info & 15, symbol.info >> 4);
            let version = if self.versions == 0 { 1 } else { at::<u16>(self.versions, index) };
            let is_defined = symbol.section != 0 && symbol.value != 0 && binding != 0;
            let is_open = version != 0 && version & HIDDEN == 0;
            let own_name = CStr::from_ptr((self.strings + symbol.name as usize) as *const libc::c_char);
            if !is_defined || !is_open || own_name != name {
                return None;
            }
            let address = self.bias.wrapping_add(symbol.value);
            match kind {
                0..=2 => Some(address as *mut c_void), // no type, object, function
                10 => {
                    // STT_GNU_IFUNC: a function that tells which function it is.
                    let choose: unsafe extern "C" fn() -> *mut c_void = core::mem::transmute(address);
                    Some(choose())
                }
                _ => None,
            }
        }
    }
}

/// # Safety
/// The table has that entry.
unsafe fn at<T: Copy>(table: usize, index: u32) -> T {
    // SAFETY: by the caller's promise.
    unsafe { (table as *const T).add(index as usize).read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_libraries_define_is_found_as_the_linker_does() {
        for name in [c"malloc", c"getenv", c"pthread_create", c"dl_iterate_phdr", c"strlen", c"environ"] {
            // SAFETY: the name ends with a zero.
            let expected = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
            assert!(!expected.is_null());
            assert_eq!(visible(name).is_null(), expected.is_null(), "{name:?}");
            if name != c"strlen" {
                assert_eq!(visible(name), expected, "{name:?}");
            }
        }
        assert!(visible(c"no_such_name_anywhere").is_null());
    }
}
