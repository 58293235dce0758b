//! The JSON document. Add fields freely, rename none: the test runner reads `capabilities`.

use nilometer_kernel::probe::{Cap, Capability, Damon, Facts, Level, Section};
use nilometer_kernel::read::cgroup::Version;
use serde_json::{Value, json};

/// Counts up when a field changes its meaning, never for additions.
const SCHEMA_VERSION: u32 = 1;

pub fn render(facts: &Facts, capabilities: &[Capability]) -> Value {
    json!({
        "schema_version": SCHEMA_VERSION,
        "capabilities": capabilities.iter().map(capability).collect::<Vec<_>>(),
        "kernel": facts.host.kernel,
        "machine": machine(facts),
        "process": process(facts),
        "settings": settings(facts),
        "oom_kills": oom_kills(facts),
        "software": software(facts),
        "graphics": {
            "nvidia_driver": facts.graphics.nvidia_driver,
            "nvidia_devices": facts.graphics.nvml.as_ref().and_then(|count| count.as_ref().ok()),
            "cards": facts.graphics.cards,
        },
    })
}

fn capability(capability: &Capability) -> Value {
    json!({
        "name": capability.name,
        "works": capability.works(),
        "level": level(capability.level),
        "section": section(capability.section),
        "how": capability.how,
        "why": capability.why,
        "command": capability.command,
    })
}

pub fn level(level: Level) -> &'static str {
    match level {
        Level::Works => "works",
        Level::Limited => "partly",
        Level::Cannot => "cannot",
    }
}

pub fn section(section: Section) -> &'static str {
    match section {
        Section::Recording => "recording",
        Section::Memory => "memory",
        Section::Pages => "pages",
        Section::Machine => "machine",
        Section::Devices => "devices",
    }
}

fn machine(facts: &Facts) -> Value {
    let host = &facts.host;
    json!({
        "name": host.name,
        "cpus": host.cpus,
        "memory_bytes": host.memory_bytes,
        "swap_bytes": host.swap_bytes,
        "transparent_hugepages": host.transparent_hugepages,
        "container": host.container,
        "uptime_s": facts.uptime_s,
        "root_fs": facts.root_fs,
        "security_modules": facts.security_modules,
        "damon": match facts.damon {
            Damon::Absent => json!(null),
            Damon::NotPermitted => json!({"permitted": false}),
            Damon::Free => json!({"permitted": true, "kdamonds": 0, "on": 0}),
            Damon::Taken { kdamonds, on } => json!({"permitted": true, "kdamonds": kdamonds, "on": on}),
        },
    })
}

fn process(facts: &Facts) -> Value {
    let held: Vec<&str> = Cap::ALL.iter().filter(|cap| facts.has(**cap)).map(|cap| cap.name()).collect();
    let cgroup = facts.cgroup.as_ref().map(|group| {
        let version = if group.version == Version::V1 { 1 } else { 2 };
        json!({"version": version, "path": group.path})
    });
    json!({
        "euid": facts.euid,
        "capabilities": held,
        "seccomp": facts.seccomp,
        "no_new_privileges": facts.no_new_privileges,
        "in_user_namespace": facts.in_user_namespace,
        "in_pid_namespace": facts.in_pid_namespace,
        "cgroup": cgroup,
    })
}

fn settings(facts: &Facts) -> Value {
    json!({
        "kernel.yama.ptrace_scope": facts.yama_scope,
        "kernel.perf_event_paranoid": facts.perf_event_paranoid,
        "kernel.core_pattern": facts.core_pattern,
        "fs.suid_dumpable": facts.suid_dumpable,
        "vm.overcommit_memory": facts.host.overcommit,
        "vm.unprivileged_userfaultfd": facts.unprivileged_userfaultfd,
        "vm.max_map_count": facts.max_map_count,
        "hidepid": facts.hidepid,
    })
}

fn oom_kills(facts: &Facts) -> Value {
    let recent = facts.recent_oom_kills.as_ref().map(|kills| {
        let kill = |kill: &nilometer_kernel::parse::kmsg::OomKill| {
            json!({
                "at_us": kill.at_us,
                "pid": kill.pid,
                "process": kill.process,
                "cgroup": kill.cgroup,
                "rss_bytes": kill.rss_bytes,
            })
        };
        kills.iter().map(kill).collect::<Vec<_>>()
    });
    json!({"since_boot": facts.oom_kills, "recent": recent})
}

fn software(facts: &Facts) -> Value {
    let pythons = facts.pythons.iter();
    let pythons: Vec<Value> =
        pythons.map(|p| json!({"path": p.path, "version": p.version, "pids": p.pids})).collect();
    let allocators = facts.allocators.iter();
    let allocators: Vec<Value> =
        allocators.map(|a| json!({"name": a.name, "library": a.library, "pids": a.pids})).collect();
    json!({"glibc": facts.glibc, "pythons": pythons, "allocators": allocators})
}
