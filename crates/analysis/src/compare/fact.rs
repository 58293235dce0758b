//! Environment and configuration of a side, and how two of them differ: the first thing to look at.

use nilometer_trace::Manifest;
use serde::Serialize;

/// A named fact that is not the same on both sides.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FactChange {
    pub what: String,
    pub base: Option<String>,
    pub other: Option<String>,
}

/// What a run was made with, in the order in which a reader wants it.
pub fn facts(manifest: &Manifest) -> Vec<(String, String)> {
    let host = &manifest.host;
    let mut facts: Vec<(String, String)> = command_facts(&manifest.command);
    facts.extend(manifest.environment.iter().map(|(name, value)| (format!("${name}"), value.clone())));
    let limit = manifest
        .limit
        .as_ref()
        .map(|limit| format!("{} ({})", crate::text::bytes(limit.bytes), limit.source));
    let fixed = [
        ("host", host.name.clone()),
        ("kernel", host.kernel.clone()),
        ("processors", host.cpus.to_string()),
        ("memory", crate::text::bytes(host.memory_bytes)),
        ("swap", crate::text::bytes(host.swap_bytes)),
        ("transparent huge pages", host.transparent_hugepages.clone()),
        ("overcommit", host.overcommit.clone()),
        ("container", host.container.clone().unwrap_or_default()),
        ("limit", limit.unwrap_or_default()),
        ("nilo", manifest.nilo_version.clone()),
        ("interval", format!("{} ms", manifest.options.interval_ms)),
        ("recorded by", manifest.verb.clone()),
    ];
    facts.extend(fixed.into_iter().map(|(name, value)| (name.to_owned(), value)));
    facts.retain(|(_, value)| !value.is_empty());
    facts
}

/// The program, each option with its value, and the words that belong to none.
fn command_facts(command: &[String]) -> Vec<(String, String)> {
    let mut facts = vec![("program".to_owned(), command.first().cloned().unwrap_or_default())];
    let mut words = command.iter().skip(1).peekable();
    let mut bare = 0;
    while let Some(word) = words.next() {
        if let Some((name, value)) = word.split_once('=').filter(|_| word.starts_with('-')) {
            facts.push((name.to_owned(), value.to_owned()));
        } else if word.starts_with('-') && word.len() > 1 {
            let value = words.next_if(|next| !next.starts_with('-') || next.parse::<f64>().is_ok());
            facts.push((word.clone(), value.cloned().unwrap_or_else(|| "given".to_owned())));
        } else {
            bare += 1;
            facts.push((format!("argument {bare}"), word.clone()));
        }
    }
    facts
}

/// What is on one side only, or differs.
pub fn changes(base: &[(String, String)], other: &[(String, String)]) -> Vec<FactChange> {
    let value = |facts: &[(String, String)], name: &str| {
        facts.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    let added = other.iter().filter(|(name, _)| value(base, name).is_none());
    let names = base.iter().chain(added).map(|(name, _)| name);
    let change =
        |name: &String| FactChange { what: name.clone(), base: value(base, name), other: value(other, name) };
    names.map(change).filter(|change| change.base != change.other).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<(String, String)> {
        command_facts(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn a_changed_option_is_named_wherever_it_stands() {
        let changed = changes(
            &words("python train.py --batch 16 --lr=0.1 -v"),
            &words("python train.py --lr=0.1 --batch 32"),
        );
        let told: Vec<_> =
            changed.iter().map(|c| (c.what.as_str(), c.base.as_deref(), c.other.as_deref())).collect();
        assert_eq!(told, [("--batch", Some("16"), Some("32")), ("-v", Some("given"), None)]);
        assert!(changes(&words("a b"), &words("a b")).is_empty());
        assert_eq!(words("p --shift -1")[1], ("--shift".to_owned(), "-1".to_owned()));
    }
}
