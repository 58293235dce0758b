//! `nilo plot`: the pictures of the page as files.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_analysis::MachineBuilder;
use nilometer_analysis::compare::compare;
use nilometer_report::plot::{self, Size};
use nilometer_report::scene::{Scene, Theme, pdf, png, svg};
use nilometer_report::stacks::Stacks;

use super::page::{self, Parts};
use super::{compare as sides, exit, job, load, pages};
use crate::args::plot::{PlotArgs, PlotView};
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

/// Lines that can be told apart on one chart.
const MOST_RANKS: usize = 12;
/// More nodes than a picture has pixels.
const MOST_NODES: usize = 1_000_000;

enum Format {
    Svg,
    Png,
    Pdf,
}

pub fn run(args: &PlotArgs) -> Result<ExitCode, Failure> {
    let format = format(&args.output)?;
    if args.output.exists() && !args.force {
        return Err(Failure::from(anyhow!("{} exists", args.output.display())).hint("overwrite it:  --force"));
    }
    let scene = draw(args)?;
    let theme = if args.dark { Theme::Dark } else { Theme::Light };
    let bytes = match format {
        Format::Svg => svg::render(&scene, theme).into_bytes(),
        Format::Png => png::render(&scene, theme, f64::from(args.scale))?,
        Format::Pdf => pdf::render(&scene, theme),
    };
    std::fs::write(&args.output, &bytes).writing(&args.output)?;
    let size = nilometer_report::text::bytes(bytes.len() as u64);
    talk::say(&format!("wrote {} ({size})", args.output.display()));
    Ok(ExitCode::SUCCESS)
}

fn format(path: &Path) -> Result<Format, Failure> {
    match path.extension().and_then(|extension| extension.to_str()).map(str::to_ascii_lowercase).as_deref() {
        Some("svg") => Ok(Format::Svg),
        Some("png") => Ok(Format::Png),
        Some("pdf") => Ok(Format::Pdf),
        _ => {
            let sentence = anyhow!("{} ends in none of .svg, .png, .pdf", path.display());
            Err(Failure::from(sentence).exiting(exit::USAGE).hint("nilo plot -o run.svg"))
        }
    }
}

fn draw(args: &PlotArgs) -> Result<Scene, Failure> {
    let size = (f64::from(args.width), f64::from(args.height));
    match args.view {
        PlotView::Sweep => return sweep(args, size),
        PlotView::Pages => return touched(args, size),
        PlotView::Ranks => return ranks(args, size),
        PlotView::Compare => return compared(args, size),
        _ => {}
    }
    let paths = paths(args)?;
    match (args.view, paths.as_slice()) {
        (PlotView::Run, many) if many.len() > 1 => several(args, many, size),
        (PlotView::System, [path]) => machine(path, size),
        (_, [path]) => single(args, path, size),
        _ => Err(Failure::from(anyhow!("this view shows one run, not {}", paths.len()))
            .exiting(exit::USAGE)
            .hint("several runs on one chart:  nilo plot --view run A B -o both.svg")),
    }
}

fn paths(args: &PlotArgs) -> Result<Vec<PathBuf>, Failure> {
    if args.runs.is_empty() {
        return expanded(args, None);
    }
    let paths = args.runs.iter().map(|word| expanded(args, Some(word))).collect::<Result<Vec<_>, _>>()?;
    Ok(paths.concat())
}

/// Memory over time can show the ranks of a job together; the other views show one of them.
fn expanded(args: &PlotArgs, word: Option<&str>) -> Result<Vec<PathBuf>, Failure> {
    let path = load::resolve_any(word)?;
    if !job::is_one(&path) || args.rank.is_some() || args.view != PlotView::Run {
        return Ok(vec![load::resolve_rank(path.to_str(), args.rank)?]);
    }
    let runs = job::runs(&path);
    if runs.len() > MOST_RANKS {
        talk::say(&format!("the first {MOST_RANKS} of {} ranks; another:  --rank N", runs.len()));
    }
    Ok(runs.into_iter().take(MOST_RANKS).map(|it| it.path).collect())
}

fn several(args: &PlotArgs, paths: &[PathBuf], size: Size) -> Result<Scene, Failure> {
    let mut runs = paths.iter().map(|path| load::model(path)).collect::<Result<Vec<_>, _>>()?;
    for (run, path) in runs.iter_mut().zip(paths) {
        // Names of one program are all the same; their directories are not.
        let word = rank_of(path).or_else(|| path.file_stem().map(|stem| stem.to_string_lossy().into_owned()));
        run.name = word.unwrap_or_else(|| run.name.clone());
        if args.redact {
            nilometer_report::redact::run(run);
        }
    }
    let all: Vec<_> = runs.iter().collect();
    plot::runs(&all, size).ok_or_else(|| nothing("no sample of a command was taken", "nilo run -- COMMAND"))
}

/// `rank 3` for a run directory below a job.
fn rank_of(path: &Path) -> Option<String> {
    let parent = path.parent()?.file_name()?.to_str()?;
    parent.strip_prefix("rank=").map(|rank| format!("rank {rank}"))
}

fn machine(path: &Path, size: Size) -> Result<Scene, Failure> {
    let mut builder = MachineBuilder::default();
    load::model_with(path, |record| builder.push(record))?;
    let series = builder.finish();
    let panels = plot::system(&series, (size.0, size.1 * 0.6));
    let absent = || nothing("the machine was not sampled", "nilo record");
    let (mut scene, all) = panels.zip(plot::system_all(&series, size)).ok_or_else(absent)?;
    let top = scene.height;
    scene.height += all.height;
    scene.place(all, 0.0, top);
    Ok(scene)
}

