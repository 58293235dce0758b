//! `/proc/PID/cgroup`: the control groups of a process.

use super::scan::{lines, number};

/// `hierarchy` 0 without controllers is the unified one (cgroup v2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    pub hierarchy: u32,
    pub controllers: Vec<String>,
    /// Relative to the root of the reader's cgroup namespace.
    pub path: String,
}

impl Membership {
    pub fn is_unified(&self) -> bool {
        self.hierarchy == 0 && self.controllers.is_empty()
    }
}

/// `id:controller,controller:path` per line; a path may itself contain colons.
pub fn parse(text: &[u8]) -> Vec<Membership> {
    lines(text).filter_map(membership).collect()
}

fn membership(line: &[u8]) -> Option<Membership> {
    let mut parts = line.splitn(3, |b| *b == b':');
    let hierarchy = u32::try_from(number(parts.next()?)?).ok()?;
    let controllers = parts.next()?.split(|b| *b == b',').filter(|name| !name.is_empty()).map(text).collect();
    Some(Membership { hierarchy, controllers, path: text(parts.next()?) })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn membership(hierarchy: u32, controllers: &[&str], path: &str) -> Membership {
        let controllers = controllers.iter().map(|name| (*name).to_owned()).collect();
        Membership { hierarchy, controllers, path: path.to_owned() }
    }

    #[test]
    fn a_hybrid_machine_has_both() {
        let all = parse(include_bytes!("../../fixtures/hybrid.cgroup"));
        assert_eq!(all.len(), 10);
        assert_eq!(all[0], membership(9, &["name=systemd"], "/"));
        assert_eq!(all[5], membership(4, &["memory"], "/jobs/5b4e8d43"));
        assert_eq!(all[9], membership(0, &[], "/"));
        assert!(all[9].is_unified() && !all[5].is_unified());
    }

    #[test]
    fn controllers_are_a_list_and_paths_may_have_colons() {
        assert_eq!(parse(b"4:cpu,cpuacct:/a:b/c\n"), [membership(4, &["cpu", "cpuacct"], "/a:b/c")]);
        assert_eq!(parse(b"0::/../x (deleted)\n"), [membership(0, &[], "/../x (deleted)")]);
        assert_eq!(parse(b"nonsense\n7:\n"), []);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            parse(&text);
        }
    }
}
