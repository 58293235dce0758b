//! The lines in words.

use nilometer_analysis::ledger::{Account, Ledger, Line, Named, Part, Unshared};

use crate::text;

/// So many details are in a row; the document has them all.
const MOST: usize = 3;

pub(crate) fn name(line: Line) -> &'static str {
    match line {
        Line::Code => "code and libraries",
        Line::LibraryData => "library data, written",
        Line::PythonObjects => "Python objects",
        Line::PythonSlack => "pool and arena slack",
        Line::PythonFree => "free lists of Python",
        Line::Arrays => "arrays and tensors",
        Line::MallocInUse => "other malloc, in use",
        Line::MallocHeld => "malloc, free but held",
        Line::MallocMetadata => "malloc's own",
        Line::MallocUnknown => "malloc, not understood",
        Line::OtherAllocator => "another allocator, inside not read",
        Line::Stacks => "stacks",
        Line::SharedMemory => "shared memory",
        Line::Files => "mapped files",
        Line::HugeRounding => "huge-page rounding",
        Line::Tracker => "nilo's own tracker",
        Line::OtherMaps => "other maps",
        Line::Anonymous => "private memory, not readable here",
    }
}

/// Name and what is in it: `code and libraries (131 shared with others, torch 148, numpy 9.2)`.
pub(super) fn row(part: &Part, ledger: &Ledger) -> String {
    let mut told: Vec<String> = counts(part.name, ledger);
    told.extend(shared(part));
    let details: Vec<String> = part.detail.iter().filter(|named| is_telling(named)).map(detail).collect();
    told.extend(details.iter().take(MOST).cloned());
    told.extend((details.len() > MOST).then(|| "…".into()));
    if told.is_empty() {
        return name(part.name).into();
    }
    format!("{} ({})", name(part.name), told.join(", "))
}

fn is_telling(named: &Named) -> bool {
    named.bytes >= 1 << 16
}

fn detail(named: &Named) -> String {
    format!("{} {}", base_name(&named.name), mebi(named.bytes as i64))
}

/// Files without their directories.
fn base_name(name: &str) -> &str {
    if name.starts_with('/') { name.rsplit('/').next().unwrap_or(name) } else { name }
}

fn counts(line: Line, ledger: &Ledger) -> Vec<String> {
    let heap = ledger.python_heap.as_ref();
    match line {
        Line::PythonObjects => {
            let objects = heap.map(|heap| heap.objects).filter(|objects| *objects > 0);
            objects.map(|objects| text::counted(objects, "object", "objects")).into_iter().collect()
        }
        Line::PythonSlack => {
            let arenas = heap.map(|heap| heap.arenas).filter(|arenas| *arenas > 0);
            arenas.map(|arenas| text::counted(arenas, "arena", "arenas")).into_iter().collect()
        }
        Line::Arrays => {
            heap.map(|heap| text::counted(heap.buffers, "buffer", "buffers")).into_iter().collect()
        }
        Line::MallocHeld => {
            let arenas = ledger.malloc.as_ref().map(|malloc| malloc.arenas);
            arenas.map(|arenas| text::counted(arenas, "arena", "arenas")).into_iter().collect()
        }
        Line::SharedMemory => {
            let bytes = heap.map_or(0, |heap| heap.buffers_in_shared_bytes);
            (bytes > 0).then(|| format!("arrays and tensors {}", mebi(bytes as i64))).into_iter().collect()
        }
        Line::Files => {
            let bytes = heap.map_or(0, |heap| heap.buffers_in_files_bytes);
            (bytes > 0).then(|| format!("arrays {}", mebi(bytes as i64))).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

/// `131 shared with others`, of code.
fn shared(part: &Part) -> Option<String> {
    let shared = part.bytes.checked_sub(part.uss_bytes?)?;
    (part.name == Line::Code && shared >= 1 << 16)
        .then(|| format!("{} shared with others", mebi(shared as i64)))
}

/// `1.8 GiB un-shared since the fork: 61 % list, 30 % str on those pages (reference counts)`.
pub(super) fn unshared(unshared: &Unshared) -> Option<String> {
    if unshared.bytes == 0 {
        return None;
    }
    let percent = |bytes: u64| text::percent(bytes as f64 / unshared.objects_bytes.max(1) as f64);
    let kinds: Vec<String> = unshared
        .kinds
        .iter()
        .take(MOST)
        .map(|named| format!("{} {}", percent(named.bytes), named.name))
        .collect();
    let kinds = if kinds.is_empty() {
        String::new()
    } else {
        format!("; the objects there: {} (a read changes reference counts)", kinds.join(", "))
    };
    Some(format!(
        "{} un-shared since the fork from {}, {} still shared{kinds}",
        text::bytes(unshared.bytes),
        unshared.parent,
        text::bytes(unshared.shared_bytes)
    ))
}

/// `must stay 45 % · could go 11 % (slack, held) · Python structure 44 %`.
pub(super) fn judgement(account: &Account) -> Option<String> {
    let (judged, rss) = (&account.judgement, account.ledger.rss_bytes);
    let percent = |bytes: u64| text::percent(bytes as f64 / rss.max(1) as f64);
    let mut told = vec![
        format!("must stay {}", percent(judged.must_stay_bytes)),
        format!("could go {} (slack, held)", percent(judged.could_go_bytes)),
    ];
    if judged.structure_bytes > 0 {
        told.push(format!("Python structure {}", percent(judged.structure_bytes)));
    }
    if judged.not_judged_bytes * 200 > rss {
        told.push(format!("not judged {}", percent(judged.not_judged_bytes)));
    }
    (judged.not_judged_bytes * 2 < rss && rss > 0).then(|| told.join(" · "))
}

/// `1,434 MiB`, and below ten of them with decimals.
pub(super) fn mib(bytes: u64) -> String {
    format!("{} MiB", mebi(bytes as i64))
}

/// MiB with grouped digits; small ones with decimals.
pub(super) fn mebi(bytes: i64) -> String {
    let size = bytes.unsigned_abs() as f64 / f64::from(1 << 20);
    let sign = if bytes < 0 { "-" } else { "" };
    let number = match size {
        0.0 => "0".into(),
        size if size < 9.995 => format!("{size:.2}"),
        size if size < 99.95 => format!("{size:.1}"),
        size => text::count(size.round() as u64),
    };
    format!("{sign}{number}")
}

/// Of the whole, one decimal.
pub(super) fn share(bytes: i64, whole: u64) -> String {
    format!("{:.1}", bytes as f64 / whole.max(1) as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_in_one_unit() {
        let told: Vec<String> = [0, 1 << 19, -(2 << 20), 15 << 20, 1_434 << 20].map(mebi).into();
        assert_eq!(told, ["0", "0.50", "-2.00", "15.0", "1,434"]);
        assert_eq!(share(-1, 1000), "-0.1");
    }

    #[test]
    fn only_files_lose_their_directories() {
        assert_eq!(base_name("/data/weights.bin"), "weights.bin");
        assert_eq!(base_name("held by C++ only"), "held by C++ only");
    }
}
