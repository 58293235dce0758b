//! One view of a page: its question, the sentence that answers it, how that is known, and what is drawn.

use super::markup::Markup;
use crate::layout::Line;

/// How an answer is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Badge {
    Measured,
    Estimated(String),
    NotAvailable,
}

#[derive(Debug, Clone)]
pub(super) struct View {
    /// The verb that answers the same question, and the anchor.
    pub(super) id: &'static str,
    pub(super) question: &'static str,
    pub(super) sentence: String,
    pub(super) badge: Badge,
    pub(super) body: Markup,
}

impl View {
    /// A view without data: one line, with the command that would bring it.
    pub(super) fn absent(id: &'static str, question: &'static str, why: &str, command: &str) -> Self {
        let sentence = format!("{why}: ");
        let body = Markup::element("p", &[("class", "how")], Markup::tagged("code", &[], command));
        Self { id, question, sentence, badge: Badge::NotAvailable, body }
    }

    pub(super) fn is_absent(&self) -> bool {
        self.badge == Badge::NotAvailable
    }

    pub(super) fn render(&self) -> Markup {
        let head = [
            Markup::tagged("h2", &[], self.id),
            Markup::tagged("span", &[("class", "question")], self.question),
            self.badge.render(),
        ];
        let head = Markup::element("header", &[], head.into_iter().collect());
        let sentence = Markup::tagged("p", &[("class", "sentence")], &self.sentence);
        let class = if self.is_absent() { "view absent" } else { "view" };
        let attributes = [("id", self.id), ("class", class), ("tabindex", "-1")];
        Markup::element("section", &attributes, [head, sentence, self.body.clone()].into_iter().collect())
    }
}

impl Badge {
    fn render(&self) -> Markup {
        let (class, text) = match self {
            Self::Measured => ("badge measured", "measured".to_owned()),
            Self::Estimated(how) if how.is_empty() => ("badge estimated", "estimated".to_owned()),
            Self::Estimated(how) => ("badge estimated", format!("estimated: {how}")),
            Self::NotAvailable => ("badge absent", "not available".to_owned()),
        };
        Markup::tagged("span", &[("class", class)], &text)
    }
}

/// A picture that the script may replace by one that answers.
pub(super) fn figure(id: &'static str, scene: Option<&crate::scene::Scene>) -> Markup {
    let picture = scene.map(Markup::picture).unwrap_or_default();
    Markup::element("figure", &[("id", id)], picture)
}

/// A label and a sentence each.
pub(super) fn findings<'a>(lines: impl IntoIterator<Item = &'a Line>) -> Markup {
    let pair = |line: &Line| -> Markup {
        let pair = [Markup::tagged("dt", &[], line.label), Markup::tagged("dd", &[], &line.text)];
        pair.into_iter().collect()
    };
    Markup::element("dl", &[("class", "findings")], lines.into_iter().map(pair).collect())
}
