//! A memory cgroup (version 1) with a limit. It is removed at the end, with whatever still runs in it.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nilometer_kernel::sys::signals;

use crate::harness::{Lab, nilo_binary};
use crate::onlooker::KILL;
use crate::watched::MIB;

const MOUNT: &str = "/sys/fs/cgroup/memory";

pub struct Limited {
    directory: PathBuf,
}

impl Limited {
    /// At most so much memory, and so much memory and swap together. The error says why there is none here.
    pub fn new(memory_mib: u64, with_swap_mib: u64) -> Result<Self, String> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = PathBuf::from(format!("{MOUNT}/nilo-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&directory).map_err(|e| format!("{}: {e}", directory.display()))?;
        let group = Self { directory };
        group.write("memory.limit_in_bytes", memory_mib * MIB)?;
        group.write("memory.memsw.limit_in_bytes", with_swap_mib * MIB)?;
        Ok(group)
    }

    fn write(&self, file: &str, value: u64) -> Result<(), String> {
        std::fs::write(self.directory.join(file), value.to_string()).map_err(|e| format!("{file}: {e}"))
    }

    fn read(&self, file: &str) -> String {
        std::fs::read_to_string(self.directory.join(file)).unwrap_or_default()
    }

    fn field(&self, file: &str, name: &str) -> u64 {
        let text = self.read(file);
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("{name} in {text}"))
    }

    /// Its path as the kernel names it.
    pub fn name(&self) -> String {
        self.directory.to_string_lossy().replacen(MOUNT, "", 1)
    }

    /// `nilo ARGUMENTS…`, itself inside.
    pub fn nilo<A: AsRef<OsStr>>(&self, lab: &Lab, arguments: impl IntoIterator<Item = A>) -> Command {
        let mut nilo = self.enter(nilo_binary());
        nilo.args(arguments).current_dir(lab.path(""));
        nilo.env_remove("NILO_DIR").env("XDG_STATE_HOME", lab.path("state"));
        nilo
    }

    /// A program that runs inside.
    pub fn enter(&self, program: impl AsRef<OsStr>) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", r#"echo $$ > "$0/cgroup.procs" && exec "$@""#]).arg(&self.directory).arg(program);
        shell
    }

    /// Bytes in use that cannot simply be dropped.
    pub fn held_bytes(&self) -> u64 {
        let usage: u64 = self.read("memory.usage_in_bytes").trim().parse().expect("usage");
        usage.saturating_sub(self.field("memory.stat", "total_inactive_file"))
    }

    /// Memory of its processes that is no file's.
    pub fn anonymous_bytes(&self) -> u64 {
        self.field("memory.stat", "total_rss")
    }

    pub fn oom_kills(&self) -> u64 {
        self.field("memory.oom_control", "oom_kill")
    }

    fn processes(&self) -> Vec<i32> {
        self.read("cgroup.procs").lines().filter_map(|pid| pid.parse().ok()).collect()
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        let begin = Instant::now();
        while std::fs::remove_dir(&self.directory).is_err() && begin.elapsed() < Duration::from_secs(10) {
            for pid in self.processes() {
                let _ = signals::send(pid, KILL);
            }
            std::thread::park_timeout(Duration::from_millis(2));
        }
        let removed = !self.directory.exists();
        assert!(removed || std::thread::panicking(), "{} is still there", self.directory.display());
    }
}
