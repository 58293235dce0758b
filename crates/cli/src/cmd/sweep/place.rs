//! The directory of a sweep: one run directory per run, the output of its command beside it, the plan.

use std::fs::{DirBuilder, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use nilometer_analysis::sweep::space::Point;
use nilometer_capture::rundir::{self, Places};

use super::plan::{PLAN_FILE, Plan};
use crate::path::AtPath as _;
use crate::talk::Failure;

const SUFFIX: &str = ".sweep";
/// Longest part of a run's name that tells its parameters.
const LONGEST: usize = 60;
const MOST_NAMES: usize = 1_000;

/// Where the sweep is kept, and whether it was begun before.
#[derive(Debug)]
pub struct Place {
    pub directory: PathBuf,
    pub continued: bool,
}

/// The directory asked for, one that was begun with the same plan, or a new one.
pub fn open(
    plan: &Plan,
    output: Option<&Path>,
    force: bool,
    is_done: impl Fn(&Path) -> bool,
) -> Result<Place, Failure> {
    if let Some(directory) = output {
        return named(plan, directory, force);
    }
    let places = Places::from_environment();
    let home = places.candidates().next().map(Path::to_owned).unwrap_or_default();
    let name = rundir::command_name(&plan.command);
    for number in 1..MOST_NAMES {
        let number = if number == 1 { String::new() } else { format!(".{number}") };
        let directory = home.join(format!("{name}{number}{SUFFIX}"));
        if !directory.exists() {
            return begin(plan, directory);
        }
        let same = Plan::read(&directory).is_ok_and(|known| known.is_same(plan));
        if same && !is_done(&directory) {
            return Ok(Place { directory, continued: true });
        }
    }
    Err(Failure::from(anyhow!("{} has {MOST_NAMES} sweeps of {name}", home.display()))
        .hint("give it a name:  -o DIR"))
}

fn named(plan: &Plan, directory: &Path, force: bool) -> Result<Place, Failure> {
    if !directory.exists() {
        return begin(plan, directory.to_owned());
    }
    match Plan::read(directory) {
        Ok(known) if known.is_same(plan) => Ok(Place { directory: directory.to_owned(), continued: true }),
        Ok(_) if force => {
            std::fs::remove_dir_all(directory)
                .with_context(|| format!("cannot replace {}", directory.display()))?;
            begin(plan, directory.to_owned())
        }
        Ok(_) => Err(Failure::from(anyhow!("{} holds another sweep", directory.display()))
            .hint("another -o, or --force to replace it")),
        Err(_) => {
            Err(Failure::from(anyhow!("{} exists and is no sweep", directory.display())).hint("another -o"))
        }
    }
}

/// Makes the directory, private, with a `.gitignore` so that no run is committed by accident; the plan comes last.
fn begin(plan: &Plan, directory: PathBuf) -> Result<Place, Failure> {
    let make = || -> std::io::Result<()> {
        if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            std::fs::create_dir_all(parent)?;
        }
        DirBuilder::new().mode(0o700).create(&directory)?;
        write_private(&directory.join(".gitignore"), b"*\n")?;
        write_private(&directory.join(PLAN_FILE), format!("{:#}\n", serde_json::to_value(plan)?).as_bytes())
    };
    make().writing(&directory)?;
    Ok(Place { directory, continued: false })
}

pub fn write_private(path: &Path, text: &[u8]) -> std::io::Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?.write_all(text)
}

/// `003.batch=64.threads=2.r1.nilo`: the number keeps the order, the rest is for people.
pub fn run_name(number: usize, params: &Point, repeat: u32) -> String {
    let told: Vec<String> = params.iter().map(|(name, value)| format!("{name}={}", value.text)).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "=._-".contains(c) { c } else { '_' };
    let told: String = told.join(".").chars().map(plain).take(LONGEST).collect();
    format!("{number:03}.{told}.r{repeat}{}", rundir::SUFFIX)
}
