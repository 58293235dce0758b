//! Page faults of processes, one by one: which address was touched without having a page, and by which instruction.
//!
//! `perf_event_open` with `PERF_COUNT_SW_PAGE_FAULTS` at a period of one. An event is one thread's on one processor, and
//! what the thread starts inherits it; those of one processor share a ring. The one invariant: a fault that happens after
//! [`FaultStream::add`] is handed out once, or counted as lost.

use std::io;
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

use super::limits::page_bytes;
use super::{check, last_error};

// include/uapi/linux/perf_event.h
const ATTR_BYTES: u64 = 64; // PERF_ATTR_SIZE_VER0
const PERF_TYPE_SOFTWARE: u64 = 1;
const PERF_COUNT_SW_PAGE_FAULTS: u64 = 2;
const SAMPLE_IP_TID_ADDR: u64 = 1 | 1 << 1 | 1 << 3;
const DISABLED: u64 = 1;
const INHERIT: u64 = 1 << 1;
const EXCLUDE_KERNEL: u64 = 1 << 5;
const EXCLUDE_HV: u64 = 1 << 6;
const NO_GROUP: i32 = -1;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 1 << 3;
const PERF_EVENT_IOC_ENABLE: libc::c_ulong = 0x2400;
const PERF_EVENT_IOC_SET_OUTPUT: libc::c_ulong = 0x2405;
const PERF_RECORD_LOST: u32 = 2;
const PERF_RECORD_SAMPLE: u32 = 9;
/// Where `struct perf_event_mmap_page` has the ends of what is written and of what is read.
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// Sizes of a ring, in pages, largest first: 65,536 faults, or what `perf_event_mlock_kb` leaves to everybody.
const RING_PAGES: [usize; 4] = [512, 128, 32, 8];

/// One fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub pid: i32,
    pub address: u64,
    pub instruction: u64,
}

/// The faults of all threads that were added, and of all that these start.
#[derive(Debug)]
pub struct FaultStream {
    rings: Vec<Ring>,
    /// Those that write to another's ring.
    events: Vec<OwnedFd>,
    sees_system_calls: bool,
}

/// What is written on one processor.
#[derive(Debug)]
struct Ring {
    processor: i32,
    event: OwnedFd,
    /// The head page, then `data_bytes`.
    start: NonNull<u64>,
    data_bytes: usize,
    /// Everything before it was read.
    tail: u64,
}

// SAFETY: the mapping belongs to this value alone and is bound to no thread.
unsafe impl Send for Ring {}

