//! Prometheus' text format 0.0.4, as `node_exporter`'s textfile collector and every scraper read it.
//!
//! No time stamps: the textfile collector refuses them; `nilo_tick_time_seconds` tells when the values were read.

use std::fmt::Write as _;

use crate::family::{Family, Point, Value, families};
use crate::instrument::Kind;
use crate::snapshot::Snapshot;

pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub fn render(snapshot: &Snapshot) -> String {
    let mut text = String::with_capacity(8 << 10);
    for family in families(snapshot) {
        render_family(&mut text, &family, &snapshot.run.name);
    }
    text
}

fn render_family(text: &mut String, family: &Family, run: &str) {
    let instrument = family.instrument;
    let name = instrument.prometheus_name();
    let kind = if instrument.kind == Kind::Counter { "counter" } else { "gauge" };
    // Writing to a string cannot fail. The unit is a comment to this format, and a statement to its successor.
    let _ = writeln!(text, "# HELP {name} {}", instrument.help);
    let _ = writeln!(text, "# TYPE {name} {kind}");
    if let Some(word) = instrument.unit.word() {
        let _ = writeln!(text, "# UNIT {name} {word}");
    }
    for point in &family.points {
        render_point(text, &name, point, run);
    }
}

fn render_point(text: &mut String, name: &str, point: &Point, run: &str) {
    let _ = write!(text, "{name}{{run=\"{}\"", escape(run));
    for (label, value) in &point.labels {
        let _ = write!(text, ",{}=\"{}\"", label.prometheus, escape(value));
    }
    let _ = match point.value {
        Value::Whole(value) => writeln!(text, "}} {value}"),
        Value::Signed(value) => writeln!(text, "}} {value}"),
        Value::Real(value) => writeln!(text, "}} {value}"),
    };
}

/// A process may call itself anything.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::snapshot::{Bound, Process, Run};

    fn snapshot() -> Snapshot {
        Snapshot {
            run: Arc::new(Run { name: "train.nilo".into(), started_ns: 1_500_000_000, ..Run::default() }),
            ticks: 3,
            tree: Some(Bound { low: 10, high: 20 }),
            alive: 1,
            processes: vec![Process {
                pid: 7,
                command: "py\"th\\on\n".into(),
                anon: 1024,
                file: 1,
                rank: Some(3),
                ..Process::default()
            }],
            ..Snapshot::default()
        }
    }

    #[test]
    fn every_family_has_help_type_and_unit() {
        let text = render(&snapshot());
        assert!(text.contains(
            "# TYPE nilo_tree_memory_bytes gauge\n# UNIT nilo_tree_memory_bytes bytes\n\
             nilo_tree_memory_bytes{run=\"train.nilo\",bound=\"low\"} 10\n"
        ));
        assert!(text.contains("# TYPE nilo_ticks_total counter\nnilo_ticks_total{run=\"train.nilo\"} 3\n"));
        assert!(text.contains("nilo_run_start_time_seconds{run=\"train.nilo\"} 1.5\n"));
    }

    #[test]
    fn a_hostile_name_stays_within_its_quotes() {
        let text = render(&snapshot());
        let line = text.lines().find(|line| line.starts_with("process_memory_usage_bytes{")).unwrap();
        assert_eq!(
            line,
            r#"process_memory_usage_bytes{run="train.nilo",pid="7",command="py\"th\\on\n",role="",rank="3"} 1025"#
        );
    }

    #[test]
    fn after_the_end_only_the_run_itself_is_told() {
        let ended = Some(crate::Ended { code: Some(0), signal: None });
        let text = render(&Snapshot { ended, peak: Some(Bound { low: 5, high: 6 }), ..snapshot() });
        assert!(text.contains("nilo_run_running{run=\"train.nilo\"} 0\n"));
        assert!(text.contains("nilo_run_exit_code{run=\"train.nilo\"} 0\n"));
        assert!(text.contains("nilo_tree_memory_peak_bytes{run=\"train.nilo\",bound=\"high\"} 6\n"));
        assert!(!text.contains("process_") && !text.contains("nilo_tree_memory_bytes"));
    }

    #[test]
    fn many_processes_are_few_series() {
        let processes = (0..200).map(|pid| Process { pid, ..Process::default() }).collect();
        let text = render(&Snapshot { processes, alive: 1000, ..snapshot() });
        let usage = text.lines().filter(|line| line.starts_with("process_memory_usage_bytes{"));
        assert_eq!(usage.count(), crate::MOST_PROCESSES);
        assert!(text.contains("nilo_tree_processes_unlisted{run=\"train.nilo\"} 936\n"));
    }
}
