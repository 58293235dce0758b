//! Facilities that show which pages are touched, and pressure: what the doctor says works does, for both users.

use anyhow::{Result, ensure};

use super::Cases;
use super::place::{User, capability, doctor, output_of, parse_trials};

/// What an ordinary user of this kernel has; root has all.
const FOR_ALL: &[&str] =
    &["clear-refs", "soft-dirty", "pagemap-scan", "psi", "psi-trigger", "userfaultfd", "perf-faults"];
const FOR_ROOT: &[&str] = &["pagemap-pfn", "idle-pages", "damon"];

pub fn run(cases: &mut Cases) {
    for user in User::ALL {
        cases.run(&format!("pages-{}", user.name()), || compare(user));
    }
}

fn compare(user: User) -> Result<()> {
    let text = output_of(&mut user.command("/bin/pages"))?;
    let trials = parse_trials(&text)?;
    ensure!(trials.len() == FOR_ALL.len() + FOR_ROOT.len(), "too few trials: {text}");
    let document = doctor(user)?;
    for (name, errno) in trials {
        let works = errno == 0;
        let expected = FOR_ALL.contains(&name) || user == User::Root;
        ensure!(works == expected, "{name}: errno {errno} in this kernel for {}", user.name());
        let told = capability(&document, name)?;
        ensure!(told["works"] == works, "{name}: errno {errno}, but the doctor says {told}");
    }
    Ok(())
}
