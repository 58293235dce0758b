//! The words of `nilo heap`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use super::value::{parse_duration, parse_size};

/// Tell which Python objects live in a process, how large they are, and who holds them
///
/// Works on a process, a core file or a snapshot (.heap) alike. Nothing is imported, injected or written: the
/// memory is copied during a stop of milliseconds, numeric buffers left out. Arrays and tensors count with their
/// buffers. A stop can make a blocking call return EINTR, as a debugger would.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    before_help = "\
Examples:
  nilo heap 4711                           which kinds, how many, how large
  nilo heap 4711 -o a.heap                 keep it, to compare or to send
  nilo heap diff a.heap b.heap --by attribute        what grew, and on which attribute
  nilo heap paths 4711 --row 0             who holds the largest of row 0
  nilo heap 4711 --of train.model          deep and retained size of one thing
  nilo heap core.4711 --sysroot /mnt/image a dead process, from its core"
)]
pub struct HeapArgs {
    #[command(subcommand)]
    pub reading: Option<HeapReading>,
    /// Process id, core file, or snapshot
    #[arg(value_name = "PID|CORE|SNAPSHOT", required = true)]
    pub target: Option<String>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    #[command(flatten)]
    pub views: ViewArgs,
    #[command(flatten)]
    pub showing: ShowingArgs,
    #[command(flatten)]
    pub census: CensusArgs,
    #[command(flatten)]
    pub keeping: KeepingArgs,
}

#[derive(Debug, Subcommand)]
pub enum HeapReading {
    Diff(DiffArgs),
    Paths(ObjectArgs),
    Referrers(ObjectArgs),
    Referents(ObjectArgs),
}

/// What changed between two censuses, growth first
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo heap diff a.heap b.heap
  nilo heap diff a.heap 4711 --by attribute     from a snapshot to now
  nilo heap diff a.heap b.heap --format muppy")]
pub struct DiffArgs {
    /// The earlier one: snapshot, core or process id
    pub before: String,
    /// The later one
    pub after: String,
    /// What a row is
    #[arg(long, value_enum, default_value_t = Grouping::Kind)]
    pub by: Grouping,
    #[command(flatten)]
    pub showing: ShowingArgs,
    #[command(flatten)]
    pub census: CensusArgs,
}

/// Who holds an object, who refers to it, or what it refers to
#[derive(Debug, Args)]
#[command(before_help = "\
Examples:
  nilo heap paths 4711 --row 0                  the largest object of row 0
  nilo heap paths a.heap --kind '*Node' --since before.heap
  nilo heap referrers 4711 0x7f2b1c0de4f0       one object by its address
  nilo heap referents a.heap train.cache        one object by its path")]
pub struct ObjectArgs {
    /// Process id, core file, or snapshot
    #[arg(value_name = "PID|CORE|SNAPSHOT")]
    pub target: String,
    /// An address (0x…), a path (`train.model.layers[3]`) or a kind [default: what the options select]
    pub object: Option<String>,
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// How many are listed, or `all`
    #[arg(long, value_name = "N", default_value = "10", value_parser = parse_top)]
    pub top: Top,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub census: CensusArgs,
}

/// Which objects
#[derive(Debug, Args)]
#[command(next_help_heading = "Which objects")]
pub struct SelectionArgs {
    /// What a row is; after a comma what the rows below a drilled row are
    #[arg(long, value_enum, value_delimiter = ',', default_value = "kind")]
    pub by: Vec<Grouping>,
    /// Order of the rows
    #[arg(long, value_enum, default_value_t = Sort::Total)]
    pub sort: Sort,
    /// Only the objects of this row; `2,0` is row 0 of what row 2 shows
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub row: Vec<usize>,
    /// Only kinds with this in their name; with * or ? the whole name must fit
    #[arg(long, value_name = "GLOB")]
    pub kind: Option<String>,
    /// Only objects whose type is defined in this module or package
    #[arg(long, value_name = "MODULE")]
    pub module: Option<String>,
    /// Only objects at least this large, header and payload together
    #[arg(long, value_name = "SIZE", default_value = "0", value_parser = parse_size)]
    pub min_size: u64,
    /// Only what no root reaches: garbage that waits for the collector, or held by C code
    #[arg(long)]
    pub unreachable: bool,
    /// Only what this path reaches: train.model, 0x7f…
    #[arg(long, value_name = "PATH")]
    pub under: Option<String>,
    /// Only what this earlier snapshot does not have
    #[arg(long, value_name = "SNAPSHOT")]
    pub since: Option<PathBuf>,
}

/// What is shown instead of the table
#[derive(Debug, Args)]
#[command(next_help_heading = "Instead of the table")]
pub struct ViewArgs {
    /// Deep, own and retained size of what a path reaches
    #[arg(long, value_name = "PATH")]
    pub of: Option<String>,
    /// The objects that keep most alive
    #[arg(long)]
    pub retained: bool,
    /// Arrays and tensors: elements, unique and nominal bytes, who shares a buffer
    #[arg(long)]
    pub arrays: bool,
    /// Objects that hold each other in a circle
    #[arg(long)]
    pub cycles: bool,
    /// Every thread's Python stack
    #[arg(long)]
    pub stacks: bool,
}

