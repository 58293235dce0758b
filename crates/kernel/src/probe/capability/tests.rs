use super::*;
use crate::probe::facts::Capabilities;

/// Names are a promise: scripts and the tests' skips use them.
#[test]
fn the_names_are_these() {
    let names: Vec<&str> = judge_all(&Facts::default()).iter().map(|capability| capability.name).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let expected = [
        "attach-other-uid",
        "attach-same-uid",
        "cgroup-write",
        "clear-refs",
        "damon",
        "device-amd-intel",
        "device-nvidia",
        "idle-pages",
        "mount",
        "namespaces",
        "pagemap-pfn",
        "pagemap-scan",
        "perf-faults",
        "psi",
        "psi-trigger",
        "pss",
        "read-memory-other-uid",
        "read-memory-own-child",
        "read-memory-same-uid",
        "run",
        "soft-dirty",
        "stop-own-child",
        "swap-file",
        "userfaultfd",
    ];
    assert_eq!(sorted, expected);
}

#[test]
fn what_works_says_how_and_what_does_not_says_why() {
    let machines = [Facts::default(), Facts { euid: 1000, ..Facts::default() }, all_powerful()];
    for capability in machines.iter().flat_map(judge_all) {
        assert_eq!(capability.why.is_some(), capability.level != Level::Works, "{capability:?}");
        assert_eq!(capability.how.is_some(), capability.level != Level::Cannot, "{capability:?}");
        assert!(capability.command.is_none() || capability.level != Level::Works, "{capability:?}");
    }
}

fn all_powerful() -> Facts {
    Facts { capabilities: Capabilities(u64::MAX), ..Facts::default() }
}

fn judged(facts: &Facts, name: &str) -> Capability {
    judge_all(facts).into_iter().find(|capability| capability.name == name).unwrap()
}

#[test]
fn triggers_of_two_seconds_are_a_limit() {
    let mut facts = Facts { psi: crate::probe::File::Writable, ..Facts::default() };
    facts.trials.psi_trigger = Some(Ok(()));
    facts.trials.psi_trigger_short = Some(Err(libc::EINVAL));
    let capability = judged(&facts, "psi-trigger");
    assert_eq!(capability.level, Level::Limited);
    assert_eq!(capability.how.as_deref(), Some("windows of 2 s and its multiples"));
    facts.trials.psi_trigger = Some(Err(libc::EPERM));
    assert_eq!(judged(&facts, "psi-trigger").level, Level::Cannot);
    facts.trials.psi_trigger_short = Some(Ok(()));
    assert_eq!(judged(&facts, "psi-trigger").level, Level::Works);
}

#[test]
fn swap_files_need_a_real_disk() {
    let mut facts = all_powerful();
    assert_eq!(judged(&facts, "swap-file").level, Level::Works);
    facts.root_fs = "overlay".into();
    assert_eq!(judged(&facts, "swap-file").level, Level::Limited);
    facts.trials.swapon = Some(Err(libc::EPERM));
    facts.host.container = Some("docker".into());
    assert_eq!(judged(&facts, "swap-file").command.as_deref(), Some("docker run --privileged …"));
}

#[test]
fn devices_say_what_to_try() {
    let mut facts = Facts::default();
    facts.graphics.nvml = Some(Err("libnvidia-ml.so.1: cannot open".into()));
    facts.host.container = Some("docker".into());
    assert_eq!(judged(&facts, "device-nvidia").command.as_deref(), Some("docker run --gpus all …"));
    facts.graphics.nvml = Some(Ok(2));
    facts.graphics.cards = vec!["amdgpu".into(), "xe".into()];
    assert_eq!(
        judged(&facts, "device-nvidia").how.as_deref(),
        Some("2 devices, by their management library")
    );
    assert_eq!(judged(&facts, "device-amd-intel").how.as_deref(), Some("amdgpu, xe, by sysfs and fdinfo"));
}
