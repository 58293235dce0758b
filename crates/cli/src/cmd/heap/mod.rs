//! `nilo heap`: which objects live in a process, how large they are, and who holds them.
//!
//! Every reading is the same: a target becomes a graph ([`source`]), options select objects of it ([`select`]), a model
//! is made and shown. What a process, a core and a snapshot can tell is told alike.

pub mod keep;
pub mod kin;
mod progress;
pub mod recorder;
pub mod refusal;
mod select;
mod source;
mod view;

use std::process::ExitCode;

use nilometer_analysis::heap::model::Table;
use nilometer_analysis::heap::{self, Grouping, Heap};
use nilometer_capture::census::Detail;
use nilometer_report::heap::json::Document;
use nilometer_report::heap::{self as screen, Page, heapy, json, muppy};
use nilometer_report::text::quoted;
use nilometer_trace::heap::Graph;

use crate::args::heap::{
    DiffArgs, Grouping as By, HeapArgs, HeapReading, ObjectArgs, ShowingArgs, TableFormat, Top,
};
use crate::talk::{self, Failure};
pub use source::read_snapshot;

use refusal::unreadable;
use select::Selection;
use source::Source;

/// Rows of a table unless told otherwise.
const ROWS: usize = 15;

pub fn run(args: &HeapArgs) -> Result<ExitCode, Failure> {
    nilometer_kernel::sys::signals::restore_sigpipe();
    nilometer_kernel::sys::limits::keep_freed_memory();
    match &args.reading {
        None => show(args)?,
        Some(HeapReading::Diff(args)) => diff(args)?,
        Some(HeapReading::Paths(args)) => object(args, view::paths)?,
        Some(HeapReading::Referrers(args)) => object(args, view::referrers)?,
        Some(HeapReading::Referents(args)) => object(args, view::referents)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The table, or what was asked for instead of it.
fn show(args: &HeapArgs) -> Result<(), Failure> {
    let target = args.target.as_deref().unwrap_or_default();
    let source = Source::parse(target)?;
    let selection = Selection::new(&args.selection, args.showing.format);
    // What can fail without the target comes before it is bothered.
    if let Some(file) = &args.keeping.output {
        keep::check(file, args.keeping.force)?;
    }
    let before = selection.since.map(read_snapshot).transpose()?;
    let graph = source.read(&args.census, detail(args))?;
    if let Some(file) = &args.keeping.output {
        keep::write(&graph, file, args.keeping.force)?;
    }
    let heap = Heap::new(&graph);
    let set = selection.apply(&heap, before.as_ref()).map_err(|error| unreadable(error, target))?;
    let grouping = Grouping { top: rows(&args.showing), ..selection.shown() };
    let table = heap.table(&set, grouping).map_err(|error| unreadable(error, target))?;
    if let Some(format) = args.showing.format {
        print_foreign(format, &table);
        return Ok(());
    }
    let views = view::Views::of(&heap, &set, args).map_err(|error| unreadable(error, target))?;
    let (summary, style) = (heap.summary(), talk::stdout_style());
    let (again, drilled, target) = (selection.again(target), selection.rows(), quoted(target));
    let page = Page { style: &style, target: &target, again: &again, rows: &drilled };
    talk::data(&if args.showing.json {
        pretty(&views.document(Document::new("table", &summary).merge(&table)).finish())
    } else if views.is_empty() {
        screen::render_table(&summary, &table, &page)
    } else {
        views.render(&summary, &page)
    });
    Ok(())
}

/// Names of references cost a fifth of a census; a plain table does not show any.
fn detail(args: &HeapArgs) -> Detail {
    let (selection, views) = (&args.selection, &args.views);
    let is_view = views.of.is_some() || views.retained || views.arrays || views.cycles;
    let is_selected = !selection.row.is_empty() || selection.under.is_some() || selection.since.is_some();
    let is_named = selection.by.iter().any(|by| matches!(by, By::Owner | By::Attribute));
    if is_view || is_selected || is_named || args.keeping.output.is_some() {
        Detail::Graph
    } else {
        Detail::Counts
    }
}

fn print_foreign(format: TableFormat, table: &Table) {
    talk::data(&match format {
        TableFormat::Heapy => heapy::table(table),
        TableFormat::Muppy => muppy::table(table),
    });
    tell_unlisted(format, table.rows_total, table.rows.len());
}

fn pretty(document: &serde_json::Value) -> String {
    format!("{document:#}\n")
}

/// How many rows are listed; none for all of them.
fn rows(showing: &ShowingArgs) -> Option<usize> {
    let usual = match showing.format {
        Some(TableFormat::Heapy) => heapy::ROWS,
        Some(TableFormat::Muppy) => muppy::ROWS,
        None => ROWS,
    };
    showing.top.map_or(Some(usual), Top::limit)
}

/// The other tools' tables go to standard output as they are; what they keep silent about is said beside.
fn tell_unlisted(format: TableFormat, total: u64, listed: usize) {
    let more = total.saturating_sub(listed as u64);
    if format == TableFormat::Muppy && more > 0 {
        talk::say(&format!("{more} more rows are not listed (--top all)"));
    }
}

fn diff(args: &DiffArgs) -> Result<(), Failure> {
    let (before, after) = (Source::parse(&args.before)?, Source::parse(&args.after)?);
    let before: Graph = before.read(&args.census, Detail::Graph)?;
    let after: Graph = after.read(&args.census, Detail::Graph)?;
    let (before, after) = (Heap::new(&before), Heap::new(&after));
    let top = rows(&args.showing);
    // The other tools sort by their own rules, so they get every row.
    let listed = if args.showing.format.is_some() { None } else { top };
    let by = select::by(args.by, args.showing.format);
    let grouping = Grouping { by, top: listed, ..Grouping::default() };
    let diff = heap::diff(&before, &after, grouping).map_err(|error| unreadable(error, &args.after))?;
    match args.showing.format {
        Some(TableFormat::Heapy) => talk::data(&heapy::diff(&diff, top)),
        Some(format @ TableFormat::Muppy) => {
            talk::data(&muppy::diff(&diff, top));
            tell_unlisted(format, diff.rows_total, top.unwrap_or(usize::MAX));
        }
        None if args.showing.json => talk::data(&pretty(&json::diff(&diff))),
        None => talk::data(&screen::render_diff(&diff, &diff_page(args, &talk::stdout_style()).page())),
    }
    Ok(())
}

/// The words of a page, kept as long as it is drawn.
struct Words<'a> {
    style: &'a nilometer_report::Style,
    target: String,
    again: String,
}

impl Words<'_> {
    fn page(&self) -> Page<'_> {
        Page { style: self.style, target: &self.target, again: &self.again, rows: "" }
    }
}

