//! Resource limits and our own usage.

use std::mem::MaybeUninit;

/// `RLIMIT_NOFILE`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenFiles {
    pub soft: u64,
    pub hard: u64,
}

impl OpenFiles {
    pub fn read() -> Option<Self> {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is writable and of the right type.
        let read = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
        (read == 0).then_some(Self { soft: limit.rlim_cur, hard: limit.rlim_max })
    }

    /// Makes this the limit of the calling process; failure leaves the old one.
    pub fn set(&self) {
        let limit = libc::rlimit { rlim_cur: self.soft, rlim_max: self.hard };
        // SAFETY: `limit` is a valid rlimit.
        unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    }

    /// Three descriptors per watched process add up: use all that the hard limit allows (at most 1 Mi).
    pub fn raise(&self) {
        Self { soft: self.hard.min(1 << 20), hard: self.hard }.set();
    }
}

/// For a program that allocates a lot and soon ends: what is freed is not given back to the kernel, which would have to
/// clear it again for the next column; and the heap is of huge pages where the kernel has them, as a fault for each small
/// one costs more than to clear it.
pub fn keep_freed_memory() {
    const AHEAD_BYTES: libc::c_int = 64 << 20;
    const HUGE_BYTES: libc::c_int = 256 << 20;
    // As much as it takes: with any of these set, the threshold no longer moves, and columns would get mappings of their own.
    const MAPPED_BYTES: libc::c_int = 32 << 20;
    // SAFETY: it only sets numbers of the allocator.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, -1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, MAPPED_BYTES);
        libc::mallopt(libc::M_TOP_PAD, HUGE_BYTES);
    }
    grow_heap_of_huge_pages();
    // SAFETY: as above.
    unsafe { libc::mallopt(libc::M_TOP_PAD, AHEAD_BYTES) };
}

/// Makes the heap grow once, by as much as it is told to, and advises what is new before anything of it is touched. A
/// kernel or a limit that refuses leaves all as it was; where address space is limited, others need it more.
fn grow_heap_of_huge_pages() {
    /// More than is left of the heap at the beginning, less than gets a mapping of its own.
    const PROBE_BYTES: usize = 1 << 20;
    if is_address_space_limited() {
        return;
    }
    // SAFETY: the probe is ours until it is freed below, and nobody reads or writes it.
    let probe = unsafe { libc::malloc(PROBE_BYTES) };
    if probe.is_null() {
        return;
    }
    // SAFETY: 0 asks where the heap ends and moves nothing.
    let end = unsafe { libc::sbrk(0) } as usize;
    let start = (probe as usize).next_multiple_of(page_bytes() as usize);
    // Elsewhere than in the heap proper it stands where the kernel refused to let that grow.
    if start < end {
        // SAFETY: from the probe to its end the heap is mapped, and this advice changes nothing of what is in it.
        unsafe { libc::madvise(start as *mut libc::c_void, end - start, libc::MADV_HUGEPAGE) };
    }
    // SAFETY: from `malloc`, freed once.
    unsafe { libc::free(probe) };
}

/// Lets the allocator keep no more of what is freed than it does in the beginning. From the large blocks of a look it would
/// learn to keep as much on top of each arena, of which [`give_back_freed_memory`] trims only the first.
pub fn keep_little_freed_memory() {
    // SAFETY: it only sets a number of the allocator.
    unsafe { libc::mallopt(libc::M_TRIM_THRESHOLD, 128 << 10) };
}

/// For a program that has just freed a lot and goes on for hours: whole free pages go back to the kernel, those inside the
/// arenas of threads too, which `free` alone never gives back.
pub fn give_back_freed_memory() {
    // SAFETY: it takes no pointer; the allocator locks its arenas itself.
    unsafe { libc::malloc_trim(0) };
}

/// `RLIMIT_AS`.
fn is_address_space_limited() -> bool {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is writable and of the right type.
    let read = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) };
    read != 0 || limit.rlim_cur != libc::RLIM_INFINITY
}

/// CPU time and peak memory of a process, as the kernel accounts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    pub user_us: u64,
    pub system_us: u64,
    pub maxrss_kib: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
}

impl From<libc::rusage> for Usage {
    fn from(usage: libc::rusage) -> Self {
        let us = |t: libc::timeval| t.tv_sec as u64 * 1_000_000 + t.tv_usec as u64;
        Self {
            user_us: us(usage.ru_utime),
            system_us: us(usage.ru_stime),
            maxrss_kib: usage.ru_maxrss as u64,
            minor_faults: usage.ru_minflt as u64,
            major_faults: usage.ru_majflt as u64,
        }
    }
}

/// What this process used so far.
pub fn own_usage() -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: `usage` is writable; RUSAGE_SELF always succeeds and fills it.
    unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init().into()
    }
}

pub fn page_bytes() -> u64 {
    sysconf(libc::_SC_PAGESIZE, 4096)
}

/// Clock ticks per second, the unit of CPU times in `/proc/PID/stat`.
pub fn ticks_per_s() -> u64 {
    sysconf(libc::_SC_CLK_TCK, 100)
}

fn sysconf(name: libc::c_int, otherwise: u64) -> u64 {
    // SAFETY: sysconf has no memory effects.
    u64::try_from(unsafe { libc::sysconf(name) }).unwrap_or(otherwise)
}

/// The effective user id.
pub fn effective_uid() -> u32 {
    // SAFETY: cannot fail.
    unsafe { libc::geteuid() }
}
