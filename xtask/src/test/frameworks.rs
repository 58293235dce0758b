//! `cargo xtask test --frameworks`: small real trainings of each framework under each verb, against the framework's own truth.
//!
//! One table here, one script for each framework (`frameworks/programs`), one function for each verb. What cannot be told for a
//! framework stands in the table with its reason. `--record` keeps the result in `bench/`, and `docs/frameworks.md` is made from it.

mod check;
mod debian;
mod look;
pub mod page;
mod play;
mod stage;

use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use crate::bench::machine;
use crate::{docs, workspace};
use check::Check;
use stage::Stage;

/// What `cargo xtask test --frameworks` was asked.
#[derive(Debug)]
pub struct Options {
    /// Frameworks whose name contains one of these; all without.
    pub only: Vec<String>,
    /// Keep the result in `bench/` and write the page.
    pub record: bool,
}

/// Where a Python with the framework comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// `crates/lab/environment/make.sh NAME`
    Made(&'static str),
    /// A package of Debian, for its own Python.
    Debian { package: &'static str, probe: &'static str },
}

/// A Python that has the framework.
#[derive(Debug)]
struct Python {
    program: PathBuf,
    /// What it needs to find it.
    environment: Vec<(&'static str, OsString)>,
}

/// How arrays of the framework are seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arrays {
    /// By owner: Python objects whose layout is known.
    Owned,
    /// Only C++ knows them: they are malloc in use.
    Native,
    /// The framework takes large pieces from malloc and cuts them up itself.
    Pooled,
}

/// Which line of code a known array is told at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Site {
    Told,
    /// Memory is handed out on threads of its own, later.
    Elsewhere,
}

/// One row of the table.
#[derive(Debug)]
struct Framework {
    name: &'static str,
    script: &'static str,
    source: Source,
    environment: &'static [(&'static str, &'static str)],
    arrays: Arrays,
    site: Site,
    /// A category, and how far it may be off.
    categories: &'static [(&'static str, f64)],
    /// What a reader has to know, in words.
    caveats: &'static [&'static str],
}

const EXACT: &[(&str, f64)] = &[("parameters", 0.0), ("gradients", 0.0), ("optimizer state", 0.0)];
const ONLY_CPP: &str = "`heap` counts its arrays as Python objects, but not their numbers: those are buffers that only C++ knows. They are \
                        told as *malloc in use* by `where`, and by `run --allocs`.";

/// What holds for most of them.
const PLAIN: Framework = Framework {
    name: "",
    script: "",
    source: Source::Made(""),
    environment: &[],
    arrays: Arrays::Owned,
    site: Site::Told,
    categories: &[],
    caveats: &[],
};

const FRAMEWORKS: &[Framework] = &[
    Framework {
        name: "torch",
        script: "torch_loop.py",
        source: Source::Made("torch-2.15"),
        categories: EXACT,
        caveats: &["pip's newest, with stubs in the place of its CUDA libraries."],
        ..PLAIN
    },
    Framework {
        name: "scikit-learn and pandas",
        script: "sklearn_loop.py",
        source: Source::Made("tabular"),
        caveats: &[
            "Trees of a forest are memory of Cython, told as *malloc in use*; here a perceptron is trained.",
        ],
        ..PLAIN
    },
    Framework {
        name: "xgboost",
        script: "xgboost_loop.py",
        source: Source::Made("tabular"),
        caveats: &[
            "Its matrix and its trees are memory of C++, told as *malloc in use*; arrays are those of numpy that it is given.",
        ],
        ..PLAIN
    },
    Framework {
        name: "LightGBM",
        script: "lightgbm_loop.py",
        source: Source::Made("tabular"),
        caveats: &[
            "Its bins and its trees are memory of C++, told as *malloc in use*; arrays are those of numpy that it is given.",
        ],
        ..PLAIN
    },
    Framework {
        name: "JAX",
        script: "jax_loop.py",
        source: Source::Made("jax"),
        arrays: Arrays::Native,
        categories: &[("train state", 0.01)],
        caveats: &[
            ONLY_CPP,
            "Inside a compiled step XLA has one buffer for all that is temporary: gradients and activations cannot be told apart. \
             What lives from step to step (parameters, optimizer state, data) is told as *train state*.",
        ],
        ..PLAIN
    },
    Framework {
        name: "MXNet",
        script: "mxnet_loop.py",
        source: Source::Made("mxnet"),
        arrays: Arrays::Native,
        site: Site::Elsewhere,
        categories: &[("parameters", 0.01), ("gradients", 0.01), ("optimizer state", 0.01)],
        caveats: &[
            ONLY_CPP,
            "Its engine hands out memory later, on threads without Python: no line of code can be told for it.",
        ],
        ..PLAIN
    },
    Framework {
        name: "TensorFlow and Keras",
        script: "tensorflow_loop.py",
        source: Source::Made("tensorflow"),
        environment: &[("TF_ENABLE_ONEDNN_OPTS", "0")],
        arrays: Arrays::Native,
        caveats: &[ONLY_CPP],
        ..PLAIN
    },
    Framework {
        name: "TensorFlow with oneDNN",
        script: "tensorflow_loop.py",
        source: Source::Made("tensorflow"),
        arrays: Arrays::Pooled,
        site: Site::Elsewhere,
        caveats: &[
            "As it is installed. With oneDNN on, TensorFlow takes memory for tensors from 256 KiB on in regions that it cuts up itself \
             (its BFC allocator): outside, the regions are seen, not the tensors in them. `TF_ENABLE_ONEDNN_OPTS=0` gives each tensor its own memory.",
        ],
        ..PLAIN
    },
    Framework {
        name: "Hugging Face Trainer",
        script: "trainer_loop.py",
        source: Source::Made("trainers"),
        categories: EXACT,
        ..PLAIN
    },
    Framework {
        name: "Lightning",
        script: "lightning_loop.py",
        source: Source::Made("trainers"),
        categories: EXACT,
        ..PLAIN
    },
    Framework {
        name: "torch of Debian",
        script: "torch_loop.py",
        source: Source::Debian { package: "python3-torch", probe: "import torch" },
        categories: EXACT,
        caveats: &["`python3-torch`, for the Python of the distribution."],
        ..PLAIN
    },
];

