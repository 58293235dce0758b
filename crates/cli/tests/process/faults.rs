//! Faults: whatever happens to nilo, its disk or the target, the target ends as it would alone, and what was
//! recorded until then is readable.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_kernel::sys::clock::monotonic_ns;
use nilometer_kernel::sys::process::pidfd;
use nilometer_kernel::sys::signals;
use serde_json::Value;

use crate::harness::{Dialogue, Lab, c_program, finish, nilo_binary, skip, text};
use crate::watched::{
    MIB, Watched, assert_near, bytes, is_root, number_of, process, rss_slack, wait_for_ticks, wait_readable,
};

const SIGKILL: i32 = 9;
const NOBODY: u32 = 65_534;

fn raw(descriptor: &impl std::os::fd::AsRawFd) -> i32 {
    descriptor.as_raw_fd()
}

fn children(pid: i32) -> Vec<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).expect("children");
    text.split_whitespace().map(|pid| pid.parse().expect("a pid")).collect()
}

#[test]
fn killing_nilo_leaves_the_target_alone_and_the_data_readable() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &["--interval", "100ms"], "puppet.c", &[]);
    let pid = puppet.number("ready");
    let born_ns = puppet.order("born", "born");
    let rss = puppet.order("grow 50", "rss") * 1024;
    let nilo = puppet.dialogue.pid();
    let ours = children(nilo).into_iter().chain([nilo]).filter(|child| *child as u64 != pid);
    let ours: Vec<_> = ours.map(|child| pidfd(child).expect("it runs")).collect();
    let before_ns = monotonic_ns();
    puppet.ticks_pass();
    signals::send(nilo, SIGKILL).expect("kill");
    for gone in &ours {
        wait_readable(raw(gone), "nilo or a helper of it stayed behind");
    }
    let killed_ns = monotonic_ns();
    // The target goes on: it still answers, grows, and ends when it wants.
    assert!(puppet.order("grow 50", "rss") * 1024 > rss + 49 * MIB);
    let run = puppet.end();

    let end = &run.report["data_end"];
    assert_eq!(end["clean"], false);
    // The last tick began after `before_ns`: nothing is missing. `at_s` counts from just before the target's `main`.
    let since_birth = |ns: u64| (ns - born_ns) as f64 / 1e9;
    let (at_s, least, most) =
        (run.number("data_end/at_s"), since_birth(before_ns), since_birth(killed_ns) + 1.0);
    assert!((least..most).contains(&at_s), "the data ends at {at_s}, not in {least}–{most}");
    assert_near("hwm_bytes", bytes(&process(&run.report, pid)["hwm_bytes"]), rss, rss_slack());
    assert_eq!(run.report["exit"]["cause"], "not-seen");
    assert_eq!(run.report["cost"], Value::Null);
    let said = run.report["quality"][0].as_str().expect("a doubt");
    assert!(said.starts_with("the data ends at"), "{said}");
    let screen = finish(&mut lab.nilo(["report", "run.nilo"]));
    assert!(text(&screen.stdout).contains("the data ends at"), "{}", text(&screen.stdout));
}

#[test]
fn killing_the_target_is_told_with_all_its_data() {
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &[], "puppet.c", &[]);
    let pid = puppet.number("ready");
    let rss = puppet.order("grow 300", "rss") * 1024;
    puppet.ticks_pass();
    signals::send(pid as i32, SIGKILL).expect("kill");
    let run = puppet.end();
    assert_eq!(run.code(), Some(128 + SIGKILL));
    assert_eq!(run.report["exit"]["signal"], SIGKILL);
    assert_eq!(run.report["exit"]["code"], Value::Null);
    assert_eq!(run.report["exit"]["cause"], "unknown-killer");
    assert_eq!(run.report["data_end"]["clean"], true);
    assert_near("peak.bytes", bytes(&run.report["peak"]["bytes"]), rss, rss_slack());
}

/// A file system of 1 MiB, unmounted at the end.
pub struct SmallDisk(pub PathBuf);

