//! `nilo completions` and `nilo man`: what shells and `man` read.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, anyhow};

use super::exit;
use crate::args::shell::{CompletionsArgs, ManArgs, Page, render_completions, render_pages};
use crate::path::AtPath as _;
use crate::talk::{self, Failure};

pub fn completions(args: &CompletionsArgs) -> Result<ExitCode, Failure> {
    write(&render_completions(args.shell))
}

pub fn man(args: &ManArgs) -> Result<ExitCode, Failure> {
    let pages = render_pages()?;
    if let Some(folder) = &args.output {
        return write_all(folder, &pages);
    }
    let verb = args.verb.as_deref().unwrap_or_default();
    let Some(page) = pages.iter().find(|page| page.verb == verb) else {
        let failure = Failure::from(anyhow!("there is no verb {verb}")).hint("all verbs:  nilo --help");
        return Err(failure.exiting(exit::USAGE));
    };
    write(&page.text)
}

/// To standard output; a reader that has enough is no failure.
fn write(text: &[u8]) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    std::io::stdout().write_all(text).context("cannot write to standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn write_all(folder: &Path, pages: &[Page]) -> Result<ExitCode, Failure> {
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for page in pages {
        let path = folder.join(&page.file);
        std::fs::write(&path, &page.text).writing(&path)?;
    }
    talk::say(&format!("wrote {} pages   → man -l {}", pages.len(), folder.join("nilo.1").display()));
    Ok(ExitCode::SUCCESS)
}
