//! The ways to see which pages are touched or written (facts: Documentation/admin-guide/mm).

use super::capability::Judgement;
use super::facts::{Cap, Damon, Facts, File};
use super::install;

/// The file belongs to the process's user (mode 0200); Yama has no say.
pub(super) fn clear_refs(facts: &Facts) -> Judgement {
    match facts.trials.clear_refs {
        Some(Ok(())) => Judgement::works("touched pages per mapping, own processes"),
        Some(Err(libc::ENOENT)) => {
            Judgement::cannot("no clear_refs: the kernel was built without CONFIG_PROC_PAGE_MONITOR", "")
        }
        Some(Err(_)) => Judgement::cannot(
            "/proc is mounted read-only here",
            "docker run --security-opt systempaths=unconfined …",
        ),
        None if facts.smaps_rollup.is_readable() => {
            Judgement::works("touched pages per mapping, own processes")
        }
        None => Judgement::cannot("no page monitor in this kernel (CONFIG_PROC_PAGE_MONITOR)", ""),
    }
}

pub(super) fn soft_dirty(facts: &Facts) -> Judgement {
    let instead = match facts.trials.pagemap_scan {
        Some(Ok(())) => "; pagemap-scan sees written pages too",
        _ => "",
    };
    match facts.trials.soft_dirty {
        Some(true) => Judgement::works("written pages at 4 KiB"),
        _ => Judgement::cannot(format!("the kernel was built without CONFIG_MEM_SOFT_DIRTY{instead}"), ""),
    }
}

pub(super) fn pagemap_scan(facts: &Facts) -> Judgement {
    match facts.trials.pagemap_scan {
        Some(Ok(())) => Judgement::works("written pages at 4 KiB, with userfaultfd"),
        Some(Err(libc::ENOENT)) => Judgement::cannot("no /proc/PID/pagemap in this kernel", ""),
        _ => Judgement::cannot(
            format!("the PAGEMAP_SCAN call is in Linux 6.7 and newer; this is {}", facts.host.kernel),
            "",
        ),
    }
}

pub(super) fn pagemap_pfn(facts: &Facts) -> Judgement {
    match facts.pagemap {
        _ if pagemap_pfn_is_shown(facts) => Judgement::works("page frame numbers are shown"),
        File::Absent => Judgement::cannot("no /proc/PID/pagemap in this kernel", ""),
        _ => Judgement::cannot(frames_are_hidden(facts), admin(facts)),
    }
}

pub(super) fn idle_pages(facts: &Facts) -> Judgement {
    match facts.idle_bitmap {
        File::Absent => {
            Judgement::cannot("the kernel was built without CONFIG_IDLE_PAGE_TRACKING, as Debian's are", "")
        }
        File::NotPermitted | File::Readable => {
            Judgement::cannot("the idle page bitmap is root's", admin(facts))
        }
        File::Writable if pagemap_pfn_is_shown(facts) => {
            Judgement::works("touched pages at 4 KiB, all processes")
        }
        File::Writable => Judgement::cannot(frames_are_hidden(facts), admin(facts)),
    }
}

fn frames_are_hidden(facts: &Facts) -> &'static str {
    if facts.in_user_namespace && facts.has(Cap::SysAdmin) {
        "page frame numbers are shown to the machine's root only, not a user namespace's"
    } else {
        "page frame numbers are shown to CAP_SYS_ADMIN only"
    }
}

fn pagemap_pfn_is_shown(facts: &Facts) -> bool {
    facts.trials.pagemap_pfn.unwrap_or(facts.has_for_machine(Cap::SysAdmin))
}

/// Its tree has one owner: whoever has set it up.
pub(super) fn damon(facts: &Facts) -> Judgement {
    match facts.damon {
        Damon::Absent => {
            Judgement::cannot("the kernel was built without CONFIG_DAMON_SYSFS (or sysfs is hidden)", "")
        }
        Damon::NotPermitted => Judgement::cannot("its sysfs tree is root's", admin(facts)),
        Damon::Taken { on, .. } if on > 0 => {
            Judgement::cannot("somebody else's kdamond is on; nilo never touches it", "")
        }
        Damon::Taken { kdamonds, .. } => Judgement::cannot(
            format!("somebody else has set up {kdamonds} kdamond(s); nilo leaves them alone"),
            "echo 0 | sudo tee /sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds  # if nobody needs them",
        ),
        Damon::Free => Judgement::works("access by region, sampled"),
    }
}

pub(super) fn userfaultfd(facts: &Facts) -> Judgement {
    let may_all = facts.unprivileged_userfaultfd == Some(true) || facts.has(Cap::SysPtrace);
    let all = || install::set(facts, "vm.unprivileged_userfaultfd", 1);
    match facts.trials.userfaultfd {
        Some(Ok(offer)) if !offer.wp_async => Judgement::limited(
            "without asynchronous write protection",
            format!("that is in Linux 6.7 and newer; this is {}", facts.host.kernel),
            "",
        ),
        Some(Ok(offer)) if offer.kernel_faults => Judgement::works("with asynchronous write protection"),
        None if may_all => Judgement::works("all faults"),
        Some(Ok(_)) => {
            Judgement::limited("faults of user code only", "vm.unprivileged_userfaultfd is 0", all())
        }
        Some(Err(libc::ENOSYS)) => Judgement::cannot("the kernel was built without CONFIG_USERFAULTFD", ""),
        Some(Err(_)) if facts.seccomp != 0 => {
            Judgement::cannot("the seccomp filter refuses userfaultfd", install::lift_seccomp(facts))
        }
        Some(Err(_)) | None => Judgement::cannot("vm.unprivileged_userfaultfd is 0", all()),
    }
}

/// Level 2, the kernel's default, allows user code of own processes; Debian and Ubuntu have 3 and 4.
pub(super) fn perf_faults(facts: &Facts) -> Judgement {
    let paranoid = facts.perf_event_paranoid.unwrap_or(2);
    let may = facts.trials.perf.unwrap_or(
        if paranoid <= 2 || facts.has(Cap::Perfmon) || facts.has(Cap::SysAdmin) {
            Ok(())
        } else {
            Err(libc::EACCES)
        },
    );
    match may {
        Ok(()) if paranoid < 2 || facts.has(Cap::Perfmon) || facts.has(Cap::SysAdmin) => {
            Judgement::works("first touch of each page, with its address")
        }
        Ok(()) => Judgement::limited(
            "faults of user code only",
            format!("kernel.perf_event_paranoid is {paranoid}"),
            install::set(facts, "kernel.perf_event_paranoid", 1),
        ),
        Err(libc::ENOSYS | libc::ENOENT) if facts.seccomp == 0 => {
            Judgement::cannot("the kernel was built without CONFIG_PERF_EVENTS", "")
        }
        Err(_) if paranoid > 2 => Judgement::cannot(
            format!("kernel.perf_event_paranoid is {paranoid}"),
            install::set(facts, "kernel.perf_event_paranoid", 2),
        ),
        Err(_) if facts.seccomp != 0 => Judgement::cannot(
            "the seccomp filter refuses perf_event_open",
            install::give_capability(facts, Cap::Perfmon, "…"),
        ),
        Err(errno) => Judgement::cannot(format!("perf_event_open refuses (errno {errno})"), admin(facts)),
    }
}

fn admin(facts: &Facts) -> String {
    install::give_capability(facts, Cap::SysAdmin, "…")
}
