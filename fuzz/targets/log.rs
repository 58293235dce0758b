//! A log of any content is read to its end, and what it tells is analysed.

#![no_main]

use libfuzzer_sys::fuzz_target;
use nilometer_analysis::{LogEnding, RunBuilder};
use nilometer_trace::{Manifest, Reader};

/// Of any run.
const MANIFEST: &str = r#"{"format_version":1,"nilo_version":"","verb":"run","command":[],"name":"","directory":"","started":"",
    "pid":1,"target_pid":2,"environment":[],"host":{"name":"","kernel":"","cpus":2,"memory_bytes":17179869184,"swap_bytes":0,"transparent_hugepages":"",
    "overcommit":"","counter_slack_bytes":0},"limit":null,
    "options":{"interval_ms":100.0,"budget_percent":1.0,"single":false,"exact_step_peaks":false,"cgroup":false,
        "before_s":0.0,"settle_s":0.0,"max_log_bytes":268435456}}"#;

fuzz_target!(|bytes: &[u8]| {
    let manifest: Manifest = serde_json::from_str(MANIFEST).expect("a manifest");
    let mut reader = Reader::from_bytes(nilometer_fuzz::seal(bytes), &[]);
    let mut builder = RunBuilder::new(&manifest);
    let ending = reader.visit(|record| builder.push(record));
    let ending = match ending {
        Ok(_) => LogEnding::Clean,
        Err(error) => LogEnding::Cut { at_ns: 0, why: error.to_string() },
    };
    let run = builder.finish(ending);
    serde_json::to_string(&run).expect("a run is JSON");
});
