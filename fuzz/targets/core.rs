//! A core file of any content is refused, or can be read anywhere.

#![no_main]

use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;

use libfuzzer_sys::fuzz_target;
use nilometer_image::{Memory as _, core};
use rustix::fs::{MemfdFlags, memfd_create};

fuzz_target!(|bytes: &[u8]| {
    let mut file = std::fs::File::from(memfd_create("core", MemfdFlags::CLOEXEC).expect("memory"));
    file.write_all(bytes).expect("memory");
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    // Files that it names are looked for where there are none.
    let Ok(core) = core::open(&path, Some("/nowhere".as_ref())) else { return };
    for mapping in core.image.mappings() {
        let _ = (core.image.u64(mapping.start), core.image.u64(mapping.end.wrapping_sub(4)));
    }
    for module in core.modules.iter() {
        let _ = (module.build_id(), module.bias(), module.symbols(&["_PyRuntime"]));
    }
});
