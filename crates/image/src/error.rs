use std::io;
use std::path::PathBuf;

/// Why there is no image.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("process {pid} is gone")]
    Gone { pid: i32 },
    /// It ended; its parent has not asked for its exit code yet.
    #[error("process {pid} has ended and is only waiting for its parent (a zombie)")]
    Zombie { pid: i32 },
    #[error("process {pid} is a thread of the kernel: it has no memory of its own")]
    KernelThread { pid: i32 },
    /// Yama, another user, not dumpable, or a seccomp filter of ours.
    #[error("no permission to read the memory of process {pid}")]
    NotPermitted { pid: i32 },
    /// Reading would be allowed; a second tracer is not.
    #[error("process {pid} is already traced by process {tracer}")]
    Traced { pid: i32, tracer: i32 },
    #[error("process {pid} could not be stopped: {source}")]
    NotStopped { pid: i32, source: io::Error },
    #[error("process {pid} is a 32-bit program: only 64-bit ones can be read")]
    Not64Bit { pid: i32 },
    #[error("a snapshot by an injected fork is made on x86-64 only")]
    NoInjection,
    #[error("process {pid} could not be made to fork: {reason}")]
    NotForked { pid: i32, reason: String },
    #[error("no memory for a copy of {bytes} bytes: {source}")]
    NoMemory { bytes: u64, source: io::Error },
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("{} is not a core file", path.display())]
    NotACore { path: PathBuf },
    #[error("{} is compressed ({format}): undo that first, for instance with `{command}`", path.display())]
    Compressed { path: PathBuf, format: &'static str, command: &'static str },
    #[error("{} is a core of another kind of machine ({what}): only 64-bit x86 is read", path.display())]
    OtherMachine { path: PathBuf, what: String },
    #[error("{} is damaged: {what}", path.display())]
    Damaged { path: PathBuf, what: &'static str },
}
