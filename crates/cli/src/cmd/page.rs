//! `nilo report --html`: everything that a run directory knows, as one page.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::anyhow;
use nilometer_analysis::Run;
use nilometer_analysis::allocs::Options;
use nilometer_analysis::allocs::model::Allocs;
use nilometer_analysis::compare::{Comparison, compare};
use nilometer_analysis::leak::Leak;
use nilometer_analysis::pages::Pages;
use nilometer_analysis::rank::Job;
use nilometer_analysis::sweep::model::Sweep;
use nilometer_report::html::{self, Page};
use nilometer_report::redact;

use super::{allocs, compare as sides, job, leak, load, pages, sweep};
use crate::args::report::ReportArgs;
use crate::args::sweep_shown;
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

const PAGE_FILE: &str = "report.html";

/// What there is to show.
pub struct Parts {
    pub run: Run,
    pub leak: Option<Leak>,
    pub allocs: Option<Allocs>,
    pub sweep: Option<Sweep>,
    pub comparison: Option<Comparison>,
    pub pages: Option<Pages>,
    pub job: Option<Job>,
}

pub fn write(args: &ReportArgs) -> Result<ExitCode, Failure> {
    let (path, sweep) = find(args.run.as_deref(), args.rank)?;
    let place = args.page.output.clone().unwrap_or_else(|| path.join(PAGE_FILE));
    let to_stdout = place.as_os_str() == "-";
    // Ours may be made again; anything else is somebody's.
    if args.page.output.is_some() && !to_stdout && !args.page.force && place.exists() {
        return Err(Failure::from(anyhow!("{} exists", place.display())).hint("overwrite it:  --force"));
    }
    let mut parts = read(&path)?;
    parts.sweep = sweep;
    // node=/rank=/restart= below it.
    let above = path.ancestors().nth(3).filter(|above| job::is_one(above));
    parts.job = above.map(|above| job::read(above, None)).transpose()?;
    parts.comparison = args.page.base.as_deref().map(|base| against(base, &path)).transpose()?;
    if let Some(pages) = &args.page.pages {
        parts.pages = Some(pages::read(pages)?);
    }
    if args.page.redact {
        parts.redact();
    }
    let page = html::render(&parts.page(args.page.redact));
    if to_stdout {
        talk::data(&page);
    } else {
        write_private(&place, &page).writing(&place)?;
        talk::say(&format!("wrote {} ({})", load::short_path(&place), size(page.len())));
    }
    Ok(ExitCode::SUCCESS)
}

fn size(bytes: usize) -> String {
    nilometer_report::text::bytes(bytes as u64)
}

/// As private as the run that it shows.
fn write_private(path: &Path, text: &str) -> std::io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    options.open(path)?.write_all(text.as_bytes())
}

/// A run, or of a sweep the run that needed most.
fn find(word: Option<&str>, rank: Option<u64>) -> Result<(PathBuf, Option<Sweep>), Failure> {
    if let Some(directory) = word.map(Path::new).filter(|path| sweep::is_one(path)) {
        let sweep = read_sweep(directory)?;
        let largest = sweep.runs.iter().max_by_key(|run| run.peak_bytes);
        let Some(largest) = largest else {
            return Err(Failure::from(anyhow!("{} has no whole run", directory.display()))
                .hint(format!("go on with it:  nilo sweep {}", directory.display())));
        };
        let path = PathBuf::from(&largest.saved);
        return Ok((path, Some(sweep)));
    }
    let path = load::resolve_rank(word, rank)?;
    // A run of a sweep shows its sweep too.
    let sweep = path.parent().filter(|parent| sweep::is_one(parent)).map(read_sweep).transpose()?;
    Ok((path, sweep))
}

pub fn read_sweep(directory: &Path) -> Result<Sweep, Failure> {
    let args = sweep_shown(directory).ok_or_else(|| anyhow!("{} is no sweep", directory.display()))?;
    sweep::read(directory, &args)
}

fn against(base: &str, path: &Path) -> Result<Comparison, Failure> {
    let (base, this) = (sides::side(base)?, sides::side(&path.to_string_lossy())?);
    Ok(compare(&base, &[this], &[]))
}

/// All that the directory of a run says.
pub fn read(path: &Path) -> Result<Parts, Failure> {
    let (run, leak) = leak::of_run(path)?;
    let has_target = run.peak.is_some();
    let allocs = read_allocs(path, &run);
    Ok(Parts {
        run,
        leak: has_target.then_some(leak),
        allocs,
        sweep: None,
        comparison: None,
        pages: pages::of_run(path)?,
        job: None,
    })
}

/// A page without allocations is better than none.
fn read_allocs(path: &Path, run: &Run) -> Option<Allocs> {
    let options = Options { moments_since_ns: Some(run.origin_ns), ..Options::default() };
    let read = allocs::categorised(path, &options);
    let told = read.inspect_err(|failure| talk::say(&format!("without allocations: {:#}", failure.error)));
    let mut allocs = told.ok().flatten()?;
    allocs.saved = Some(load::short_path(path));
    Some(allocs)
}

impl Parts {
    pub fn redact(&mut self) {
        redact::run(&mut self.run);
        self.leak.iter_mut().for_each(redact::leak);
        self.allocs.iter_mut().for_each(redact::allocs);
        self.sweep.iter_mut().for_each(redact::sweep);
        self.comparison.iter_mut().for_each(redact::comparison);
        self.pages.iter_mut().for_each(redact::pages);
        self.job.iter_mut().for_each(redact::job);
        self.run.ranks.iter_mut().for_each(|row| row.node.clear());
    }

    fn page(&self, redacted: bool) -> Page<'_> {
        Page {
            run: &self.run,
            leak: self.leak.as_ref(),
            allocs: self.allocs.as_ref(),
            sweep: self.sweep.as_ref(),
            comparison: self.comparison.as_ref(),
            pages: self.pages.as_ref(),
            job: self.job.as_ref(),
            redacted,
        }
    }
}
