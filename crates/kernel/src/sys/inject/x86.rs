//! Leading one stopped thread through one system call, and back.
//!
//! The order of the requests is what keeps the target whole if we die between two of them: the frames are written first, then
//! the registers point to them, then the mask is closed; on the way back the mask comes before the registers.

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;

use super::super::last_error;
use super::super::memory::{read_bytes, write_bytes};
use super::super::traced::{Seen, ptrace, step, wait};
use super::footing::Footing;
use super::frame::{Found, Frames};

/// The stop at a system call, told from a breakpoint by `PTRACE_O_TRACESYSGOOD`.
const AT_CALL: i32 = libc::SIGTRAP | 0x80;
/// The code segment of 64-bit programs (`__USER_CS`).
const CODE_64: u64 = 0x33;
/// include/uapi/linux/elf.h
const NT_X86_XSTATE: usize = 0x202;
const NT_X86_SHSTK: usize = 0x204;
/// More than any processor has of them.
const VECTOR_BYTES: usize = 64 << 10;

/// A thread whose registers and signal mask are ours for a while; given back when dropped.
#[derive(Debug)]
pub struct Borrowed {
    thread: i32,
    found: Found,
    call: u64,
    frames: Frames,
    /// What lay where the frames are.
    beneath: Vec<u8>,
    /// Its registers are ours.
    is_ours: Cell<bool>,
    /// A signal that no mask holds back (SIGSTOP), to be sent again.
    withheld: Cell<i32>,
}

impl Borrowed {
    /// Changes nothing but unused memory below the thread's stack pointer.
    pub fn new(thread: i32, footing: &Footing) -> io::Result<Self> {
        let found = find(thread, footing)?;
        let refused = |why: &str| io::Error::other(why.to_owned());
        let frames =
            Frames::new(&found, footing).ok_or_else(|| refused("its vector registers cannot be kept"))?;
        let (range, registers) = (frames.range(), &found.registers);
        let mut beneath = vec![0; frames.bytes.len()];
        if !footing.has_room(&range, registers.rsp, registers.fs_base)
            || read_bytes(thread, range.start, &mut beneath)? != beneath.len()
        {
            return Err(refused("there is no room below its stack for a way back"));
        }
        write_bytes(thread, range.start, &frames.bytes)?;
        let options = libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_TRACECLONE | libc::PTRACE_O_TRACEFORK;
        ptrace(libc::PTRACE_SETOPTIONS, thread, options as usize)?;
        let (is_ours, withheld) = (Cell::new(false), Cell::new(0));
        Ok(Self { thread, found, call: footing.call, frames, beneath, is_ours, withheld })
    }

    /// For a child that the thread makes: with this as its stack it ends itself, if it is ever let go.
    pub fn childs_stack(&self) -> u64 {
        self.frames.leave
    }

    /// What the call returned, and the child it made.
    pub fn call(&self, number: libc::c_long, arguments: [u64; 6]) -> io::Result<(i64, Option<i32>)> {
        let mut registers = self.found.registers;
        registers.rip = self.call;
        registers.rsp = self.frames.back;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX; // inside no system call: nothing to restart on the way
        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9] = arguments;
        set_registers(self.thread, &registers)?;
        if !self.is_ours.replace(true) {
            // No handler of the target runs while its registers are ours.
            set_signal_mask(self.thread, u64::MAX)?;
        }
        let (mut is_inside, mut child) = (false, None);
        loop {
            ptrace(libc::PTRACE_SYSCALL, self.thread, 0)?;
            let Seen::Stopped { event, signal } = wait(self.thread) else { return Err(ended()) };
            match (signal, event) {
                (AT_CALL, 0) if is_inside => break,
                (AT_CALL, 0) => is_inside = true,
                (_, libc::PTRACE_EVENT_CLONE | libc::PTRACE_EVENT_FORK) => child = event_pid(self.thread),
                (libc::SIGSTOP, 0) => self.withheld.set(libc::SIGSTOP),
                (signal, 0) => {
                    return Err(io::Error::other(format!("signal {signal} instead of a system call")));
                }
                _ => {}
            }
        }
        Ok((self::registers(self.thread)?.rax as i64, child))
    }

    /// Puts back what lay where the frames are: in the thread's own memory, or in that of a child which never runs.
    pub fn clear(&self, pid: i32) -> io::Result<()> {
        write_bytes(pid, self.frames.start, &self.beneath)
    }

    /// Registers are given back at a stop of `PTRACE_INTERRUPT`, behind which the kernel restarts an interrupted call;
    /// behind a stop at a system call it would return to the program with the kernel's own error number.
    fn give_back(&self) -> io::Result<()> {
        if self.is_ours.get() {
            ptrace(libc::PTRACE_INTERRUPT, self.thread, 0)?;
            self.go_to_stop()?;
            set_signal_mask(self.thread, self.found.mask)?;
            set_registers(self.thread, &self.found.registers)?;
        }
        self.clear(self.thread)?;
        if self.withheld.get() != 0 {
            // SAFETY: sends a signal by number to a thread by number.
            unsafe { libc::syscall(libc::SYS_tkill, self.thread, self.withheld.get()) };
        }
        Ok(())
    }

    fn go_to_stop(&self) -> io::Result<()> {
        loop {
            ptrace(libc::PTRACE_CONT, self.thread, 0)?;
            match wait(self.thread) {
                Seen::Stopped { event: libc::PTRACE_EVENT_STOP, .. } => return Ok(()),
                Seen::Stopped { event: 0, signal: libc::SIGSTOP } => self.withheld.set(libc::SIGSTOP),
                Seen::Stopped { .. } => {}
                Seen::Running | Seen::Ended => return Err(ended()),
            }
        }
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        // It fails only where the thread has ended.
        let _ = self.give_back();
    }
}

