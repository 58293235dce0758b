//! NVIDIA's management library, loaded at run time: there is no other interface to the memory of its devices.
//!
//! `dlopen` of libc and not a crate for it: two calls, and the library is never unloaded (it keeps threads
//! of its own). The functions and structures are those of `nvml.h`; untested on hardware, tested with a
//! library of the same shape.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const SUCCESS: c_int = 0;
const ERROR_INSUFFICIENT_SIZE: c_int = 7;
/// `NVML_VALUE_NOT_AVAILABLE`.
const NOT_AVAILABLE: u64 = u64::MAX;
/// Room for processes at the first attempt.
const FIRST_ROOM: usize = 64;
/// No device has more; a broken library must not make us allocate without end.
const MOST_PROCESSES: usize = 1 << 16;
const NAME_BYTES: usize = 96;

type Device = *mut c_void;
type Plain = unsafe extern "C" fn() -> c_int;
type GetCount = unsafe extern "C" fn(*mut c_uint) -> c_int;
type GetHandle = unsafe extern "C" fn(c_uint, *mut Device) -> c_int;
type GetMemory = unsafe extern "C" fn(Device, *mut Memory) -> c_int;
type GetName = unsafe extern "C" fn(Device, *mut c_char, c_uint) -> c_int;
type GetProcesses = unsafe extern "C" fn(Device, *mut c_uint, *mut Process) -> c_int;

/// `nvmlMemory_t`.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory {
    pub total: u64,
    pub free: u64,
    pub used: u64,
}

/// `nvmlProcessInfo_t` as `_v2` and `_v3` fill it.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
struct Process {
    pid: c_uint,
    used_gpu_memory: u64,
    gpu_instance_id: c_uint,
    compute_instance_id: c_uint,
}

/// The library, initialised; shut down when dropped.
#[derive(Debug)]
pub struct Nvml {
    shutdown: Plain,
    memory: GetMemory,
    processes: Option<GetProcesses>,
    devices: Vec<(Device, String)>,
    room: Vec<Process>,
}

// SAFETY: handles are tokens of the library, which is thread-safe by its documentation.
unsafe impl Send for Nvml {}

impl Nvml {
    /// Loads and initialises. The error is a clause: "libnvidia-ml.so.1 …".
    pub fn open(library: &Path) -> Result<Self, String> {
        let handle = load(library)?;
        let missing = |name: &CStr| format!("{} has no {}", library.display(), name.to_string_lossy());
        let symbol = |name: &CStr| find(handle, name).ok_or_else(|| missing(name));
        // SAFETY: each pointer is a function of `nvml.h` with the signature of its type above.
        let (init, shutdown, count, by_index, memory) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Plain>(symbol(c"nvmlInit_v2")?),
                std::mem::transmute::<*mut c_void, Plain>(symbol(c"nvmlShutdown")?),
                std::mem::transmute::<*mut c_void, GetCount>(symbol(c"nvmlDeviceGetCount_v2")?),
                std::mem::transmute::<*mut c_void, GetHandle>(symbol(c"nvmlDeviceGetHandleByIndex_v2")?),
                std::mem::transmute::<*mut c_void, GetMemory>(symbol(c"nvmlDeviceGetMemoryInfo")?),
            )
        };
        let processes = find(handle, c"nvmlDeviceGetComputeRunningProcesses_v3")
            .or_else(|| find(handle, c"nvmlDeviceGetComputeRunningProcesses_v2"));
        // SAFETY: `_v2` and `_v3` have this signature and fill the same structure.
        let processes = processes.map(|f| unsafe { std::mem::transmute::<*mut c_void, GetProcesses>(f) });
        // SAFETY: as above.
        let name = find(handle, c"nvmlDeviceGetName")
            .map(|f| unsafe { std::mem::transmute::<*mut c_void, GetName>(f) });
        // SAFETY: takes no arguments.
        let started = unsafe { init() };
        if started != SUCCESS {
            return Err(format!("{} cannot start: {}", library.display(), meaning(started)));
        }
        let mut nvml = Self { shutdown, memory, processes, devices: Vec::new(), room: Vec::new() };
        nvml.devices = list(count, by_index, name);
        Ok(nvml)
    }

    pub fn devices(&self) -> usize {
        self.devices.len()
    }

    pub fn name(&self, index: usize) -> &str {
        self.devices.get(index).map_or("", |(_, name)| name)
    }

    pub fn read_memory(&self, index: usize) -> Option<Memory> {
        let (device, _) = self.devices.get(index)?;
        let mut memory = Memory::default();
        // SAFETY: the handle came from the library, `memory` is writable.
        let read = unsafe { (self.memory)(*device, &raw mut memory) };
        (read == SUCCESS).then_some(memory)
    }

    /// Processes with a compute context and their bytes; those of unknown size are left out.
    pub fn read_processes(&mut self, index: usize) -> Vec<(i32, u64)> {
        let (Some((device, _)), Some(read)) = (self.devices.get(index), self.processes) else {
            return Vec::new();
        };
        let mut room = self.room.len().max(FIRST_ROOM);
        loop {
            self.room.resize(room, Process::default());
            let mut count = room as c_uint;
            // SAFETY: `room` has space for `count` entries.
            let outcome = unsafe { read(*device, &raw mut count, self.room.as_mut_ptr()) };
            if outcome == ERROR_INSUFFICIENT_SIZE && room < MOST_PROCESSES {
                room = (room * 2).max(count as usize).min(MOST_PROCESSES);
                continue;
            }
            let count = if outcome == SUCCESS { (count as usize).min(room) } else { 0 };
            let known = self.room[..count].iter().filter(|process| process.used_gpu_memory != NOT_AVAILABLE);
            return known.map(|process| (process.pid as i32, process.used_gpu_memory)).collect();
        }
    }
}

