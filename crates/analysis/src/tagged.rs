//! Allocations of a log that names them by tags, put into categories by rules: sums, shares, totals.
//!
//! Such logs tell what was handed out and never what was given back, so every sum is cumulative. The one invariant: the
//! categories and what no rule knows add up to all that was told.

use nilometer_rules::{Group, TagRules};
use serde::Serialize;

/// What a log tells of one tag.
#[derive(Debug, Clone, Copy)]
pub struct Entry<'a> {
    pub tag: &'a str,
    /// The key of its category where that is told.
    pub key: Option<&'a str>,
    pub bytes: u64,
    pub count: u64,
}

/// One log.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Tagged {
    pub name: String,
    /// Largest first.
    pub categories: Vec<Category>,
    /// Tags that no rule knows, largest first.
    pub unmatched: Vec<Unmatched>,
    pub totals: Totals,
    /// Used on the device at most and in the end, where the log tells it: of all programs on it.
    pub device_peak_bytes: Option<u64>,
    pub device_live_bytes: Option<u64>,
    /// Given back without saying what.
    pub releases: u64,
    pub skipped_lines: u64,
    pub broken_lines: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Category {
    /// The part of the tag that decided; the key in files.
    pub key: String,
    pub name: String,
    pub bytes: u64,
    pub count: u64,
    /// Of all that was told.
    pub percent: f64,
    #[serde(skip)]
    pub tags: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Unmatched {
    pub tag: String,
    pub bytes: u64,
    pub count: u64,
}

/// Sums over the categories.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    pub allocated_bytes: u64,
    /// Weights and their gradients.
    pub weight_bytes: u64,
    /// All else that has a tag: optimizer state and workspace too.
    pub forward_bytes: u64,
    pub unknown_bytes: u64,
    pub unmatched_bytes: u64,
    pub annotations: u64,
}

pub fn build<'a>(name: &str, entries: impl Iterator<Item = Entry<'a>>, rules: &TagRules) -> Tagged {
    let mut tagged = Tagged { name: name.to_owned(), ..Tagged::default() };
    for entry in entries {
        let rule = match entry.key {
            Some(key) => rules.of_key(key),
            None => rules.find(entry.tag),
        };
        let totals = &mut tagged.totals;
        totals.annotations = totals.annotations.saturating_add(entry.count);
        totals.allocated_bytes = totals.allocated_bytes.saturating_add(entry.bytes);
        let sum = match rule.map(|rule| rule.group) {
            Some(Group::Weights) => &mut totals.weight_bytes,
            Some(Group::Forward) => &mut totals.forward_bytes,
            Some(Group::Unknown) => &mut totals.unknown_bytes,
            None => &mut totals.unmatched_bytes,
        };
        *sum = sum.saturating_add(entry.bytes);
        match rule {
            Some(rule) => tagged.count(&rule.contains, &rule.name, &entry),
            None => tagged.miss(&entry),
        }
    }
    tagged.finish()
}

impl Tagged {
    fn count(&mut self, key: &str, name: &str, entry: &Entry<'_>) {
        let place = self.categories.iter().position(|category| category.key == key).unwrap_or_else(|| {
            let (key, name) = (key.to_owned(), name.to_owned());
            self.categories.push(Category { key, name, bytes: 0, count: 0, percent: 0.0, tags: Vec::new() });
            self.categories.len() - 1
        });
        if let Some(category) = self.categories.get_mut(place) {
            category.bytes = category.bytes.saturating_add(entry.bytes);
            category.count = category.count.saturating_add(entry.count);
            category.tags.push(entry.tag.to_owned());
        }
    }

    fn miss(&mut self, entry: &Entry<'_>) {
        let tag = entry.key.unwrap_or(entry.tag);
        match self.unmatched.iter_mut().find(|known| known.tag == tag) {
            Some(known) => {
                known.bytes = known.bytes.saturating_add(entry.bytes);
                known.count = known.count.saturating_add(entry.count);
            }
            None => {
                self.unmatched.push(Unmatched {
                    tag: tag.to_owned(),
                    bytes: entry.bytes,
                    count: entry.count,
                });
            }
        }
    }

    fn finish(mut self) -> Self {
        let all = self.totals.allocated_bytes.max(1) as f64;
        for category in &mut self.categories {
            category.percent = category.bytes as f64 * 100.0 / all;
        }
        self.categories.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.key.cmp(&b.key)));
        self.unmatched.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.tag.cmp(&b.tag)));
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_are_those_of_the_groups_and_close() {
        let tags = [
            ("(in_arg:embed_weight).", 100),
            ("(in_arg:fc_weight).", 50),
            ("(arg_grad:embed_weight).", 100),
            ("(optimizer_weight_update_0).", 30),
            ("(workspace:dot-inl).", 7),
            ("(forward_features:rnn_l0).", 200),
            ("(untagged).", 9),
            ("(what is this).", 4),
        ];
        let entries = tags.iter().map(|(tag, bytes)| Entry { tag, key: None, bytes: *bytes, count: 1 });
        let tagged = build("rnn.log", entries, &TagRules::mxnet_profiler().unwrap());
        let totals = Totals {
            allocated_bytes: 500,
            weight_bytes: 250,
            forward_bytes: 237,
            unknown_bytes: 9,
            unmatched_bytes: 4,
            annotations: 8,
        };
        assert_eq!(tagged.totals, totals);
        let shown: Vec<(&str, u64, f64)> =
            tagged.categories.iter().map(|it| (it.name.as_str(), it.bytes, it.percent)).collect();
        assert_eq!(shown[..2], [("RNN Layer", 200, 40.0), ("Weights", 150, 30.0)]);
        let sum: u64 = tagged.categories.iter().map(|category| category.bytes).sum();
        assert_eq!(sum + totals.unmatched_bytes, totals.allocated_bytes);
        assert_eq!(tagged.unmatched, [Unmatched { tag: "(what is this).".into(), bytes: 4, count: 1 }]);
    }
}
