//! The way back of a borrowed thread, should we die meanwhile: the frame that the kernel itself writes below a thread's
//! stack pointer for a signal (`struct rt_sigframe`, arch/x86/include/asm/sigframe.h).
//!
//! The thread is led through `syscall; ret` with its stack pointer at such a frame, so that `ret` takes it to
//! `rt_sigreturn`, which gives it back its registers, its signal mask and its vector registers. The one invariant:
//! whatever the thread does from the frame on, it ends where it was found.

use std::arch::x86_64::__cpuid_count;
use std::ops::Range;

use super::footing::Footing;

/// The red zone of the ABI: a function may use so much below the stack pointer.
const RED_ZONE: u64 = 128;
const FRAME_WORDS: usize = 55;
/// `UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS`, arch/x86/include/uapi/asm/ucontext.h
const FLAGS: u64 = 0b111;
/// No mode of `sigaltstack`: the kernel refuses it silently and leaves the alternate stack as it is (`restore_altstack`).
const UNCHANGED: u64 = 4;
const CODE_64: u64 = 0x33;
const DATA_64: u64 = 0x2b;
/// Flags with interrupts on, as every program has them.
const PLAIN_FLAGS: u64 = 0x202;

/// `struct _fpx_sw_bytes`, arch/x86/include/uapi/asm/sigcontext.h: tells `rt_sigreturn` that more follows than SSE.
const MAGIC_1: u32 = 0x4650_5853;
const MAGIC_2: u32 = 0x4650_5845;
const SOFTWARE: Range<usize> = 464..512;
/// Which parts are not as after a reset (`XSTATE_BV`).
const IN_USE: Range<usize> = 512..520;
/// Where parts beyond SSE begin.
const EXTENDED: usize = 576;
/// x87 and SSE, whose control words are given back even where their registers are zero.
const LEGACY: u64 = 0b11;
/// Protection keys: never left out, because without them everything would be allowed.
const KEYS: u64 = 1 << 9;

/// Errors of the kernel's own for a call that is made again (include/linux/errno.h).
const RESTARTED: [i64; 3] = [-512, -513, -514];
/// For one that goes on by `restart_syscall`, which `rt_sigreturn` forgets.
const CONTINUED: i64 = -516;
/// The length of the instruction.
const SYSCALL_BYTES: u64 = 2;

/// A thread as it was found.
#[derive(Debug, Clone)]
pub struct Found {
    pub registers: libc::user_regs_struct,
    pub mask: u64,
    /// As `NT_X86_XSTATE` tells them: the layout of `XSAVE`, not compacted.
    pub vectors: Vec<u8>,
}

/// What is written below the stack pointer of a thread.
#[derive(Debug, Clone)]
pub struct Frames {
    pub start: u64,
    pub bytes: Vec<u8>,
    /// The stack pointer from which the thread finds back.
    pub back: u64,
    /// The stack pointer from which a child of the thread ends itself.
    pub leave: u64,
}

impl Frames {
    /// Nothing if the vector registers are told in a form that we do not know.
    pub fn new(found: &Found, footing: &Footing) -> Option<Self> {
        let vectors = signal_vectors(&found.vectors)?;
        let top = found.registers.rsp.checked_sub(RED_ZONE)?;
        let area = top.checked_sub(vectors.len() as u64)? & !63;
        // That of the thread lies lowest: a handler that runs before it has gone back writes below it.
        let leave = below(area)?;
        let back = below(leave)?;
        let mut bytes = vec![0; (area - back) as usize + vectors.len()];
        let mut put = |at: u64, piece: &[u8]| {
            let offset = (at - back) as usize;
            bytes[offset..offset + piece.len()].copy_from_slice(piece);
        };
        put(area, &vectors);
        put(leave, &frame(&leaving(footing.call, leave), u64::MAX, footing.back, 0));
        put(back, &frame(&resumed(found.registers), found.mask, footing.back, area));
        Some(Self { start: back, bytes, back, leave })
    }

    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.bytes.len() as u64
    }
}

/// Where a frame lies that ends below `top`, aligned as the kernel does it.
fn below(top: u64) -> Option<u64> {
    Some((top.checked_sub(FRAME_WORDS as u64 * 8)? & !15) - 8)
}

/// As the kernel leaves the registers of an interrupted call whose thread gets no signal.
fn resumed(mut registers: libc::user_regs_struct) -> libc::user_regs_struct {
    if registers.orig_rax as i64 >= 0 {
        let result = registers.rax as i64;
        if RESTARTED.contains(&result) {
            registers.rip = registers.rip.wrapping_sub(SYSCALL_BYTES);
            registers.rax = registers.orig_rax;
        } else if result == CONTINUED {
            registers.rax = -i64::from(libc::EINTR) as u64;
        }
    }
    registers
}

/// About to call `exit_group(0)`.
fn leaving(call: u64, stack: u64) -> libc::user_regs_struct {
    // SAFETY: plain numbers, for all of which zero is a value.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    registers.rip = call;
    registers.rsp = stack;
    registers.rax = libc::SYS_exit_group as u64;
    (registers.cs, registers.ss, registers.eflags) = (CODE_64, DATA_64, PLAIN_FLAGS);
    registers
}

