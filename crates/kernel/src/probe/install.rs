//! The exact command that would enable something, for where we are.

use super::facts::{Cap, Facts};

/// How to get a capability: by another way of starting the container, or by `sudo`.
pub fn give_capability(facts: &Facts, cap: Cap, verb: &str) -> String {
    let short = cap.name().trim_start_matches("CAP_");
    match facts.host.container.as_deref() {
        // A service or a sandbox took it away; the service manager starts with all.
        None if facts.is_root() => format!("systemd-run --pty nilo {verb}"),
        None => format!("sudo nilo {verb}"),
        Some("kubernetes") => format!("securityContext: {{capabilities: {{add: [{short}]}}}}"),
        Some("podman") => format!("podman run --cap-add {short} …"),
        Some("systemd-nspawn") => format!("systemd-nspawn --capability={} …", cap.name()),
        Some("lxc") => "lxc config set NAME raw.lxc lxc.cap.drop=".to_owned(),
        Some("containerd") => format!("nerdctl run --cap-add {short} …"),
        Some(_) => format!("docker run --cap-add {short} …"),
    }
}

/// A setting of the kernel; of the machine's, where we are in a container.
pub fn set(facts: &Facts, setting: &str, value: u64) -> String {
    let place = if facts.in_container() { "  # on the host, for all its containers" } else { "" };
    format!("sudo sysctl {setting}={value}{place}")
}

/// A container whose system calls are not filtered.
pub fn lift_seccomp(facts: &Facts) -> String {
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
