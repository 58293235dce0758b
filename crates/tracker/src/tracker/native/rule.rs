//! How to get from a frame to its caller: one word per return address.
//!
//! A rule is computed once from `.eh_frame` and kept in a table of fixed size; a newer one may take its
//! place. Only what compilers emit for ordinary code is packed: the CFA from rsp or rbp, rbp saved or not.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::{AtomicU64, AtomicUsize};

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, EndianSlice, FrameDescriptionEntry, NativeEndian,
    ParsedEhFrameHdr, Pointer, RegisterRule, UnwindContext, UnwindContextStorage, UnwindExpression,
    UnwindSection, UnwindTableRow, X86_64,
};

use super::object::{self, Object};
use crate::tracker::process::control;

/// A packed rule.
///
/// ```text
/// 63 end  62 guess  61 through memory  60 calls initialisers  59..48 epoch  47..32 rbp at CFA+n  31..1 offset  0 rbp
/// ```
#[derive(Clone, Copy)]
pub struct Rule(u64);

const END: u64 = 1 << 63;
const GUESS: u64 = 1 << 62;
const MEMORY: u64 = 1 << 61;
const INITIALISER: u64 = 1 << 60;
/// Instead of an offset: rbp points to the saved one (realigned stacks).
const AT_BP: i64 = i16::MIN as i64;
const EPOCH_SHIFT: u32 = 48;
const EPOCH_MASK: u64 = 0xfff;

impl Rule {
    /// The rule of a return address.
    #[inline(always)]
    pub fn of(ip: usize) -> Self {
        let entry = &CACHE[place(ip)];
        if entry.key.load(Acquire) == ip {
            let rule = entry.rule.load(Acquire);
            if entry.key.load(Relaxed) == ip {
                return Self(rule);
            }
        }
        learn(ip)
    }

    pub fn word(self) -> u64 {
        self.0
    }

    pub fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The caller is found through rbp.
    #[inline(always)]
    pub fn uses_bp(self) -> bool {
        self.0 & (1 | GUESS) != 0 || ((self.0 >> 32) as u16).cast_signed() == i16::MIN
    }

    #[inline(always)]
    pub fn is_plain(self) -> bool {
        self.0 & (END | GUESS) == 0
    }

    pub fn is_end(self) -> bool {
        self.0 & END != 0
    }

    /// The frame is the dynamic linker's loop over initialisers.
    #[inline(always)]
    pub fn is_initialiser(self) -> bool {
        self.0 & INITIALISER != 0
    }

    #[inline(always)]
    pub fn epoch(self) -> u16 {
        ((self.0 >> EPOCH_SHIFT) & EPOCH_MASK) as u16
    }

    /// The stack pointer of the caller.
    #[inline(always)]
    pub fn cfa(self, sp: usize, bp: usize, limit: usize) -> Option<usize> {
        let base = if self.0 & 1 == 0 { sp } else { bp };
        let offset = (self.0 as u32).cast_signed() >> 1;
        let at = base.wrapping_add_signed(offset as isize);
        if self.0 & MEMORY == 0 {
            return Some(at);
        }
        // gcc's realigned stacks: the CFA is in a slot of the frame.
        // SAFETY: the slot lies on this thread's stack, between this frame and the stack's end.
        (at >= sp && at < limit).then(|| unsafe { super::read(at) })
    }

    /// Where the caller's rbp was saved; 0 if it is still in the register.
    #[inline(always)]
    pub fn bp_slot(self, cfa: usize, bp: usize) -> usize {
        match i64::from(((self.0 >> 32) as u16).cast_signed()) {
            0 => 0,
            AT_BP => bp,
            offset => cfa.wrapping_add_signed(offset as isize),
        }
    }

    fn pack(base: u64, offset: i64, bp_offset: i64) -> Option<u64> {
        let fits = (-(1 << 30)..1 << 30).contains(&offset) && i16::try_from(bp_offset).is_ok();
        fits.then(|| base | u64::from((offset as u32) << 1) | (u64::from(bp_offset as i16 as u16) << 32))
    }
}

const BITS: u32 = 17;

/// A rule of another address may be written at any time: the key is read before and after.
#[repr(C)]
struct Entry {
    key: AtomicUsize,
    rule: AtomicU64,
}

static CACHE: [Entry; 1 << BITS] =
    [const { Entry { key: AtomicUsize::new(0), rule: AtomicU64::new(0) } }; 1 << BITS];

/// Where the loop over initialisers is, in the dynamic linker.
static CALLS_INITIALISERS: AtomicUsize = AtomicUsize::new(0);

/// Learns that loop from the return address of our own initialiser.
pub fn set_initialiser(return_address: usize) {
    CALLS_INITIALISERS.store(object::function_start(return_address), Relaxed);
}

#[inline(always)]
fn place(ip: usize) -> usize {
    ((ip as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BITS)) as usize
}