impl Drop for Nvml {
    fn drop(&mut self) {
        // SAFETY: initialised in `open`, and no handle is used afterwards.
        unsafe { (self.shutdown)() };
    }
}

fn list(count: GetCount, by_index: GetHandle, name: Option<GetName>) -> Vec<(Device, String)> {
    let mut devices = 0;
    // SAFETY: `devices` is writable.
    if unsafe { count(&raw mut devices) } != SUCCESS {
        return Vec::new();
    }
    let handle = |index| {
        let mut device: Device = std::ptr::null_mut();
        // SAFETY: `device` is writable.
        (unsafe { by_index(index, &raw mut device) } == SUCCESS).then(|| (device, name_of(device, name)))
    };
    (0..devices.min(256)).filter_map(handle).collect()
}

fn name_of(device: Device, name: Option<GetName>) -> String {
    let mut bytes = [0u8; NAME_BYTES];
    let Some(name) = name else { return String::new() };
    // SAFETY: the handle came from the library; `bytes` has the length that is given.
    let read = unsafe { name(device, bytes.as_mut_ptr().cast(), NAME_BYTES as c_uint) };
    let text = CStr::from_bytes_until_nul(&bytes).ok().filter(|_| read == SUCCESS);
    text.map_or(String::new(), |text| text.to_string_lossy().into_owned())
}

fn load(library: &Path) -> Result<*mut c_void, String> {
    // A library brings the C library with it, and this program would have two of different versions.
    if cfg!(target_feature = "crt-static") {
        return Err("this nilo is linked statically and loads no library; the one in the wheel does".into());
    }
    let path = CString::new(library.as_os_str().as_bytes()).map_err(|_| "a path with a NUL".to_owned())?;
    // SAFETY: the path is NUL-terminated. Initialisers of the library run: it is the driver's, or the one
    // that the user named.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if !handle.is_null() {
        return Ok(handle);
    }
    // SAFETY: dlerror gives a string that stays valid until the next call of this thread, or null.
    let error = unsafe { libc::dlerror() };
    if error.is_null() {
        return Err(format!("{} cannot be loaded", library.display()));
    }
    // SAFETY: checked, and NUL-terminated.
    Err(unsafe { CStr::from_ptr(error) }.to_string_lossy().into_owned())
}

fn find(handle: *mut c_void, name: &CStr) -> Option<*mut c_void> {
    // SAFETY: a live handle and a NUL-terminated name.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    (!symbol.is_null()).then_some(symbol)
}

/// The codes of `nvmlReturn_t` that a start can meet.
fn meaning(code: c_int) -> String {
    match code {
        4 => "no permission for the device".into(),
        9 => "the driver is not loaded".into(),
        12 => "its library is not found".into(),
        15 => "the device is lost".into(),
        18 => "library and driver are of different versions".into(),
        _ => format!("error {code}"),
    }
}