/// Refuses a thread that would not find back.
fn find(thread: i32, footing: &Footing) -> io::Result<Found> {
    let registers = registers(thread)?;
    if registers.cs != CODE_64 || !footing.is_there(thread) {
        return Err(io::Error::other("no system call instruction of a 64-bit program"));
    }
    if register_set(thread, NT_X86_SHSTK, &mut [0; 8]).is_ok() {
        return Err(io::Error::other("its returns are checked against a shadow stack"));
    }
    let mut vectors = vec![0; VECTOR_BYTES];
    let told = register_set(thread, NT_X86_XSTATE, &mut vectors)?;
    vectors.truncate(told);
    Ok(Found { registers, mask: signal_mask(thread)?, vectors })
}

/// Inside a system call: no restartable sequence is open there.
pub fn is_in_call(thread: i32) -> bool {
    registers(thread).is_ok_and(|registers| registers.orig_rax as i64 >= 0 && registers.cs == CODE_64)
}

/// Inside a restartable sequence (`struct rseq`, include/uapi/linux/rseq.h): leaving it would break its promise.
pub fn is_in_sequence(thread: i32) -> bool {
    const RSEQ_CS: u64 = 8;
    /// `struct ptrace_rseq_configuration`, since Linux 5.13.
    #[repr(C)]
    #[derive(Default)]
    struct Configuration {
        pointer: u64,
        size: u32,
        signature: u32,
        flags: u32,
        pad: u32,
    }
    let mut configuration = Configuration::default();
    let size = size_of::<Configuration>();
    let into = (&raw mut configuration).cast::<libc::c_void>();
    // SAFETY: `into` is writable for `size` bytes, which is what the kernel fills at most.
    let got = unsafe { libc::ptrace(libc::PTRACE_GET_RSEQ_CONFIGURATION, thread, size, into) };
    if got < 0 || configuration.pointer == 0 {
        return false;
    }
    let mut critical = [0; 8];
    let read = read_bytes(thread, configuration.pointer + RSEQ_CS, &mut critical);
    !read.is_ok_and(|read| read == 8) || critical != [0; 8]
}

/// Waits until it stands at a stop that `PTRACE_INTERRUPT`, or being made under a tracer, leads to.
pub fn wait_for_stop(thread: i32) -> io::Result<()> {
    loop {
        match wait(thread) {
            Seen::Stopped { event: libc::PTRACE_EVENT_STOP, .. } => return Ok(()),
            Seen::Stopped { .. } => ptrace(libc::PTRACE_CONT, thread, 0)?,
            Seen::Running | Seen::Ended => return Err(ended()),
        }
    }
}

/// Ends a process that we trace; its real parent can take leave of it afterwards.
pub fn kill_and_wait(pid: i32) {
    // SAFETY: sends a signal by number to a process that we trace, so that the number is still its own.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    while wait(pid) != Seen::Ended {}
}

fn ended() -> io::Error {
    io::Error::from_raw_os_error(libc::ESRCH)
}

fn event_pid(thread: i32) -> Option<i32> {
    let mut message: libc::c_ulong = 0;
    request(libc::PTRACE_GETEVENTMSG, thread, 0, (&raw mut message).cast()).ok()?;
    i32::try_from(message).ok()
}

/// How many bytes of a set of registers there are.
fn register_set(thread: i32, set: usize, into: &mut [u8]) -> io::Result<usize> {
    let mut buffer = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    request(libc::PTRACE_GETREGSET, thread, set, (&raw mut buffer).cast())?;
    Ok(buffer.iov_len)
}

fn registers(thread: i32) -> io::Result<libc::user_regs_struct> {
    let mut registers = MaybeUninit::<libc::user_regs_struct>::zeroed();
    request(libc::PTRACE_GETREGS, thread, 0, registers.as_mut_ptr().cast())?;
    // SAFETY: plain numbers; zeroed is valid, and the kernel has filled it.
    Ok(unsafe { registers.assume_init() })
}

fn set_registers(thread: i32, registers: &libc::user_regs_struct) -> io::Result<()> {
    /// Within one page, so that the kernel reads all of it or nothing, even while we are being killed.
    #[repr(align(256))]
    struct Whole(libc::user_regs_struct);
    let whole = Whole(*registers);
    request(libc::PTRACE_SETREGS, thread, 0, (&raw const whole.0).cast_mut().cast())
}

fn signal_mask(thread: i32) -> io::Result<u64> {
    let mut mask = 0_u64;
    request(libc::PTRACE_GETSIGMASK, thread, size_of::<u64>(), (&raw mut mask).cast())?;
    Ok(mask)
}

fn set_signal_mask(thread: i32, mask: u64) -> io::Result<()> {
    let mut mask = mask;
    request(libc::PTRACE_SETSIGMASK, thread, size_of::<u64>(), (&raw mut mask).cast())
}

/// `memory` is what the request reads or fills: each caller passes a value of the type that belongs to it.
fn request(number: libc::c_uint, thread: i32, address: usize, memory: *mut libc::c_void) -> io::Result<()> {
    step();
    // SAFETY: see above; `address` is a size, the number of a set of registers, or 0.
    let result = unsafe { libc::ptrace(number, thread, address, memory) };
    if result < 0 { Err(last_error()) } else { Ok(()) }
}
