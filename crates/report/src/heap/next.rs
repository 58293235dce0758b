//! The next command after each reading, in one place.

use nilometer_analysis::heap::model::{Direction, Path, Table};

use super::Page;
use crate::layout::{Style, Tone};
use crate::text::quoted;

/// The last line of a screen; nothing where there is no next command.
pub(super) fn line(command: &str, style: &Style) -> String {
    if command.is_empty() {
        return String::new();
    }
    format!("{} {}\n", style.paint(&style.safe("next →"), Tone::Strong), style.safe(command))
}

/// Who holds the largest row? Where nothing was selected: what there is.
pub(super) fn after_table(table: &Table, page: &Page) -> String {
    if table.rows.is_empty() {
        let asked = !table.selection.is_empty();
        return if asked { format!("nilo heap {}", page.target) } else { String::new() };
    }
    let separator = if page.rows.is_empty() { "" } else { "," };
    format!("nilo heap paths {} --row {}{separator}0", page.again, page.rows)
}

pub(super) fn after_diff(page: &Page) -> String {
    format!("nilo heap paths {} --row 0", page.again)
}

/// How much would go with the holder?
pub(super) fn after_paths(paths: &[Path], page: &Page) -> String {
    let holder = paths.first().and_then(|path| {
        let named = path.segments.len().checked_sub(2)?;
        Some(path.segments.iter().take(named + 1).map(|segment| segment.text.as_str()).collect::<String>())
    });
    holder.map_or_else(String::new, |holder| format!("nilo heap {} --of {}", page.target, quoted(&holder)))
}

/// The other way round.
pub(super) fn after_links(direction: Direction, address: Option<&str>, page: &Page) -> String {
    let verb = match direction {
        Direction::Referrers => "paths",
        Direction::Referents => "referents",
    };
    address.map_or_else(String::new, |address| format!("nilo heap {verb} {} {address}", page.target))
}

pub(super) fn after_objects(address: Option<&str>, page: &Page) -> String {
    address.map_or_else(String::new, |address| format!("nilo heap paths {} {address}", page.target))
}
