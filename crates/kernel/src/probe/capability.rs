//! What of Nilometer works here: one judgement per capability, pure from facts.

use super::access::{self, Relation, Verdict, ptrace_access};
use super::facts::{Cap, Facts};
use super::{install, page};
use crate::read::cgroup::{Room, Version};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    Works,
    /// Works within the limits that `how` states.
    Limited,
    Cannot,
}

/// What it is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Recording,
    Memory,
    Pages,
    Machine,
    Devices,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// Never changes: tests and scripts ask for it.
    pub name: &'static str,
    pub section: Section,
    pub level: Level,
    /// By what it works, or within which limits.
    pub how: Option<String>,
    /// What stands in the way.
    pub why: Option<String>,
    /// What would enable it, or more of it.
    pub command: Option<String>,
}

impl Capability {
    pub fn works(&self) -> bool {
        self.level != Level::Cannot
    }
}

/// A judgement before it has a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Judgement {
    level: Level,
    how: Option<String>,
    why: Option<String>,
    command: Option<String>,
}

impl Judgement {
    pub(super) fn works(how: impl Into<String>) -> Self {
        Self { level: Level::Works, how: Some(how.into()), why: None, command: None }
    }

    pub(super) fn limited(
        how: impl Into<String>,
        why: impl Into<String>,
        command: impl Into<String>,
    ) -> Self {
        Self {
            level: Level::Limited,
            how: Some(how.into()),
            why: Some(why.into()),
            command: Some(command.into()).filter(|command| !command.is_empty()),
        }
    }

    /// Without a command where none would help.
    pub(super) fn cannot(why: impl Into<String>, command: impl Into<String>) -> Self {
        let command = Some(command.into()).filter(|command| !command.is_empty());
        Self { level: Level::Cannot, how: None, why: Some(why.into()), command }
    }
}

impl From<Verdict> for Judgement {
    fn from(verdict: Verdict) -> Self {
        let level = if verdict.works { Level::Works } else { Level::Cannot };
        let (how, why) =
            if verdict.works { (Some(verdict.sentence), None) } else { (None, Some(verdict.sentence)) };
        Self { level, how, why, command: verdict.command }
    }
}

type Judge = fn(&Facts) -> Judgement;

/// All capabilities, in the order they are shown.
const JUDGES: [(Section, &str, Judge); 24] = [
    (Section::Recording, "run", run),
    (Section::Recording, "attach-same-uid", attach_same_user),
    (Section::Recording, "attach-other-uid", attach_other_user),
    (Section::Recording, "pss", pss),
    (Section::Recording, "psi", psi),
    (Section::Recording, "psi-trigger", psi_trigger),
    (Section::Recording, "cgroup-write", cgroup_write),
    (Section::Memory, "read-memory-own-child", |facts| ptrace_access(facts, Relation::OwnChild).into()),
    (Section::Memory, "read-memory-same-uid", |facts| ptrace_access(facts, Relation::SameUser).into()),
    (Section::Memory, "read-memory-other-uid", |facts| ptrace_access(facts, Relation::OtherUser).into()),
    (Section::Memory, "stop-own-child", |facts| access::stop_access(facts).into()),
    (Section::Pages, "clear-refs", page::clear_refs),
    (Section::Pages, "soft-dirty", page::soft_dirty),
    (Section::Pages, "pagemap-scan", page::pagemap_scan),
    (Section::Pages, "pagemap-pfn", page::pagemap_pfn),
    (Section::Pages, "idle-pages", page::idle_pages),
    (Section::Pages, "damon", page::damon),
    (Section::Pages, "userfaultfd", page::userfaultfd),
    (Section::Pages, "perf-faults", page::perf_faults),
    (Section::Machine, "mount", mount),
    (Section::Machine, "namespaces", namespaces),
    (Section::Machine, "swap-file", swap_file),
    (Section::Devices, "device-nvidia", device_nvidia),
    (Section::Devices, "device-amd-intel", device_amd_intel),
];

pub fn judge_all(facts: &Facts) -> Vec<Capability> {
    let named = |(section, name, judge): &(Section, &'static str, Judge)| {
        let Judgement { level, how, why, command } = judge(facts);
        Capability { name, section: *section, level, how, why, command }
    };
    JUDGES.iter().map(named).collect()
}

