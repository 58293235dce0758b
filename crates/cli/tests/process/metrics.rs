//! Values told while a run is recorded: the same as in its log, read back by those who will read them.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nilometer_trace::Reader;
use nilometer_trace::record::{Phase, Record, Tick};
use serde_json::Value;

use crate::control::{after_ticks, ask, socket_of};
use crate::harness::{Dialogue, Lab, c_program, finish, finish_child, py_program, skip, text};
use crate::onlooker::{KILL, send, until};
use crate::watched::{MIB, Watched, assert_near};

/// Series by name and labels, without `run`.
type Page = BTreeMap<String, f64>;

/// The values of a page in Prometheus' format.
fn parse_page(page: &str) -> Page {
    let series = page.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    series
        .map(|line| {
            let (name, value) = line.rsplit_once(' ').expect("a value");
            let name = name.replace("run=\"run.nilo\",", "").replace("{run=\"run.nilo\"}", "");
            (name, value.parse().expect("a number"))
        })
        .collect()
}

/// One request to the address of a page, answered in full.
fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URL");
    let mut stream = TcpStream::connect(host).expect("it listens");
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

fn body(answer: &str) -> &str {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").expect("a body").1
}

/// The tick of a log that a page tells of, and the pids by index.
fn tick_of(run: &Path, page: &Page) -> (Tick, BTreeMap<u32, i32>) {
    let wanted = page["nilo_ticks_total"] as usize;
    let (mut pids, mut ticks) = (BTreeMap::new(), Vec::new());
    for record in Reader::open(run).expect("a log") {
        match record.expect("whole") {
            Record::Process(process) => drop(pids.insert(process.index, process.pid)),
            Record::Tick(tick) if tick.phase == Phase::During => ticks.push(tick),
            _ => {}
        }
    }
    (ticks.swap_remove(wanted - 1), pids)
}

fn assert_equals_log(page: &Page, run: &Path) {
    let (tick, pids) = tick_of(run, page);
    let tree = tick.tree.expect("a tree");
    assert_eq!(page["nilo_tree_memory_bytes{bound=\"low\"}"] as u64, tree.low_kib * 1024);
    assert_eq!(page["nilo_tree_memory_bytes{bound=\"high\"}"] as u64, tree.high_kib * 1024);
    for sample in &tick.processes {
        let pid = pids[&sample.index];
        let of = |name: &str| {
            let series = format!("{name}{{pid=\"{pid}\",");
            let found = page.iter().find(|(known, _)| known.starts_with(&series));
            *found.unwrap_or_else(|| panic!("{series} in {page:#?}")).1 as u64
        };
        assert_eq!(of("process_memory_usage_bytes"), sample.rss_kib() * 1024);
        assert_eq!(of("nilo_process_memory_peak_bytes"), sample.hwm_kib * 1024);
        assert_eq!(of("process_threads"), u64::from(sample.threads));
    }
    assert_eq!(page["nilo_tree_processes"] as usize, tick.processes.len());
}

/// Debian's Prometheus and a Python with OpenTelemetry's messages.
fn monitoring() -> Option<PathBuf> {
    let output = finish(Command::new("sh").arg(py_program("monitoring.sh")));
    if !output.status.success() {
        skip("prometheus", &text(&output.stderr));
        return None;
    }
    Some(text(&output.stdout).trim().into())
}

