//! The bars: what was promised of each figure.

use super::extra::Extras;
use super::reading::{Reading, Readings, median};
use super::workload::{Tool, Workload};
use crate::bench::bar::{Bar, Limit};

const OWN: fn(&Reading) -> f64 = |reading| reading.own_cpu_s;
const WALL: fn(&Reading) -> f64 = |reading| reading.own_wall_s;
const COMMAND: fn(&Reading) -> f64 = |reading| reading.command_cpu_s;

pub fn bars(workloads: &[Workload], readings: &Readings, extras: &Extras) -> Vec<Bar> {
    let mut bars = own_cpu(readings);
    bars.extend(whole_command(readings));
    bars.push(Bar {
        what: "stress: wall ratio with two threads, of that with one".into(),
        measured: two_threads(readings),
        limit: Limit::AtMost(1.2),
        unit: "×",
    });
    bars.push(Bar {
        what: "stress-1: extra CPU of nilo --allocs, per event".into(),
        measured: sampled_event(workloads, readings),
        limit: Limit::AtMost(4.0),
        unit: " ns",
    });
    bars.extend(extras.bars());
    bars
}

/// Extra CPU of the target, of what a peer adds.
fn own_cpu(readings: &Readings) -> Vec<Bar> {
    let mut bars = Vec::new();
    let mut bar = |workload: &str, ours: Tool, peer: Tool, limit: f64, upper: Option<f64>| {
        let figure = readings.of_extra(workload, ours, peer, OWN);
        let what = format!("{workload}: extra CPU of {}, of {}'s", ours.label(), peer.label());
        bars.push(Bar {
            what: what.clone(),
            measured: figure.map(|f| f.middle),
            limit: Limit::AtMost(limit),
            unit: "×",
        });
        if let Some(upper) = upper {
            let what = format!("{what}, upper end of the interval");
            bars.push(Bar {
                what, measured: figure.map(|f| f.high), limit: Limit::AtMost(upper), unit: "×"
            });
        }
    };
    for workload in ["stress-1", "stress-2"] {
        bar(workload, Tool::NiloAll, Tool::Heaptrack, 0.25, None);
    }
    bar("churn", Tool::NiloDeep, Tool::MemrayDeep, 0.20, None);
    for workload in ["numpy", "sklearn"] {
        bar(workload, Tool::NiloAll, Tool::MemrayNative, 0.30, None);
        bar(workload, Tool::NiloAll, Tool::Heaptrack, 0.50, None);
    }
    for workload in ["cnn", "transformer"] {
        bar(workload, Tool::NiloAll, Tool::MemrayNative, 0.45, Some(0.60));
        bar(workload, Tool::NiloAll, Tool::Heaptrack, 0.45, Some(0.60));
    }
    bars
}

fn whole_command(readings: &Readings) -> Vec<Bar> {
    ["stress-1", "numpy", "sklearn", "cnn", "transformer"]
        .into_iter()
        .map(|workload| Bar {
            what: format!("{workload}: extra CPU of the whole command (all), of heaptrack's"),
            measured: readings.of_extra(workload, Tool::NiloAll, Tool::Heaptrack, COMMAND).map(|f| f.middle),
            limit: Limit::AtMost(0.50),
            unit: "×",
        })
        .collect()
}

fn two_threads(readings: &Readings) -> Option<f64> {
    let ratio = |workload| readings.ratio(workload, Tool::NiloAll, WALL).map(|figure| figure.middle);
    Some(ratio("stress-2")? / ratio("stress-1")?)
}

/// Nanoseconds that a sampled allocation or free costs the program.
fn sampled_event(workloads: &[Workload], readings: &Readings) -> Option<f64> {
    let middle = |tool| median(&readings.series("stress-1", tool, OWN));
    let extra = middle(Tool::NiloSampled)? - middle(Tool::Nobody)?;
    let events = 2 * workloads.iter().find(|workload| workload.name == "stress-1")?.size;
    Some(extra / events as f64 * 1e9)
}