/// Needs nothing but `/proc`.
fn run(facts: &Facts) -> Judgement {
    if facts.host.memory_bytes == 0 {
        return Judgement::cannot("/proc is not mounted here", "sudo mount -t proc proc /proc");
    }
    if facts.children.is_readable() {
        return Judgement::works("needs no privilege");
    }
    Judgement::limited(
        "children are found by scanning all of /proc",
        "the kernel was built without CONFIG_PROC_CHILDREN",
        "",
    )
}

/// `status` and `smaps` are read with `PTRACE_MODE_READ`, of which Yama has no opinion.
fn attach_same_user(facts: &Facts) -> Judgement {
    match facts.suid_dumpable {
        Some(0) | None => Judgement::works("reads /proc only, so Yama does not matter"),
        Some(_) => Judgement::works("reads /proc only; also processes that changed their uid"),
    }
}

fn attach_other_user(facts: &Facts) -> Judgement {
    let command = install::give_capability(facts, Cap::SysPtrace, "attach PID");
    match &facts.hidepid {
        _ if facts.has(Cap::SysPtrace) => Judgement::works("CAP_SYS_PTRACE"),
        Some(value) => Judgement::cannot(
            format!("/proc is mounted with hidepid={value}: others' processes are hidden"),
            command,
        ),
        None => Judgement::limited(
            "resident memory only",
            "PSS and mapping kinds of another user's process take CAP_SYS_PTRACE",
            command,
        ),
    }
}

fn pss(facts: &Facts) -> Judgement {
    if facts.smaps_rollup.is_readable() {
        return Judgement::works("smaps_rollup, for processes that may be attached to");
    }
    Judgement::cannot("no smaps_rollup: Linux older than 4.14, or built without CONFIG_PROC_PAGE_MONITOR", "")
}

fn psi(facts: &Facts) -> Judgement {
    if facts.psi.is_readable() {
        return Judgement::works("/proc/pressure/memory");
    }
    Judgement::cannot(
        "no /proc/pressure/memory: CONFIG_PSI is missing or switched off at boot",
        "sudo grubby --update-kernel=ALL --args=psi=1 && sudo reboot",
    )
}

/// For ordinary users since Linux 6.4, with windows that are multiples of 2 s.
fn psi_trigger(facts: &Facts) -> Judgement {
    if !facts.psi.is_readable() {
        return psi(facts);
    }
    let command = install::give_capability(facts, Cap::SysResource, "run …");
    match (facts.trials.psi_trigger, facts.trials.psi_trigger_short) {
        (_, Some(Ok(()))) => Judgement::works("windows from 0.5 s"),
        (None, None) if facts.has(Cap::SysResource) => Judgement::works("windows from 0.5 s"),
        (Some(Ok(())), _) => Judgement::limited(
            "windows of 2 s and its multiples",
            "shorter ones take CAP_SYS_RESOURCE",
            command,
        ),
        _ => Judgement::cannot(
            "this kernel leaves triggers to CAP_SYS_RESOURCE (all users: since Linux 6.4)",
            command,
        ),
    }
}

fn cgroup_write(facts: &Facts) -> Judgement {
    const SCOPE: &str = "systemd-run --user --scope -p Delegate=yes nilo run --cgroup -- …";
    let Some(group) = &facts.cgroup else {
        return Judgement::cannot(
            "no memory control group is visible here",
            "sudo mount -t cgroup2 none /sys/fs/cgroup",
        );
    };
    let command = match facts.in_container() {
        true if !facts.is_root() && facts.bounding.has(Cap::SysAdmin) => {
            "sudo nilo run --cgroup -- …".to_owned()
        }
        true => unconfined(facts),
        false => SCOPE.to_owned(),
    };
    match group.room {
        Room::Free if group.version == Version::V1 => {
            Judgement::works("an own group inside ours (v1): exact tree peak")
        }
        Room::Free => Judgement::works("an own group inside ours (v2): exact tree peak"),
        Room::NotWritable => Judgement::cannot("our control group is not writable", command),
        Room::NoController => {
            Judgement::cannot("our control group has no memory controller to hand on", command)
        }
        Room::Inhabited => {
            Judgement::cannot("our control group holds other processes (v2: only leaves may)", SCOPE)
        }
    }
}

