//! OTLP over HTTP to a collector: a POST every while, and one at the end.
//!
//! A push that fails is not repeated: values are gauges and cumulative counters, the next push tells all that it did.

use std::time::Duration;

use ureq::Agent;

use crate::slot::Slot;
use crate::{Error, otlp};

const PATH: &str = "/v1/metrics";
const PERIOD: Duration = Duration::from_secs(10);
const TIMEOUT: Duration = Duration::from_secs(10);
/// Before there are any values.
const EARLY: Duration = Duration::from_millis(100);
/// Longest answer that is read.
const LONGEST_ANSWER: u64 = 64 << 10;

/// Where values are sent, and with what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collector {
    url: String,
    headers: Vec<(String, String)>,
    attributes: Vec<(String, String)>,
    period: Duration,
    timeout: Duration,
}

/// The variables of OpenTelemetry that are respected, by a function that tells their values.
pub struct Variables<'a>(pub &'a dyn Fn(&str) -> Option<String>);

impl std::fmt::Debug for Variables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Variables")
    }
}

impl Variables<'_> {
    fn get(&self, name: &str) -> Option<String> {
        (self.0)(name).filter(|value| !value.trim().is_empty())
    }

    /// The variable for metrics, or the one for all signals.
    fn of_signal(&self, what: &str) -> Option<String> {
        self.get(&format!("OTEL_EXPORTER_OTLP_METRICS_{what}"))
            .or_else(|| self.get(&format!("OTEL_EXPORTER_OTLP_{what}")))
    }
}

fn milliseconds(value: Option<String>) -> Option<Duration> {
    value?.trim().parse().ok().filter(|ms| *ms > 0).map(Duration::from_millis)
}

impl Collector {
    /// `url` as typed, or none: then the variables name it.
    pub fn new(url: Option<&str>, variables: &Variables<'_>) -> Result<Self, Error> {
        let url = match url.filter(|url| !url.is_empty()) {
            Some(url) => with_path(url),
            None => match variables.get("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT") {
                Some(url) => url, // as it stands, says the specification
                None => variables
                    .get("OTEL_EXPORTER_OTLP_ENDPOINT")
                    .map(|base| format!("{}{PATH}", base.trim_end_matches('/')))
                    .ok_or(Error::NoCollector)?,
            },
        };
        check_url(&url)?;
        match variables.of_signal("PROTOCOL").as_deref() {
            None | Some("http/protobuf") => {}
            Some(other) => return Err(Error::Protocol(other.to_owned())),
        }
        let period = variables.get("OTEL_METRIC_EXPORT_INTERVAL");
        Ok(Self {
            url,
            headers: parse_pairs(&variables.of_signal("HEADERS").unwrap_or_default())?,
            attributes: attributes(variables),
            period: milliseconds(period).unwrap_or(PERIOD),
            timeout: milliseconds(variables.of_signal("TIMEOUT")).unwrap_or(TIMEOUT),
        })
    }

    /// Sends until the end. What is told then: how many pushes failed, and why the last one.
    pub(crate) fn tell(&self, slot: &Slot) -> Vec<String> {
        let agent: Agent = Agent::config_builder()
            .timeout_global(Some(self.timeout))
            .max_redirects(0)
            .http_status_as_error(false)
            .user_agent("nilo")
            .build()
            .into();
        let (mut pushes, mut failures) = (0_u64, 0_u64);
        let mut why = String::new();
        loop {
            // The first push as soon as there are values.
            let closing = slot.wait(if pushes == 0 { EARLY } else { self.period });
            if let Some(snapshot) = slot.latest() {
                pushes += 1;
                if let Err(reason) = self.post(&agent, &otlp::encode(&snapshot, &self.attributes)) {
                    failures += 1;
                    why = reason;
                }
            }
            if closing {
                break;
            }
        }
        let note = format!("{failures} of {pushes} pushes of metrics to {} failed: {why}", self.url);
        (failures > 0).then_some(note).into_iter().collect()
    }

    fn post(&self, agent: &Agent, body: &[u8]) -> Result<(), String> {
        let request = agent.post(&self.url).header("Content-Type", "application/x-protobuf");
        let request = self.headers.iter().fold(request, |request, (name, value)| request.header(name, value));
        let mut answer = request.send(body).map_err(|error| error.to_string())?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("it answered {status}"));
        }
        let body = answer.body_mut().with_config().limit(LONGEST_ANSWER).read_to_vec().unwrap_or_default();
        otlp::refused(&body).map_or(Ok(()), Err)
    }
}

/// A collector without a path is asked at the usual one.
fn with_path(url: &str) -> String {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest);
    match after_scheme.split_once('/') {
        None => format!("{url}{PATH}"),
        Some((_, "")) => format!("{}{PATH}", url.trim_end_matches('/')),
        Some(_) => url.to_owned(),
    }
}

