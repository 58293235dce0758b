//! Single objects and their neighbours, for people: paths, links, deep sizes, arrays, circles, stacks.

use nilometer_analysis::heap::model::{
    Anchor, Array, ArrayTotals, Arrays, Cycle, Cycles, Direction, KindCount, Link, Links, Of, Path, Paths,
    Retainer, Retainers, Stack, Sum,
};

use super::number::{extent, item, objects, size, sum};
use super::table::{faint, rows};
use super::{Page, next};
use crate::layout::{Line, Tone, fold};
use crate::table::Table as Columns;
use crate::text;

/// Who holds an object.
pub(super) fn paths(paths: &Paths, page: &Page) -> String {
    let mut out = strong(&item(&paths.object), page);
    if paths.of_objects > 1 {
        let text = format!("the largest of {} selected", objects(paths.of_objects));
        out += &Line::new("example", text).render(page.style);
    }
    let count = paths.object.refcount.map_or_else(|| "immortal".into(), |count| format!("refcount {count}"));
    let held =
        format!("{}, {count}", text::counted(paths.referrers_total, "reference found", "references found"));
    out += &Line::new("held", held).render(page.style);
    out += &Line::new("frees", format!("{} if it went", sum(&paths.retained))).render(page.style);
    if paths.paths.is_empty() {
        out += &faint("no root reaches it: garbage that waits for the collector, or held by C code", page);
    }
    for (number, path) in paths.paths.iter().enumerate() {
        out += &numbered(number, &named(path), page);
    }
    if paths.more {
        out += &faint("there are more paths (--top N lists N)", page);
    }
    out + &next::line(&next::after_paths(&paths.paths, page), page.style)
}

fn named(path: &Path) -> String {
    let place = match path.anchor {
        Anchor::Module => return path.text.clone(),
        Anchor::Frame => "a running function's variable",
        Anchor::Notebook => "kept by the notebook",
        Anchor::LastError => "kept for the last error",
        Anchor::Interpreter => "kept by the interpreter",
        Anchor::StaticType => "a built-in type",
        Anchor::Native => "held by C or C++",
        Anchor::Nothing => "no root reaches it",
    };
    format!("{} ({place})", path.text)
}

fn numbered(number: usize, sentence: &str, page: &Page) -> String {
    const INDENT: usize = 6;
    let rows = fold(&page.style.safe(sentence), page.style.columns() - INDENT);
    format!(" {number:>3}  {}\n", rows.join(&format!("\n{}", " ".repeat(INDENT))))
}

fn strong(sentence: &str, page: &Page) -> String {
    let rows = fold(&page.style.safe(sentence), page.style.columns());
    page.style.paint(&rows.join("\n"), Tone::Strong) + "\n"
}

/// What refers to a set of objects, or what it refers to.
pub(super) fn links(links: &Links, page: &Page) -> String {
    let what = match links.direction {
        Direction::Referrers => "refer to",
        Direction::Referents => "are referred to by",
    };
    let mut out = strong(&format!("{} {what} {}", sum(&links.table.total), sum(&links.of)), page);
    out += &rows(&links.table, page);
    if !links.links.is_empty() {
        let mut columns = Columns::new(&["Size", "Payload", "Address", "Object"]);
        links.links.iter().for_each(|link| columns.row(link_cells(link, links.direction)));
        out += &columns.render(page.style);
    }
    out += &more(links.more, "more link", "more links", page);
    let first = links.links.first().map(|link| link.item.address.as_str());
    out + &next::line(&next::after_links(links.direction, first, page), page.style)
}

/// `Node .c` holds it; or `.c` is a `numpy.ndarray`.
fn link_cells(link: &Link, direction: Direction) -> Vec<String> {
    let (kind, label) = (link.item.kind.as_str(), link.label.as_str());
    let (first, second) = if direction == Direction::Referrers { (kind, label) } else { (label, kind) };
    let words = [first, second, link.path.as_deref().unwrap_or_default()];
    let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
    vec![size(link.item.bytes), size(link.item.payload_bytes), link.item.address.clone(), words.join("  ")]
}

