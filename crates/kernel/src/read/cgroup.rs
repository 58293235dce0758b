//! The memory control groups that hold a process, and one of our own to hold a job.

use std::path::{Path, PathBuf};

use super::kept::{KeptFile, read_once};
use crate::parse::fields::FieldTable;
use crate::parse::scan::{lines, number, words};
use crate::parse::{cgroup, mountinfo};

/// v1 shows "no limit" as the largest page-aligned `long` (9223372036854771712 with 4 KiB pages).
const V1_NO_LIMIT: u64 = 1 << 62;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V1,
    V2,
}

/// One reading of one group; bytes, and counts since the group was made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level {
    pub usage: u64,
    /// `u64::MAX` = none.
    pub limit: u64,
    /// v2: above this the processes are slowed down; `u64::MAX` = none.
    pub high: u64,
    /// Page cache not in use, which the kernel drops before it lets an allocation fail.
    pub reclaimable: u64,
    pub shmem: u64,
    pub swap: u64,
    /// `u64::MAX` = none.
    pub swap_limit: u64,
    /// `memory.peak` (since Linux 5.19), v1 `memory.max_usage_in_bytes`.
    pub peak: Option<u64>,
    /// v2 counts those of the groups below as well; v1 only those of processes directly in the group.
    pub oom_kills: u64,
    /// How often the group was out of memory (v2 only).
    pub oom_events: u64,
    /// How often the limit was hit.
    pub max_events: u64,
}

impl Default for Level {
    fn default() -> Self {
        Self {
            usage: 0,
            limit: u64::MAX,
            high: u64::MAX,
            reclaimable: 0,
            shmem: 0,
            swap: 0,
            swap_limit: u64::MAX,
            peak: None,
            oom_kills: 0,
            oom_events: 0,
            max_events: 0,
        }
    }
}

impl Level {
    /// What can still be used before the limit is hit.
    pub fn headroom(&self) -> u64 {
        self.limit.saturating_sub(self.usage.saturating_sub(self.reclaimable))
    }
}

/// The files of one group, kept open; one that does not exist is remembered as absent.
#[derive(Debug)]
struct Group {
    path: String,
    usage: KeptFile,
    limit: Option<KeptFile>,
    high: Option<KeptFile>,
    stat: Option<KeptFile>,
    swap: Option<KeptFile>,
    swap_limit: Option<KeptFile>,
    peak: Option<KeptFile>,
    events: Option<KeptFile>,
    failures: Option<KeptFile>,
    stat_fields: FieldTable,
    event_fields: FieldTable,
}

/// The memory groups of a process, its own first, up to the highest that is visible here. There are none in the
/// root of v2, which counts nothing, and where the controller is enabled for nobody on the way to it.
#[derive(Debug)]
pub struct Chain {
    version: Version,
    own: PathBuf,
    member: String,
    groups: Vec<Group>,
}

impl Chain {
    /// `proc_root` is `/proc` and `fs_root` is `/`, except in tests.
    ///
    /// The mounts are our own, for through them the files are opened. Paths of groups are printed relative
    /// to the reader's cgroup namespace in both files (`cgroup_show_path` and `proc_cgroup_show`,
    /// kernel/cgroup/cgroup.c), so they fit together for a process in another namespace too.
    ///
    /// `None` if no memory controller is there, or the group is not below what is mounted.
    pub fn of(proc_root: &Path, fs_root: &Path, pid: i32) -> Option<Self> {
        let mut buffer = Vec::new();
        let length = read_once(&proc_root.join("self/mountinfo"), &mut buffer).ok()?;
        let mounts = mountinfo::parse(&buffer[..length]);
        let length = read_once(&proc_root.join(pid.to_string()).join("cgroup"), &mut buffer).ok()?;
        let memberships = cgroup::parse(&buffer[..length]);

        let unified = memberships.iter().find(|m| m.is_unified());
        let legacy = memberships.iter().find(|m| m.controllers.iter().any(|c| c == "memory"));
        let v2 = mounts.iter().filter(|m| m.fs_type == "cgroup2").filter_map(|m| {
            let top = below(fs_root, &m.mount_point);
            lists_memory(&top.join("cgroup.controllers")).then_some((Version::V2, top, m, unified?))
        });
        let v1 = mounts
            .iter()
            .filter(|m| m.fs_type == "cgroup" && m.has_option("memory"))
            .filter_map(|m| Some((Version::V1, below(fs_root, &m.mount_point), m, legacy?)));
        v2.chain(v1)
            .find_map(|(version, top, mount, member)| Self::open(version, &top, &mount.root, &member.path))
    }

