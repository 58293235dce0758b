//! `nilo sweep --json`: `schema/sweep.schema.json` describes it. Add fields freely, rename none.

use nilometer_analysis::sweep::model::{Asked, Found, Group, MetricLaw, PointRun, Sweep};
use nilometer_analysis::sweep::space::Point;
use serde_json::{Map, Value, json};

use super::formula;

/// The schema of [`json()`], JSON Schema draft 2020-12.
pub const SCHEMA: &str = include_str!("../../schema/sweep.schema.json");
const SCHEMA_VERSION: u32 = 1;

pub fn json(sweep: &Sweep) -> Value {
    let only = sweep.groups.first().filter(|_| sweep.groups.len() == 1);
    json!({
        "schema_version": SCHEMA_VERSION,
        "command": sweep.command,
        "parameters": sweep.names,
        "metric": sweep.metric,
        "planned": sweep.planned,
        "points": sweep.runs.iter().map(point).collect::<Vec<_>>(),
        "fit": only.and_then(|group| main_law(sweep, group)).map(fit),
        "fits": only.and_then(|group| group.found.as_ref()).map(found),
        "groups": sweep.groups.iter().map(|group| group_json(sweep, group)).collect::<Vec<_>>(),
        "notes": sweep.notes,
        "saved": sweep.saved,
    })
}

fn object(params: &Point) -> Value {
    let pairs = params.iter().map(|(name, value)| (name.clone(), json!(value)));
    Value::Object(pairs.collect::<Map<_, _>>())
}

fn point(run: &PointRun) -> Value {
    let metrics = run.metrics.iter().map(|metric| (metric.name.clone(), json!(metric.value)));
    json!({
        "params": object(&run.params),
        "repeat": run.repeat,
        "outcome": run.outcome,
        "exit_code": run.code,
        "signal": run.signal,
        "peak_bytes": run.peak_bytes,
        "duration_s": run.duration_s,
        "steps": run.steps,
        "metrics": metrics.collect::<Map<_, _>>(),
        "at": run.at,
        "not_covered": run.not_covered,
        "evidence": run.evidence,
        "saved": run.saved,
    })
}

fn main_law<'a>(sweep: &Sweep, group: &'a Group) -> Option<&'a MetricLaw> {
    group.laws.iter().find(|law| law.metric == sweep.metric)
}

fn fit(law: &MetricLaw) -> Value {
    let names: Vec<String> = law.law.terms.iter().map(|term| term.name(&law.law.names)).collect();
    let name = |name: &String| if name.is_empty() { "1".to_owned() } else { name.clone() };
    let named = |values: &[Value]| {
        let pairs = names.iter().map(name).zip(values.iter().cloned());
        Value::Object(pairs.collect::<Map<_, _>>())
    };
    let coefficients: Vec<Value> = law.law.coefficients.iter().map(|c| json!(c)).collect();
    let intervals: Vec<Value> =
        law.law.ci95.iter().map(|ci| json!(ci.map(|(low, high)| [low, high]))).collect();
    json!({
        "metric": law.metric,
        "unit": law.unit,
        "model": law.law.kind,
        "formula": formula(law),
        "coefficients": named(&coefficients),
        "ci95": named(&intervals),
        "loo_error": law.law.loo_error,
        "points": law.law.points,
    })
}

fn found(found: &Found) -> Value {
    json!(found)
}

fn group_json(sweep: &Sweep, group: &Group) -> Value {
    json!({
        "params": object(&group.fixed),
        "fit": main_law(sweep, group).map(fit),
        "laws": group.laws.iter().map(fit).collect::<Vec<_>>(),
        "fits": group.found.as_ref().map(found),
        "predictions": group.predictions.iter().map(asked).collect::<Vec<_>>(),
    })
}

fn asked(asked: &Asked) -> Value {
    json!({
        "params": object(&asked.params),
        "metric": asked.metric,
        "prediction": asked.prediction,
    })
}