fn check_url(url: &str) -> Result<(), Error> {
    if url.starts_with("https://") {
        return Err(Error::Https(url.to_owned()));
    }
    let host = url.strip_prefix("http://").map(|rest| rest.split('/').next().unwrap_or_default());
    let good = host.is_some_and(|host| !host.is_empty()) && url.parse::<ureq::http::Uri>().is_ok();
    if good { Ok(()) } else { Err(Error::Url(url.to_owned())) }
}

fn attributes(variables: &Variables<'_>) -> Vec<(String, String)> {
    let told = variables.get("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    let mut pairs = parse_pairs(&told).unwrap_or_default();
    if let Some(name) = variables.get("OTEL_SERVICE_NAME") {
        pairs.retain(|(key, _)| key != "service.name");
        pairs.push(("service.name".into(), name));
    }
    pairs
}

/// `name=value,other=value`, percent-encoded.
fn parse_pairs(text: &str) -> Result<Vec<(String, String)>, Error> {
    let pairs = text.split(',').map(str::trim).filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            // Only the name is told: the value may be a secret.
            let (name, value) = pair.split_once('=').ok_or_else(|| Error::Header("…".into()))?;
            let (name, value) = (name.trim(), decode(value.trim()));
            let good = is_name(name) && value.chars().all(|c| !c.is_control());
            if good { Ok((name.to_owned(), value)) } else { Err(Error::Header(name.to_owned())) }
        })
        .collect()
}

fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"(),/:;<=>?@[\\]{}".contains(&byte))
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%').and_then(|hex| std::str::from_utf8(hex).ok());
        let decoded = hex.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        bytes.push(decoded.unwrap_or(*first));
        rest = if decoded.is_some() { after.get(2..).unwrap_or_default() } else { after };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn collector(url: Option<&str>, set: &[(&str, &str)]) -> Result<Collector, Error> {
        let get = |name: &str| set.iter().find(|(known, _)| *known == name).map(|(_, v)| (*v).to_owned());
        Collector::new(url, &Variables(&get))
    }

    #[test]
    fn a_collector_is_named_by_the_word_or_by_the_variables() {
        let url = |word, set: &[(&str, &str)]| collector(word, set).unwrap().url;
        assert_eq!(url(Some("http://localhost:4318"), &[]), "http://localhost:4318/v1/metrics");
        assert_eq!(url(Some("http://localhost:4318/"), &[]), "http://localhost:4318/v1/metrics");
        assert_eq!(url(Some("http://x/otlp/v1/metrics"), &[]), "http://x/otlp/v1/metrics");
        let base = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://c:4318/base/");
        assert_eq!(url(None, &[base]), "http://c:4318/base/v1/metrics");
        assert_eq!(url(Some(""), &[base]), "http://c:4318/base/v1/metrics");
        assert_eq!(url(None, &[base, ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "http://m/x")]), "http://m/x");
    }

    #[test]
    fn what_we_cannot_do_is_said_before_the_start() {
        let error = |word, set: &[(&str, &str)]| collector(word, set).unwrap_err();
        assert!(matches!(error(None, &[]), Error::NoCollector));
        assert!(matches!(error(Some("https://x:4318"), &[]), Error::Https(_)));
        for word in ["localhost:4318", "ftp://x", "http://", "http://a b/"] {
            assert!(matches!(error(Some(word), &[]), Error::Url(_)), "{word}");
        }
        let grpc = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")];
        assert!(matches!(error(Some("http://x"), &grpc), Error::Protocol(_)));
        let headers = [("OTEL_EXPORTER_OTLP_HEADERS", "secret")];
        assert_eq!(
            error(Some("http://x"), &headers).to_string(),
            "`…` in OTEL_EXPORTER_OTLP_HEADERS is no header"
        );
    }

    #[test]
    fn headers_and_attributes_are_decoded() {
        let set = [
            ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, other=%zz"),
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=x,team=ml"),
            ("OTEL_SERVICE_NAME", "mine"),
            ("OTEL_METRIC_EXPORT_INTERVAL", "500"),
        ];
        let collector = collector(Some("http://x"), &set).unwrap();
        let pairs = |pairs: &[(String, String)]| {
            pairs.iter().map(|(a, b)| format!("{a}={b}")).collect::<Vec<_>>().join(";")
        };
        assert_eq!(pairs(&collector.headers), "api-key=a b;other=%zz");
        assert_eq!(pairs(&collector.attributes), "team=ml;service.name=mine");
        assert_eq!(collector.period, Duration::from_millis(500));
        assert_eq!(collector.timeout, TIMEOUT);
    }
}
