use nilometer_analysis::model::GrowthClass;

use super::example::{killed, leaking};
use crate::{Style, term};

fn plain(width: usize) -> Style {
    Style { width, color: false, unicode: true, whole: false }
}

#[test]
fn verdict_of_a_leaking_training_at_120_columns() {
    insta::assert_snapshot!(term::verdict(&leaking(), &plain(120)), @r"
    nilo: python3 train.py · exit 0 · 3 m 12 s · 9 processes
     peak     6.41 GiB at 2 m 40 s, step 118 (PSS of the tree; 6.38–6.44)
     limit    8.00 GiB (cgroup /user.slice/user-1000.slice) · headroom 1.59 GiB (20 %)
     growth   +1.80 MiB/step ± 0.10 since step 20: reaches the limit at step ≈ 1,020   → nilo leak
     made of  anonymous 4.50 · heap 1.10 · code 0.40 · shared memory 0.31 · other 0.02 · residual +0.06 GiB (2.10 s before
              the peak)
     workers  8 × DataLoader worker (24 over the run): 215 MiB private each, +3.00 MiB/step
     after    +0 MiB outlives the process (noise 2.00 MiB)
     cost     0.2 % of a core, 9.00 MiB, no pause
     saved    train.1115-0312.4711.nilo   → nilo report
    ");
}

#[test]
fn verdict_of_a_leaking_training_at_80_columns() {
    insta::assert_snapshot!(term::verdict(&leaking(), &plain(80)), @r"
    nilo: python3 train.py · exit 0 · 3 m 12 s · 9 processes
     peak     6.41 GiB at 2 m 40 s, step 118 (PSS of the tree; 6.38–6.44)
     limit    8.00 GiB (cgroup /user.slice/user-1000.slice) · headroom 1.59 GiB
              (20 %)
     growth   +1.80 MiB/step ± 0.10 since step 20: reaches the limit at step ≈ 1,020
              → nilo leak
     made of  anonymous 4.50 · heap 1.10 · code 0.40 · shared memory 0.31 · other
              0.02 · residual +0.06 GiB (2.10 s before the peak)
     workers  8 × DataLoader worker (24 over the run): 215 MiB private each,
              +3.00 MiB/step
     after    +0 MiB outlives the process (noise 2.00 MiB)
     cost     0.2 % of a core, 9.00 MiB, no pause
     saved    train.1115-0312.4711.nilo   → nilo report
    ");
}

#[test]
fn verdict_of_a_leaking_training_at_60_columns() {
    insta::assert_snapshot!(term::verdict(&leaking(), &plain(60)), @r"
    nilo: python3 train.py · exit 0 · 3 m 12 s · 9 processes
     peak     6.41 GiB at 2 m 40 s, step 118 (PSS of the tree;
              6.38–6.44)
     limit    8.00 GiB (cgroup /user.slice/user-1000.slice) ·
              headroom 1.59 GiB (20 %)
     growth   +1.80 MiB/step ± 0.10 since step 20: reaches the
              limit at step ≈ 1,020   → nilo leak
     made of  anonymous 4.50 · heap 1.10 · code 0.40 · shared
              memory 0.31 · other 0.02 · residual +0.06 GiB
              (2.10 s before the peak)
     workers  8 × DataLoader worker (24 over the run): 215 MiB
              private each, +3.00 MiB/step
     after    +0 MiB outlives the process (noise 2.00 MiB)
     cost     0.2 % of a core, 9.00 MiB, no pause
     saved    train.1115-0312.4711.nilo   → nilo report
    ");
}

#[test]
fn verdict_of_a_killed_run_at_80_columns() {
    insta::assert_snapshot!(term::verdict(&killed(), &plain(80)), @r"
    nilo: ./fill --name evil\u{1b}]0;owned\u{7} · out of memory (cgroup limit),
    inferred · 2.00 s · 1 process
     cause    inferred: the log is cut at 2.00 s with 96 % of the limit in use
              (cgroup /job, 512 MiB) · grew last: main (4711), by 390 MiB in its
              last seconds
     peak     490 MiB at 2.00 s (VmHWM, exact to 1.00 MiB)
     limit    512 MiB (cgroup /job) · headroom 22.0 MiB (4.3 %)
     growth   cannot tell: only 20 samples in 1.9 s and no steps
     doubt    the data ends at 2.00 s: the last frame is torn
     saved    fill.1115-0312.4711.nilo   → nilo report
    ");
}

#[test]
fn a_peak_that_the_maps_did_not_see_is_no_full_account() {
    let mut run = leaking();
    let made_of = run.made_of.as_mut().unwrap();
    (made_of.from_peak_s, made_of.residual_bytes) = (-0.1, 3 << 30);
    let screen = term::verdict(&run, &plain(200));
    assert!(screen.contains("residual +3.00 GiB (it rose too fast to be read at the peak)"), "{screen}");
}

#[test]
fn what_is_flat_has_a_bound_or_none_but_never_nothing() {
    let told = |low: f64, high: f64| {
        let mut run = leaking();
        run.growth.class = GrowthClass::Flat;
        run.growth.bytes = Some(f64::midpoint(low, high));
        (run.growth.low_bytes, run.growth.high_bytes) = (Some(low), Some(high));
        let screen = term::verdict(&run, &plain(100));
        screen.lines().find_map(|line| line.strip_prefix(" growth   ").map(str::to_owned)).unwrap_or_default()
    };
    assert_eq!(told(0.0, 0.0), "flat: it did not move since step 20");
    assert_eq!(told(-0.2, 0.3), "flat: below 1 B/step since step 20");
    assert_eq!(told(-2_048.0, 1_024.0), "flat: below 2.00 KiB/step since step 20");
    assert!(told(-4_096.0, -2_048.0).starts_with("none: it falls, -3.00 KiB/step ± 1.00"));
}

#[test]
fn one_line_says_the_most_important() {
    insta::assert_snapshot!(term::line(&leaking()), @r"
    nilo: python3 train.py · exit 0 · 3 m 12 s · peak 6.41 GiB of 8.00 GiB · grows +1.80 MiB/step · train.1115-0312.4711.nilo
    ");
}

#[test]
fn report_at_80_columns() {
    insta::assert_snapshot!(term::report(&leaking(), &plain(80)));
}

#[test]
fn report_in_ascii_at_60_columns() {
    let style = Style { width: 60, color: false, unicode: false, whole: false };
    insta::assert_snapshot!(term::report(&leaking(), &style));
}