    fn open(version: Version, top: &Path, mount_root: &str, path: &str) -> Option<Self> {
        let mut relative = relative_to(mount_root, path)?;
        let own = below(top, relative);
        let mut groups = Vec::new();
        loop {
            let name = &path[..path.len() - (relative_to(mount_root, path)?.len() - relative.len())];
            groups.extend(Group::open(version, &below(top, relative), name));
            match relative.rfind('/') {
                Some(slash) => relative = &relative[..slash],
                None => break,
            }
        }
        let member = path.to_owned();
        (version == Version::V2 || !groups.is_empty()).then_some(Self { version, own, member, groups })
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The group of the process itself, whether or not it counts memory.
    pub fn member(&self) -> &str {
        &self.member
    }

    pub fn levels(&self) -> usize {
        self.groups.len()
    }

    /// The group's path as the kernel names it; empty beyond the last level.
    pub fn path(&self, level: usize) -> &str {
        self.groups.get(level).map_or("", |group| &group.path)
    }

    /// The limit of a level alone: a tenth of the whole reading. `u64::MAX` = none.
    pub fn read_limit(&self, level: usize, buffer: &mut Vec<u8>) -> u64 {
        self.groups.get(level).map_or(u64::MAX, |group| group.read_limit(buffer))
    }

    /// The usage of a level alone; 0 if it cannot be read.
    pub fn read_usage(&self, level: usize, buffer: &mut Vec<u8>) -> u64 {
        self.groups.get(level).and_then(|group| single(Some(&group.usage), buffer)).unwrap_or(0)
    }

    /// Reads a level anew. What is missing (a file this kernel does not have, a removed group) is 0 or none.
    pub fn read(&mut self, level: usize, buffer: &mut Vec<u8>) -> Level {
        match (self.groups.get_mut(level), self.version) {
            (Some(group), Version::V1) => group.read_v1(buffer),
            (Some(group), Version::V2) => group.read_v2(buffer),
            (None, _) => Level::default(),
        }
    }
}

/// Whether a group for a job could be made inside ours, as far as looking tells: nothing is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Room {
    Free,
    /// The directory is not ours, or mounted read-only.
    NotWritable,
    /// v2: our group has no memory controller to hand on.
    NoController,
    /// v2: other processes live in our group, so it cannot hand its controllers on.
    Inhabited,
}

impl Chain {
    /// What [`OwnGroup::create`] would meet; `me` is our pid as this tree knows it.
    pub fn room(&self, me: i32) -> Room {
        let is_writable = |name: &str| {
            let path = if name.is_empty() { self.own.clone() } else { self.own.join(name) };
            nix::unistd::eaccess(&path, nix::unistd::AccessFlags::W_OK).is_ok()
        };
        if !is_writable("") || !is_writable("cgroup.procs") {
            return Room::NotWritable;
        }
        if self.version == Version::V1 || lists_memory(&self.own.join("cgroup.subtree_control")) {
            return Room::Free;
        }
        if !lists_memory(&self.own.join("cgroup.controllers")) {
            return Room::NoController;
        }
        let residents = std::fs::read(self.own.join("cgroup.procs")).unwrap_or_default();
        let others = lines(&residents).filter(|pid| *pid != me.to_string().as_bytes()).count();
        let is_root = !self.own.join("cgroup.type").exists(); // may have processes and children
        match is_writable("cgroup.subtree_control") {
            false => Room::NotWritable,
            true if others > 0 && !is_root => Room::Inhabited,
            true => Room::Free,
        }
    }
}

/// Joins also what begins with a slash.
fn below(root: &Path, path: &str) -> PathBuf {
    let path = path.trim_start_matches('/');
    if path.is_empty() { root.to_owned() } else { root.join(path) }
}

/// The path of a group below a mount: empty, or beginning with a slash. `None` if it is outside.
fn relative_to<'p>(mount_root: &str, path: &'p str) -> Option<&'p str> {
    let is_outside = |path: &str| path.split('/').any(|part| part == "..");
    if is_outside(path) || is_outside(mount_root) || !path.starts_with('/') {
        return None;
    }
    let rest = path.strip_prefix(mount_root.trim_end_matches('/'))?;
    match rest {
        "/" => Some(""),
        _ if rest.is_empty() || rest.starts_with('/') => Some(rest),
        _ => None,
    }
}

fn lists_memory(path: &Path) -> bool {
    let mut buffer = Vec::new();
    let length = read_once(path, &mut buffer).unwrap_or(0);
    words(buffer[..length].trim_ascii()).any(|word| word == b"memory")
}

