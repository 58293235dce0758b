//! Pure parsers over bytes: no files, no globals, no allocation where they run at each tick.

pub mod cgroup;
pub mod drm;
pub mod environ;
pub mod fields;
pub mod kind;
pub mod kmsg;
pub mod last_pid;
pub mod maps;
pub mod mountinfo;
pub mod pressure;
pub mod running;
pub mod scan;
pub mod smaps;
pub mod stat;
pub mod statm;
pub mod status;