/// How it is shown
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub struct ShowingArgs {
    /// How many rows, or `all` [default: 15; heapy 10]
    #[arg(long, value_name = "N", value_parser = parse_top)]
    pub top: Option<Top>,
    /// The table as another tool prints it
    #[arg(long, value_enum, conflicts_with = "json")]
    pub format: Option<TableFormat>,
    /// One JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// How a process or core is read
#[derive(Debug, Args)]
#[command(next_help_heading = "How it is read")]
pub struct CensusArgs {
    /// off: read it while it runs; what changes meanwhile is doubtful
    #[arg(long, value_enum, default_value_t = Switch::On)]
    pub pause: Switch,
    /// Stop no longer than this, and say what is missing
    #[arg(long, value_name = "TIME", default_value = "500ms", value_parser = parse_duration)]
    pub max_pause: Duration,
    /// Make the process fork by an injected system call and read the fork. Shorter stop for large heaps,
    /// but not read-only; if nilo is killed meanwhile, the borrowed thread goes back by itself
    #[arg(long, conflicts_with = "pause")]
    pub fork: bool,
    /// Keep short keys and strings in names, not only identifiers
    #[arg(long)]
    pub with_values: bool,
    /// Where the files of a core's machine are
    #[arg(long, value_name = "DIR")]
    pub sysroot: Option<PathBuf>,
    /// The process itself, not a Python that it started
    #[arg(long)]
    pub single: bool,
}

/// Keeping the census
#[derive(Debug, Args)]
#[command(next_help_heading = "Keeping it")]
pub struct KeepingArgs {
    /// Also write the decoded census, without contents, to FILE (mode 0600)
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace an existing FILE
    #[arg(long, requires = "output")]
    pub force: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Grouping {
    /// Type, and for dicts whose they are
    Kind,
    /// Plain type
    Type,
    /// Module that defines the type
    Module,
    /// Size of one object, in powers of two
    Size,
    /// The kinds that hold it
    Owner,
    /// The attribute that holds it: Node.c
    Attribute,
}

impl Grouping {
    /// As typed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Type => "type",
            Self::Module => "module",
            Self::Size => "size",
            Self::Owner => "owner",
            Self::Attribute => "attribute",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Sort {
    /// Header and payload together
    Total,
    /// Header
    Size,
    Payload,
    Count,
    Name,
}

impl Sort {
    /// As typed.
    pub fn word(self) -> &'static str {
        match self {
            Self::Total => "total",
            Self::Size => "size",
            Self::Payload => "payload",
            Self::Count => "count",
            Self::Name => "name",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TableFormat {
    /// As guppy3's Heapy prints it
    Heapy,
    /// As Pympler's muppy prints it
    Muppy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// How much of a list is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Top {
    All,
    Rows(usize),
}

impl Top {
    pub fn limit(self) -> Option<usize> {
        match self {
            Self::All => None,
            Self::Rows(rows) => Some(rows),
        }
    }
}

fn parse_top(text: &str) -> Result<Top, String> {
    match text {
        "all" => Ok(Top::All),
        _ => match text.parse() {
            Ok(0) | Err(_) => Err("use a number from 1, or `all`".into()),
            Ok(rows) => Ok(Top::Rows(rows)),
        },
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::super::{Cli, Verb};
    use super::*;

    fn parse(words: &str) -> Result<HeapArgs, clap::error::ErrorKind> {
        let words = std::iter::once("nilo").chain(words.split(' '));
        match Cli::try_parse_from(words).map_err(|error| error.kind())?.verb {
            Some(Verb::Heap(args)) => Ok(args),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_target_or_a_reading_of_one() {
        let plain = parse("heap 4711 --by attribute,kind --row 2,0 --top all").unwrap();
        assert_eq!(plain.target.as_deref(), Some("4711"));
        assert_eq!(plain.selection.by, [Grouping::Attribute, Grouping::Kind]);
        assert_eq!((&plain.selection.row[..], plain.showing.top), (&[2, 0][..], Some(Top::All)));
        let Some(HeapReading::Diff(diff)) = parse("heap diff a b --by module").unwrap().reading else {
            panic!("diff")
        };
        assert_eq!((diff.before.as_str(), diff.after.as_str(), diff.by), ("a", "b", Grouping::Module));
        let Some(HeapReading::Paths(paths)) = parse("heap paths a.heap 0x10 --top 3").unwrap().reading else {
            panic!("paths")
        };
        assert_eq!((paths.object.as_deref(), paths.top), (Some("0x10"), Top::Rows(3)));
    }

    #[test]
    fn nonsense_is_refused() {
        for words in ["heap", "heap 1 --by colour", "heap 1 --top 0", "heap 1 --force", "heap diff a"] {
            assert!(parse(words).is_err(), "{words}");
        }
        for words in ["heap 1 --json --format heapy", "heap 1 --pause off --fork", "heap 1 --max-pause 5"] {
            assert!(parse(words).is_err(), "{words}");
        }
    }
}
