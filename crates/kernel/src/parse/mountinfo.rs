//! `/proc/PID/mountinfo`: what is mounted where.

use super::scan::lines;

/// What we use of a mount; names as in `proc_pid_mountinfo(5)`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Mount {
    /// The directory of the file system that is seen at the mount point.
    pub root: String,
    pub mount_point: String,
    pub fs_type: String,
    pub device: String,
    pub super_options: String,
}

impl Mount {
    /// Whether `name` is one of the options of the file system.
    pub fn has_option(&self, name: &str) -> bool {
        self.super_options.split(',').any(|option| option == name)
    }
}

pub fn parse(text: &[u8]) -> Vec<Mount> {
    lines(text).filter_map(mount).collect()
}

/// Fields are separated by one blank each; a device may be empty, so blanks are not merged.
fn mount(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|b| *b == b' ');
    let root = fields.nth(3)?;
    let mount_point = fields.next()?;
    fields.next()?; // options of this mount
    fields.find(|field| *field == b"-")?; // ends the optional fields
    Some(Mount {
        root: unescaped(root),
        mount_point: unescaped(mount_point),
        fs_type: unescaped(fields.next()?),
        device: unescaped(fields.next().unwrap_or(b"")),
        super_options: unescaped(fields.next().unwrap_or(b"")),
    })
}

/// The kernel writes blank, tab, newline and backslash as `\040` and so on (`mangle_path`, `fs/seq_file.c`).
fn unescaped(field: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        if let (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', after @ ..]) = (first, tail) {
            bytes.push((a - b'0') << 6 | (b - b'0') << 3 | (c - b'0'));
            rest = after;
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_captured_machine_is_read() {
        let mounts = parse(include_bytes!("../../fixtures/hybrid.mountinfo"));
        assert_eq!(mounts.len(), 19);
        let memory: Vec<_> =
            mounts.iter().filter(|m| m.fs_type == "cgroup" && m.has_option("memory")).collect();
        let expected = Mount {
            root: "/".into(),
            mount_point: "/sys/fs/cgroup/memory".into(),
            fs_type: "cgroup".into(),
            device: "cgroup".into(),
            super_options: "rw,memory".into(),
        };
        assert_eq!(memory, [&expected]);
    }

    #[test]
    fn optional_fields_escapes_and_empty_devices() {
        let mounts = parse(
            b"36 35 98:0 /a\\040b /mnt\\011x\\134y rw shared:1 master:2 - ext3 /dev/root rw,errors=continue\n\
              37 35 0:9 / /e\\xc3 rw - tmpfs  rw,size=1k\n",
        );
        assert_eq!((&*mounts[0].root, &*mounts[0].mount_point), ("/a b", "/mnt\tx\\y"));
        assert_eq!((&*mounts[0].fs_type, &*mounts[0].device), ("ext3", "/dev/root"));
        assert!(mounts[0].has_option("errors=continue") && !mounts[0].has_option("errors"));
        assert_eq!((&*mounts[1].mount_point, &*mounts[1].device), ("/e\\xc3", ""));
        assert_eq!(mounts[1].super_options, "rw,size=1k");
    }

    #[test]
    fn a_cut_line_is_left_out() {
        assert_eq!(parse(b"36 35 98:0 / /mnt rw shared:1\n"), []);
        assert_eq!(parse(b"36 35 98:0 / /mnt rw -\n"), []);
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_panic(text: Vec<u8>) {
            parse(&text);
        }

        #[test]
        fn any_path_survives_the_kernels_escaping(path in "/[ -~\\t\\n]{0,30}") {
            // mangle(): " \t\n\\#" (fs/proc_namespace.c)
            let escape = |c: char| match c {
                ' ' | '\t' | '\n' | '\\' | '#' => format!("\\{:03o}", c as u32),
                _ => c.to_string(),
            };
            let escaped: String = path.chars().map(escape).collect();
            let line = format!("36 35 98:0 / {escaped} rw - tmpfs t rw\n");
            proptest::prop_assert_eq!(&parse(line.as_bytes())[0].mount_point, &path);
        }
    }
}
