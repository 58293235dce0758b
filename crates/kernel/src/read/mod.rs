//! Kernel files: opened below a given root, kept open and read again with `pread` where that pays.

pub mod cgroup;
pub mod damon;
pub mod device;
pub mod host;
pub mod idle;
pub mod kept;
pub mod proc;
pub mod system;
