//! The next command after each finding, in one place. `None` until the verb exists.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Finding {
    Growth,
    Composition,
    Saved,
}

pub(crate) fn command(finding: Finding) -> Option<&'static str> {
    match finding {
        // `nilo leak` and `nilo where` belong here once they are built.
        Finding::Growth | Finding::Composition => None,
        Finding::Saved => Some("nilo report"),
    }
}
