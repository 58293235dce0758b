//! Tags of allocations in a log, put into categories: an ordered list of parts of tags, the first that is found decides.

use serde::Deserialize;

use crate::Error;

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagRule {
    /// A part of the tag; it is also the key of the category in files.
    pub contains: String,
    /// As it is shown.
    pub name: String,
    pub group: Group,
}

/// What a category is summed up under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    Weights,
    Forward,
    Unknown,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TagRules {
    tag: Vec<TagRule>,
}

impl TagRules {
    /// The rules of the MXNet memory profiler.
    pub fn mxnet_profiler() -> Result<Self, Error> {
        Self::parse("mxnet-profiler.toml", include_str!("../rules/mxnet-profiler.toml"))
    }

    pub fn parse(name: &str, text: &str) -> Result<Self, Error> {
        toml::from_str(text).map_err(|error| Error::new(name, &error))
    }

    /// These rules, asked before the others.
    #[must_use]
    pub fn over(mut self, others: Self) -> Self {
        self.tag.extend(others.tag);
        self
    }

    /// The category of a tag; `None` for a tag that no rule knows.
    pub fn find(&self, tag: &str) -> Option<&TagRule> {
        self.tag.iter().find(|rule| tag.contains(&rule.contains))
    }

    /// The rule of a category's key, as files have it.
    pub fn of_key(&self, key: &str) -> Option<&TagRule> {
        self.tag.iter().find(|rule| rule.contains == key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_is_found_decides() {
        let rules = TagRules::mxnet_profiler().unwrap();
        let key = |tag: &str| rules.find(tag).map(|rule| rule.contains.as_str());
        // An embedding's weight is a weight, a gradient of an attention is a gradient.
        assert_eq!(key("(in_arg:source_embed_weight)."), Some("in_arg"));
        assert_eq!(key("(arg_grad:att_weight)."), Some("arg_grad"));
        assert_eq!(key("(workspace:dot-inl)."), Some("workspace"));
        assert_eq!(key("(forward_features:encoder_rnn_l0)."), Some("rnn"));
        assert_eq!(key("(target)."), Some("(target)"));
        assert_eq!(key("(untagged)."), Some("untagged"));
        assert_eq!(key("(nobody knows)."), None);
    }

    #[test]
    fn own_rules_are_asked_first() {
        let own = "[[tag]]\ncontains = \"my_rnn\"\nname = \"Mine\"\ngroup = \"forward\"\n";
        let rules = TagRules::parse("own", own).unwrap().over(TagRules::mxnet_profiler().unwrap());
        assert_eq!(rules.find("my_rnn_l0").unwrap().name, "Mine");
        assert_eq!(rules.find("rnn_l0").unwrap().name, "RNN Layer");
        assert!(TagRules::parse("own", "[[tag]]\nname = 1\n").unwrap_err().to_string().starts_with("own:"));
    }
}
