use nilometer_analysis::tagged::{Entry, Tagged, build};

use super::*;
use crate::scene::{Theme, svg};

fn rules() -> nilometer_rules::TagRules {
    nilometer_rules::TagRules::mxnet_profiler().unwrap()
}

fn tagged(name: &str) -> Tagged {
    let tags =
        [("(in_arg:w).", 3 << 20), ("(workspace:conv).", 1 << 20), ("(forward_features:<b>&rnn).", 1 << 20)];
    let entries = tags.iter().map(|(tag, bytes)| Entry { tag, key: None, bytes: *bytes, count: 1 });
    build(name, entries.chain([Entry { tag: "(odd).", key: None, bytes: 1 << 20, count: 2 }]), &rules())
}

const PLAIN: Style = Style { width: 100, color: false, unicode: true, whole: false };

#[test]
fn the_screen_has_the_totals_and_what_no_rule_knows() {
    let shown = render(&tagged("conv_1g.log"), &PLAIN);
    for words in [
        "3.00",
        "50.00",
        "Weights",
        "allocations 6.00 MB",
        "weights 3.00 MB",
        "5 annotations",
        "(odd). 1.00 MB (2×)",
    ] {
        assert!(shown.contains(words), "{words}\n{shown}");
    }
}

#[test]
fn the_analysis_is_what_the_scripts_store() {
    let stored: Value = serde_json::from_str(&analysis(&tagged("x"))).unwrap();
    assert_eq!(stored["in_arg"], json!([3_145_728.0, ["(in_arg:w)."]]));
    assert_eq!(stored.as_object().unwrap().len(), 3);
}

#[test]
fn charts_have_shares_beside_names_and_small_ones_can_go() {
    let draw =
        |charting: &Charting| svg::render(&chart(&tagged("conv_1g.log"), charting).unwrap(), Theme::Light);
    let all = draw(&Charting::default());
    for words in
        ["CONVOLUTIONAL", "total allocation 6.00 MB", "3.00 MiB (50.00%)", ">Weights<", ">Workspace<"]
    {
        assert!(all.contains(words), "{words}\n{all}");
    }
    let few = draw(&Charting { title: "<batch> 8".into(), min_percent: 20.0 });
    assert!(
        few.contains("&lt;batch&gt; 8") && few.contains(">Weights<") && !few.contains(">Workspace<"),
        "{few}"
    );
    assert_eq!(chart(&tagged("x"), &Charting { min_percent: 99.0, ..Charting::default() }), None);
    let together = chart_together(&[tagged("b"), tagged("a"), tagged("c")], &Charting::default()).unwrap();
    let together = svg::render(&together, Theme::Light);
    let names = ["profile: a", "profile: b", "profile: c"].map(|name| together.find(name).unwrap());
    assert!(names.is_sorted());
}