#[cold]
#[inline(never)]
fn learn(ip: usize) -> Rule {
    control().counters.rules.fetch_add(1, Relaxed);
    let rule = match object::find(ip) {
        Some(object) => {
            let epoch = u64::from(object::epoch_of(&object)) & EPOCH_MASK;
            compute(&object, ip).unwrap_or(GUESS) | (epoch << EPOCH_SHIFT)
        }
        None => GUESS,
    };
    let entry = &CACHE[place(ip)];
    entry.key.store(0, Release);
    entry.rule.store(rule, Release);
    entry.key.store(ip, Release);
    Rule(rule)
}

/// After a library went away: its addresses may become another's.
pub fn forget_all() {
    for entry in &CACHE {
        entry.key.store(0, Release);
    }
}

/// Room for the tables that gimli fills: on the stack, so no more than ordinary code needs.
struct Storage;

impl UnwindContextStorage<usize> for Storage {
    type Rules = [(gimli::Register, RegisterRule<usize>); 24];
    type Stack = [UnwindTableRow<usize, Self>; 3];
}

type Bytes<'a> = EndianSlice<'a, NativeEndian>;
type Function<'a> = FrameDescriptionEntry<Bytes<'a>>;

/// The unwind tables of an object.
struct Tables<'a> {
    index: ParsedEhFrameHdr<Bytes<'a>>,
    frames: EhFrame<Bytes<'a>>,
    bases: BaseAddresses,
}

impl<'a> Tables<'a> {
    fn of(object: &'a Object) -> Option<Self> {
        let bases = BaseAddresses::default().set_eh_frame_hdr(object.index as u64);
        let index = EhFrameHdr::new(object.bytes_from(object.index), NativeEndian).parse(&bases, 8).ok()?;
        let Pointer::Direct(start) = index.eh_frame_ptr() else { return None };
        let frames = EhFrame::new(object.bytes_from(start as usize), NativeEndian);
        Some(Self { index, frames, bases: bases.set_eh_frame(start) })
    }

    /// The function that the call before `ip` is in.
    fn function(&self, ip: usize) -> Option<Function<'a>> {
        self.index
            .table()?
            .fde_for_address(&self.frames, &self.bases, ip as u64 - 1, EhFrame::cie_from_offset)
            .ok()
    }
}

/// Where the function around `ip` begins, by its unwind table.
pub fn function_start(object: &Object, ip: usize) -> Option<usize> {
    function_range(object, ip).map(|(start, _)| start)
}

/// Where it begins and ends. Parts that the compiler moved away have their own entries.
pub fn function_range(object: &Object, ip: usize) -> Option<(usize, usize)> {
    let function = Tables::of(object)?.function(ip)?;
    let start = function.initial_address() as usize;
    Some((start, start.checked_add(function.len() as usize)?))
}

/// The packed rule for a return address; `None` if there is none or it cannot be packed.
fn compute(object: &Object, ip: usize) -> Option<u64> {
    let tables = Tables::of(object)?;
    let function = tables.function(ip)?;
    if function.cie().is_signal_trampoline() {
        return Some(END); // what it interrupted is not how the block came to be
    }
    let mut context = UnwindContext::<usize, Storage>::new_in();
    let row =
        function.unwind_info_for_address(&tables.frames, &tables.bases, &mut context, ip as u64 - 1).ok()?;
    if matches!(row.register(X86_64::RA), Some(RegisterRule::Undefined)) {
        return Some(END);
    }
    let packed = pack_row(&tables.frames, row)?;
    let is_loop = function.initial_address() as usize == CALLS_INITIALISERS.load(Relaxed);
    Some(packed | if is_loop { INITIALISER } else { 0 })
}

fn pack_row(frames: &EhFrame<Bytes<'_>>, row: &UnwindTableRow<usize, Storage>) -> Option<u64> {
    let bp_offset = match row.register(X86_64::RBP) {
        Some(RegisterRule::Offset(offset)) => offset,
        Some(RegisterRule::Expression(code)) if code_of(&code, frames)? == [0x76, 0] => AT_BP, // DW_OP_breg6 0
        _ => 0,
    };
    match row.cfa() {
        CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } => Rule::pack(0, *offset, bp_offset),
        CfaRule::RegisterAndOffset { register: X86_64::RBP, offset } => Rule::pack(1, *offset, bp_offset),
        CfaRule::RegisterAndOffset { .. } => None,
        CfaRule::Expression(code) => {
            // DW_OP_breg6 n; DW_OP_deref
            let &[0x76, offset, 0x06] = code_of(code, frames)? else { return None };
            let offset = i64::from((offset << 1).cast_signed() >> 1);
            Rule::pack(1, offset, bp_offset).map(|rule| rule | MEMORY)
        }
    }
}

fn code_of<'a>(expression: &UnwindExpression<usize>, frames: &EhFrame<Bytes<'a>>) -> Option<&'a [u8]> {
    expression.get(frames).ok().map(|code| code.0.slice())
}