fn more(count: u64, one: &str, many: &str, page: &Page) -> String {
    if count == 0 {
        String::new()
    } else {
        faint(&format!("{} (--top all)", text::counted(count, one, many)), page)
    }
}

/// Deep and retained size of what a path reaches.
pub(super) fn of(of: &Of, page: &Page) -> String {
    let mut out = strong(&format!("{}: {}", of.path, item(&of.object)), page);
    let mut say = |label, text: String| out += &Line::new(label, text).render(page.style);
    say("own", format!("{} (classes, functions and modules left out, as asizeof does)", sum(&of.own)));
    say("deep", format!("{} reachable in all", sum(&of.deep)));
    say("frees", format!("{} if it went", sum(&of.retained)));
    if of.arrays.arrays > 0 {
        say("arrays", array_sentence(&of.arrays));
    }
    out + &rows(&of.table, page)
}

/// `2,197,512 elements in 120 arrays, 15.2 MiB; counted for each view 3,000,000, 20.0 MiB`.
fn array_sentence(totals: &ArrayTotals) -> String {
    let mut said = vec![format!(
        "{} elements in {}, {}",
        text::count(totals.unique_elements),
        text::counted(totals.buffers, "buffer", "buffers"),
        size(totals.unique_bytes),
    )];
    if (totals.nominal_bytes, totals.nominal_elements) != (totals.unique_bytes, totals.unique_elements) {
        said.push(format!(
            "{} span {} elements, {}, if shared ones are counted each time",
            text::counted(totals.arrays, "array", "arrays"),
            text::count(totals.nominal_elements),
            size(totals.nominal_bytes),
        ));
    }
    if totals.unsized_arrays > 0 {
        said.push(format!(
            "the extent of {} is not known",
            text::counted(totals.unsized_arrays, "array", "arrays")
        ));
    }
    said.join("; ")
}

/// Arrays and tensors, largest buffer first.
pub(super) fn arrays(arrays: &Arrays, page: &Page) -> String {
    let mut out = strong(&array_sentence(&arrays.total), page);
    if arrays.native_only.count > 0 {
        out += &Line::new("native", native(&arrays.native_only)).render(page.style);
    }
    if !arrays.arrays.is_empty() {
        let mut columns =
            Columns::new(&["Buffer", "Span", "Elements", "Resident", "Shared", "Address", "Array"]);
        arrays.arrays.iter().for_each(|array| columns.row(array_cells(array)));
        out += &columns.render(page.style);
    }
    out += &more(arrays.more, "more array", "more arrays", page);
    let first = arrays.arrays.first().map(|array| array.item.address.as_str());
    out + &next::line(&next::after_objects(first, page), page.style)
}

fn native(native: &Sum) -> String {
    let storages = text::counted(native.count, "buffer", "buffers");
    format!("{} in {storages} that only C++ holds", size(native.payload_bytes))
}

fn array_cells(array: &Array) -> Vec<String> {
    let sized = array.buffer_bytes > 0 || array.nominal_bytes > 0;
    let unknown = if sized { "-" } else { "not sized" };
    let path = array.path.as_deref().unwrap_or("(no root reaches it)");
    let view = if array.view { ", a view" } else { "" };
    let backing = array.backing.filter(|backing| *backing != "memory");
    let backing = backing.map_or_else(String::new, |backing| format!(", {backing}"));
    vec![
        size(array.buffer_bytes),
        size(array.nominal_bytes),
        extent(&array.item).unwrap_or_else(|| unknown.into()),
        array.buffer_resident_bytes.map_or_else(|| "-".into(), size),
        if array.sharers > 1 { text::count(array.sharers) } else { "-".into() },
        array.item.address.clone(),
        format!("{path}  {}{view}{backing}", array.item.kind),
    ]
}

