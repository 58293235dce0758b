//! The pytest plugin with a real pytest: limits against known allocations, workers, reruns, its rival.

use std::fs;
use std::process::Output;

use crate::harness::{Lab, finish, nilo_binary, text};
use crate::interpreter::{framework, package};

const TESTS: &str = r#"
import pytest

kept = []


@pytest.mark.limit_memory("24 MB")
def test_within():
    block = bytearray(20_000_000)


def make():
    return bytearray(30_000_000)


@pytest.mark.limit_memory("24 MB")
def test_above():
    make()


@pytest.mark.limit_memory("10 MB")
def test_one_after_the_other():
    for _ in range(10):
        block = bytearray(9_000_000)
        del block


@pytest.mark.limit_leaks("1 KB")
def test_leaks():
    for _ in range(100):
        kept.append(bytes(1000))


@pytest.mark.limit_leaks("1 KB")
def test_circles_are_no_leak():
    circle = [bytearray(10000)]
    circle.append(circle)


@pytest.mark.limit_leaks("1 KB", warmups=1)
def test_made_once():
    if not hasattr(test_made_once, "cache"):
        test_made_once.cache = bytes(50000)


@pytest.mark.limit_memory("1 MB")
def test_own_failure():
    block = bytearray(2_000_000)
    assert len(block) == 1


def test_plain(record_property):
    block = bytearray(7_000_000)
"#;

/// pytest with the plugin in a folder with these tests.
fn pytest(lab: &Lab, tests: &str, words: &[&str]) -> Option<(String, Output)> {
    pytest_of("tools", lab, tests, words)
}

/// The same in another environment.
fn pytest_of(environment: &str, lab: &Lab, tests: &str, words: &[&str]) -> Option<(String, Output)> {
    let python = framework(environment)?;
    fs::write(lab.path("test_memory.py"), tests).unwrap();
    let mut command = std::process::Command::new(python);
    command.args(["-m", "pytest", "-p", "nilometer.pytest_plugin", "-p", "no:cacheprovider"]).args(words);
    command.current_dir(lab.path("")).env("PYTHONPATH", package()).env("NILO_BINARY", nilo_binary());
    command
        .env("TMPDIR", lab.path(""))
        .env_remove("NILO_MARKS")
        .env_remove("NILO_CONTROL")
        .env("COLUMNS", "200");
    let output = finish(&mut command);
    Some((text(&output.stdout) + &text(&output.stderr), output))
}

fn line<'a>(said: &'a str, part: &str) -> &'a str {
    said.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part} in {said}"))
}

#[test]
fn limits_are_judged_by_known_allocations_and_name_the_site() {
    let lab = Lab::new();
    let Some((said, output)) = pytest(&lab, TESTS, &["--nilo", "--nilo-top", "20", "--junitxml=out.xml"])
    else {
        return;
    };
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("3 failed, 5 passed"), "{said}");
    let above = line(&said, "at once");
    assert!(above.contains("28.6 MiB") && above.contains("24 MB"), "{above}");
    assert!(above.contains("test_memory.py:13 (make)"), "{above}");
    let leak = line(&said, "left ");
    assert!(leak.contains("test_memory.py:31 (test_leaks)"), "{leak}");
    assert!(line(&said, "AssertionError").contains("assert"), "the test's own failure stays its own");
    let junit = fs::read_to_string(lab.path("out.xml")).unwrap();
    for (name, truth) in
        [("test_plain", 7_000_000), ("test_within", 20_000_000), ("test_one_after", 9_000_000)]
    {
        let case = junit.split("<testcase").find(|case| case.contains(name)).unwrap();
        let peak = case.split("nilo_peak_bytes\" value=\"").nth(1).unwrap().split('"').next().unwrap();
        let peak: u64 = peak.parse().unwrap();
        assert!((truth..truth + 100_000).contains(&peak), "{name}: {peak}");
    }
    assert!(line(&said, "MiB  test_memory.py::test_plain").trim_start().starts_with("6."));
}

#[test]
fn workers_and_reruns_are_judged_alike() {
    let lab = Lab::new();
    let Some((said, _)) = pytest(&lab, TESTS, &["--nilo", "-n", "2"]) else { return };
    assert!(said.contains("3 failed, 5 passed"), "{said}");
    assert!(said.contains("28.6 MiB  test_memory.py::test_above"), "{said}");
    let flaky = "import pytest\nturns = []\n@pytest.mark.limit_memory('1 MB')\ndef test_flaky():\n    \
                 turns.append(1)\n    block = bytearray(2_000_000 if len(turns) == 1 else 10)\n";
    let (said, output) = pytest(&lab, flaky, &["--nilo", "--reruns", "2"]).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("1 passed, 1 rerun"), "{said}");
}

#[test]
fn without_the_switch_limits_are_said_not_to_be_judged() {
    let lab = Lab::new();
    let Some((said, _)) = pytest(&lab, TESTS, &[]) else { return };
    assert!(said.contains("7 tests have memory limits, not judged: pytest --nilo"), "{said}");
    assert!(said.contains("1 failed, 7 passed") && !said.contains("Unknown pytest.mark"), "{said}");
    fs::write(lab.path("pytest.ini"), "[pytest]\nnilo = true\n").unwrap();
    let (said, _) = pytest(&lab, TESTS, &[]).unwrap();
    assert!(said.contains("3 failed, 5 passed"), "{said}");
}

#[test]
fn a_recording_that_samples_judges_nothing_and_says_so() {
    let lab = Lab::new();
    let Some(python) = framework("tools") else { return };
    let tests =
        "import pytest\n@pytest.mark.limit_memory('1 KB')\ndef test_it():\n    block = bytearray(1000000)\n";
    fs::write(lab.path("test_memory.py"), tests).unwrap();
    let mut nilo =
        lab.nilo(["run", "-q", "--allocs", "-o", "run.nilo", "--", &python, "-m", "pytest", "--nilo"]);
    nilo.args(["-p", "nilometer.pytest_plugin", "-p", "no:cacheprovider"]).env("PYTHONPATH", package());
    let output = finish(&mut nilo);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert!(said.contains("tracked sampled, so no limit is judged"), "{said}");
}

#[test]
fn pytest_memray_where_it_is_installed_keeps_its_marks() {
    let lab = Lab::new();
    let tests = "import pytest\n\n@pytest.mark.limit_memory('1 MB')\ndef test_above():\n    block = bytearray(3_000_000)\n\n\
                 @pytest.mark.limit_leaks('1 MB')\ndef test_keeps_nothing():\n    block = bytearray(5_000_000)\n";
    let Some((said, output)) = pytest_of("memray", &lab, tests, &["--nilo"]) else { return };
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("limits are judged by pytest-memray"), "{said}");
    assert!(said.contains("1 failed, 1 passed") && said.contains("Test was limited to 1.0MiB"), "{said}");
    assert!(!said.contains("its limit is 1 MB"), "judged once: {said}");
    let peak = line(&said, "MiB  test_memory.py::test_keeps_nothing").split_whitespace().next().unwrap();
    let peak: f64 = peak.parse().unwrap();
    assert!((4.76..6.0).contains(&peak), "peaks are still told, with what memray itself needs: {peak}");
    let (said, _) = pytest_of("memray", &lab, tests, &["--nilo", "--nilo-limit", "2 MB"]).unwrap();
    assert!(said.contains("1 failed, 1 passed"), "a test with a mark of theirs has no limit of ours: {said}");
}
