//! Which package a program or library belongs to.

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
