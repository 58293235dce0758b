//! The census against what each interpreter says of itself, by address.

#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "tests")]

#[path = "census/look.rs"]
mod look;
#[path = "census/truth.rs"]
mod truth;

mod target;

use std::collections::BTreeMap;

use look::{Look, of_minor};

fn holds_for(minor: u8) {
    for python in of_minor(minor) {
        let mut look = Look::of(&python, &["plain", "loop"]);
        let truth = look.truth();
        let (graph, version) = (&look.graph, look.python.version);
        assert!(truth.objects.len() > 150_000, "{version}: {} objects", truth.objects.len());
        assert_eq!(truth.absent(graph), [""; 0], "{version}: absent");
        assert_eq!(truth.misnamed(graph), BTreeMap::new(), "{version}: misnamed");
        assert_eq!(truth.bogus(graph), [""; 0], "{version}: bogus");
        assert_eq!(truth.wrong_referents(graph), [""; 0], "{version}: referents");
        assert_eq!(truth.unexplained_sizes(graph), BTreeMap::new(), "{version}: sizes");
        let unconfirmed = truth.unconfirmed(graph).len();
        assert!(unconfirmed * 100 < graph.len(), "{version}: {unconfirmed} of {} not confirmed", graph.len());
        look.adds_up(0.999);
    }
}

#[test]
fn the_truth_holds_on_3_8() {
    holds_for(8);
}

#[test]
fn the_truth_holds_on_3_9() {
    holds_for(9);
}

#[test]
fn the_truth_holds_on_3_10() {
    holds_for(10);
}

#[test]
fn the_truth_holds_on_3_11() {
    holds_for(11);
}

#[test]
fn the_truth_holds_on_3_12() {
    holds_for(12);
}

#[test]
fn the_truth_holds_on_3_13() {
    holds_for(13);
}

#[test]
fn the_truth_holds_on_3_14() {
    holds_for(14);
}

#[test]
fn the_truth_holds_on_3_15() {
    holds_for(15);
}
