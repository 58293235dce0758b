//! The programs that the guest needs; where we may install, a missing one is installed.

use std::fs;
use std::path::Path;

use anyhow::Result;

use crate::test::tool;

/// A Debian package, and a file that is there when it is.
pub struct Package {
    name: &'static str,
    file: &'static str,
}

pub const BUSYBOX: &str = "/bin/busybox";
/// The system's: its libraries are where `ldd` says.
pub const PYTHON: &str = "/usr/bin/python3";

pub const TO_RUN: &[Package] = &[
    Package { name: "qemu-system-x86", file: "/usr/bin/qemu-system-x86_64" },
    Package { name: "busybox-static", file: BUSYBOX },
    Package { name: "cpio", file: "/bin/cpio" },
    Package { name: "gcc", file: "/usr/bin/cc" },
    Package { name: "python3-minimal", file: PYTHON },
    Package { name: "libc6-dev", file: "/usr/include/stdio.h" },
];

/// What compiles a kernel, besides its source.
pub const TO_BUILD: &[Package] = &[
    Package { name: "make", file: "/usr/bin/make" },
    Package { name: "bc", file: "/usr/bin/bc" },
    Package { name: "bison", file: "/usr/bin/bison" },
    Package { name: "flex", file: "/usr/bin/flex" },
    Package { name: "libelf-dev", file: "/usr/include/gelf.h" },
    Package { name: "libssl-dev", file: "/usr/include/openssl/ssl.h" },
    Package { name: "xz-utils", file: "/usr/bin/xz" },
];

/// What is still missing after installing what may be installed, as a reason with a command.
pub fn ensure(packages: &[Package]) -> Result<Option<String>> {
    let missing = || -> Vec<&str> {
        packages.iter().filter(|package| !is_there(package)).map(|package| package.name).collect()
    };
    if !missing().is_empty() {
        install(&missing())?;
    }
    Ok(Some(missing()).filter(|names| !names.is_empty()).map(|names| reason(&names)))
}

/// Installs where we may.
pub fn install(names: &[&str]) -> Result<()> {
    if tool::can_install()? { tool::install_packages(names) } else { Ok(()) }
}

pub fn reason(names: &[&str]) -> String {
    format!("missing packages: sudo apt-get install {}", names.join(" "))
}

fn is_there(package: &Package) -> bool {
    // The other package of busybox has a dynamic one at the same place: the guest has no libraries.
    Path::new(package.file).exists() && (package.file != BUSYBOX || is_static(BUSYBOX))
}

fn is_static(program: &str) -> bool {
    const LOADER: &[u8] = b"/ld-linux";
    fs::read(program).is_ok_and(|bytes| !bytes.windows(LOADER.len()).any(|part| part == LOADER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_names_its_loader_is_not_static() {
        assert!(!is_static("/bin/sh"));
        assert!(!is_static("/nonexistent"));
    }

    #[test]
    fn the_reason_is_a_command() {
        assert_eq!(reason(&["cpio", "bc"]), "missing packages: sudo apt-get install cpio bc");
    }
}
