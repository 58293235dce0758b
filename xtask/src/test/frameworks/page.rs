//! `docs/frameworks.md` from `bench/*-frameworks/data.json`: what each verb told, the truth, the difference.

use std::fmt::Write as _;

use serde_json::Value;

const INTRO: &str = "Does `nilo` tell the truth about the framework that you use? A small real training of each is run under each verb, and \
    what is told is compared with what the framework or the program itself says from inside: its own `VmHWM`, `nbytes` of its arrays, its list \
    of objects, the C library's `mallinfo2`, a leak of known rate, an array that is read over and over beside one that is not.\n\n\
    Where something cannot be told, the row says why, and what is told instead. Repeat with `cargo xtask test --frameworks`.\n";

/// The verbs in the order of the page.
const VERBS: [&str; 6] = ["run", "heap", "where", "run --allocs", "leak", "pages"];

/// The whole page.
pub fn render(found: Option<&(String, Value)>) -> String {
    let mut text = format!(
        "<!-- Written by `cargo xtask docs` from bench/*-frameworks/data.json: change it there. -->\n\n# Frameworks\n\n{INTRO}\n"
    );
    let Some((folder, data)) = found else {
        return text + "Not measured yet: `cargo xtask test --frameworks --record`.\n";
    };
    text += &render_summary(data);
    for framework in frameworks(data) {
        let _ = write!(text, "\n## {}\n\n{}", word(framework, "name"), render_framework(framework));
    }
    let told = ["date", "machine"].map(|name| word(data, name)).join(" · ");
    let _ = writeln!(text, "\n{told}\n\nReadings: [`bench/{folder}`](../bench/{folder}/README.md)");
    text
}

/// What stands beside the readings.
pub fn render_readme(data: &Value) -> String {
    format!(
        "# Frameworks, {}\n\n{}, last played on commit {}.\n\nMade by `cargo xtask test --frameworks --record`; what the rows mean: [`docs/frameworks.md`](../../docs/frameworks.md).\n\n{}",
        word(data, "date"),
        word(data, "machine"),
        word(data, "commit"),
        render_summary(data)
    )
}

fn frameworks(data: &Value) -> impl Iterator<Item = &Value> {
    data["frameworks"].as_array().into_iter().flatten()
}

fn checks<'a>(framework: &'a Value, verb: &'a str) -> impl Iterator<Item = &'a Value> {
    framework["checks"].as_array().into_iter().flatten().filter(move |check| check["verb"] == verb)
}

fn word(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or("–").to_owned()
}

fn render_summary(data: &Value) -> String {
    let heads: Vec<String> = VERBS.iter().map(|verb| format!("`{verb}`")).collect();
    let mut text = format!(
        "| framework | version | Python | {} |\n|---|---|---|{}\n",
        heads.join(" | "),
        "---|".repeat(VERBS.len())
    );
    for framework in frameworks(data) {
        let cells: Vec<String> = VERBS.iter().map(|verb| cell(framework, verb)).collect();
        let [name, version, python] = ["name", "version", "python"].map(|field| word(framework, field));
        let _ = writeln!(text, "| {name} | {version} | {python} | {} |", cells.join(" | "));
    }
    text + "\n*right*: each number is within its limit; *n not told*: with the reason below.\n"
}

/// A verb on a framework in a word or two.
fn cell(framework: &Value, verb: &str) -> String {
    let all: Vec<&Value> = checks(framework, verb).collect();
    let wrong = all.iter().filter(|check| check["holds"] == false).count();
    let silent = all.iter().filter(|check| check["told"].is_null()).count();
    match (all.len(), wrong, silent) {
        (0, _, _) => "not run".to_owned(),
        (_, 1.., _) => format!("**{wrong} WRONG**"),
        (_, 0, 0) => "right".to_owned(),
        (_, 0, _) => format!("right, {silent} not told"),
    }
}

/// One framework: its numbers and what to know.
pub fn render_framework(framework: &Value) -> String {
    if let Some(reason) = framework["skipped"].as_str().or(framework["broken"].as_str()) {
        return format!("{}: **not run**: {reason}\n", word(framework, "name"));
    }
    let [version, python, commit] = ["version", "python", "commit"].map(|field| word(framework, field));
    let mut text = format!("{version}, Python {python}; played on commit {commit}.");
    for caveat in framework["caveats"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        let _ = write!(text, " {caveat}");
    }
    text += "\n\n| verb | number | told | truth | difference | limit | | truth is, or why not |\n|---|---|---:|---:|---:|---|---|---|\n";
    for check in VERBS.iter().flat_map(|verb| checks(framework, verb)) {
        let figures = ["told", "truth"].map(|name| check[name].as_f64());
        let [told, truth] = figures.map(|figure| figure.map_or("–".to_owned(), grouped));
        let verdict = match (check["told"].is_null(), check["holds"] == true) {
            (true, _) => "not told",
            (_, true) => "right",
            (_, false) => "**WRONG**",
        };
        let limit = check["limit"].as_str().unwrap_or("–");
        let _ = writeln!(
            text,
            "| `{}` | {} | {told} | {truth} | {} | {limit} | {verdict} | {} |",
            word(check, "verb"),
            word(check, "what"),
            difference(figures),
            word(check, "how"),
        );
    }
    text
}

fn difference(figures: [Option<f64>; 2]) -> String {
    match figures {
        [Some(told), Some(truth)] if (told - truth).abs() < 0.5 => "0".to_owned(),
        [Some(told), Some(truth)] if truth != 0.0 => format!("{:+.2} %", (told / truth - 1.0) * 100.0),
        [Some(told), Some(truth)] => grouped(told - truth),
        _ => "–".to_owned(),
    }
}

/// 12,000,000
fn grouped(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    if value <= -0.5 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_wrong_number_shows_on_the_page() {
        let right = json!({"verb": "run", "what": "peak", "told": 1200.0, "truth": 1000.0, "limit": "± 30 %", "holds": true});
        let wrong = json!({"verb": "heap", "what": "bytes", "told": 1.0, "truth": 2.0, "limit": "the same", "holds": false});
        let silent = json!({"verb": "where", "what": "arrays", "how": "a pool", "holds": true});
        let data = json!({"frameworks": [{"name": "torch", "checks": [right, wrong, silent]}]});
        let text = render(Some(&("x".to_owned(), data)));
        assert!(
            text.contains("| torch | – | – | right | **1 WRONG** | right, 1 not told | not run |"),
            "{text}"
        );
        assert!(text.contains("| peak | 1,200 | 1,000 | +20.00 % | ± 30 % | right |"), "{text}");
        assert!(text.contains("| arrays | – | – | – | – | not told | a pool |"), "{text}");
    }

    #[test]
    fn numbers_are_grouped() {
        assert_eq!([0.0, 12.0, 1234.0, -1_234_567.0].map(grouped), ["0", "12", "1,234", "-1,234,567"]);
    }
}