impl Group {
    /// `None` without memory accounting: the root of v2, and groups for which it is not enabled.
    fn open(version: Version, directory: &Path, name: &str) -> Option<Self> {
        let file = |v1: &str, v2: &str| {
            let file = if version == Version::V1 { v1 } else { v2 };
            if file.is_empty() { None } else { KeptFile::open(directory.join(file)).ok() }
        };
        Some(Self {
            path: if name.is_empty() { "/".to_owned() } else { name.to_owned() },
            usage: file("memory.usage_in_bytes", "memory.current")?,
            limit: file("memory.limit_in_bytes", "memory.max"),
            high: file("", "memory.high"),
            stat: file("memory.stat", "memory.stat"),
            swap: file("", "memory.swap.current"),
            swap_limit: file("memory.memsw.limit_in_bytes", "memory.swap.max"),
            peak: file("memory.max_usage_in_bytes", "memory.peak"),
            events: file("memory.oom_control", "memory.events"),
            failures: file("memory.failcnt", ""),
            stat_fields: FieldTable::only(is_wanted),
            event_fields: FieldTable::all(),
        })
    }

    /// v2 says `max`, which is no number, where there is none.
    fn read_limit(&self, buffer: &mut Vec<u8>) -> u64 {
        single(self.limit.as_ref(), buffer).filter(|limit| *limit < V1_NO_LIMIT).unwrap_or(u64::MAX)
    }

    fn read_v2(&mut self, buffer: &mut Vec<u8>) -> Level {
        let limit = self.read_limit(buffer);
        let (stat, events) = (&mut self.stat_fields, &mut self.event_fields);
        refresh(stat, self.stat.as_ref(), buffer);
        refresh(events, self.events.as_ref(), buffer);
        let mut value = |file: Option<&KeptFile>| single(file, buffer);
        Level {
            usage: value(Some(&self.usage)).unwrap_or(0),
            limit,
            high: value(self.high.as_ref()).unwrap_or(u64::MAX),
            reclaimable: stat.get("inactive_file").unwrap_or(0),
            shmem: stat.get("shmem").unwrap_or(0),
            swap: value(self.swap.as_ref()).unwrap_or(0),
            swap_limit: value(self.swap_limit.as_ref()).unwrap_or(u64::MAX),
            peak: value(self.peak.as_ref()),
            oom_kills: events.get("oom_kill").unwrap_or(0),
            oom_events: events.get("oom").unwrap_or(0),
            max_events: events.get("max").unwrap_or(0),
        }
    }

    fn read_v1(&mut self, buffer: &mut Vec<u8>) -> Level {
        let limit = self.read_limit(buffer);
        let (stat, events) = (&mut self.stat_fields, &mut self.event_fields);
        refresh(stat, self.stat.as_ref(), buffer);
        refresh(events, self.events.as_ref(), buffer);
        let mut value = |file: Option<&KeptFile>| single(file, buffer);
        let unlimited = |value: Option<u64>| value.filter(|v| *v < V1_NO_LIMIT).unwrap_or(u64::MAX);
        let both = unlimited(value(self.swap_limit.as_ref())); // memory and swap together
        Level {
            usage: value(Some(&self.usage)).unwrap_or(0),
            limit,
            high: u64::MAX,
            reclaimable: stat.get("total_inactive_file").unwrap_or(0),
            shmem: stat.get("total_shmem").unwrap_or(0),
            swap: stat.get("total_swap").unwrap_or(0),
            swap_limit: if both == u64::MAX { u64::MAX } else { both.saturating_sub(limit) },
            peak: value(self.peak.as_ref()),
            oom_kills: events.get("oom_kill").unwrap_or(0), // since Linux 4.13
            oom_events: 0,
            max_events: value(self.failures.as_ref()).unwrap_or(0),
        }
    }
}

/// The few of about 60 fields that we use; v1 has the sums over the groups below as `total_…`.
fn is_wanted(name: &[u8]) -> bool {
    matches!(name, b"inactive_file" | b"shmem" | b"total_inactive_file" | b"total_shmem" | b"total_swap")
}

fn refresh(table: &mut FieldTable, file: Option<&KeptFile>, buffer: &mut Vec<u8>) {
    let text = file.and_then(|file| file.read(buffer).ok()).unwrap_or(b"");
    table.parse(text);
}

fn single(file: Option<&KeptFile>, buffer: &mut Vec<u8>) -> Option<u64> {
    number(file?.read(buffer).ok()?)
}

/// Where memory runs out first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Binding {
    /// `None` = the machine.
    pub level: Option<usize>,
    pub limit: u64,
    pub headroom: u64,
}