impl FaultStream {
    /// An empty stream, if faults of this thread may be seen at all. Those inside of system calls are shown to some only.
    pub fn open(thread: i32) -> io::Result<Self> {
        const ANY_PROCESSOR: i32 = -1;
        let sees_system_calls = match open_event(thread, ANY_PROCESSOR, true) {
            Ok(_) => true,
            Err(error) if matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM)) => {
                open_event(thread, ANY_PROCESSOR, false).map(|_| false)?
            }
            Err(error) => return Err(error),
        };
        Ok(Self { rings: Vec::new(), events: Vec::new(), sees_system_calls })
    }

    /// Whether faults that a system call meets (`read` into fresh memory) are among them.
    pub fn sees_system_calls(&self) -> bool {
        self.sees_system_calls
    }

    /// From here on the faults of this thread, and of all that it starts, are in the stream.
    pub fn add(&mut self, thread: i32) -> io::Result<()> {
        for processor in 0..configured_processors() {
            match open_event(thread, processor, self.sees_system_calls) {
                Ok(event) => self.add_event(event, processor)?,
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {} // it is switched off
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// It is disabled until it has where to write to.
    fn add_event(&mut self, event: OwnedFd, processor: i32) -> io::Result<()> {
        let Some(ring) = self.rings.iter().find(|ring| ring.processor == processor) else {
            let ring = Ring::map(event, processor)?;
            control(&ring.event, PERF_EVENT_IOC_ENABLE, 0)?;
            self.rings.push(ring);
            return Ok(());
        };
        control(&event, PERF_EVENT_IOC_SET_OUTPUT, ring.event.as_raw_fd())?;
        control(&event, PERF_EVENT_IOC_ENABLE, 0)?;
        self.events.push(event);
        Ok(())
    }

    /// Hands out the faults since the last time; how many were lost because a ring was full.
    pub fn take(&mut self, mut each: impl FnMut(Fault)) -> u64 {
        self.rings.iter_mut().map(|ring| ring.take(&mut each)).sum()
    }
}

/// Faults of one thread on one processor, and of what it starts; disabled.
fn open_event(thread: i32, processor: i32, in_system_calls: bool) -> io::Result<OwnedFd> {
    let hidden = if in_system_calls { EXCLUDE_HV } else { EXCLUDE_HV | EXCLUDE_KERNEL };
    let attr: [u64; 8] = [
        PERF_TYPE_SOFTWARE | ATTR_BYTES << 32,
        PERF_COUNT_SW_PAGE_FAULTS,
        1, // period
        SAMPLE_IP_TID_ADDR,
        0,
        DISABLED | INHERIT | hidden,
        0,
        0,
    ];
    // SAFETY: `attr` is a `struct perf_event_attr` of the first version, as its size field says.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attr.as_ptr(),
            thread,
            processor,
            NO_GROUP,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let fd = check(fd as libc::c_int)?;
    // SAFETY: the descriptor is new and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn control(event: &OwnedFd, request: libc::c_ulong, argument: i32) -> io::Result<()> {
    // SAFETY: both requests take a number, no memory.
    check(unsafe { libc::ioctl(event.as_raw_fd(), request, argument) }).map(drop)
}

fn configured_processors() -> i32 {
    // SAFETY: no memory is passed.
    unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.clamp(1, 1 << 16) as i32
}

impl Ring {
    /// As large as is allowed.
    fn map(event: OwnedFd, processor: i32) -> io::Result<Self> {
        let page = page_bytes() as usize;
        let mut refused = io::Error::from_raw_os_error(libc::EPERM);
        for pages in RING_PAGES {
            let protection = libc::PROT_READ | libc::PROT_WRITE;
            let (length, fd) = ((pages + 1) * page, event.as_raw_fd());
            // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
            let start =
                unsafe { libc::mmap(std::ptr::null_mut(), length, protection, libc::MAP_SHARED, fd, 0) };
            match NonNull::new(start.cast()).filter(|_| start != libc::MAP_FAILED) {
                Some(start) => {
                    return Ok(Self { processor, event, start, data_bytes: pages * page, tail: 0 });
                }
                None => refused = last_error(),
            }
        }
        Err(refused)
    }

    fn take(&mut self, each: &mut impl FnMut(Fault)) -> u64 {
        // Pairs with the kernel's store: what is before it has been written.
        let head = self.end(DATA_HEAD).load(Ordering::Acquire);
        let mut lost = 0;
        while self.tail < head {
            let [header, first, second, third] = [0, 1, 2, 3].map(|number| self.word(number));
            let bytes = header >> 48;
            if bytes < 8 || bytes % 8 != 0 {
                self.tail = head; // no record of the kernel's
                break;
            }
            match header as u32 {
                PERF_RECORD_SAMPLE => {
                    each(Fault { instruction: first, pid: second as i32, address: third });
                }
                PERF_RECORD_LOST => lost += second,
                _ => {}
            }
            self.tail += bytes;
        }
        // Pairs with the kernel's load: what is before it may be written over.
        self.end(DATA_TAIL).store(self.tail, Ordering::Release);
        lost
    }

    /// A word of the record at the tail; beyond its end one of another record, which is not used.
    fn word(&self, number: u64) -> u64 {
        let at = page_bytes() as usize + (self.tail + 8 * number) as usize % self.data_bytes;
        // SAFETY: `at` is a multiple of 8 within the mapping, behind its first page; the kernel does not write there before the
        // tail is moved.
        unsafe { self.start.as_ptr().add(at / 8).read_volatile() }
    }

    fn end(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: both offsets are aligned and lie in the first page of the mapping, which lives as long as `self`; the kernel
        // and we use them as atomics only.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset / 8)) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: exactly the mapping made by `map`; nobody refers to it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.data_bytes + page_bytes() as usize) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGES: usize = 1000;

    /// Touches so many fresh pages, and tells the address of the first.
    fn touch_fresh_pages() -> u64 {
        let (page, protection) = (page_bytes() as usize, libc::PROT_READ | libc::PROT_WRITE);
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a fresh mapping of which each page is written once; it is left to the end of the test program.
        unsafe {
            let start = libc::mmap(std::ptr::null_mut(), PAGES * page, protection, flags, -1, 0);
            assert_ne!(start, libc::MAP_FAILED);
            libc::madvise(start, PAGES * page, libc::MADV_NOHUGEPAGE);
            (0..PAGES).for_each(|number| start.cast::<u8>().add(number * page).write_volatile(1));
            start as u64
        }
    }

    fn faults(stream: &mut FaultStream) -> Vec<Fault> {
        let mut told = Vec::new();
        assert_eq!(stream.take(|fault| told.push(fault)), 0);
        told
    }

    /// The stream of this thread alone; none where the kernel refuses it, which is told.
    fn own_stream() -> Option<FaultStream> {
        // SAFETY: no memory is passed.
        let own = unsafe { libc::gettid() };
        let mut stream = match FaultStream::open(own) {
            Ok(stream) => stream,
            Err(error) => {
                nilometer_lab::skip("perf-faults", &error.to_string());
                return None;
            }
        };
        stream.add(own).unwrap();
        Some(stream)
    }

    fn addresses_from(start: u64, told: &[Fault]) -> Vec<u64> {
        let range = start..start + PAGES as u64 * page_bytes();
        let mut addresses: Vec<u64> =
            told.iter().map(|fault| fault.address).filter(|address| range.contains(address)).collect();
        addresses.sort_unstable();
        addresses
    }

    #[test]
    fn each_first_touch_is_told_once_with_its_address() {
        let Some(mut stream) = own_stream() else { return };
        let start = touch_fresh_pages();
        let told = faults(&mut stream);
        assert!(told.iter().all(|fault| fault.pid == std::process::id() as i32));
        let truth: Vec<u64> = (0..PAGES as u64).map(|number| start + number * page_bytes()).collect();
        assert_eq!(addresses_from(start, &told), truth);
        let again = faults(&mut stream);
        assert_eq!(addresses_from(start, &again), []);
    }

    #[test]
    fn what_a_thread_starts_is_seen_too() {
        let Some(mut stream) = own_stream() else { return };
        let start = std::thread::spawn(touch_fresh_pages).join().unwrap();
        assert_eq!(addresses_from(start, &faults(&mut stream)).len(), PAGES);
    }

    /// Each processor has a ring of its own: a thread that moves fills two of them by half.
    fn stay_on_this_processor() {
        // SAFETY: an all-zero set is valid, `CPU_SET` checks its index, and the call reads the set only.
        unsafe {
            let mut here: libc::cpu_set_t = std::mem::zeroed();
            libc::CPU_SET(libc::sched_getcpu() as usize, &mut here);
            assert_eq!(libc::sched_setaffinity(0, size_of_val(&here), &raw const here), 0);
        }
    }

    #[test]
    fn what_does_not_fit_is_counted_as_lost() {
        stay_on_this_processor();
        let Some(mut stream) = own_stream() else { return };
        let room = stream.rings.iter().map(|ring| ring.data_bytes).max().unwrap() / 32;
        let (mut told, mut rounds) = (0, 0);
        while rounds * PAGES < 2 * room {
            touch_fresh_pages();
            rounds += 1;
        }
        let lost = stream.take(|_| told += 1);
        // The last of the lost are told with the next record that fits.
        touch_fresh_pages();
        let lost = lost + stream.take(|_| told += 1);
        assert!(lost > 0 && told + lost >= ((rounds + 1) * PAGES) as u64, "{told} and {lost}");
    }
}