fn diff_page<'a>(args: &DiffArgs, style: &'a nilometer_report::Style) -> Words<'a> {
    let target = quoted(&args.after);
    let by = if args.by.word() == "kind" { String::new() } else { format!(" --by {}", args.by.word()) };
    let again = format!("{target} --since {}{by}", quoted(&args.before));
    Words { style, target, again }
}

/// A reading of one object or of a set: what it shows, and the same as a document.
type ObjectView = fn(&Heap, &heap::Set, Option<usize>, &Page) -> Result<view::Shown, heap::Error>;

fn object(args: &ObjectArgs, view: ObjectView) -> Result<(), Failure> {
    let source = Source::parse(&args.target)?;
    let selection = Selection::new(&args.selection, None);
    let before = selection.since.map(read_snapshot).transpose()?;
    let graph = source.read(&args.census, Detail::Graph)?;
    let heap = Heap::new(&graph);
    let set = selection
        .object(&heap, before.as_ref(), args.object.as_deref())
        .map_err(|error| unreadable(error, &args.target))?;
    let (target, again) = (quoted(&args.target), selection.again(&args.target));
    let style = talk::stdout_style();
    let page = Page { style: &style, target: &target, again: &again, rows: "" };
    let shown =
        view(&heap, &set, args.top.limit(), &page).map_err(|error| unreadable(error, &args.target))?;
    talk::data(&if args.json { pretty(&shown.document) } else { shown.screen });
    Ok(())
}
