//! The next command after each finding, in one place. `None` until the verb exists.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    Growth,
    Composition,
    Saved,
}

pub(crate) fn command(finding: Finding) -> Option<&'static str> {
    match finding {
        // `nilo leak` belongs here once it is built.
        Finding::Growth => None,
        Finding::Composition => Some("nilo where"),
        Finding::Saved => Some("nilo report"),
    }
}
