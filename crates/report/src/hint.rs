//! The next command after each finding, in one place.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    Growth,
    Composition,
    Saved,
}

pub(crate) fn command(finding: Finding) -> &'static str {
    match finding {
        Finding::Growth => "nilo leak",
        Finding::Composition => "nilo where",
        Finding::Saved => "nilo report",
    }
}