/// The words of `struct rt_sigframe` in their order; `vectors` is the address of the vector registers, or 0.
fn frame(registers: &libc::user_regs_struct, mask: u64, back: u64, vectors: u64) -> Vec<u8> {
    let r = registers;
    let mut words = vec![back, FLAGS, 0];
    words.extend([0, UNCHANGED, 0]);
    words.extend([r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx]);
    words.extend([r.rax, r.rcx, r.rsp, r.rip, r.eflags]);
    words.push((r.cs & 0xffff) | (r.ss & 0xffff) << 48);
    words.extend([0, 0, 0, 0, vectors]);
    words.extend([0; 8]);
    words.push(mask);
    words.resize(FRAME_WORDS, 0);
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

/// The vector registers as `rt_sigreturn` wants them: only what is in use, with both magic numbers around it.
fn signal_vectors(told: &[u8]) -> Option<Vec<u8>> {
    let word = |range: Range<usize>| Some(u64::from_ne_bytes(told.get(range)?.try_into().ok()?));
    let supported = word(SOFTWARE.start..SOFTWARE.start + 8)?;
    let in_use = word(IN_USE)? | (supported & KEYS);
    let bytes = (2..63).filter(|part| in_use & (1 << part) != 0).map(end_of).fold(EXTENDED, usize::max);
    let mut vectors = told.get(..bytes)?.to_vec();
    vectors[IN_USE].copy_from_slice(&in_use.to_ne_bytes());
    let size = bytes as u32;
    let software = [MAGIC_1.to_ne_bytes(), (size + 4).to_ne_bytes()].concat();
    let software = [software, (in_use | LEGACY).to_ne_bytes().to_vec(), size.to_ne_bytes().to_vec()].concat();
    vectors[SOFTWARE].fill(0);
    vectors[SOFTWARE.start..SOFTWARE.start + software.len()].copy_from_slice(&software);
    vectors.extend(MAGIC_2.to_ne_bytes());
    Some(vectors)
}

/// Where a part of the `XSAVE` area ends.
fn end_of(part: u32) -> usize {
    #[allow(unused_unsafe)] // newer compilers know that it is safe
    // SAFETY: every processor that has `XSAVE`, and so told us of parts, has this leaf.
    let leaf = unsafe { __cpuid_count(0xd, part) };
    leaf.ebx as usize + leaf.eax as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(orig_rax: i64, rax: i64) -> libc::user_regs_struct {
        let mut registers = leaving(0x1000, 0x7fff_0000);
        (registers.orig_rax, registers.rax) = (orig_rax as u64, rax as u64);
        registers
    }

    #[test]
    fn an_interrupted_call_is_made_again_and_one_that_cannot_be_is_told_so() {
        let after = |orig_rax, rax| {
            let registers = resumed(registers(orig_rax, rax));
            (registers.rip, registers.rax as i64)
        };
        assert_eq!(
            [after(0, -512), after(202, -513), after(35, -514)],
            [(0xffe, 0), (0xffe, 202), (0xffe, 35)]
        );
        assert_eq!(after(35, -516), (0x1000, -4));
        assert_eq!(
            [after(0, 17), after(0, -4), after(-1, -512)],
            [(0x1000, 17), (0x1000, -4), (0x1000, -512)]
        );
    }

    #[test]
    fn frames_lie_below_the_red_zone_and_are_aligned() {
        let mut vectors = vec![0; 4096];
        vectors[IN_USE].copy_from_slice(&0b11_u64.to_ne_bytes());
        let footing = Footing { call: 0x1000, back: 0x2000, ..Footing::default() };
        for slack in 0..64 {
            let mut registers = registers(-1, 0);
            registers.rsp -= slack;
            let found = Found { registers, mask: 0, vectors: vectors.clone() };
            let frames = Frames::new(&found, &footing).unwrap();
            assert!(frames.range().end <= registers.rsp - RED_ZONE);
            assert_eq!((frames.back % 16, frames.leave % 16, frames.back), (8, 8, frames.start));
            let area = u64::from_ne_bytes(frames.bytes[232..240].try_into().unwrap());
            assert!(
                area.is_multiple_of(64) && area >= frames.leave + 440 && frames.leave >= frames.back + 440
            );
            assert_eq!(frames.bytes[..8], 0x2000_u64.to_ne_bytes());
        }
        assert!(
            Frames::new(&Found { registers: registers(-1, 0), mask: 0, vectors: vec![0; 512] }, &footing)
                .is_none()
        );
    }

    #[test]
    fn what_is_not_in_use_is_left_out_except_for_protection_keys() {
        let mut told = vec![0; 16 << 10];
        told[SOFTWARE.start..SOFTWARE.start + 8].copy_from_slice(&(KEYS | 0b111).to_ne_bytes());
        told[IN_USE].copy_from_slice(&0b1_u64.to_ne_bytes());
        let vectors = signal_vectors(&told).unwrap();
        let size = vectors.len() - 4;
        assert_eq!(size, end_of(9).max(EXTENDED));
        assert_eq!(vectors[IN_USE], (KEYS | 1).to_ne_bytes());
        assert_eq!(vectors[464..468], MAGIC_1.to_ne_bytes());
        assert_eq!(vectors[472..480], (KEYS | 0b11).to_ne_bytes());
        assert_eq!(
            (&vectors[480..484], &vectors[size..]),
            (&(size as u32).to_ne_bytes()[..], &MAGIC_2.to_ne_bytes()[..])
        );
    }
}
