//! Sizes, shares and counts as heap tables write them: one decimal, so that columns line up.

use nilometer_analysis::heap::model::{Item, Sum};

use crate::text;

/// `80 B`, `111.8 MiB`.
pub(super) fn size(bytes: u64) -> String {
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let (scaled, unit) = text::scale(bytes as f64);
    format!("{scaled:.1} {unit}")
}

/// How much of so many bytes is in memory, where that reads otherwise than all of them: a page that malloc has handed out
/// a moment ago is nothing to tell.
pub(super) fn partly(resident_bytes: Option<u64>, bytes: u64) -> Option<String> {
    resident_bytes.map(size).filter(|resident| *resident != size(bytes))
}

/// `+11.4 MiB`, `-144.0 KiB`, `0 B`.
pub(super) fn signed_size(bytes: i64) -> String {
    format!("{}{}", sign(bytes), size(bytes.unsigned_abs()))
}

/// `+149,236`, `-3`, `0`.
pub(super) fn signed_count(count: i64) -> String {
    format!("{}{}", sign(count), text::count(count.unsigned_abs()))
}

fn sign(value: i64) -> &'static str {
    match value {
        0 => "",
        1.. => "+",
        _ => "-",
    }
}

/// Whole percent without a sign, as in a column under `%`.
pub(super) fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

/// One decimal, rounded down: 100 is said only of all.
pub(super) fn share_of_all(share: f64) -> String {
    let tenths = (share * 1000.0 + 1e-9).floor() / 10.0;
    if tenths >= 100.0 { "100 %".into() } else { format!("{tenths:.1} %") }
}

/// `111.8 MiB`, with payload `111.8 MiB + 371.0 MiB payload`.
pub(super) fn parts(bytes: u64, payload_bytes: u64) -> String {
    match payload_bytes {
        0 => size(bytes),
        _ => format!("{} + {} payload", size(bytes), size(payload_bytes)),
    }
}

/// `1,234 objects (111.8 MiB + 371.0 MiB payload)`.
pub(super) fn sum(sum: &Sum) -> String {
    format!("{} ({})", objects(sum.count), parts(sum.bytes, sum.payload_bytes))
}

pub(super) fn objects(count: u64) -> String {
    text::counted(count, "object", "objects")
}

/// What one object is, in a line: `numpy.ndarray at 0x7f…, 112 B + 800 B payload, float64 (10, 10)`.
pub(super) fn item(item: &Item) -> String {
    let sizes = parts(item.bytes, item.payload_bytes);
    let array = extent(item).map_or_else(String::new, |extent| format!(", {extent}"));
    format!("{} at {}, {sizes}{array}", item.kind, item.address)
}

/// `float32 (64, 3, 7, 7)`, or the number of elements where no shape is told.
pub(super) fn extent(item: &Item) -> Option<String> {
    let element = item.element.as_deref();
    if !item.shape.is_empty() {
        let lengths: Vec<String> = item.shape.iter().map(u64::to_string).collect();
        let shape = format!("({})", lengths.join(", "));
        return Some(element.map_or_else(|| shape.clone(), |element| format!("{element} {shape}")));
    }
    let elements = text::count(item.elements?);
    Some(element.map_or_else(|| format!("{elements} elements"), |element| format!("{elements} of {element}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_resident_is_told_where_it_reads_otherwise() {
        assert_eq!(partly(Some((4 << 20) - 4096), 4 << 20), None);
        assert_eq!(partly(Some(3 << 20), 4 << 20), Some("3.0 MiB".into()));
        assert_eq!(partly(Some(0), 4096), Some("0 B".into()));
        assert_eq!(partly(None, 4 << 20), None);
    }

    #[test]
    fn sizes_have_one_decimal() {
        assert_eq!(size(117_259_620), "111.8 MiB");
        assert_eq!(size(1023), "1023 B");
        assert_eq!((signed_size(-147_456), signed_size(0)), ("-144.0 KiB".into(), "0 B".into()));
        assert_eq!((signed_count(149_236), signed_count(-1)), ("+149,236".into(), "-1".into()));
        assert_eq!(signed_size(i64::MIN), "-8.0 EiB");
    }

    #[test]
    fn all_is_said_only_of_all() {
        assert_eq!(share_of_all(0.9953), "99.5 %");
        assert_eq!(share_of_all(0.99999), "99.9 %");
        assert_eq!(share_of_all(0.999), "99.9 %");
        assert_eq!(share_of_all(1.0), "100 %");
    }

    #[test]
    fn an_array_tells_its_shape_or_its_elements() {
        let mut array = Item { kind: "torch.Tensor".into(), address: "0x10".into(), ..Item::default() };
        assert_eq!(item(&array), "torch.Tensor at 0x10, 0 B");
        array.elements = Some(4096);
        array.element = Some("float32".into());
        assert_eq!(extent(&array).as_deref(), Some("4,096 of float32"));
        array.shape = vec![64, 64];
        assert_eq!(extent(&array).as_deref(), Some("float32 (64, 64)"));
    }
}
