//! OTLP's metrics message: the part of `opentelemetry/proto/metrics/v1` that we send, derived and not generated.
//!
//! Counters are cumulative since the start of the recording, so a push that is lost loses nothing but resolution.

use prost::{Message, Oneof};

use crate::family::{Family, PID, Point, Value, families};
use crate::instrument::Kind;
use crate::snapshot::Snapshot;

/// `AGGREGATION_TEMPORALITY_CUMULATIVE`.
const CUMULATIVE: i32 = 2;
const SCOPE: &str = "nilometer";

#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_metrics: Vec<ResourceMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceMetrics {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_metrics: Vec<ScopeMetrics>,
}

#[derive(Clone, PartialEq, Message)]
struct Resource {
    #[prost(message, repeated, tag = "1")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeMetrics {
    #[prost(message, optional, tag = "1")]
    scope: Option<Scope>,
    #[prost(message, repeated, tag = "2")]
    metrics: Vec<Metric>,
}

#[derive(Clone, PartialEq, Message)]
struct Scope {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    version: String,
}

#[derive(Clone, PartialEq, Message)]
struct Metric {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    description: String,
    #[prost(string, tag = "3")]
    unit: String,
    #[prost(oneof = "Points", tags = "5, 7")]
    points: Option<Points>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Points {
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    #[prost(message, tag = "7")]
    Sum(Sum),
}

#[derive(Clone, PartialEq, Message)]
struct Gauge {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<NumberDataPoint>,
}

#[derive(Clone, PartialEq, Message)]
struct Sum {
    #[prost(message, repeated, tag = "1")]
    data_points: Vec<NumberDataPoint>,
    #[prost(int32, tag = "2")]
    aggregation_temporality: i32,
    #[prost(bool, tag = "3")]
    is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
struct NumberDataPoint {
    #[prost(fixed64, tag = "2")]
    start_time_unix_nano: u64,
    #[prost(fixed64, tag = "3")]
    time_unix_nano: u64,
    #[prost(oneof = "Number", tags = "4, 6")]
    value: Option<Number>,
    #[prost(message, repeated, tag = "7")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Number {
    #[prost(double, tag = "4")]
    Double(f64),
    #[prost(sfixed64, tag = "6")]
    Int(i64),
}

#[derive(Clone, PartialEq, Message)]
struct KeyValue {
    #[prost(string, tag = "1")]
    key: String,
    #[prost(message, optional, tag = "2")]
    value: Option<AnyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct AnyValue {
    #[prost(oneof = "Any", tags = "1, 3")]
    value: Option<Any>,
}

#[derive(Clone, PartialEq, Oneof)]
enum Any {
    #[prost(string, tag = "1")]
    Text(String),
    #[prost(int64, tag = "3")]
    Int(i64),
}

#[derive(Clone, PartialEq, Message)]
struct Response {
    #[prost(message, optional, tag = "1")]
    partial_success: Option<PartialSuccess>,
}

#[derive(Clone, PartialEq, Message)]
struct PartialSuccess {
    #[prost(int64, tag = "1")]
    rejected_data_points: i64,
    #[prost(string, tag = "2")]
    error_message: String,
}

/// The body of a request. `attributes` are added to those of the resource, and go before ours.
pub fn encode(snapshot: &Snapshot, attributes: &[(String, String)]) -> Vec<u8> {
    let scope = Scope { name: SCOPE.into(), version: snapshot.run.version.clone() };
    let metrics = families(snapshot).iter().map(|family| metric(family, snapshot)).collect();
    let resource = ResourceMetrics {
        resource: Some(Resource { attributes: resource(snapshot, attributes) }),
        scope_metrics: vec![ScopeMetrics { scope: Some(scope), metrics }],
    };
    Request { resource_metrics: vec![resource] }.encode_to_vec()
}

/// What the receiver refused of a request that it took.
pub(crate) fn refused(body: &[u8]) -> Option<String> {
    let partial = Response::decode(body).ok()?.partial_success?;
    let count = partial.rejected_data_points;
    (count > 0).then(|| format!("{count} values refused: {}", partial.error_message))
}

fn resource(snapshot: &Snapshot, given: &[(String, String)]) -> Vec<KeyValue> {
    let run = &snapshot.run;
    let ours = [
        ("service.name", &run.command),
        ("service.instance.id", &run.name),
        ("host.name", &run.host),
        ("nilo.run", &run.name),
    ];
    let is_new = |key: &str| !given.iter().any(|(name, _)| name == key);
    let ours = ours.into_iter().filter(|(key, _)| is_new(key));
    let given = given.iter().map(|(key, value)| text(key, value));
    given.chain(ours.map(|(key, value)| text(key, value))).collect()
}

fn metric(family: &Family, snapshot: &Snapshot) -> Metric {
    let told = family.instrument;
    let data_points = family.points.iter().map(|p| number(p, snapshot)).collect();
    let sum =
        |is_monotonic| Sum { data_points: Vec::new(), aggregation_temporality: CUMULATIVE, is_monotonic };
    let points = match told.kind {
        Kind::Gauge => Points::Gauge(Gauge { data_points }),
        Kind::Amount => Points::Sum(Sum { data_points, ..sum(false) }),
        Kind::Counter => Points::Sum(Sum { data_points, ..sum(true) }),
    };
    Metric {
        name: told.name.into(),
        description: told.help.into(),
        unit: told.unit.code().into(),
        points: Some(points),
    }
}

fn number(point: &Point, snapshot: &Snapshot) -> NumberDataPoint {
    let value = match point.value {
        Value::Whole(value) => Number::Int(i64::try_from(value).unwrap_or(i64::MAX)),
        Value::Signed(value) => Number::Int(value),
        Value::Real(value) => Number::Double(value),
    };
    let attribute = |(label, value): &(crate::family::Label, String)| match value.parse() {
        Ok(pid) if *label == PID => KeyValue { key: label.attribute.into(), value: any(Any::Int(pid)) },
        _ => text(label.attribute, value),
    };
    NumberDataPoint {
        start_time_unix_nano: snapshot.run.started_ns,
        time_unix_nano: snapshot.at_ns,
        value: Some(value),
        attributes: point.labels.iter().map(attribute).collect(),
    }
}

fn text(key: &str, value: &str) -> KeyValue {
    KeyValue { key: key.into(), value: any(Any::Text(value.into())) }
}

#[allow(clippy::unnecessary_wraps)] // the field is optional, as every message is
fn any(value: Any) -> Option<AnyValue> {
    Some(AnyValue { value: Some(value) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::Bound;

    #[test]
    fn values_and_kinds_survive_the_way() {
        let snapshot =
            Snapshot { at_ns: 9, ticks: 4, tree: Some(Bound { low: 1, high: 2 }), ..Snapshot::default() };
        let given = [("service.name".to_owned(), "mine".to_owned())];
        let request = Request::decode(encode(&snapshot, &given).as_slice()).unwrap();
        let resource = &request.resource_metrics[0];
        let names: Vec<&str> =
            resource.resource.as_ref().unwrap().attributes.iter().map(|a| a.key.as_str()).collect();
        assert_eq!(names, ["service.name", "service.instance.id", "host.name", "nilo.run"]);
        let metrics = &resource.scope_metrics[0].metrics;
        let find = |name: &str| metrics.iter().find(|m| m.name == name).unwrap().points.clone().unwrap();
        let Points::Sum(ticks) = find("nilo.ticks") else { panic!() };
        assert!(ticks.is_monotonic && ticks.aggregation_temporality == CUMULATIVE);
        assert_eq!(ticks.data_points[0].value, Some(Number::Int(4)));
        let Points::Gauge(tree) = find("nilo.tree.memory") else { panic!() };
        assert_eq!(tree.data_points[1].value, Some(Number::Int(2)));
        assert_eq!(tree.data_points[1].time_unix_nano, 9);
    }

    #[test]
    fn a_refusal_is_told() {
        let partial = PartialSuccess { rejected_data_points: 3, error_message: "no".into() };
        let body = Response { partial_success: Some(partial) }.encode_to_vec();
        assert_eq!(refused(&body).unwrap(), "3 values refused: no");
        assert_eq!(refused(b""), None);
        assert_eq!(refused(b"\xff\xff not protobuf"), None);
    }
}
