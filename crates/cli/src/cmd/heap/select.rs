//! From options to a set of objects: a relative heap, filters, rows of tables, one object.

use std::path::Path;

use nilometer_analysis::heap::model::{By, Order};
use nilometer_analysis::heap::{self, Error, Filter, Grouping, Heap, Set};
use nilometer_report::text::quoted;
use nilometer_trace::heap::Graph;

use crate::args::heap::{Grouping as Word, SelectionArgs, Sort, TableFormat};
use crate::talk;

/// What was selected, and how it is typed again.
#[derive(Debug)]
pub struct Selection<'a> {
    args: &'a SelectionArgs,
    format: Option<TableFormat>,
    pub since: Option<&'a Path>,
}

impl<'a> Selection<'a> {
    pub fn new(args: &'a SelectionArgs, format: Option<TableFormat>) -> Self {
        Self { args, format, since: args.since.as_deref() }
    }

    /// The objects that are left after all options.
    pub fn apply(&self, heap: &Heap, before: Option<&Graph>) -> Result<Set, Error> {
        let whole = before.map_or_else(|| heap.all(), |before| heap::since(&Heap::new(before), heap));
        let mut set = heap.select(whole, &self.filter())?;
        for (level, row) in self.args.row.iter().enumerate() {
            set = heap.row(&set, self.grouping(level), *row)?;
        }
        Ok(set)
    }

    /// One object by its address or path, else what the options select. A word that is no path may be a kind.
    pub fn object(&self, heap: &Heap, before: Option<&Graph>, word: Option<&str>) -> Result<Set, Error> {
        let Some(word) = word else { return self.apply(heap, before) };
        heap.find(word).or_else(|error| {
            let filter = Filter { kind: Some(word.into()), ..self.filter() };
            let set = heap.select(heap.all(), &filter).ok().filter(|set| !set.is_empty()).ok_or(error)?;
            talk::say(&format!("`{word}` is no path here; using the {} objects of that kind", set.len()));
            Ok(set)
        })
    }

    /// How the selected objects are grouped: below the drilled rows.
    pub fn shown(&self) -> Grouping {
        self.grouping(self.args.row.len())
    }

    fn filter(&self) -> Filter {
        Filter {
            kind: self.args.kind.clone(),
            module: self.args.module.clone(),
            min_bytes: self.args.min_size,
            unreachable: self.args.unreachable,
            under: self.args.under.clone(),
        }
    }

    fn grouping(&self, level: usize) -> Grouping {
        let order = match self.args.sort {
            Sort::Total => Order::Total,
            Sort::Size => Order::Bytes,
            Sort::Payload => Order::Payload,
            Sort::Count => Order::Count,
            Sort::Name => Order::Name,
        };
        Grouping { by: self.by(level), order, top: None }
    }

    /// As listed; then who holds a kind, and of what kinds everything else is.
    fn by(&self, level: usize) -> By {
        match self.args.by.get(level) {
            Some(word) => by(*word, self.format.filter(|_| level == 0)),
            None => match level.checked_sub(1).map(|above| self.by(above)) {
                Some(By::Kind | By::Type) => By::Owner,
                _ => By::Kind,
            },
        }
    }

    /// The rows that were drilled into, as typed.
    pub fn rows(&self) -> String {
        let rows: Vec<String> = self.args.row.iter().map(usize::to_string).collect();
        rows.join(",")
    }

    /// The target and every option that selects or groups, but the rows.
    pub fn again(&self, target: &str) -> String {
        let mut words = vec![quoted(target)];
        let mut say = |option: &str, value: Option<&str>| {
            words.extend(value.map(|value| format!("{option} {}", quoted(value))));
        };
        say("--since", self.since.map(|path| path.display().to_string()).as_deref());
        say("--kind", self.args.kind.as_deref());
        say("--module", self.args.module.as_deref());
        say("--min-size", (self.args.min_size > 0).then(|| self.args.min_size.to_string()).as_deref());
        say("--under", self.args.under.as_deref());
        let by: Vec<&str> = self.args.by.iter().map(|word| word.word()).collect();
        say("--by", Some(by.join(",").as_str()).filter(|by| *by != "kind"));
        say("--sort", Some(self.args.sort.word()).filter(|sort| *sort != "total"));
        words.extend(self.args.unreachable.then(|| "--unreachable".into()));
        words.join(" ")
    }
}

/// Muppy knows plain types where we know kinds.
pub fn by(word: Word, format: Option<TableFormat>) -> By {
    match word {
        Word::Kind if format == Some(TableFormat::Muppy) => By::Type,
        Word::Kind => By::Kind,
        Word::Type => By::Type,
        Word::Module => By::Module,
        Word::Size => By::Size,
        Word::Owner => By::Owner,
        Word::Attribute => By::Attribute,
    }
}
