//! Who may depend on whom.

use std::path::Path;

use serde_json::Value;

/// Crate (by directory) and the workspace crates it may name. Crates may stand here before they exist.
const ARROWS: &[(&str, &[&str])] = &[
    ("ring", &[]),
    ("tracker", &["ring"]),
    ("embed", &[]),
    ("kernel", &[]),
    ("image", &["kernel"]),
    ("cpython", &["image", "trace"]),
    ("native", &["image", "trace"]),
    ("trace", &["ring"]),
    ("rules", &[]),
    ("metrics", &[]),
    ("capture", &["ring", "kernel", "image", "cpython", "native", "trace", "rules", "metrics"]),
    ("wire", &[]),
    ("import", &["trace", "wire"]),
    ("analysis", &["trace", "rules"]),
    ("tables", &["trace", "analysis"]),
    ("report", &["analysis", "wire"]),
    (
        "cli",
        &[
            "ring", "embed", "kernel", "image", "cpython", "native", "trace", "capture", "import",
            "analysis", "tables", "report", "rules", "metrics",
        ],
    ),
    // For tests only: nobody may depend on it otherwise.
    ("lab", &[]),
    ("xtask", &[]),
];

/// Outside crates that only some of ours may use, also in tests.
const RESERVED: &[(&str, &[&str])] =
    &[("arrow", &["tables"]), ("parquet", &["tables"]), ("clap", &["cli", "xtask"])];

/// Violations in the output of `cargo metadata --no-deps`.
pub fn check(metadata: &Value, root: &Path) -> Vec<String> {
    let packages = metadata["packages"].as_array().map_or(&[][..], Vec::as_slice);
    packages.iter().flat_map(|package| check_package(package, root)).collect()
}

fn check_package(package: &Value, root: &Path) -> Vec<String> {
    let manifest = Path::new(package["manifest_path"].as_str().unwrap_or_default());
    let name = directory_name(manifest.parent());
    let file = manifest.strip_prefix(root).unwrap_or(manifest).display();
    let Some((_, allowed)) = ARROWS.iter().find(|(from, _)| *from == name) else {
        return vec![format!("{file}: crate `{name}` is not in the arrow table (xtask/src/arrows/graph.rs)")];
    };
    let dependencies = package["dependencies"].as_array().map_or(&[][..], Vec::as_slice);
    dependencies
        .iter()
        .filter_map(|dependency| check_dependency(&name, allowed, dependency))
        .map(|what| format!("{file}: {what}"))
        .collect()
}

fn check_dependency(name: &str, allowed: &[&str], dependency: &Value) -> Option<String> {
    let package = dependency["name"].as_str().unwrap_or_default();
    if let Some(path) = dependency["path"].as_str() {
        let to = directory_name(Some(Path::new(path)));
        let test_only = dependency["kind"] == "dev";
        return (!test_only && !allowed.contains(&to.as_str()))
            .then(|| format!("`{name}` must not depend on `{to}`"));
    }
    let (family, users) = RESERVED.iter().find(|(family, _)| is_of_family(package, family))?;
    (!users.contains(&name))
        .then(|| format!("`{name}` must not use `{package}`: {family} is for {}", users.join(", ")))
}

/// `arrow-array` is of the family `arrow`.
fn is_of_family(package: &str, family: &str) -> bool {
    package.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

fn directory_name(path: Option<&Path>) -> String {
    path.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check_one(name: &str, dependencies: &Value) -> Vec<String> {
        let manifest = format!("/r/crates/{name}/Cargo.toml");
        let metadata = json!({"packages": [{"manifest_path": manifest, "dependencies": dependencies}]});
        check(&metadata, Path::new("/r"))
    }

    fn member(name: &str, kind: &Value) -> Value {
        json!({"name": format!("nilometer-{name}"), "path": format!("/r/crates/{name}"), "kind": kind})
    }

    #[test]
    fn an_allowed_arrow_is_silent() {
        assert!(check_one("tables", &json!([member("trace", &Value::Null)])).is_empty());
    }

    #[test]
    fn an_arrow_against_the_flow_is_found() {
        let found = check_one("report", &json!([member("trace", &Value::Null)]));
        assert_eq!(found, ["crates/report/Cargo.toml: `report` must not depend on `trace`"]);
    }

    #[test]
    fn a_build_dependency_counts_and_a_test_dependency_does_not() {
        assert_eq!(check_one("analysis", &json!([member("kernel", &json!("build"))])).len(), 1);
        assert!(check_one("analysis", &json!([member("kernel", &json!("dev"))])).is_empty());
    }

    #[test]
    fn the_binary_may_use_all_but_the_tracker() {
        assert!(check_one("cli", &json!([member("capture", &Value::Null)])).is_empty());
        assert_eq!(check_one("cli", &json!([member("tracker", &Value::Null)])).len(), 1);
    }

    #[test]
    fn arrow_and_clap_have_their_crates() {
        let arrow = json!([{"name": "arrow-array", "kind": null}]);
        let clap = json!([{"name": "clap", "kind": null}]);
        assert!(check_one("tables", &arrow).is_empty());
        assert_eq!(
            check_one("report", &arrow),
            ["crates/report/Cargo.toml: `report` must not use `arrow-array`: arrow is for tables"]
        );
        assert!(check_one("cli", &clap).is_empty());
        assert_eq!(check_one("capture", &clap).len(), 1);
        assert!(check_one("capture", &json!([{"name": "arrowhead", "kind": null}])).is_empty());
    }

    #[test]
    fn an_unknown_crate_is_found() {
        assert_eq!(check_one("toolbox", &json!([])).len(), 1);
    }

    #[test]
    fn every_arrow_points_to_a_crate_of_the_table() {
        for to in ARROWS.iter().flat_map(|(_, allowed)| *allowed) {
            assert!(ARROWS.iter().any(|(from, _)| from == to), "{to}");
        }
    }
}
