//! Names as people write them: functions demangled, libraries and packages from paths.

use cpp_demangle::{DemangleOptions, Symbol};

use super::model::{Frame, FrameKind};

/// What the compiler appends to the name of a part of a function.
const PARTS: [&str; 5] = [".cold", ".part.", ".isra.", ".constprop.", ".llvm."];
const INITIALISER: &str = "_GLOBAL__sub_I_";

/// A function's name without the linker's spelling, its parameters and the compiler's suffixes.
pub fn function(raw: &str) -> String {
    let plain = PARTS.iter().filter_map(|part| raw.find(part)).min().map_or(raw, |end| &raw[..end]);
    if let Some(file) = plain.strip_prefix(INITIALISER) {
        return format!("static initialiser of {}", function(file));
    }
    if let Ok(rust) = rustc_demangle::try_demangle(plain) {
        return format!("{rust:#}");
    }
    if !plain.starts_with("_Z") {
        return plain.to_owned();
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    let symbol = Symbol::new(plain).ok().and_then(|symbol| symbol.demangle_with_options(&options).ok());
    symbol.unwrap_or_else(|| plain.to_owned())
}

/// The file's name of a library.
pub fn library(path: &str) -> &str {
    path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(path)
}

/// The package that a Python file belongs to: what one would import, else the file itself.
pub fn package(file: &str) -> &str {
    for folder in ["/site-packages/", "/dist-packages/"] {
        if let Some((_, inside)) = file.rsplit_once(folder) {
            let first = inside.split('/').next().unwrap_or(inside);
            return first.strip_suffix(".py").unwrap_or(first);
        }
    }
    if file.starts_with("<frozen ") || is_standard(file) {
        return "Python's standard library";
    }
    library(file)
}

/// Python code of the program itself: in no package that was installed, and not in the standard library.
pub fn is_own(frame: &Frame) -> bool {
    let (Some(file), Some(package)) = (&frame.file, &frame.library) else { return false };
    frame.kind == FrameKind::Python && library(file) == package && !file.starts_with("<__")
}

/// `…/lib/python3.12/json/decoder.py`.
fn is_standard(file: &str) -> bool {
    file.split("/lib/python3").nth(1).is_some_and(|rest| {
        let rest = rest.trim_start_matches(|c: char| c == '.' || c.is_ascii_digit() || c == 't');
        rest.starts_with('/')
    })
}

/// `3.12` of `PY_VERSION_HEX >> 16`.
pub fn python(version: u32) -> Option<String> {
    (version != 0).then(|| format!("{}.{}", version >> 8 & 0xff, version & 0xff))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_demangled_without_parameters() {
        let known = [
            ("main", "main"),
            ("_ZN3c109alloc_cpuEm", "c10::alloc_cpu"),
            ("_Z3fooIiEvT_", "foo<int>"),
            ("hidden.constprop.0.cold", "hidden"),
            ("_ZN4core3ptr13drop_in_place17h0123456789abcdefE", "core::ptr::drop_in_place"),
            ("_RNvCs1234_7mycrate3foo", "mycrate::foo"),
            ("_GLOBAL__sub_I_ops.cpp", "static initialiser of ops.cpp"),
            ("_Z", "_Z"),
            ("", ""),
        ];
        for (raw, name) in known {
            assert_eq!(function(raw), name);
        }
    }

    #[test]
    fn packages_come_from_paths() {
        let known = [
            ("/v/lib/python3.11/site-packages/torch/nn/modules/linear.py", "torch"),
            ("/usr/lib/python3/dist-packages/six.py", "six"),
            ("/usr/lib/python3.11/json/decoder.py", "Python's standard library"),
            ("<frozen importlib._bootstrap>", "Python's standard library"),
            ("/home/me/train.py", "train.py"),
            ("<string>", "<string>"),
        ];
        for (file, name) in known {
            assert_eq!(package(file), name);
        }
        assert_eq!(library("/usr/lib/libc.so.6"), "libc.so.6");
        assert_eq!((python(0x030c), python(0)), (Some("3.12".to_owned()), None));
    }
}