impl SmallDisk {
    pub fn mount(at: PathBuf) -> Result<Self, String> {
        std::fs::create_dir(&at).expect("mkdir");
        let output = finish(Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"]).arg(&at));
        if output.status.success() { Ok(Self(at)) } else { Err(text(&output.stderr)) }
    }

    /// Takes all that is left.
    pub fn fill(&self) -> PathBuf {
        let filler = self.0.join("filler");
        let mut file = File::create(&filler).expect("create");
        for size in [4096, 1] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        filler
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(&self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "{} is still mounted", self.0.display());
    }
}

/// A crowd's records are long because its command line is: the log outgrows any small place at once.
fn start_crowd(nilo: &mut Command) -> Dialogue {
    let program = c_program("crowd.c");
    nilo.args(["--interval", "5ms", "--"]).arg(program).args(["20", "2", &"x".repeat(20_000)]);
    let mut crowd = Dialogue::start(nilo);
    number_of(&crowd.line(), "ready");
    crowd
}

fn let_it_crowd(crowd: &mut Dialogue, run: &Path, round: u64) {
    crowd.say("go");
    assert_eq!(number_of(&crowd.line(), "round"), round);
    wait_for_ticks(run, 3);
}

fn assert_says_what_was_dropped(report: &Value, why: &str) {
    assert_eq!(report["exit"]["code"], 33);
    let events = report["events"].as_array().expect("events");
    let dropped: Vec<&str> =
        events.iter().filter(|e| e["kind"] == "dropped").filter_map(|e| e["text"].as_str()).collect();
    assert!(dropped.iter().any(|text| text.contains(why)), "{why} is not told: {events:#?}");
    assert!(bytes(&report["peak"]["bytes"]) > 0);
}

fn full_disk(freed_again: bool) {
    let lab = Lab::new();
    let disk = match SmallDisk::mount(lab.path("disk")) {
        Ok(disk) => disk,
        Err(reason) => return skip("mount", &reason),
    };
    let run = disk.0.join("run.nilo");
    let mut nilo = lab.nilo(["run", "-q", "-o"]);
    let mut crowd = start_crowd(nilo.arg(&run));
    wait_for_ticks(&run, 3);
    let filler = disk.fill();
    let_it_crowd(&mut crowd, &run, 0);
    if freed_again {
        std::fs::remove_file(filler).expect("remove");
    }
    let_it_crowd(&mut crowd, &run, 1);
    let output = crowd.end();
    assert_eq!(output.status.code(), Some(33), "{}", text(&output.stderr));
    let report = lab.report(&run);
    assert_says_what_was_dropped(&report, "No space left on device");
    assert_eq!(report["data_end"]["clean"], true, "{}", report["data_end"]);
}

#[test]
fn serial_a_disk_that_fills_up_costs_records_and_nothing_else() {
    full_disk(false);
}

#[test]
fn serial_a_disk_that_has_room_again_is_used_again() {
    full_disk(true);
}

#[test]
fn a_limit_on_file_sizes_stops_neither_nilo_nor_the_target() {
    let lab = Lab::new();
    let run = lab.path("run.nilo");
    // In units of 512 bytes or of a kilobyte, by the shell: the files made at the start fit in either.
    let mut nilo = Command::new("sh");
    nilo.args(["-c", r#"ulimit -f 200; exec "$0" "$@""#, nilo_binary(), "run", "-q", "-o"]).arg(&run);
    let mut crowd = start_crowd(&mut nilo);
    wait_for_ticks(&run, 3);
    let_it_crowd(&mut crowd, &run, 0);
    let_it_crowd(&mut crowd, &run, 1);
    let output = crowd.end();
    assert_eq!(output.status.code(), Some(33), "{}", text(&output.stderr));
    // Not even the end fits: the exit is known from the manifest, and the report says what is missing.
    let report = lab.report(&run);
    assert_eq!(report["exit"]["code"], 33);
    assert_eq!(report["data_end"]["clean"], false);
    let why = report["data_end"]["why"].as_str().expect("a reason");
    assert!(why.contains("the disk refused the rest"), "{why}");
    assert!(report["quality"][0].as_str().is_some_and(|doubt| doubt.contains(why)), "{}", report["quality"]);
    assert!(bytes(&report["peak"]["bytes"]) > 0);
}

/// The runs below a directory.
fn runs_in(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|ending| ending == "nilo")).collect()
}

fn assert_fell_back(lab: &Lab, nilo: &mut Command) {
    let output = finish(nilo);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let runs = runs_in(&lab.path("state/nilo"));
    assert_eq!(runs.len(), 1, "{}", text(&output.stderr));
    let said = text(&output.stderr);
    assert!(said.contains("cannot be written") && said.contains(&runs[0].display().to_string()), "{said}");
    assert_eq!(lab.report(&runs[0])["exit"]["code"], 7);
}

#[test]
fn a_place_that_cannot_be_written_falls_back_to_the_state_directory() {
    let lab = Lab::new();
    std::fs::write(lab.path("file"), "").expect("write");
    let mut nilo = lab.nilo(["run", "--", "sh", "-c", "exit 7"]);
    assert_fell_back(&lab, nilo.env("NILO_DIR", lab.path("file/below")));
}

#[test]
fn a_directory_of_somebody_else_falls_back_to_the_state_directory() {
    if !is_root() {
        return skip("root", "another user is needed who may not write here");
    }
    let lab = Lab::new();
    let open =
        |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("chmod");
    for (name, mode) in [("", 0o755), ("theirs", 0o755), ("state", 0o777)] {
        std::fs::create_dir_all(lab.path(name)).expect("mkdir");
        open(&lab.path(name), mode);
    }
    let binary = lab.path("nilo");
    std::fs::copy(nilo_binary(), &binary).expect("copy"); // the build directory may be closed to others
    let mut nilo = Command::new(binary);
    nilo.args(["run", "--", "sh", "-c", "exit 7"]).uid(NOBODY).gid(NOBODY).env_remove("NILO_DIR");
    assert_fell_back(&lab, nilo.current_dir(lab.path("theirs")).env("XDG_STATE_HOME", lab.path("state")));
}

#[test]
fn a_run_directory_may_be_deep() {
    let lab = Lab::new();
    let deep = lab.path("not/there/yet.nilo");
    let output = finish(lab.nilo(["run", "-q", "-o"]).arg(&deep).args(["--", "true"]));
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert_eq!(lab.report(&deep)["exit"]["code"], 0);
}
