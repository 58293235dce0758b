//! The `nilo` command: arguments in, one verb each, exit code out.

#[cfg(not(all(target_os = "linux", target_arch = "x86_64")))]
compile_error!("nilo runs on x86-64 Linux only; its HTML reports and exports open anywhere");

mod args;
mod cmd;
mod path;
mod talk;

use std::process::ExitCode;

use args::Verb;

fn main() -> ExitCode {
    let cli = match args::parse() {
        Ok(cli) => cli,
        Err(code) => return ExitCode::from(code),
    };
    let done = match cli.verb {
        Some(Verb::Run(args)) => cmd::run::run(&args),
        Some(Verb::Attach(args)) => cmd::attach::attach(&args),
        Some(Verb::Top(args)) => cmd::top::run(&args),
        Some(Verb::Record(args)) => cmd::attach::record(&args),
        Some(Verb::Heap(args)) => cmd::heap::run(&args),
        Some(Verb::Leak(args)) => cmd::leak::run(&args),
        Some(Verb::Where(args)) => cmd::ledger::run(&args),
        Some(Verb::Pages(args)) => cmd::pages::run(&args),
        Some(Verb::Sweep(args)) => cmd::sweep::run(&args),
        Some(Verb::Compare(args)) => cmd::compare::run(&args),
        Some(Verb::Mode(args)) => cmd::mode::run(&args),
        Some(Verb::Report(args)) => cmd::report::run(&args),
        Some(Verb::Plot(args)) => cmd::plot::run(&args),
        Some(Verb::Export(args)) => cmd::export::run(&args),
        Some(Verb::Merge(args)) => cmd::merge::run(&args),
        Some(Verb::List(args)) => cmd::list::run(&args),
        Some(Verb::Doctor(args)) => cmd::doctor::run(&args),
        Some(Verb::Import(args)) => cmd::import::import(&args),
        Some(Verb::Demo(args)) => cmd::demo::demo(&args),
        Some(Verb::Completions(args)) => cmd::shell::completions(&args),
        Some(Verb::Man(args)) => cmd::shell::man(&args),
        None => Ok(cmd::overview::run()),
    };
    done.unwrap_or_else(|failure| failure.tell())
}