#[test]
fn file_and_page_tell_what_the_log_has() {
    let lab = Lab::new();
    let options = ["--metrics-file", "train.prom", "--listen", "0"];
    let mut puppet = Watched::start_program(&lab, &options, "puppet.c", &[]);
    let pid = puppet.number("ready");
    let rss = puppet.order("grow 100", "rss") * 1024;
    puppet.order("mark step 7", "mark");
    after_ticks(&puppet.directory, 2);
    let url = ask(&socket_of(&puppet.directory), r#"{"do":"status"}"#)["metrics"].clone();
    let answer = get(url.as_str().expect("a page"));
    assert!(answer.contains("Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"), "{answer}");
    let page = parse_page(body(&answer));
    let usage = page.iter().find(|(name, _)| name.starts_with("process_memory_usage_bytes")).expect("usage");
    assert!(usage.0.contains(&format!("pid=\"{pid}\"")) && usage.0.contains("role=\"main\""), "{usage:?}");
    assert_near("usage", *usage.1 as u64, rss, MIB);
    assert_eq!((page["nilo_step_number"], page["nilo_steps_total"]), (7.0, 1.0));
    assert_eq!(page.get("nilo_run_running"), Some(&1.0));
    let file = lab.path("train.prom");
    until("the file tells of this tick or a later one", || {
        let file = parse_page(&std::fs::read_to_string(&file).unwrap_or_default());
        file.get("nilo_ticks_total").is_some_and(|ticks| *ticks >= page["nilo_ticks_total"])
    });
    let written = parse_page(&std::fs::read_to_string(&file).expect("a file"));
    let run = puppet.end();
    assert_equals_log(&page, &run.directory);
    assert_equals_log(&written, &run.directory);
    let last = parse_page(&std::fs::read_to_string(&file).expect("a file"));
    assert_eq!((last["nilo_run_running"], last["nilo_run_exit_code"]), (0.0, 0.0));
    assert_eq!(last["nilo_ticks_total"] as u64, run.number("ticks") as u64, "the last tick is in it");
    assert!(!last.keys().any(|name| name.starts_with("process_")), "{last:#?}");
    assert_eq!(
        std::fs::read_dir(lab.path("")).expect("here").count(),
        2,
        "the run and the file, nothing else"
    );
}

#[test]
fn promtool_finds_nothing_to_say_and_prometheus_scrapes() {
    let Some(tools) = monitoring() else { return };
    let lab = Lab::new();
    let options = ["--metrics-file", "train.prom", "--listen", "0"];
    let mut puppet = Watched::start_program(&lab, &options, "puppet.c", &[]);
    puppet.number("ready");
    puppet.order("grow 50", "rss");
    let url = ask(&socket_of(&puppet.directory), r#"{"do":"status"}"#)["metrics"].clone();
    let url = url.as_str().expect("a page").to_owned();
    let mut prometheus = Prometheus::start(&tools, &lab, &url);
    let found = prometheus.query("nilo_tree_memory_bytes{bound=\"high\"}");
    let value: f64 = found["value"][1].as_str().expect("a value").parse().expect("a number");
    assert!(value > 50.0 * MIB as f64, "{found:#}");
    assert_eq!(found["metric"]["run"], "run.nilo");
    prometheus.stop();
    let run = puppet.end();
    assert_eq!(run.code(), Some(0));
    let mut promtool = Command::new(tools.join("promtool"));
    let page = std::fs::File::open(lab.path("train.prom")).expect("a file");
    let output = finish(promtool.args(["check", "metrics"]).stdin(page));
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
}

#[test]
fn promtool_finds_nothing_to_say_of_a_page() {
    let Some(tools) = monitoring() else { return };
    let lab = Lab::new();
    let mut puppet = Watched::start_program(&lab, &["--listen", "0"], "puppet.c", &[]);
    puppet.number("ready");
    after_ticks(&puppet.directory, 1);
    let url = ask(&socket_of(&puppet.directory), r#"{"do":"status"}"#)["metrics"].clone();
    let answer = get(url.as_str().expect("a page"));
    let mut promtool = Command::new(tools.join("promtool"));
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().expect("promtool");
    child.stdin.take().expect("piped").write_all(body(&answer).as_bytes()).expect("it reads");
    let output = finish_child(child);
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success() && said.is_empty(), "{said}");
    puppet.end();
}

/// A server that scrapes one address every 100 ms.
struct Prometheus {
    child: std::process::Child,
    address: String,
}

impl Prometheus {
    fn start(tools: &Path, lab: &Lab, url: &str) -> Self {
        let target = url.strip_prefix("http://").and_then(|rest| rest.split('/').next()).expect("an address");
        let config = format!(
            "global: {{scrape_interval: 100ms, scrape_timeout: 100ms}}\n\
             scrape_configs: [{{job_name: nilo, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        let folder = lab.path("prometheus");
        std::fs::create_dir(&folder).expect("mkdir");
        std::fs::write(folder.join("config.yml"), config).expect("write");
        let port = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a free port").port();
        let address = format!("127.0.0.1:{port}");
        let child = Command::new(tools.join("prometheus"))
            .arg(format!("--config.file={}", folder.join("config.yml").display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus");
        Self { child, address }
    }

    /// The first result of a query, once there is one.
    fn query(&mut self, query: &str) -> Value {
        let encoded = query.replace('{', "%7B").replace('}', "%7D").replace('"', "%22").replace('=', "%3D");
        let mut found = Value::Null;
        until("it has scraped", || {
            found = self.ask(&format!("/api/v1/query?query={encoded}")).unwrap_or_default();
            !found.is_null()
        });
        found
    }

    fn ask(&self, path: &str) -> Option<Value> {
        let mut stream = TcpStream::connect(&self.address).ok()?;
        write!(stream, "GET {path} HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let document: Value = serde_json::from_str(answer.split_once("\r\n\r\n")?.1).ok()?;
        document["data"]["result"].get(0).cloned()
    }

    fn stop(&mut self) {
        send(self.child.id() as i32, KILL);
        let _ = self.child.wait();
    }
}

#[test]
fn a_collector_gets_what_its_own_schema_knows() {
    let Some(tools) = monitoring() else { return };
    let lab = Lab::new();
    let mut receiver =
        Dialogue::start(Command::new(tools.join("python/bin/python")).arg(py_program("otlp_receiver.py")));
    let port = receiver.line().strip_prefix("port ").expect("a port").to_owned();
    let mut nilo = lab.nilo(["run", "-q", "-o", "run.nilo", "--otlp", "--"]);
    nilo.arg(c_program("puppet.c"));
    nilo.env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("http://127.0.0.1:{port}"));
    nilo.env("OTEL_EXPORTER_OTLP_HEADERS", "api-key=s%20x").env("OTEL_METRIC_EXPORT_INTERVAL", "200");
    nilo.env("OTEL_RESOURCE_ATTRIBUTES", "team=ml");
    let mut puppet = Dialogue::start(&mut nilo);
    assert!(puppet.line().starts_with("ready"));
    let first: Value = serde_json::from_str(&receiver.line()).expect("JSON");
    assert_eq!(first["path"], "/v1/metrics");
    assert_eq!((&first["key"], &first["type"]), (&"s x".into(), &"application/x-protobuf".into()));
    assert_eq!(first["known"], true);
    assert_eq!(puppet.end().status.code(), Some(0));
    let mut last = first.clone();
    while metric(&last, "nilo.run.running") != Some(0.0) {
        last = serde_json::from_str(&receiver.line()).expect("JSON");
    }
    send(receiver.pid(), KILL);
    receiver.end();
    let run = lab.report(&lab.path("run.nilo"));
    assert_eq!(metric(&last, "nilo.ticks"), run["ticks"].as_f64());
    assert_eq!(metric(&last, "nilo.run.exit.code"), Some(0.0));
    let page: Page = [("nilo_ticks_total".to_owned(), metric(&first, "nilo.ticks").expect("ticks"))].into();
    let (tick, _) = tick_of(&lab.path("run.nilo"), &page);
    let rss = tick.processes.first().expect("one process").rss_kib() * 1024;
    assert_eq!(metric(&first, "process.memory.usage"), Some(rss as f64));
    let resource = first["message"]["resourceMetrics"][0]["resource"]["attributes"].to_string();
    for word in ["team", "service.name", "nilo.run", "run.nilo"] {
        assert!(resource.contains(word), "{resource}");
    }
}

/// The first value of a metric in a decoded message.
fn metric(line: &Value, name: &str) -> Option<f64> {
    let all = line["message"]["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array()?;
    let found = all.iter().find(|metric| metric["name"] == name)?;
    let points = found.get("gauge").or_else(|| found.get("sum"))?;
    let point = &points["dataPoints"][0];
    point["asDouble"].as_f64().or_else(|| point["asInt"].as_str()?.parse().ok())
}

/// How long `nilo` takes to return after its command has ended, with this receiver.
fn returns_after_the_end(lab: &Lab, address: &str) -> (Duration, Value) {
    let url = format!("--otlp=http://{address}");
    let mut puppet = Watched::start_program(lab, &["--force", &url], "puppet.c", &[]);
    let pid = puppet.number("ready");
    after_ticks(&puppet.directory, 3);
    let before = puppet.order("grow 10", "rss");
    assert!(before > 10 << 10, "it runs as always");
    puppet.dialogue.say("exit 3");
    until("it has ended", || !Path::new(&format!("/proc/{pid}")).exists());
    let ended = Instant::now();
    let run = puppet.end();
    assert_eq!(run.code(), Some(3), "{}", run.stderr());
    (ended.elapsed(), run.report)
}

#[test]
fn serial_no_receiver_is_waited_for() {
    let lab = Lab::new();
    let limit = Duration::from_secs(1);
    // Nobody listens.
    let dead = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
    let (took, report) = returns_after_the_end(&lab, &dead.to_string());
    assert!(took < limit, "dead: {took:?}");
    assert!(report["about"]["method"].to_string().contains("pushes of metrics"), "{}", report["about"]);
    assert!(report["about"]["method"].to_string().contains("refused"), "{}", report["about"]);
    // Accepts, and never reads: the backlog of a port that nobody serves.
    let hanging = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (took, report) = returns_after_the_end(&lab, &hanging.local_addr().expect("an address").to_string());
    assert!(took < limit, "hanging: {took:?}");
    assert!(report["about"]["method"].to_string().contains("not delivered in time"), "{}", report["about"]);
    // Reads, and answers byte by byte, for ever.
    let slow = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = slow.local_addr().expect("an address");
    std::thread::spawn(move || {
        for client in slow.incoming().flatten() {
            drip(client);
        }
    });
    let (took, _) = returns_after_the_end(&lab, &address.to_string());
    assert!(took < limit, "slow: {took:?}");
}

fn drip(mut client: TcpStream) {
    let _ = client.read(&mut [0; 1024]);
    while client.write_all(b"H").is_ok() {
        std::thread::park_timeout(Duration::from_millis(50));
    }
}

#[test]
fn what_cannot_work_is_said_before_anything_is_started() {
    let lab = Lab::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("an address").to_string();
    let cases: [(&[&str], &str, &str); 6] = [
        (&["--listen", &taken], "in use", "--listen 0"),
        (&["--listen", "nonsense"], "`nonsense` is no address", "--listen 9464"),
        (&["--metrics-file", "train.txt"], "does not end in .prom", "--metrics-file train.prom"),
        (&["--metrics-file", "no/such/x.prom"], "No such file", "--metrics-file /tmp"),
        (&["--otlp=https://x:4318"], "https is not supported", "--otlp=http://localhost:4318"),
        (&["--otlp"], "no collector is named", "OTEL_EXPORTER_OTLP_ENDPOINT"),
    ];
    for (options, problem, hint) in cases {
        let mut nilo = lab.nilo(["run", "-o", "run.nilo"]);
        nilo.args(options).args(["--", "touch", "started"]).env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        let output = finish(&mut nilo);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains(problem) && said.contains("hint: ") && said.contains(hint), "{said}");
        assert!(!lab.path("started").exists() && !lab.path("run.nilo").exists());
    }
}

#[test]
fn a_recording_that_attaches_tells_too_and_says_where() {
    let lab = Lab::new();
    let mut puppet = Dialogue::start(&mut Command::new(c_program("puppet.c")));
    puppet.line();
    let pid = puppet.pid().to_string();
    let words = ["attach", &pid, "-o", "run.nilo", "--duration", "300ms", "--listen", "0"];
    let mut nilo = lab.nilo(words);
    nilo.args(["--metrics-file", "a.prom"]);
    let output = finish(&mut nilo);
    let said = text(&output.stderr);
    assert!(said.contains("nilo: metrics at http://127.0.0.1:"), "{said}");
    let page = std::fs::read_to_string(lab.path("a.prom")).expect("a file");
    assert!(page.contains("nilo_run_running{run=\"run.nilo\"} 0\n"), "{page}");
    puppet.end();
}
