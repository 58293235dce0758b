//! The NVIDIA reader against a library of the same shape, built here.
#![allow(clippy::unwrap_used)] // a helper of tests is outside `#[test]` functions

use std::path::{Path, PathBuf};
use std::process::Command;

use nilometer_kernel::read::device::{DeviceMemory, Devices};

struct Fake {
    directory: tempfile::TempDir,
    library: PathBuf,
}

impl Fake {
    fn build(options: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let library = directory.path().join("libnvidia-ml.so.1");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/nvml.c");
        let mut cc = Command::new("cc");
        cc.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&library).args(options).arg(source);
        assert!(cc.status().unwrap().success(), "cc failed");
        Self { directory, library }
    }

    /// Devices of an otherwise empty machine.
    fn open(&self) -> Devices {
        Devices::open(self.directory.path(), &self.library)
    }
}

fn check_two_devices(fake: &Fake) {
    let mut devices = fake.open();
    assert_eq!(devices.nvidia(), 2);
    for _ in 0..2 {
        let read = devices.read();
        let names: Vec<&str> = read.iter().map(|device| &*device.name).collect();
        assert_eq!(names, ["nvidia0 Fake A", "nvidia1 Fake B"]);
        assert_eq!((read[0].used_bytes, read[0].total_bytes), (1 << 30, 16 << 30));
        assert_eq!(read[0].processes.len(), 100);
        assert_eq!(read[0].processes[0], (1001, 100 << 20), "by pid");
        assert_eq!(read[1].processes, [(1002, 1 << 20)], "a process of unknown size is left out");
    }
}

#[test]
fn devices_and_processes_are_read_also_more_than_expected() {
    check_two_devices(&Fake::build(&[]));
}

#[test]
fn an_older_library_has_the_second_version_only() {
    check_two_devices(&Fake::build(&["-DOLD"]));
}

#[test]
fn the_library_is_shut_down_and_can_be_opened_again() {
    let fake = Fake::build(&[]);
    for _ in 0..3 {
        assert_eq!(fake.open().nvidia(), 2, "the fake refuses a second start without a shutdown");
    }
}

#[test]
fn a_library_without_a_driver_is_a_note() {
    let fake = Fake::build(&["-DREFUSE"]);
    let mut devices = fake.open();
    assert_eq!(devices.read(), Vec::<DeviceMemory>::new());
    assert!(devices.notes()[0].ends_with("cannot start: the driver is not loaded"), "{:?}", devices.notes());
}

#[test]
fn a_file_that_is_no_library_is_a_note() {
    let directory = tempfile::tempdir().unwrap();
    let library = directory.path().join("libnvidia-ml.so.1");
    std::fs::write(&library, "not a library").unwrap();
    let devices = Devices::open(directory.path(), &library);
    assert!(devices.is_empty());
    assert!(devices.notes()[0].starts_with("no NVIDIA devices: "), "{:?}", devices.notes());
}
