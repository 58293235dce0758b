use super::example::{killed, leaking};
use crate::{Style, term};

fn plain(width: usize) -> Style {
    Style { width, color: false, unicode: true }
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
    let style = Style { width: 60, color: false, unicode: false };
    insta::assert_snapshot!(term::report(&leaking(), &style));
}