fn mount(facts: &Facts) -> Judgement {
    match facts.trials.mount {
        Some(Ok(())) => Judgement::works("may mount a tmpfs"),
        None if facts.has(Cap::SysAdmin) => Judgement::works("CAP_SYS_ADMIN"),
        _ if !facts.has(Cap::SysAdmin) => Judgement::cannot("mounting takes CAP_SYS_ADMIN", admin(facts)),
        Some(Err(_)) | None => {
            Judgement::cannot("a policy of this container refuses mount", unconfined(facts))
        }
    }
}

fn namespaces(facts: &Facts) -> Judgement {
    let trials = &facts.trials;
    match (trials.namespaces, trials.user_namespaces) {
        (Some(Ok(())), _) => Judgement::works("may unshare pid and mount namespaces"),
        (None, _) if facts.has(Cap::SysAdmin) => Judgement::works("CAP_SYS_ADMIN"),
        (_, Some(Ok(()))) => Judgement::limited(
            "inside a user namespace: unshare --user --map-root-user",
            "without one it takes CAP_SYS_ADMIN",
            admin(facts),
        ),
        _ if !facts.has(Cap::SysAdmin) => Judgement::cannot("it takes CAP_SYS_ADMIN", admin(facts)),
        _ => Judgement::cannot("a policy of this container refuses unshare", unconfined(facts)),
    }
}

fn swap_file(facts: &Facts) -> Judgement {
    let may = match facts.trials.swapon {
        Some(outcome) => outcome,
        None if facts.has_for_machine(Cap::SysAdmin) => Ok(()),
        None => Err(libc::EPERM),
    };
    match may {
        Ok(()) if matches!(&*facts.root_fs, "overlay" | "tmpfs" | "squashfs") => Judgement::limited(
            "on a disk of its own",
            format!("the root file system here is {}, which holds no swap file", facts.root_fs),
            "",
        ),
        Ok(()) => Judgement::works("may swapon"),
        Err(libc::ENOSYS) => Judgement::cannot("the kernel was built without swap", ""),
        Err(_) if facts.in_user_namespace => Judgement::cannot(
            "swapon is the machine's, not a user namespace's",
            "sudo swapon FILE  # on the host",
        ),
        Err(_) if facts.has(Cap::SysAdmin) => {
            Judgement::cannot("a policy of this container refuses swapon", unconfined(facts))
        }
        Err(_) => Judgement::cannot("swapon takes CAP_SYS_ADMIN", admin(facts)),
    }
}

fn admin(facts: &Facts) -> String {
    install::give_capability(facts, Cap::SysAdmin, "…")
}

fn unconfined(facts: &Facts) -> String {
    match facts.host.container.as_deref() {
        Some("kubernetes") => "securityContext: {privileged: true}".into(),
        Some("podman") => "podman run --privileged …".into(),
        Some(_) => "docker run --privileged …".into(),
        None => String::new(),
    }
}

fn device_nvidia(facts: &Facts) -> Judgement {
    let reason = match &facts.graphics.nvml {
        Some(Ok(0)) => "the management library sees no device",
        Some(Ok(1)) => return Judgement::works("1 device, by its management library"),
        Some(Ok(count)) => return Judgement::works(format!("{count} devices, by their management library")),
        Some(Err(reason)) => reason,
        None if facts.graphics.nvidia_driver => return Judgement::works("the driver is loaded"),
        None => "no driver is loaded",
    };
    let command = match facts.host.container.as_deref() {
        Some("kubernetes") => "resources: {limits: {nvidia.com/gpu: 1}}",
        Some("docker") => "docker run --gpus all …",
        Some("podman") => "podman run --device nvidia.com/gpu=all …",
        _ => "nvidia-smi  # must work first: it uses the same library",
    };
    let driver = if facts.graphics.nvidia_driver { "the driver is loaded, but " } else { "" };
    Judgement::cannot(format!("{driver}{reason}"), command)
}

fn device_amd_intel(facts: &Facts) -> Judgement {
    let cards = &facts.graphics.cards;
    if cards.is_empty() {
        let command =
            if facts.in_container() { "docker run --device /dev/dri --device /dev/kfd …" } else { "" };
        return Judgement::cannot("no card of amdgpu, radeon, i915 or xe in /sys/class/drm", command);
    }
    Judgement::works(format!("{}, by sysfs and fdinfo", cards.join(", ")))
}

#[cfg(test)]
mod tests;
