//! Which package a program, library or module belongs to.

use std::collections::BTreeMap;

use nilometer_cpython::Holding;
use nilometer_trace::ledger::Library;

/// `/x/site-packages/torch/lib/libtorch_cpu.so` is torch, `/x/numpy.libs/libopenblas.so` numpy, an interpreter and its
/// own modules python, anything else the library's plain name.
pub(super) fn package(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name.strip_suffix(b" (deleted)").unwrap_or(name)).into_owned();
    for place in ["/site-packages/", "/dist-packages/"] {
        if let Some((_, rest)) = name.rsplit_once(place) {
            return of_module(rest);
        }
    }
    let file = name.rsplit('/').next().unwrap_or(&name);
    if name.contains("/lib-dynload/") || file.starts_with("python") || file.starts_with("libpython") {
        return "python".into();
    }
    plain(file).into()
}

/// Adds what modules hold to their packages, and packages that have nothing else; largest first.
pub(super) fn add_holdings(libraries: &mut Vec<Library>, holdings: &[Holding]) {
    let mut held: BTreeMap<String, u64> = BTreeMap::new();
    for holding in holdings {
        *held.entry(package_of_module(&holding.module, holding.file.as_deref())).or_default() +=
            holding.bytes;
    }
    for (name, bytes) in held {
        match libraries.iter_mut().find(|library| library.name == name) {
            Some(library) => library.held_bytes = Some(bytes),
            None => libraries.push(Library { name, held_bytes: Some(bytes), ..Library::default() }),
        }
    }
    let all = |library: &Library| library.code_bytes + library.data_bytes + library.held_bytes.unwrap_or(0);
    libraries.sort_by_key(|library| std::cmp::Reverse(all(library)));
}

/// Packages by where their files are, the standard library and what is built in as python, others by their name.
fn package_of_module(module: &str, file: Option<&str>) -> String {
    let top = module.split('.').next().unwrap_or(module);
    match file {
        _ if top == "__main__" => top.to_owned(),
        Some(file) if file.contains("/site-packages/") || file.contains("/dist-packages/") => {
            package(file.as_bytes())
        }
        Some(file) if is_standard(file) => "python".to_owned(),
        Some(_) => top.to_owned(),
        None => "python".to_owned(),
    }
}

/// `/usr/lib/python3.11/json/__init__.py`.
fn is_standard(file: &str) -> bool {
    let version = file.split("/lib/python").nth(1).and_then(|rest| rest.split('/').next());
    version.is_some_and(|version| version.starts_with("3."))
}

/// The first part of a path below the packages; a module that is one file has its name before the first dot.
fn of_module(rest: &str) -> String {
    let first = rest.split('/').next().unwrap_or(rest);
    let first = if rest.contains('/') { first.strip_suffix(".libs").unwrap_or(first) } else { plain(first) };
    // Libraries that several wheels of one vendor bring: nvidia/cudnn/lib/…
    match (first, rest.split('/').nth(1)) {
        ("nvidia", Some(part)) => format!("nvidia {part}"),
        _ => first.to_owned(),
    }
}

/// `libc.so.6`, `libstdc++.so.6.0.30` and `ld-linux-x86-64.so.2` without what follows the name.
fn plain(file: &str) -> &str {
    let end = file.find(".so").or_else(|| file.find('.').filter(|dot| *dot > 0)).unwrap_or(file.len());
    let stem = &file[..end];
    stem.split(".cpython-").next().unwrap_or(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_belong_to_packages() {
        for (module, file, expected) in [
            ("numpy.linalg", Some("/v/lib/python3.11/site-packages/numpy/linalg/__init__.py"), "numpy"),
            ("six", Some("/usr/lib/python3/dist-packages/six.py"), "six"),
            ("json.decoder", Some("/usr/lib/python3.11/json/decoder.py"), "python"),
            ("sys", None, "python"),
            ("__main__", Some("/home/me/train.py"), "__main__"),
            ("models.tree", Some("/home/me/models/tree.py"), "models"),
        ] {
            assert_eq!(package_of_module(module, file), expected, "{module}");
        }
    }

    #[test]
    fn files_belong_to_packages() {
        for (path, expected) in [
            ("/v/lib/python3.11/site-packages/torch/lib/libtorch_cpu.so", "torch"),
            ("/v/lib/python3.11/site-packages/numpy.libs/libopenblas64_p-r0.so", "numpy"),
            (
                "/v/lib/python3.11/site-packages/_cffi_backend.cpython-311-x86_64-linux-gnu.so",
                "_cffi_backend",
            ),
            ("/v/lib/python3.11/site-packages/nvidia/cudnn/lib/libcudnn.so.9", "nvidia cudnn"),
            ("/usr/lib/python3/dist-packages/yaml/_yaml.so", "yaml"),
            ("/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so", "python"),
            ("/usr/lib/libpython3.11.so.1.0", "python"),
            ("/usr/bin/python3.11", "python"),
            ("/usr/lib/x86_64-linux-gnu/libc.so.6", "libc"),
            ("/usr/lib/x86_64-linux-gnu/libstdc++.so.6.0.30", "libstdc++"),
            ("/home/me/a.out (deleted)", "a"),
            ("/home/me/trainer", "trainer"),
        ] {
            assert_eq!(package(path.as_bytes()), expected, "{path}");
        }
    }
}