/// The objects of a set that keep most alive.
pub(super) fn retainers(of: &Sum, retained: &Sum, retainers: &Retainers, page: &Page) -> String {
    let kept = if of == retained { String::new() } else { format!("{} keep ", sum(of)) };
    let mut out = strong(&format!("{kept}{} alive", sum(retained)), page);
    let mut columns = Columns::new(&["Objects", "Size", "Payload", "Address", "Object"]);
    retainers.retainers.iter().for_each(|retainer| columns.row(retainer_cells(retainer)));
    out += &columns.render(page.style);
    out += &more(retainers.more, "more object", "more objects", page);
    let first = retainers.retainers.first().map(|retainer| retainer.item.address.as_str());
    out + &next::line(&next::after_objects(first, page), page.style)
}

fn retainer_cells(retainer: &Retainer) -> Vec<String> {
    let path = retainer.path.as_deref().map_or_else(String::new, |path| format!("  {path}"));
    vec![
        text::count(retainer.retained.count),
        size(retainer.retained.bytes),
        size(retainer.retained.payload_bytes),
        retainer.item.address.clone(),
        format!("{}{path}", retainer.item.kind),
    ]
}

/// Objects that hold each other in a circle.
pub(super) fn cycles(cycles: &Cycles, page: &Page) -> String {
    let circles = text::counted(cycles.cycles_total, "circle", "circles");
    let mut out = strong(&format!("{circles} of {}", sum(&cycles.total)), page);
    if cycles.unreachable_cycles > 0 {
        let garbage = text::counted(cycles.unreachable_cycles, "circle", "circles");
        let text = format!("{garbage} of {} wait for the collector", sum(&cycles.unreachable));
        out += &Line { tone: Tone::Warn, ..Line::new("garbage", text) }.render(page.style);
    }
    if !cycles.cycles.is_empty() {
        let mut columns = Columns::new(&["Objects", "Frees", "Address", "Circle"]);
        cycles.cycles.iter().for_each(|cycle| columns.row(cycle_cells(cycle)));
        out += &columns.render(page.style);
    }
    let listed = cycles.cycles.len() as u64;
    out += &more(cycles.cycles_total.saturating_sub(listed), "more circle", "more circles", page);
    let first = cycles.cycles.first().map(|cycle| cycle.address.as_str());
    out + &next::line(&next::after_objects(first, page), page.style)
}

fn cycle_cells(cycle: &Cycle) -> Vec<String> {
    let kind = |it: &KindCount| format!("{} {}", text::count(it.count), it.kind);
    let kinds: Vec<String> = cycle.kinds.iter().map(kind).collect();
    let garbage = if cycle.unreachable { "garbage: " } else { "" };
    let path = cycle.path.as_deref().map_or_else(String::new, |path| format!("  {path}"));
    vec![
        text::count(cycle.own.count),
        size(cycle.retained.bytes.saturating_add(cycle.retained.payload_bytes)),
        cycle.address.clone(),
        format!("{garbage}{} ({}){path}", cycle.example, kinds.join(", ")),
    ]
}

/// Every thread's Python stack, innermost frame first.
pub(super) fn stacks(stacks: &[Stack], page: &Page) -> String {
    if stacks.is_empty() {
        return strong("no thread runs Python code", page);
    }
    stacks.iter().map(|stack| one_stack(stack, page)).collect::<Vec<_>>().join("\n")
}

fn one_stack(stack: &Stack, page: &Page) -> String {
    let id = stack.native_id.map_or_else(|| "?".into(), |id| id.to_string());
    let name = stack.name.as_deref().map_or_else(String::new, |name| format!(" ({name})"));
    let gil = if stack.holds_gil == Some(true) { ", holds the GIL" } else { "" };
    let mut out = strong(&format!("thread {id}{name}{gil}"), page);
    for frame in &stack.frames {
        let line = frame.line.map_or_else(String::new, |line| format!(":{line}"));
        out += &frame_lines(&format!("{} ({}{line})", frame.function, frame.file), page);
    }
    out += &stack.cut.as_deref().map_or_else(String::new, |why| faint(&format!("   … cut: {why}"), page));
    out
}

fn frame_lines(sentence: &str, page: &Page) -> String {
    const INDENT: &str = "    ";
    let rows = fold(&page.style.safe(sentence), page.style.columns() - INDENT.len());
    format!("{INDENT}{}\n", rows.join(&format!("\n{INDENT}")))
}
