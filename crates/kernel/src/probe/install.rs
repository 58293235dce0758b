//! The exact command that would enable something, for where we are.

use super::facts::{Cap, Facts};

/// How to get a capability: by becoming root where that gives it, otherwise by another start of the container.
pub fn give_capability(facts: &Facts, cap: Cap, verb: &str) -> String {
    let short = cap.name().trim_start_matches("CAP_");
    let root_would_do = facts.bounding.has(cap) && !facts.no_new_privileges;
    if !facts.is_root() && (root_would_do || !facts.in_container()) {
        return format!("sudo nilo {verb}");
    }
    // Runtimes give added capabilities to root only.
    let (user, run_as) = if facts.is_root() { ("", "") } else { ("--user 0 ", "runAsUser: 0, ") };
    match facts.host.container.as_deref() {
        // A service or a sandbox took it away; the service manager starts with all.
        None => format!("systemd-run --pty nilo {verb}"),
        Some("kubernetes") => format!("securityContext: {{{run_as}capabilities: {{add: [{short}]}}}}"),
        Some("podman") => format!("podman run {user}--cap-add {short} …"),
        Some("systemd-nspawn") => format!("systemd-nspawn --capability={} …", cap.name()),
        Some("lxc") => "lxc config set NAME raw.lxc lxc.cap.drop=".to_owned(),
        Some("containerd") => format!("nerdctl run {user}--cap-add {short} …"),
        Some(_) => format!("docker run {user}--cap-add {short} …"),
    }
}

/// A setting of the kernel; of the machine's, where we are in a container.
pub fn set(facts: &Facts, setting: &str, value: u64) -> String {
    let place = if facts.in_container() { "  # on the host, for all its containers" } else { "" };
    format!("sudo sysctl {setting}={value}{place}")
}

/// A container whose system calls are not filtered. The usual filters let those by that have the capability.
pub fn lift_seccomp(facts: &Facts) -> String {
    let is_usual = matches!(facts.host.container.as_deref(), Some(runtime) if runtime != "systemd-nspawn");
    if is_usual && !facts.capabilities.has(Cap::SysPtrace) {
        return give_capability(facts, Cap::SysPtrace, "…");
    }
    match facts.host.container.as_deref() {
        Some("kubernetes") => {
            "securityContext: {capabilities: {add: [SYS_PTRACE]}, seccompProfile: {type: Unconfined}}".into()
        }
        Some("podman") => "podman run --cap-add SYS_PTRACE --security-opt seccomp=unconfined …".into(),
        Some("systemd-nspawn") => "systemd-nspawn --system-call-filter=@debug …".into(),
        Some(_) => "docker run --cap-add SYS_PTRACE --security-opt seccomp=unconfined …".into(),
        None => "grep Seccomp /proc/self/status  # start nilo outside the filter that this shows".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::facts::Capabilities;

    #[test]
    fn a_capability_comes_by_the_shortest_way() {
        let mut facts = Facts { euid: 1000, ..Facts::default() };
        let command = |facts: &Facts| give_capability(facts, Cap::SysPtrace, "heap PID");
        assert_eq!(command(&facts), "sudo nilo heap PID");
        facts.host.container = Some("docker".into());
        assert_eq!(command(&facts), "docker run --user 0 --cap-add SYS_PTRACE …");
        facts.bounding = Capabilities(u64::MAX);
        assert_eq!(command(&facts), "sudo nilo heap PID", "the container has it for its root");
        facts.no_new_privileges = true;
        assert_eq!(command(&facts), "docker run --user 0 --cap-add SYS_PTRACE …");
        facts.host.container = Some("kubernetes".into());
        assert_eq!(command(&facts), "securityContext: {runAsUser: 0, capabilities: {add: [SYS_PTRACE]}}");
        facts.euid = 0;
        assert_eq!(command(&facts), "securityContext: {capabilities: {add: [SYS_PTRACE]}}");
        facts.host.container = None;
        assert_eq!(command(&facts), "systemd-run --pty nilo heap PID");
    }
}
