//! Which parameter sets a sweep runs: `--set` words, rows of a file, a random choice of them; smallest first.

use std::collections::BTreeSet;

/// More points than this were not meant.
pub const MOST_POINTS: usize = 10_000;
/// More values of one parameter than this were not meant.
const MOST_VALUES: usize = 100_000;

/// One value as it was typed, and as a number where it is one.
#[derive(Debug, Clone, PartialEq)]
pub struct Value {
    pub text: String,
    pub number: Option<f64>,
}

impl Value {
    pub fn new(text: &str) -> Self {
        let number = text.parse().ok().filter(|number: &f64| number.is_finite());
        Self { text: text.to_owned(), number }
    }

    pub fn of(number: f64) -> Self {
        Self { text: number_text(number), number: Some(number) }
    }
}

/// Up to six digits after the point, as a person would type it.
pub fn number_text(number: f64) -> String {
    if number.fract() == 0.0 && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    format!("{number:.6}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A parameter and the values it takes.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    pub name: String,
    pub values: Vec<Value>,
}

/// One parameter set: a value for each name, in the order of the axes.
pub type Point = Vec<(String, Value)>;

/// `batch=16,32,64`, `batch=16..1024*2`, `window=1..9+2`, `optimizer=adam,sgd`.
pub fn parse_axis(word: &str) -> Result<Axis, String> {
    let (name, list) =
        word.split_once('=').ok_or_else(|| format!("`{word}` has no =; write for example batch=16,32,64"))?;
    if !is_name(name) {
        return Err(format!("`{name}` is no name for a parameter"));
    }
    let mut values = Vec::new();
    for item in list.split(',') {
        match item.split_once("..") {
            Some((from, to)) => values.extend(parse_range(from, to)?),
            None if item.is_empty() => return Err(format!("`{word}` has an empty value")),
            None => values.push(Value::new(item)),
        }
    }
    let distinct: BTreeSet<&str> = values.iter().map(|value| value.text.as_str()).collect();
    if distinct.len() < values.len() {
        return Err(format!("`{word}` has a value twice"));
    }
    Ok(Axis { name: name.to_owned(), values })
}

fn is_name(name: &str) -> bool {
    let bare = name.strip_prefix("env:").unwrap_or(name);
    !bare.is_empty() && bare.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// `16` and `1024*2` (factor 2), `9+2` (step 2), `9` (step 1): both ends belong to it.
fn parse_range(from: &str, to: &str) -> Result<Vec<Value>, String> {
    let number = |text: &str| {
        text.parse::<f64>().ok().filter(|n| n.is_finite()).ok_or_else(|| format!("`{text}` is no number"))
    };
    let (to, factor, step) = match (to.split_once('*'), to.split_once('+')) {
        (Some((to, factor)), _) => (to, Some(number(factor)?), 0.0),
        (None, Some((to, step))) => (to, None, number(step)?),
        (None, None) => (to, None, 1.0),
    };
    let (from, to) = (number(from)?, number(to)?);
    if to < from {
        return Err(format!("the range {from}..{to} is empty"));
    }
    if factor.map_or(step <= 0.0, |factor| factor <= 1.0 || from <= 0.0) {
        return Err("a range needs a step above 0 (1..9+2) or a factor above 1 (16..1024*2)".to_owned());
    }
    let nth = |n: usize| factor.map_or(from + step * n as f64, |factor| from * factor.powi(n as i32));
    let values: Vec<Value> =
        (0..MOST_VALUES).map(nth).take_while(|x| *x <= to * (1.0 + 1e-9)).map(Value::of).collect();
    if values.len() == MOST_VALUES { Err(format!("more than {MOST_VALUES} values")) } else { Ok(values) }
}

/// Rows of a file: CSV with a head line, or JSON objects (one per line, or in an array).
pub fn parse_sets(text: &str) -> Result<Vec<Point>, String> {
    let start = text.trim_start();
    let rows = if start.starts_with(['{', '[']) { parse_json(start) } else { parse_csv(start) }?;
    let first: Vec<&str> =
        rows.first().ok_or("the file has no parameter set")?.iter().map(|(name, _)| name.as_str()).collect();
    if let Some(bad) = first.iter().find(|name| !is_name(name)) {
        return Err(format!("`{bad}` is no name for a parameter"));
    }
    let same = |row: &Point| row.iter().map(|(name, _)| name.as_str()).eq(first.iter().copied());
    match rows.iter().position(|row| !same(row)) {
        Some(place) => {
            Err(format!("set {} does not have the parameters of the first: {}", place + 1, first.join(", ")))
        }
        None => Ok(rows),
    }
}

fn parse_csv(text: &str) -> Result<Vec<Point>, String> {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let names: Vec<&str> = lines.next().unwrap_or_default().split(',').map(str::trim).collect();
    let row = |line: &str| {
        let values: Vec<&str> = line.split(',').map(str::trim).collect();
        if values.len() != names.len() {
            return Err(format!("`{line}` has {} values for {} parameters", values.len(), names.len()));
        }
        Ok(names.iter().zip(values).map(|(name, value)| ((*name).to_owned(), Value::new(value))).collect())
    };
    lines.map(row).collect()
}

fn parse_json(text: &str) -> Result<Vec<Point>, String> {
    let stream = serde_json::Deserializer::from_str(text).into_iter::<serde_json::Value>();
    let mut rows = Vec::new();
    for document in stream {
        match document.map_err(|e| e.to_string())? {
            serde_json::Value::Array(items) => rows.extend(items),
            other => rows.push(other),
        }
    }
    rows.iter().map(json_point).collect()
}

fn json_point(row: &serde_json::Value) -> Result<Point, String> {
    let fields = row.as_object().ok_or("each set must be an object, for example {\"batch\": 16}")?;
    let text = |value: &serde_json::Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(fields.iter().map(|(name, value)| (name.clone(), Value::new(&text(value)))).collect())
}

/// The parameter sets: each row with each combination of the axes; `random` of them, where asked.
pub fn points(rows: &[Point], axes: &[Axis], random: Option<(usize, u64)>) -> Result<Vec<Point>, String> {
    if let Some(axis) =
        axes.iter().find(|axis| axes.iter().filter(|other| other.name == axis.name).count() > 1)
    {
        return Err(format!("{} is set twice", axis.name));
    }
    let named = |name: &str| rows.first().is_some_and(|row| row.iter().any(|(known, _)| known == name));
    if let Some(axis) = axes.iter().find(|axis| named(&axis.name)) {
        return Err(format!("{} is in the file of sets too", axis.name));
    }
    let counts: Vec<usize> =
        std::iter::once(rows.len().max(1)).chain(axes.iter().map(|axis| axis.values.len())).collect();
    let all =
        counts.iter().try_fold(1usize, |all, count| all.checked_mul(*count)).ok_or("too many points")?;
    let wanted = random.map_or(all, |(count, _)| count.min(all));
    if wanted > MOST_POINTS {
        return Err(format!("{all} points; choose some of them:  --random 20"));
    }
    let places = random.map_or_else(|| (0..all).collect(), |(_, seed)| some_of(all, wanted, seed));
    let mut points: Vec<Point> = places.into_iter().map(|place| point(rows, axes, &counts, place)).collect();
    smallest_first(&mut points);
    Ok(points)
}

fn point(rows: &[Point], axes: &[Axis], counts: &[usize], mut place: usize) -> Point {
    let mut digits = counts.iter().rev().map(|count| {
        let digit = place % count;
        place /= count;
        digit
    });
    let mut tail: Point = axes
        .iter()
        .rev()
        .filter_map(|axis| Some((axis.name.clone(), axis.values.get(digits.next()?)?.clone())))
        .collect();
    tail.reverse();
    let mut point = digits.next().and_then(|row| rows.get(row)).cloned().unwrap_or_default();
    point.extend(tail);
    point
}

/// Distinct numbers below `all`, the same for the same seed.
fn some_of(all: usize, wanted: usize, seed: u64) -> BTreeSet<usize> {
    let mut state = seed;
    let mut chosen = BTreeSet::new();
    while chosen.len() < wanted {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        chosen.insert(((z ^ (z >> 31)) % all.max(1) as u64) as usize);
    }
    chosen
}

/// By the mean rank of the numbers: no point comes after one that is at least as large everywhere.
fn smallest_first(points: &mut [Point]) {
    let ranks = |name: &str| -> Vec<f64> {
        let mut values: Vec<f64> = points.iter().filter_map(|point| number(point, name)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup();
        values
    };
    let names: Vec<String> =
        points.first().map(|point| point.iter().map(|(name, _)| name.clone()).collect()).unwrap_or_default();
    let ranked: Vec<(String, Vec<f64>)> =
        names.into_iter().map(|name| (name.clone(), ranks(&name))).collect();
    let size = |point: &Point| -> f64 {
        let rank = |(name, values): &(String, Vec<f64>)| {
            let place = values.partition_point(|value| number(point, name).is_some_and(|x| *value < x));
            place as f64 / values.len().max(2) as f64
        };
        ranked.iter().map(rank).sum()
    };
    points.sort_by(|a, b| size(a).total_cmp(&size(b)));
}

/// The number that a parameter has in a point.
pub fn number(point: &Point, name: &str) -> Option<f64> {
    point.iter().find(|(known, _)| known == name).and_then(|(_, value)| value.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(word: &str) -> Vec<String> {
        parse_axis(word).unwrap().values.into_iter().map(|value| value.text).collect()
    }

    #[test]
    fn lists_and_ranges() {
        assert_eq!(texts("a=1,2,4"), ["1", "2", "4"]);
        assert_eq!(texts("b=16..1024*2"), ["16", "32", "64", "128", "256", "512", "1024"]);
        assert_eq!(texts("b=1..4"), ["1", "2", "3", "4"]);
        assert_eq!(texts("b=0.1..0.5+0.2,adam"), ["0.1", "0.3", "0.5", "adam"]);
        assert_eq!(texts("env:OMP_NUM_THREADS=1,2"), ["1", "2"]);
        for absurd in [
            "a", "=1", "a=", "a=1,", "a=5..1", "a=1..9+0", "a=1..9*1", "a=0..9*2", "a=1,1", "a b=1",
            "a=1..1e9",
        ] {
            assert!(parse_axis(absurd).is_err(), "{absurd}");
        }
    }

    #[test]
    fn small_points_come_first_and_none_is_lost() {
        let axes = [
            parse_axis("a=4,1,2").unwrap(),
            parse_axis("o=sgd,adam").unwrap(),
            parse_axis("b=10,1").unwrap(),
        ];
        let points = points(&[], &axes, None).unwrap();
        assert_eq!(points.len(), 12);
        for (place, late) in points.iter().enumerate() {
            for early in &points[..place] {
                let larger = |name| number(early, name) > number(late, name);
                let as_large = |name| number(early, name) >= number(late, name);
                assert!(
                    !(as_large("a") && as_large("b") && (larger("a") || larger("b"))),
                    "{early:?} {late:?}"
                );
            }
        }
    }

    #[test]
    fn a_random_choice_is_the_same_again() {
        let axes = [parse_axis("a=1..1000").unwrap(), parse_axis("b=1..1000").unwrap()];
        let once = points(&[], &axes, Some((20, 7))).unwrap();
        assert_eq!((once.len(), &once), (20, &points(&[], &axes, Some((20, 7))).unwrap()));
        assert_ne!(once, points(&[], &axes, Some((20, 8))).unwrap());
        assert!(points(&[], &axes, None).unwrap_err().contains("--random"));
        assert_eq!(points(&[], &axes[..1], Some((5_000, 1))).unwrap().len(), 1_000);
    }

    #[test]
    fn sets_from_files() {
        let csv = parse_sets("batch, window\n# small\n16,128\n32,64\n").unwrap();
        let json = parse_sets("{\"batch\": 16, \"window\": 128}\n{\"batch\": 32, \"window\": 64}\n").unwrap();
        let array =
            parse_sets(" [{\"batch\": 16, \"window\": 128}, {\"batch\": 32, \"window\": 64}]").unwrap();
        assert_eq!((&csv, &json), (&json, &array));
        assert_eq!(points(&csv, &[parse_axis("a=1,2").unwrap()], None).unwrap().len(), 4);
        for absurd in ["", "a,b\n1\n", "{\"a\":1}\n{\"b\":1}", "[1]", "{", "a b\n1"] {
            assert!(parse_sets(absurd).is_err(), "{absurd}");
        }
        assert!(points(&csv, &[parse_axis("batch=1").unwrap()], None).unwrap_err().contains("file"));
    }
}
