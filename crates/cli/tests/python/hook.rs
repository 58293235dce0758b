//! `--steps torch|keras|tqdm|sklearn|jax`: steps of scripts that say nothing, and scripts that do not notice.

use std::fs;
use std::path::{Path, PathBuf};

use crate::harness::{Lab, finish, skip, text};
use crate::interpreter::{framework, program, pythons, torch};

/// How many steps the recording has, and what the program says there were.
fn steps(library: &str, python: &str) -> (u64, String) {
    let lab = Lab::new();
    let words =
        ["run", "-q", "-o", "run.nilo", "--steps", library, "--", python, &program("steps.py"), library];
    let output = finish(&mut lab.nilo(words));
    assert!(output.status.success(), "{library}: {}", text(&output.stderr));
    let said = text(&output.stdout);
    let report = lab.report(&lab.path("run.nilo"));
    (report["steps_seen"].as_u64().unwrap_or(0), said.lines().last().unwrap_or_default().to_owned())
}

#[track_caller]
fn check(library: &str, python: Option<String>) {
    if let Some(python) = python {
        let (seen, said) = steps(library, &python);
        assert_eq!(said, format!("steps {seen}"), "{library}");
        assert!(seen > 0);
    }
}

#[test]
fn optimizers_of_torch_tell_steps() {
    check("torch", torch("2.15"));
}

#[test]
fn optimizers_of_torch_1_tell_steps() {
    check("torch", torch("1.13"));
}

#[test]
fn the_innermost_bar_tells_steps() {
    check("tqdm", framework("tools"));
}

#[test]
fn outermost_fits_are_steps_and_workers_are_silent() {
    check("sklearn", framework("science"));
}

#[test]
fn outermost_compiled_calls_are_steps() {
    check("jax", framework("jax"));
}

#[test]
fn batches_of_keras_are_steps() {
    check("keras", framework("keras"));
}

/// What a Python says of itself with the hook in its environment.
fn told(python: &Path, lab: &Lab, before: &[&str], code: &str) -> (String, String) {
    let python = python.display().to_string();
    let mut nilo =
        lab.nilo(["run", "-q", "-o", "run.nilo", "--force", "--steps", "torch,sklearn", "--", &python]);
    let output = finish(nilo.args(before).args(["-c", code]).env("PYTHONPATH", lab.path("own")));
    assert!(output.status.success(), "{python}: {}", text(&output.stderr));
    (text(&output.stdout).trim().to_owned(), text(&output.stderr))
}

const OWN: &str = "import sys; sys.user_was_here = __file__\n";

#[test]
fn the_user_s_own_customization_runs_in_each_python() {
    let lab = Lab::new();
    let own = lab.path("own");
    fs::create_dir(&own).unwrap();
    fs::write(own.join("sitecustomize.py"), OWN).unwrap();
    let code = "import sys, sitecustomize; print(sys.user_was_here == sitecustomize.__file__, \
                [p for p in sys.path if 'nilo' in p and 'hook' in p], '_nilo_steps' in sys.modules)";
    for (_, python) in pythons() {
        let (said, talk) = told(&python, &lab, &[], code);
        assert_eq!((said.as_str(), talk.as_str()), ("True [] False", ""), "{python:?}");
    }
}

#[test]
fn a_mistake_of_the_user_s_own_customization_is_shown_as_always() {
    let lab = Lab::new();
    fs::create_dir(lab.path("own")).unwrap();
    fs::write(lab.path("own").join("sitecustomize.py"), "import not_there_at_all").unwrap();
    let (_, python) = pythons().remove(0);
    let (said, talk) = told(&python, &lab, &[], "print('goes on')");
    assert!(said == "goes on" && talk.contains("not_there_at_all"), "{said} {talk}");
}

#[test]
fn isolated_and_foreign_pythons_are_left_alone() {
    let lab = Lab::new();
    fs::create_dir(lab.path("own")).unwrap();
    let (_, python) = pythons().remove(0);
    let finders = "import sys; print(len([f for f in sys.meta_path if type(f).__name__ == 'Finder']))";
    assert_eq!(told(&python, &lab, &[], finders), ("1".to_owned(), String::new()));
    assert_eq!(told(&python, &lab, &["-I"], finders), ("0".to_owned(), String::new()));
    let home = PathBuf::from(std::env::var_os("HOME").unwrap());
    let old: Vec<PathBuf> = ["2.7.18", "3.6.15", "3.7.16"]
        .map(|version| home.join(".pyenv/versions").join(version).join("bin/python"))
        .into_iter()
        .filter(|python| python.exists())
        .collect();
    if old.is_empty() {
        skip("python2.7", "no Python older than 3.8 is here");
    }
    fs::write(lab.path("own").join("sitecustomize.py"), OWN).unwrap();
    for python in old {
        let code = "import sys; print('own' in sys.user_was_here and len([f for f in sys.meta_path \
                    if type(f).__name__ == 'Finder']))";
        assert_eq!(told(&python, &lab, &[], code), ("0".to_owned(), String::new()), "{python:?}");
    }
}

#[test]
fn steps_of_an_unhooked_bar_are_read_from_the_output() {
    let lab = Lab::new();
    let code = "import sys\nfor i in range(4): sys.stderr.write('\\r 10%%|#  | %d/4 [00:01<00:02]' % i)";
    let (_, python) = pythons().remove(0);
    let run = lab.run(&["-q", "--steps", "tqdm"], &[&python.display().to_string(), "-I", "-c", code]);
    assert_eq!(run.report["steps_seen"], 4, "{}", run.stderr());
}

#[test]
fn marks_alone_read_no_output() {
    let lab = Lab::new();
    let run = lab.run(&["-q", "--steps", "marks"], &["sh", "-c", "echo step 9; echo step 3 >> $NILO_MARKS"]);
    assert_eq!(run.report["steps_seen"], 1);
    assert_eq!(run.report["steps"][0]["step"], 3);
}
