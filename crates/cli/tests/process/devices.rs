//! Device memory in a run, with a management library of our own instead of a driver's.

use crate::harness::{Dialogue, Lab, c_library};

const GIB: u64 = 1 << 30;

#[test]
fn a_process_is_seen_on_its_device() {
    let lab = Lab::new();
    let pid_file = lab.path("pid");
    // The shell tells its number first; the third line shows that a second of samples has passed.
    let script = format!("echo $$ > {}; echo told; read x", pid_file.display());
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--interval", "5ms", "--", "sh", "-c", &script]);
    nilo.env("NILO_NVML_LIB", c_library("nvml_one.c")).env("NVML_PID_FILE", &pid_file);
    let mut dialogue = Dialogue::start(&mut nilo);
    assert_eq!(dialogue.line(), "told");
    wait_for_device_sample(&lab);
    dialogue.say("end");
    assert!(dialogue.end().status.success());
    let report = lab.report(&lab.path("run.nilo"));
    let device = &report["system"]["devices"][0];
    assert_eq!(device["name"], "nvidia0 Fake");
    assert_eq!(device["total_bytes"], 16 * GIB);
    assert_eq!(device["used_max_bytes"], 4 * GIB);
    assert_eq!(device["tree_max_bytes"], 3 * GIB);
    assert_eq!(report["processes"][0]["device_bytes"], 3 * GIB);
}

/// Devices are asked once a second, shares are stored with the next walk: looks at the growing run until
/// both are there. The harness's deadline ends a run in which they never come.
fn wait_for_device_sample(lab: &Lab) {
    let begun = std::time::Instant::now();
    loop {
        let report = lab.report(&lab.path("run.nilo"));
        if report["processes"][0]["device_bytes"] == 3 * GIB {
            return;
        }
        assert!(begun.elapsed().as_secs() < 30, "no device memory in {report:#}");
    }
}
