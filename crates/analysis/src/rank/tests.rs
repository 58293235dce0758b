use super::*;
use crate::model::Growth;

const MIB: f64 = 1024.0 * 1024.0;

fn growth(class: GrowthClass, mib: f64) -> Growth {
    Growth {
        class,
        reason: String::new(),
        per: GrowthUnit::Step,
        bytes: Some(mib * MIB),
        low_bytes: Some((mib - 0.05) * MIB),
        high_bytes: Some((mib + 0.05) * MIB),
        since_step: None,
        since_s: None,
        points: 20,
        limit_at_step: None,
        limit_at_s: None,
    }
}

pub(super) fn ranked(rank: u64, class: GrowthClass, mib: f64) -> Ranked {
    Ranked {
        rank,
        node: "a".into(),
        restart: 0,
        peak_bytes: Some(300 << 20),
        growth: growth(class, mib),
        steps: 20,
        duration_s: 10.0,
        end: "exit 0".into(),
        good: true,
        saved: None,
        course: Vec::new(),
    }
}

fn compared(ranks: &[Ranked]) -> Comparison {
    compare(&ranks.iter().collect::<Vec<_>>())
}

#[test]
fn one_that_grows_stands_out() {
    let mut ranks: Vec<Ranked> = (0..8).map(|n| ranked(n, GrowthClass::Flat, n as f64 * 0.01)).collect();
    ranks[5] = ranked(5, GrowthClass::Grows, 12.0);
    let found = compared(&ranks);
    assert_eq!((found.pattern, found.outliers.as_slice()), (Pattern::SomeGrow, &[5][..]));
    assert_eq!(found.outlying, Some([12.0 * MIB, 12.0 * MIB]));
    assert_eq!(found.others, Some([0.0, 0.07 * MIB]));
    assert!((found.doubt.unwrap() - 0.05 * MIB).abs() < 1.0);
}

#[test]
fn of_two_the_one_that_grows_stands_out() {
    let ranks = [ranked(0, GrowthClass::Flat, 0.0), ranked(1, GrowthClass::Grows, 2.0)];
    assert_eq!(compared(&ranks).outliers, [1]);
}

#[test]
fn where_all_grow_alike_nobody_stands_out() {
    let ranks: Vec<Ranked> = (0..8).map(|n| ranked(n, GrowthClass::Grows, 12.0 + n as f64 * 0.02)).collect();
    let found = compared(&ranks);
    assert_eq!((found.pattern, found.outliers.len()), (Pattern::AllGrow, 0));
    assert_eq!(found.others.map(|it| it[0]), Some(12.0 * MIB));
}

#[test]
fn where_all_grow_the_much_faster_one_stands_out() {
    let mut ranks: Vec<Ranked> =
        (0..8).map(|n| ranked(n, GrowthClass::Grows, 1.0 + n as f64 * 0.01)).collect();
    ranks[2] = ranked(2, GrowthClass::Grows, 3.0);
    assert_eq!(compared(&ranks).outliers, [2]);
}

#[test]
fn several_that_grow_are_named_fastest_first() {
    let mut ranks: Vec<Ranked> = (0..8).map(|n| ranked(n, GrowthClass::Flat, 0.0)).collect();
    ranks[1] = ranked(1, GrowthClass::Grows, 2.0);
    ranks[6] = ranked(6, GrowthClass::Grows, 5.0);
    assert_eq!(compared(&ranks).outliers, [6, 1]);
}

#[test]
fn a_larger_peak_stands_out_where_nobody_grows() {
    let mut ranks: Vec<Ranked> = (0..8).map(|n| ranked(n, GrowthClass::Flat, 0.0)).collect();
    assert_eq!(compared(&ranks).pattern, Pattern::NoneGrows);
    ranks[3].peak_bytes = Some(900 << 20);
    let found = compared(&ranks);
    assert_eq!((found.pattern, found.outliers.as_slice()), (Pattern::SomePeak, &[3][..]));
}

#[test]
fn nothing_is_said_of_ranks_without_a_rate() {
    let mut ranks: Vec<Ranked> = (0..3).map(|n| ranked(n, GrowthClass::CannotTell, 0.0)).collect();
    for it in &mut ranks {
        it.growth.bytes = None;
    }
    let found = compared(&ranks);
    assert_eq!((found.pattern, found.unknown), (Pattern::CannotTell, 3));
    assert_eq!(compared(&[]).pattern, Pattern::CannotTell);
}

#[test]
fn what_the_launcher_promised_is_missed() {
    let ranks = [ranked(0, GrowthClass::Flat, 0.0), ranked(2, GrowthClass::Flat, 0.0)];
    assert_eq!(missing(Some(4), &ranks), [1, 3]);
    assert!(missing(None, &ranks).is_empty());
}

#[test]
fn who_rises_far_beyond_its_peers_grows_though_its_own_course_does_not_tell() {
    let ranks = [ranked(0, GrowthClass::Flat, 0.0), ranked(1, GrowthClass::CannotTell, 2.0)];
    let found = compared(&ranks);
    assert_eq!((found.pattern, found.outliers.as_slice(), found.unknown), (Pattern::SomeGrow, &[1][..], 0));
    let alike: Vec<Ranked> =
        (0..4).map(|n| ranked(n, GrowthClass::CannotTell, 2.0 + 0.01 * n as f64)).collect();
    let found = compared(&alike);
    assert_eq!((found.pattern, found.unknown), (Pattern::CannotTell, 4), "their peers do the same");
}