/// Plays all of them; true when every number is what the framework says.
pub fn run(options: &Options) -> Result<bool> {
    let stage = Stage::open()?;
    let chosen = |it: &&Framework| {
        options.only.is_empty()
            || options.only.iter().any(|part| it.name.to_lowercase().contains(&part.to_lowercase()))
    };
    let frameworks: Vec<&Framework> = FRAMEWORKS.iter().filter(chosen).collect();
    ensure!(!frameworks.is_empty(), "no framework is called so");
    let mut results = Vec::new();
    for framework in frameworks {
        let start = Instant::now();
        let result = judge(&stage, framework);
        println!("{}\n{:.0} s", page::render_framework(&result), start.elapsed().as_secs_f64());
        results.push(result);
        // After each: what is known stays known where a later one hangs.
        keep(options, &stage, &document(&results)?)?;
    }
    let good = results.iter().all(|result| result["holds"] == true);
    println!("{}", if good { "every number is what the framework says" } else { "FAILED" });
    Ok(good)
}

fn document(results: &[Value]) -> Result<Value> {
    Ok(json!({
        "date": machine::read_date()?,
        "machine": machine::read_machine()?,
        "commit": machine::read_commit(),
        "frameworks": results,
    }))
}

fn keep(options: &Options, stage: &Stage, document: &Value) -> Result<()> {
    let text = format!("{document:#}\n");
    let path = stage.folder().join("data.json");
    fs::write(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
    if options.record {
        let folder = workspace::root().join("bench").join(format!("{}-frameworks", machine::read_date()?));
        fs::create_dir_all(&folder)?;
        let path = folder.join("data.json");
        let earlier = fs::read(&path).ok().and_then(|text| serde_json::from_slice(&text).ok());
        let document = beside(earlier.unwrap_or_default(), document);
        fs::write(&path, format!("{document:#}\n"))?;
        fs::write(folder.join("README.md"), page::render_readme(&document))?;
        docs::write_pages()?;
    }
    Ok(())
}

/// The frameworks that were played now in the place of those of the same day; the others stay, with the commit they were
/// played on.
fn beside(mut earlier: Value, now: &Value) -> Value {
    let commit = earlier["commit"].take();
    let mut all = earlier["frameworks"].as_array_mut().map(std::mem::take).unwrap_or_default();
    for old in all.iter_mut().filter(|old| old["commit"].is_null()) {
        old["commit"] = commit.clone();
    }
    for new in now["frameworks"].as_array().into_iter().flatten() {
        match all.iter_mut().find(|old| old["name"] == new["name"]) {
            Some(old) => old.clone_from(new),
            None => all.push(new.clone()),
        }
    }
    let mut whole = now.clone();
    whole["frameworks"] = all.into();
    whole
}

/// All verbs on one framework; what broke is part of the result, so that the others are still tried.
fn judge(stage: &Stage, framework: &Framework) -> Value {
    let commit = machine::read_commit();
    let mut result = json!({"name": framework.name, "caveats": framework.caveats, "commit": commit});
    let python = match find_python(framework.source) {
        Ok(python) => python,
        Err(reason) => {
            result["skipped"] = format!("{reason:#}").into();
            result["holds"] = false.into();
            return result;
        }
    };
    match check_all(stage, framework, &python, &mut result) {
        Ok(checks) => {
            result["holds"] = checks.iter().all(Check::holds).into();
            result["checks"] = checks.iter().map(Check::to_json).collect();
        }
        Err(error) => {
            result["broken"] = format!("{error:#}").into();
            result["holds"] = false.into();
        }
    }
    result
}

fn check_all(
    stage: &Stage,
    framework: &Framework,
    python: &Python,
    result: &mut Value,
) -> Result<Vec<Check>> {
    let play = stage.play(framework, python)?;
    let mut checks = vec![play::peak(&play, result)?];
    checks.extend(look::all(&play, framework)?);
    checks.extend(play::allocs(&play, framework)?);
    checks.extend(play::leak(&play)?);
    Ok(checks)
}

fn find_python(source: Source) -> Result<Python> {
    match source {
        Source::Made(name) => {
            Ok(Python { program: workspace::environment(name)?.into(), environment: Vec::new() })
        }
        Source::Debian { package, probe } => debian::find(package, probe),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_played_earlier_stays_beside_what_is_played_again() {
        let play = |name: &str, commit: Value| json!({"name": name, "commit": commit});
        let earlier = json!({"commit": "a", "frameworks": [play("x", Value::Null), play("y", "b".into())]});
        let now = json!({"commit": "c", "frameworks": [play("y", "c".into()), play("z", "c".into())]});
        let all = [play("x", "a".into()), play("y", "c".into()), play("z", "c".into())];
        assert_eq!(beside(earlier, &now), json!({"commit": "c", "frameworks": all}));
        assert_eq!(beside(Value::Null, &now), now);
    }

    #[test]
    fn every_framework_has_its_script_and_a_name_of_its_own() {
        for framework in FRAMEWORKS {
            let path = workspace::root().join("xtask/src/test/frameworks/programs").join(framework.script);
            assert!(path.exists(), "{}", path.display());
            assert_eq!(FRAMEWORKS.iter().filter(|it| it.name == framework.name).count(), 1);
        }
    }
}