/// The limit with the least headroom; of equals the innermost group, the machine last.
pub fn binding(levels: &[Level], mem_total: u64, mem_available: u64) -> Binding {
    let machine = Binding { level: None, limit: mem_total, headroom: mem_available };
    let groups = levels.iter().enumerate().filter(|(_, level)| level.limit != u64::MAX);
    groups
        .map(|(i, level)| Binding { level: Some(i), limit: level.limit, headroom: level.headroom() })
        .chain([machine])
        .min_by_key(|binding| binding.headroom)
        .unwrap_or(machine)
}

/// A group made by us for a job: it counts what all its processes use together, shared pages once.
#[derive(Debug)]
pub struct OwnGroup {
    version: Version,
    directory: PathBuf,
    /// Where we went to make room for it.
    aside: Option<PathBuf>,
}

impl OwnGroup {
    /// Makes a child of the process's group. The error is a sentence with what to do about it.
    ///
    /// `family` is ourselves and what we have started: if v2 needs their group empty, they are moved aside.
    pub fn create(chain: &Chain, name: &str, family: &[i32]) -> Result<Self, String> {
        if matches!(name, "" | "." | ".." | ASIDE) || name.contains(['/', '\n', '\0']) {
            return Err(format!("{name:?} is no name for a control group"));
        }
        let aside = if chain.version == Version::V2 { hand_memory_on(&chain.own, family)? } else { None };
        let directory = chain.own.join(name);
        if let Err(e) = std::fs::create_dir(&directory) {
            step_back(aside.as_deref());
            return Err(format!("cannot create control group {}: {e}{}", directory.display(), hint(&e)));
        }
        let group = Self { version: chain.version, directory, aside };
        if group.directory.join(group.file("memory.usage_in_bytes", "memory.current")).exists() {
            Ok(group)
        } else {
            Err(format!("control group {} has no memory controller; {HINT}", group.path().display()))
        }
    }

    pub fn path(&self) -> &Path {
        &self.directory
    }

    /// Moves a process into the group; memory it already has stays with its old one.
    pub fn add(&self, pid: i32) -> Result<(), String> {
        self.write("cgroup.procs", &pid.to_string())
    }

    /// `None` on cgroup v2 before Linux 5.19.
    pub fn peak_bytes(&self) -> Option<u64> {
        number(&self.read(self.file("memory.max_usage_in_bytes", "memory.peak"))?)
    }

    pub fn oom_kills(&self) -> u64 {
        let mut table = FieldTable::all();
        table.parse(&self.read(self.file("memory.oom_control", "memory.events")).unwrap_or_default());
        table.get("oom_kill").unwrap_or(0)
    }

    pub fn set_limit(&self, bytes: u64) -> Result<(), String> {
        self.write(self.file("memory.limit_in_bytes", "memory.max"), &bytes.to_string())
    }

    /// Refused while processes or groups remain in it; may be tried again.
    pub fn remove(&mut self) -> Result<(), String> {
        match std::fs::remove_dir(&self.directory) {
            Ok(()) => {
                step_back(self.aside.take().as_deref());
                Ok(())
            }
            Err(e) => Err(self.why_it_stays(&e)),
        }
    }

    fn why_it_stays(&self, error: &std::io::Error) -> String {
        let group = self.directory.display();
        if error.raw_os_error() != Some(libc::EBUSY) {
            return format!("cannot remove control group {group}: {error}");
        }
        let count = lines(&self.read("cgroup.procs").unwrap_or_default()).count();
        match count {
            0 => format!("control group {group} is busy: it has groups of its own"),
            1 => format!("control group {group} is busy: 1 process remains in it"),
            _ => format!("control group {group} is busy: {count} processes remain in it"),
        }
    }

    fn file(&self, v1: &'static str, v2: &'static str) -> &'static str {
        if self.version == Version::V1 { v1 } else { v2 }
    }

    fn read(&self, file: &str) -> Option<Vec<u8>> {
        std::fs::read(self.directory.join(file)).ok()
    }

    fn write(&self, file: &str, value: &str) -> Result<(), String> {
        let path = self.directory.join(file);
        std::fs::write(&path, value)
            .map_err(|e| format!("cannot write {value} to {}: {e}{}", path.display(), hint(&e)))
    }
}

/// An error between creating the group and using it leaves none behind; a busy group stays.
impl Drop for OwnGroup {
    fn drop(&mut self) {
        let _ = self.remove();
    }
}

const HINT: &str =
    "start it in a group of its own: systemd-run --user --scope -p Delegate=yes nilo run --cgroup -- …";

fn hint(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => format!("; {HINT}"),
        _ => String::new(),
    }
}

