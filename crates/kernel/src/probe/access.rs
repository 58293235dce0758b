//! Who may read the memory of whom: the rules of `__ptrace_may_access` (kernel/ptrace.c), Yama
//! (`security/yama/yama_lsm.c`), seccomp filters and namespaces, and what really happened when it was tried.

use super::facts::{Cap, Facts, Outcome};
use super::install;

/// What a process is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// Started by us, or by something that we started.
    OwnChild,
    /// Of the same user, started elsewhere.
    SameUser,
    OtherUser,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    pub works: bool,
    /// What holds; where it does not work, which policy forbids it.
    pub sentence: String,
    /// What would enable it.
    pub command: Option<String>,
}

impl Verdict {
    fn works(sentence: impl Into<String>) -> Self {
        Self { works: true, sentence: sentence.into(), command: None }
    }

    /// Without a command where none would help.
    fn refused(sentence: impl Into<String>, command: String) -> Self {
        let command = Some(command).filter(|command| !command.is_empty());
        Self { works: false, sentence: sentence.into(), command }
    }
}

/// Yama's levels (Documentation/admin-guide/LSM/Yama.rst).
const ONLY_DESCENDANTS: u8 = 1;
const ONLY_ADMIN: u8 = 2;
const NOBODY: u8 = 3;

/// Attaching in the sense of the kernel: `process_vm_readv`, `/proc/PID/mem`, stopping with ptrace.
pub fn ptrace_access(facts: &Facts, relation: Relation) -> Verdict {
    let trials = &facts.trials;
    let tried = match relation {
        Relation::OwnChild => trials.read_child,
        Relation::SameUser => trials.read_sibling,
        Relation::OtherUser => trials.read_other_user,
    };
    judge(facts, relation, tried)
}

/// Stopping our own children, as the watchdog does.
pub fn stop_access(facts: &Facts) -> Verdict {
    judge(facts, Relation::OwnChild, facts.trials.stop_child)
}

/// An attempt knows better than the rules whether; the rules know why.
fn judge(facts: &Facts, relation: Relation, tried: Option<Outcome>) -> Verdict {
    match (tried, refusal(facts, relation)) {
        (Some(Ok(())), _) => permitted(facts, relation),
        (_, Some(refusal)) => refusal,
        (Some(Err(errno)), None) => unexplained(facts, errno),
        (None, None) => match facts.trials.read_child {
            // Not even a child could be read, so this is not about whose process it is.
            Some(Err(errno)) => unexplained(facts, errno),
            _ => permitted(facts, relation),
        },
    }
}

fn permitted(facts: &Facts, relation: Relation) -> Verdict {
    let by = match relation {
        Relation::OwnChild => "what nilo starts is its own descendant",
        _ if facts.has(Cap::SysPtrace) => "CAP_SYS_PTRACE",
        _ => "Yama does not restrict it here",
    };
    if relation == Relation::OwnChild || !(facts.in_pid_namespace || facts.in_user_namespace) {
        return Verdict::works(by);
    }
    let place = if facts.in_container() { "container" } else { "namespace" };
    Verdict::works(format!("{by}; processes of this {place} only"))
}

/// The first rule that forbids it, the hardest first.
fn refusal(facts: &Facts, relation: Relation) -> Option<Verdict> {
    let scope = facts.yama_scope.unwrap_or(0);
    if scope >= NOBODY {
        return Some(Verdict::refused(
            "Yama's ptrace_scope 3 forbids it to everyone, root included, and cannot be lowered until the \
             machine is started anew with another setting",
            reboot(facts),
        ));
    }
    if facts.has(Cap::SysPtrace) {
        return None;
    }
    if relation == Relation::OtherUser {
        return Some(of_another_user(facts));
    }
    if scope == ONLY_ADMIN {
        let wanted = u64::from(relation == Relation::OwnChild);
        let command = lower_scope_or_capability(facts, wanted);
        return Some(Verdict::refused(
            "Yama's ptrace_scope 2 leaves it to processes with CAP_SYS_PTRACE",
            command,
        ));
    }
    if scope == ONLY_DESCENDANTS && relation == Relation::SameUser {
        let command = lower_scope_or_capability(facts, 0);
        return Some(Verdict::refused(
            "Yama's ptrace_scope 1 lets only an ancestor do it: start the program with `nilo run`, or",
            command,
        ));
    }
    None
}

fn of_another_user(facts: &Facts) -> Verdict {
    let who =
        if facts.is_root() { "even root needs CAP_SYS_PTRACE for it" } else { "it takes CAP_SYS_PTRACE" };
    Verdict::refused(
        format!("the process is another user's: {who}"),
        install::give_capability(facts, Cap::SysPtrace, "…"),
    )
}

/// In a container settings of the machine are out of reach, but its capabilities are not.
fn lower_scope_or_capability(facts: &Facts, wanted: u64) -> String {
    if facts.in_container() {
        install::give_capability(facts, Cap::SysPtrace, "…")
    } else {
        install::set(facts, "kernel.yama.ptrace_scope", wanted)
    }
}

fn reboot(facts: &Facts) -> String {
    let place = if facts.in_container() { "  # on the host" } else { "" };
    format!("echo kernel.yama.ptrace_scope=1 | sudo tee /etc/sysctl.d/99-ptrace.conf && sudo reboot{place}")
}

/// Refused although uid, capabilities and Yama allow it.
fn unexplained(facts: &Facts, errno: i32) -> Verdict {
    let error = match errno {
        libc::EPERM => "EPERM".to_owned(),
        libc::EACCES => "EACCES".to_owned(),
        libc::ENOSYS => "ENOSYS".to_owned(),
        _ => format!("errno {errno}"),
    };
    if errno == libc::ENOSYS && facts.seccomp == 0 {
        return Verdict::refused(
            "this kernel was built without CONFIG_CROSS_MEMORY_ATTACH (ENOSYS)",
            String::new(),
        );
    }
    if facts.seccomp != 0 {
        let whose = if facts.in_container() { "this container" } else { "this process" };
        return Verdict::refused(
            format!("the seccomp filter of {whose} refuses the call ({error})"),
            install::lift_seccomp(facts),
        );
    }
    if facts.security_modules.contains("selinux") {
        return Verdict::refused(
            format!("SELinux refuses it ({error})"),
            "sudo setsebool deny_ptrace off".into(),
        );
    }
    let modules = if facts.security_modules.is_empty() { "unknown" } else { &facts.security_modules };
    Verdict::refused(
        format!("a security module ({modules}) refuses it ({error})"),
        "sudo dmesg | grep -i denied | tail".into(),
    )
}

#[cfg(test)]
mod tests;
