//! Kernel files: opened below a given root, kept open and read again with `pread` where that pays.

pub mod cgroup;
pub mod device;
pub mod host;
pub mod kept;
pub mod proc;
pub mod system;
