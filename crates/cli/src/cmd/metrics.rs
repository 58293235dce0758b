//! The outlets of a recording's values, prepared before anything is started: what cannot work is said now.

use std::sync::Arc;

use nilometer_metrics::{Collector, Error, Listener, MetricsFile, Outlets, Variables};

use crate::args::metrics::MetricsArgs;
use crate::talk::{self, Failure};

/// None where nothing was asked for. Where scrapers find the page is said, unless `quiet`.
pub fn outlets(args: &MetricsArgs, quiet: bool) -> Result<Option<Arc<Outlets>>, Failure> {
    let outlets = prepare(args).map_err(|error| {
        let hint = error.hint();
        Failure::from(error).hint(hint)
    })?;
    if let Some(listener) = outlets.listener.as_ref().filter(|_| !quiet) {
        talk::say(&format!("metrics at {}", listener.url()));
    }
    Ok((!outlets.is_empty()).then(|| Arc::new(outlets)))
}

fn prepare(args: &MetricsArgs) -> Result<Outlets, Error> {
    let variable = |name: &str| std::env::var(name).ok();
    let collector = |url: &String| Collector::new(Some(url), &Variables(&variable));
    Ok(Outlets {
        file: args.metrics_file.as_deref().map(MetricsFile::prepare).transpose()?,
        collector: args.otlp.as_ref().map(collector).transpose()?,
        listener: args.listen.as_deref().map(Listener::bind).transpose()?,
    })
}
