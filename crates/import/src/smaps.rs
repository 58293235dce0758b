//! `/proc/PID/smaps` taken again and again, each with its time before it: RSS, PSS and USS of one process over time.

use nilometer_trace::record::{Bounds, Phase, Process, ProcessSample, Role, Shares, Tick};

use crate::emit::Emitter;
use crate::error::{Error, Fault};
use crate::lines::Lines;
use crate::time::parse_stamp;

const SHAPE: &str = "a look is a Unix time on a line of its own, then /proc/PID/smaps:  (date +%s.%N; cat /proc/PID/smaps) >> LOG";

/// Sums over the mappings of one look, in kB.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Sum {
    realtime_ns: u64,
    mappings: u64,
    rss: u64,
    pss: u64,
    uss: u64,
    private_dirty: u64,
    anonymous: u64,
    swap: u64,
    swap_pss: u64,
    shmem: u64,
}

pub(crate) fn convert(lines: &mut Lines<'_>, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
    let mut open: Option<(Sum, u64)> = None;
    let mut shared = false;
    let mut highest = 0;
    while lines.advance()? {
        let text = lines.text();
        if let Some(is_shared) = parse_mapping(text) {
            shared = is_shared;
            let (sum, _) =
                open.as_mut().ok_or_else(|| lines.at(Fault::new("a mapping before any time", SHAPE)))?;
            sum.mappings += 1;
        } else if let Some((field, kib)) = parse_field(text) {
            let (sum, _) =
                open.as_mut().ok_or_else(|| lines.at(Fault::new("a field before any time", SHAPE)))?;
            sum.add(field, kib, shared);
        } else if text.starts_with("VmFlags:") || text.contains(':') {
            // flags, protection keys: nothing to add up
        } else {
            let realtime_ns = parse_stamp(text).map_err(|fault| lines.at(fault))?;
            if let Some((sum, _)) = open.replace((Sum { realtime_ns, ..Sum::default() }, lines.number())) {
                put(&sum, &mut highest, out)?;
            }
        }
    }
    // The last look may be cut; one without mappings says nothing.
    if let Some((sum, line)) = open {
        if sum.mappings == 0 {
            out.note(format!("the look of line {line} has no mapping and was left out"));
        } else {
            put(&sum, &mut highest, out)?;
        }
    }
    out.note("imported from a series of smaps: RSS, PSS and USS are sums over its mappings; a peak between two looks is not in it");
    Ok(())
}

impl Sum {
    fn add(&mut self, field: &str, kib: u64, shared: bool) {
        let add = |sum: &mut u64| *sum = sum.saturating_add(kib);
        match field {
            "Rss" => {
                add(&mut self.rss);
                if shared {
                    add(&mut self.shmem);
                }
            }
            "Pss" => add(&mut self.pss),
            "Private_Clean" | "Private_Hugetlb" => add(&mut self.uss),
            "Private_Dirty" => {
                add(&mut self.uss);
                add(&mut self.private_dirty);
            }
            "Anonymous" => add(&mut self.anonymous),
            "Swap" => add(&mut self.swap),
            "SwapPss" => add(&mut self.swap_pss),
            _ => {}
        }
    }
}

fn put(sum: &Sum, highest: &mut u64, out: &mut Emitter<'_, '_>) -> Result<(), Error> {
    let at_ns = out.at(sum.realtime_ns)?;
    if *highest == 0 {
        out.process(process(at_ns))?;
    }
    *highest = (*highest).max(sum.rss).max(1);
    let shmem_kib = sum.shmem.min(sum.rss.saturating_sub(sum.anonymous.min(sum.rss)));
    let anon_kib = sum.anonymous.min(sum.rss);
    let sample = ProcessSample {
        index: 0,
        anon_kib,
        file_kib: sum.rss.saturating_sub(anon_kib).saturating_sub(shmem_kib),
        shmem_kib,
        swap_kib: sum.swap,
        hwm_kib: *highest,
        threads: 1,
        ..ProcessSample::default()
    };
    out.put_tick(Tick {
        at_ns,
        phase: Phase::During,
        tree: Some(Bounds { low_kib: sum.rss, high_kib: sum.rss }),
        system: Vec::new(),
        processes: vec![sample],
    })?;
    out.shares(Shares {
        index: 0,
        at_ns,
        rss_kib: sum.rss,
        pss_kib: sum.pss,
        uss_kib: sum.uss,
        private_dirty_kib: sum.private_dirty,
        swap_pss_kib: sum.swap_pss,
        ..Shares::default()
    })
}

fn process(seen_ns: u64) -> Process {
    let evidence = "the smaps of one process".to_owned();
    Process {
        index: 0,
        pid: 1,
        parent_pid: 0,
        parent: None,
        start_ticks: 0,
        seen_ns,
        comm: "imported".into(),
        command: String::new(),
        role: Role { name: "main".into(), evidence },
    }
}

/// `7f..-7f.. rw-p 00000000 00:00 0 [heap]`: is it shared?
fn parse_mapping(line: &str) -> Option<bool> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let permissions = words.next()?;
    let hexadecimal = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let known = permissions.len() == 4 && permissions.bytes().all(|byte| b"rwxsp-".contains(&byte));
    (known && hexadecimal(start) && hexadecimal(end)).then(|| permissions.ends_with('s'))
}

/// `Rss:   12 kB`
fn parse_field(line: &str) -> Option<(&str, u64)> {
    let (field, rest) = line.split_once(':')?;
    let mut words = rest.split_whitespace();
    let kib = words.next()?.parse().ok()?;
    (words.next() == Some("kB")).then_some((field, kib))
}

/// Told from a first line that is a time or a mapping.
pub(crate) fn is_series(first: &str, second: Option<&str>) -> Option<&'static str> {
    if parse_mapping(first).is_some() {
        return Some("is a mapping of smaps");
    }
    let is_time = parse_stamp(first).is_ok() && second.is_some_and(|line| parse_mapping(line).is_some());
    is_time.then_some("is a time before a mapping of smaps")
}
