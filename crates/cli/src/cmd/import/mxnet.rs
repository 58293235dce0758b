//! Logs of the MXNet memory profiler: one run for all of them, and beside its allocations what the profiler's own
//! scripts make: an analysis of each log, and charts.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_analysis::tagged::{self, Entry, Tagged};
use nilometer_import::mxnet::{self, Log};
use nilometer_import::{Format, HEAD_BYTES, detect};
use nilometer_report::scene::{Scene, Theme, pdf, png, svg};
use nilometer_report::tagged::{Charting, analysis, chart, chart_together, document, render};
use nilometer_rules::TagRules;

use super::manifest::Described;
use super::{failure, place, run_name, sites};
use crate::args::import::{ChartKind, ImportArgs, MxnetArgs};
use crate::cmd::load;
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

/// The names of the profiler's scripts.
const ANALYSES: &str = "memory_analysis";
const GRAPHS: &str = "memory_analysis_graphs";
const SUFFIX: &str = "_ANALYSIS";
/// For each point of a chart.
const PIXELS: f64 = 2.0;

pub fn import(args: &ImportArgs) -> Result<ExitCode, Failure> {
    let rules = read_rules(args.mxnet.rules.as_deref())?;
    let logs = read_logs(args)?;
    let all: Vec<Tagged> = logs.iter().map(|(name, log)| categories(name, log, &rules)).collect();
    let first = args.files.first().map_or(Path::new("import"), PathBuf::as_path);
    let name = run_name(first);
    let place = place::Place::new(args, &name)?;
    let described = Described { file: first, name: &name, format: Format::MxnetLog };
    let (path, ()) = place.fill(|directory| {
        sites::write(directory, &described, mxnet::sites(&logs))?;
        write_analyses(directory, &all)?;
        write_charts(directory, &all, &args.mxnet)
    })?;
    tell(args, &all, &path)?;
    Ok(ExitCode::SUCCESS)
}

fn read_rules(file: Option<&Path>) -> Result<TagRules, Failure> {
    let own = TagRules::mxnet_profiler()?;
    let Some(file) = file else { return Ok(own) };
    let text = fs::read_to_string(file).reading(file)?;
    let hint = "a rule is  [[tag]]  contains = \"my_layer\"  name = \"My Layer\"  group = \"forward\"";
    let users = TagRules::parse(&file.display().to_string(), &text);
    Ok(users.map_err(|error| Failure::from(error).hint(hint))?.over(own))
}

fn read_logs(args: &ImportArgs) -> Result<Vec<(String, Log)>, Failure> {
    let mut logs = Vec::new();
    for given in &args.files {
        let is_directory = given.is_dir();
        for file in if is_directory { files_in(given)? } else { vec![given.clone()] } {
            let bytes = super::read_whole(&file)?;
            // In a directory there may be other things.
            if is_directory && !is_log(&bytes) {
                talk::say(&format!("{} is no log of MXNet's memory profiler: skipped", file.display()));
                continue;
            }
            let log = mxnet::parse(&bytes).map_err(|error| failure(&file, error))?;
            logs.push((log_name(&file), log));
        }
    }
    if logs.is_empty() {
        let given: Vec<String> = args.files.iter().map(|file| file.display().to_string()).collect();
        let given = given.join(" ");
        return Err(Failure::from(anyhow!("there is no log of MXNet's memory profiler in {given}"))
            .hint(format!("of other tools name a file, not a directory (docs/import.md):  ls {given}")));
    }
    Ok(logs)
}

fn is_log(bytes: &[u8]) -> bool {
    let head = bytes.get(..bytes.len().min(HEAD_BYTES)).unwrap_or_default();
    detect(head).is_ok_and(|found| found.format == Format::MxnetLog)
}

fn files_in(directory: &Path) -> Result<Vec<PathBuf>, Failure> {
    let entries = fs::read_dir(directory).reading(directory)?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

fn log_name(file: &Path) -> String {
    let name = file.file_name().map_or_else(|| "import".into(), |name| name.to_string_lossy().into_owned());
    name.strip_suffix(SUFFIX).unwrap_or(&name).to_owned()
}

fn categories(name: &str, log: &Log, rules: &TagRules) -> Tagged {
    let entries = log.entries.iter().map(|entry| Entry {
        tag: &entry.tag,
        key: entry.key.as_deref(),
        bytes: entry.bytes,
        count: entry.count,
    });
    let used = |free: u64| log.device.map(|device| device.total_bytes.saturating_sub(free));
    Tagged {
        device_peak_bytes: log.device.and_then(|device| used(device.lowest_free_bytes)),
        device_live_bytes: log.device.and_then(|device| used(device.last_free_bytes)),
        releases: log.releases,
        skipped_lines: log.skipped_lines,
        broken_lines: log.broken_lines,
        ..tagged::build(name, entries, rules)
    }
}

fn write_analyses(directory: &Path, all: &[Tagged]) -> Result<(), Failure> {
    let folder = directory.join(ANALYSES);
    fs::create_dir(&folder)?;
    for tagged in all {
        fs::write(folder.join(format!("{}{SUFFIX}", tagged.name)), analysis(tagged))?;
    }
    Ok(())
}

fn write_charts(directory: &Path, all: &[Tagged], args: &MxnetArgs) -> Result<(), Failure> {
    let folder = directory.join(GRAPHS);
    fs::create_dir(&folder)?;
    let charting = Charting { title: args.title.clone(), min_percent: args.min_percent };
    if args.together {
        return write_chart(
            &folder.join("memory_profile_graphs"),
            chart_together(all, &charting),
            &args.charts,
        );
    }
    for tagged in all {
        let stem = folder.join(format!("{}{SUFFIX}_mem_graph", tagged.name));
        write_chart(&stem, chart(tagged, &charting), &args.charts)?;
    }
    Ok(())
}

fn write_chart(stem: &Path, scene: Option<Scene>, kinds: &[ChartKind]) -> Result<(), Failure> {
    let Some(scene) = scene else {
        talk::say(&format!("{}: no category is left to draw", stem.display()));
        return Ok(());
    };
    for kind in kinds {
        let (end, bytes) = match kind {
            ChartKind::Svg => ("svg", svg::render(&scene, Theme::Light).into_bytes()),
            ChartKind::Png => ("png", png::render(&scene, Theme::Light, PIXELS)?),
            ChartKind::Pdf => ("pdf", pdf::render(&scene, Theme::Light)),
        };
        let mut file = stem.as_os_str().to_owned();
        file.push(format!(".{end}"));
        fs::write(file, bytes)?;
    }
    Ok(())
}

fn tell(args: &ImportArgs, all: &[Tagged], path: &Path) -> Result<(), Failure> {
    let run = load::short_path(path);
    match &args.telling.json {
        Some(Some(file)) => fs::write(file, format!("{:#}\n", document(all))).writing(file)?,
        Some(None) => talk::data(&format!("{:#}\n", document(all))),
        None if args.telling.quiet => {}
        None => {
            let style = talk::stdout_style();
            for tagged in all {
                talk::data(&render(tagged, &style));
            }
        }
    }
    if !args.telling.quiet {
        talk::talk(&format!(
            " saved    {run}   → nilo report {run} --allocs --what cumulative\n          charts in {run}/{GRAPHS}, \
             categories with their tags in {run}/{ANALYSES}\n"
        ));
    }
    Ok(())
}