fn single(args: &PlotArgs, path: &Path, size: Size) -> Result<Scene, Failure> {
    let mut parts = page::read(path)?;
    if args.redact {
        parts.redact();
    }
    let place = load::short_path(path);
    match args.view {
        PlotView::Where => ledger(&parts, size)
            .ok_or_else(|| nothing("no ledger was taken", "nilo run --ledger=exact -- COMMAND")),
        PlotView::Allocs => icicle(&parts, size)
            .ok_or_else(|| nothing("it was recorded without --allocs", "nilo run --allocs -- COMMAND")),
        PlotView::Categories => categories(&parts, size)
            .ok_or_else(|| nothing("nothing was sorted into categories", "nilo run --allocs -- COMMAND")),
        PlotView::Leak => parts
            .leak
            .as_ref()
            .and_then(|leak| plot::leak(&parts.run, leak, size))
            .ok_or_else(|| nothing("nothing was judged", &format!("nilo leak {place}"))),
        _ => plot::run(&parts.run, size)
            .ok_or_else(|| nothing("no sample of a command was taken", "nilo run -- COMMAND")),
    }
}

fn ledger(parts: &Parts, size: Size) -> Option<Scene> {
    let ledgers = parts.run.ledgers.as_ref()?;
    plot::ledger(ledgers.curve.get(ledgers.nearest)?, size)
}

fn icicle(parts: &Parts, size: Size) -> Option<Scene> {
    let allocs = parts.allocs.as_ref()?;
    let stacks = Stacks::new(&allocs.sites, &allocs.rest, MOST_NODES);
    let peak = nilometer_report::text::bytes(allocs.peak.bytes);
    plot::allocs(&stacks, &format!("{peak} live at the peak, callers above"), size)
}

fn categories(parts: &Parts, size: Size) -> Option<Scene> {
    plot::categories(&parts.allocs.as_ref()?.by_category, size)
}

fn sweep(args: &PlotArgs, size: Size) -> Result<Scene, Failure> {
    let [word] = args.runs.as_slice() else {
        return Err(nothing("this view shows one sweep", "nilo plot SWEEP --view sweep -o law.svg"));
    };
    let mut sweep = page::read_sweep(Path::new(word))?;
    if args.redact {
        nilometer_report::redact::sweep(&mut sweep);
    }
    plot::sweep(&sweep, size).ok_or_else(|| nothing("no setting varies", "nilo sweep --help"))
}

/// The map, the working set, then what a smaller memory would miss.
fn touched(args: &PlotArgs, size: Size) -> Result<Scene, Failure> {
    let absent =
        |why: &str| nothing(why, "nilo pages -o pages.d PID; nilo plot pages.d --view pages -o touched.svg");
    let [word] = args.runs.as_slice() else {
        return Err(absent("this view shows one recording of pages"));
    };
    let mut pages = pages::read(&pages::place(word)?)?;
    if args.redact {
        nilometer_report::redact::pages(&mut pages);
    }
    let views = [plot::heat(&pages, size), plot::working_set(&pages, size), plot::misses(&pages, size)];
    if views.iter().all(Option::is_none) {
        return Err(absent("nothing was looked at"));
    }
    Ok(stacked("Touched memory", views.into_iter().flatten()))
}

/// One below the other.
fn stacked(title: &str, scenes: impl Iterator<Item = Scene>) -> Scene {
    let mut whole = Scene::new(0.0, 0.0, title);
    for scene in scenes {
        let top = whole.height;
        (whole.width, whole.height) = (whole.width.max(scene.width), top + scene.height);
        whole.place(scene, 0.0, top);
    }
    whole
}

/// Of a job, or of a launcher that was recorded with its ranks.
fn ranks(args: &PlotArgs, size: Size) -> Result<Scene, Failure> {
    let absent = || nothing("ranks are runs of a job", "torchrun --no-python nilo run -- python train.py");
    let [word] = args.runs.as_slice() else { return Err(absent()) };
    let path = load::resolve_any(Some(word))?;
    let found = if job::is_one(&path) {
        Some(job::read(&path, None)?)
    } else {
        nilometer_report::rank::of_one_recording(&load::model(&path)?)
    };
    found.and_then(|job| plot::ranks(&job, size)).ok_or_else(absent)
}

/// Curves by step and by time, then the parts that changed.
fn compared(args: &PlotArgs, size: Size) -> Result<Scene, Failure> {
    let [base, other] = args.runs.as_slice() else {
        return Err(Failure::from(anyhow!("this view shows two sides, not {}", args.runs.len()))
            .exiting(exit::USAGE)
            .hint("nilo plot base.nilo new.nilo --view compare -o changed.svg"));
    };
    let mut comparison = compare(&sides::side(base)?, &[sides::side(other)?], &[]);
    if args.redact {
        nilometer_report::redact::comparison(&mut comparison);
    }
    let absent = || nothing("the sides have no curves", "nilo compare base.nilo new.nilo");
    let versus = comparison.others.first().ok_or_else(absent)?;
    let names = (comparison.base.as_str(), versus.name.as_str());
    let curves = versus.courses.iter().filter_map(|pair| plot::course(pair, names, size));
    let parts = versus.parts.as_ref().and_then(|parts| plot::differences(parts, size));
    let scene = stacked(&format!("{} → {}", names.0, names.1), curves.chain(parts));
    if scene.shapes.is_empty() { Err(absent()) } else { Ok(scene) }
}

/// The view is there, its data is not.
fn nothing(why: &str, command: &str) -> Failure {
    Failure::from(anyhow!("nothing to draw: {why}")).exiting(exit::NOT_AVAILABLE).hint(command)
}
