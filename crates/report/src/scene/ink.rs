//! Colours by meaning, for light and dark, told apart also by people who do not see red or green as others do.
//!
//! The series' colours are those of Okabe and Ito; no two neighbours in a stack differ by hue alone.

/// What something is, which is what its colour says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ink {
    Ground,
    Text,
    Faint,
    Grid,
    /// A limit, or growth towards one.
    Limit,
    /// The peak and other flags.
    Flag,
    /// Every other phase or step.
    Stripe,
    /// The n-th kind of a chart.
    Series(usize),
    /// The same, where it is not certain.
    Band(usize),
    /// What has no name.
    Rest,
    /// How much is touched, from 0 to 15.
    Heat(u8),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Theme {
    #[default]
    Light,
    Dark,
}

/// On white and on nearly black.
const SERIES: [(&str, &str); 8] = [
    ("#0072b2", "#4aa8e0"),
    ("#e69f00", "#f0b429"),
    ("#009e73", "#2cc295"),
    ("#cc79a7", "#dd94bc"),
    ("#56b4e9", "#8fd0f5"),
    ("#d55e00", "#f0803c"),
    ("#b8a800", "#e5d94a"),
    ("#7a5fb5", "#a68fd8"),
];

/// From nearly white over blue and orange to dark red: darker is hotter, also without colours.
const HEAT: [&str; 16] = [
    "#eef2f7", "#d9e6f3", "#c4daef", "#afceeb", "#9ac2e7", "#85b6e3", "#8fb0c9", "#a8a99f", "#c1a275",
    "#da9b4b", "#e08d2a", "#cc7423", "#b85b1d", "#a44216", "#902910", "#7c1009",
];

impl Ink {
    /// The class by which a page gives it another colour.
    pub fn class(self) -> String {
        match self {
            Self::Ground => "i-ground".into(),
            Self::Text => "i-text".into(),
            Self::Faint => "i-faint".into(),
            Self::Grid => "i-grid".into(),
            Self::Limit => "i-limit".into(),
            Self::Flag => "i-flag".into(),
            Self::Stripe => "i-stripe".into(),
            Self::Rest => "i-rest".into(),
            Self::Heat(_) => "i-heat".into(),
            Self::Series(n) => format!("i-s{}", n % SERIES.len()),
            Self::Band(n) => format!("i-s{} i-band", n % SERIES.len()),
        }
    }

    pub fn color(self, theme: Theme) -> &'static str {
        let (light, dark) = match self {
            Self::Ground => ("#ffffff", "#14181d"),
            Self::Text => ("#1b1f24", "#e6e9ec"),
            Self::Faint => ("#5b6570", "#9aa5b1"),
            Self::Grid => ("#dde2e7", "#2d343c"),
            Self::Limit => ("#c0392b", "#ff7b6b"),
            Self::Flag => ("#8a3ffc", "#be95ff"),
            Self::Stripe => ("#f3f5f8", "#1a2027"),
            Self::Rest => ("#b4bcc4", "#59636e"),
            Self::Heat(level) => return HEAT[usize::from(level).min(HEAT.len() - 1)],
            Self::Series(n) | Self::Band(n) => SERIES[n % SERIES.len()],
        };
        if theme == Theme::Light { light } else { dark }
    }

    pub fn opacity(self) -> f64 {
        if matches!(self, Self::Band(_)) { 0.35 } else { 1.0 }
    }
}