/// The group that we move to ourselves, next to the job's.
const ASIDE: &str = "nilo-supervisor";

/// v2: children of `own` get the memory controller only if `own` hands it on. A group with processes in it
/// may not (`cgroup_vet_subtree_control_enable`, kernel/cgroup/cgroup.c), except the root. Where the only
/// processes are ours, as in a scope made for us, we step aside into a child and try again.
fn hand_memory_on(own: &Path, family: &[i32]) -> Result<Option<PathBuf>, String> {
    let (control, group) = (own.join("cgroup.subtree_control"), own.display());
    if lists_memory(&control) {
        return Ok(None);
    }
    if !lists_memory(&own.join("cgroup.controllers")) {
        return Err(format!("control group {group} has no memory controller to hand on; {HINT}"));
    }
    let mut outcome = std::fs::write(&control, "+memory");
    let mut aside = None;
    if outcome.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::EBUSY)) {
        aside = step_aside(own, family);
        if aside.is_some() {
            outcome = std::fs::write(&control, "+memory");
        }
    }
    let Err(error) = outcome else { return Ok(aside) };
    step_back(aside.as_deref());
    Err(match error.raw_os_error() {
        Some(libc::EBUSY) => format!(
            "control group {group} holds other processes, so it cannot hand its memory controller on to a \
             child (cgroup v2 allows processes only in leaves); {HINT}"
        ),
        _ => format!("cannot enable the memory controller below {group}: {error}{}", hint(&error)),
    })
}

/// Moves our processes from `own` to a child of it, if nobody else is there.
fn step_aside(own: &Path, family: &[i32]) -> Option<PathBuf> {
    let residents = residents(own)?;
    if !residents.iter().all(|pid| family.contains(pid)) {
        return None;
    }
    let aside = own.join(ASIDE);
    std::fs::create_dir(&aside).ok()?;
    if move_all(&residents, &aside).is_ok() {
        return Some(aside);
    }
    step_back(Some(&aside));
    None
}

/// Undoes `step_aside` as far as possible; whoever made the scope removes what is left.
fn step_back(aside: Option<&Path>) {
    if let Some((aside, own)) = aside.and_then(|aside| Some((aside, aside.parent()?))) {
        let _ = std::fs::write(own.join("cgroup.subtree_control"), "-memory");
        let _ = move_all(&residents(aside).unwrap_or_default(), own);
        let _ = std::fs::remove_dir(aside);
    }
}

fn residents(group: &Path) -> Option<Vec<i32>> {
    let text = std::fs::read(group.join("cgroup.procs")).ok()?;
    lines(&text).map(|pid| number(pid).and_then(|pid| pid.try_into().ok())).collect()
}

/// One write moves one process; one that has ended meanwhile (ESRCH) needs no move.
fn move_all(pids: &[i32], group: &Path) -> std::io::Result<()> {
    for pid in pids {
        match std::fs::write(group.join("cgroup.procs"), pid.to_string()) {
            Err(error) if error.raw_os_error() != Some(libc::ESRCH) => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The refusal itself (EBUSY) needs a kernel (`cargo xtask guest`); that we move only when alone does not.
    #[test]
    fn only_a_family_of_its_own_steps_aside() {
        let own = tempfile::tempdir().unwrap();
        let procs = own.path().join("cgroup.procs");
        let family = [7, 8];
        std::fs::write(&procs, "1\n7\n").unwrap();
        assert_eq!(step_aside(own.path(), &family), None);
        assert!(!own.path().join(ASIDE).exists());
        std::fs::write(&procs, "7\n8\n").unwrap();
        let aside = step_aside(own.path(), &family).unwrap();
        // A file keeps the last write; the kernel's takes one process a write.
        assert_eq!(std::fs::read_to_string(aside.join("cgroup.procs")).unwrap(), "8");
        std::fs::write(&procs, "").unwrap();
        step_back(Some(&aside));
        assert_eq!(std::fs::read_to_string(own.path().join("cgroup.subtree_control")).unwrap(), "-memory");
        assert_eq!(std::fs::read_to_string(&procs).unwrap(), "8");
    }

    #[test]
    fn a_group_below_a_mount() {
        assert_eq!(relative_to("/", "/"), Some(""));
        assert_eq!(relative_to("/", "/a/b"), Some("/a/b"));
        assert_eq!(relative_to("/a", "/a/b"), Some("/b"));
        assert_eq!(relative_to("/a/b", "/a/b"), Some(""));
        assert_eq!(relative_to("/a", "/ab"), None);
        assert_eq!(relative_to("/", "/../a"), None);
        assert_eq!(relative_to("/", "/a..b"), Some("/a..b"));
    }
}
