//! A parameter set put into the command: `{batch}`, `{env:NAME}`, and variables of the run.

use nilometer_analysis::sweep::space::Point;
use nilometer_report::text::quoted;

/// The variable that a parameter `threads` sets where the command does not name it: torch, MKL, `OpenBLAS` and
/// `OpenMP` programs all read it.
const THREADS_VARIABLE: &str = "OMP_NUM_THREADS";

/// A command ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Instance {
    pub argv: Vec<String>,
    pub environment: Vec<(String, String)>,
}

/// Replaces every `{name}` of a parameter; other braces stay as they are.
pub fn instance(command: &[String], params: &Point) -> Result<Instance, String> {
    let environment: Vec<(String, String)> = params
        .iter()
        .filter_map(|(name, value)| Some((variable(command, name)?, value.text.clone())))
        .collect();
    if let Some((name, _)) =
        params.iter().find(|(name, _)| variable(command, name).is_none() && !is_used(command, name))
    {
        return Err(format!(
            "the command does not use {name}: write {{{name}}} where its value belongs, or --set env:NAME=… for a variable"
        ));
    }
    let argv = command.iter().map(|word| word_with(word, params, &environment)).collect::<Result<_, _>>()?;
    Ok(Instance { argv, environment })
}

fn variable(command: &[String], name: &str) -> Option<String> {
    match name.strip_prefix("env:") {
        Some(variable) => Some(variable.to_owned()),
        None if name == "threads" && !is_used(command, name) => Some(THREADS_VARIABLE.to_owned()),
        None => None,
    }
}

fn is_used(command: &[String], name: &str) -> bool {
    let place = format!("{{{name}}}");
    command.iter().any(|word| word.contains(&place))
}

fn word_with(word: &str, params: &Point, environment: &[(String, String)]) -> Result<String, String> {
    let mut out = word.to_owned();
    for (name, value) in params {
        out = out.replace(&format!("{{{name}}}"), &value.text);
    }
    while let Some(start) = out.find("{env:") {
        let end = out[start..]
            .find('}')
            .map(|n| start + n)
            .ok_or_else(|| format!("`{word}` has no }} after {{env:"))?;
        let name = out[start + 5..end].to_owned();
        let own = environment.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        let value = own
            .or_else(|| std::env::var(&name).ok())
            .ok_or_else(|| format!("the variable {name} is not set"))?;
        out.replace_range(start..=end, &value.replace("{env:", "{ env:"));
    }
    Ok(out)
}

/// As a shell takes it.
pub fn shell_line(instance: &Instance) -> String {
    let variables = instance.environment.iter().map(|(name, value)| format!("{name}={}", quoted(value)));
    variables.chain(instance.argv.iter().map(|word| quoted(word))).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use nilometer_analysis::sweep::space::Value;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    fn params(pairs: &[(&str, &str)]) -> Point {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), Value::new(value))).collect()
    }

    #[test]
    fn values_go_where_their_names_stand() {
        let found =
            instance(&words("python t.py --batch={batch} {batch} {'a':1}"), &params(&[("batch", "16")]))
                .unwrap();
        assert_eq!(found.argv, words("python t.py --batch=16 16 {'a':1}"));
    }

    #[test]
    fn variables_are_set_and_read() {
        let found = instance(&words("sh -c {env:OMP_NUM_THREADS}"), &params(&[("env:OMP_NUM_THREADS", "2")]))
            .unwrap();
        assert_eq!(found.environment, [("OMP_NUM_THREADS".to_owned(), "2".to_owned())]);
        assert_eq!(found.argv[2], "2");
        let threads = instance(&words("python t.py"), &params(&[("threads", "4")])).unwrap();
        assert_eq!(shell_line(&threads), "OMP_NUM_THREADS=4 python t.py");
        let named = instance(&words("python t.py -j {threads}"), &params(&[("threads", "4")])).unwrap();
        assert!(named.environment.is_empty());
        assert!(
            instance(&words("p {env:NILO_NO_SUCH_VARIABLE}"), &params(&[])).unwrap_err().contains("not set")
        );
        assert!(instance(&words("p {env:HOME"), &params(&[])).is_err());
    }

    #[test]
    fn an_unused_parameter_is_refused() {
        assert!(instance(&words("python t.py"), &params(&[("batch", "4")])).unwrap_err().contains("{batch}"));
        assert_eq!(quoted("it's"), r"'it'\''s'");
    }
}
