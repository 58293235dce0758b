//! The library in a file without a name, for systems where no folder may hold programs.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::sys::memfd::{MFdFlags, memfd_create};
use nix::sys::statvfs::{FsFlags, statvfs};

/// May be executed although `vm.memfd_noexec` says otherwise (since Linux 6.3).
const MFD_EXEC: MFdFlags = MFdFlags::from_bits_retain(0x10);

/// True if nothing in this folder can be loaded as a program or library.
pub fn is_noexec(folder: &Path) -> bool {
    statvfs(folder).is_ok_and(|facts| facts.flags().contains(FsFlags::ST_NOEXEC))
}

/// A sealed file with these bytes, and the path under which programs of this user find it as long as it is open here.
pub fn write_nameless(library: &[u8]) -> io::Result<(File, PathBuf)> {
    let mut file = File::from(create()?);
    file.write_all(library)?;
    let seals =
        SealFlag::F_SEAL_WRITE | SealFlag::F_SEAL_SHRINK | SealFlag::F_SEAL_GROW | SealFlag::F_SEAL_SEAL;
    fcntl(&file, FcntlArg::F_ADD_SEALS(seals))?;
    let path = format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd());
    Ok((file, PathBuf::from(path)))
}

fn create() -> nix::Result<OwnedFd> {
    let flags = MFdFlags::MFD_CLOEXEC | MFdFlags::MFD_ALLOW_SEALING;
    let name = c"nilo-tracker";
    memfd_create(name, flags | MFD_EXEC).or_else(|_| memfd_create(name, flags))
}
