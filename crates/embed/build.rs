//! Builds the tracker in a target directory of its own and puts its bytes where `lib.rs` finds them.
//!
//! The caller's flags are for the caller's program: sanitizers, coverage and `+crt-static` (which silently
//! drops a `cdylib`) must not reach a library that is loaded into other people's processes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?).join("tracker.so");
    println!("cargo::rerun-if-env-changed=NILO_TRACKER_LIB");
    if let Some(prebuilt) = env::var_os("NILO_TRACKER_LIB") {
        println!("cargo::rerun-if-changed={}", Path::new(&prebuilt).display());
        fs::copy(prebuilt, out)?;
    } else if is_only_checked() {
        fs::write(out, b"")?;
    } else {
        build(&out)?;
    }
    Ok(())
}

/// A linter runs nothing: it gets a placeholder, which `is_placeholder` tells.
fn is_only_checked() -> bool {
    println!("cargo::rerun-if-env-changed=CLIPPY_ARGS");
    env::var_os("CLIPPY_ARGS").is_some()
}

fn build(out: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?);
    let root = here.join("../..");
    for path in
        ["crates/tracker/src", "crates/tracker/Cargo.toml", "crates/ring/src", "crates/ring/Cargo.toml"]
    {
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    let target_dir = PathBuf::from(env::var("OUT_DIR")?).join("target");
    let triple = env::var("TARGET")?;
    let mut cargo = Command::new(env::var("CARGO")?);
    cargo.current_dir(&root).args([
        "build",
        "--package",
        "nilometer-tracker",
        "--lib",
        "--release",
        "--locked",
    ]);
    cargo.args(["--quiet", "--target", &triple, "--target-dir"]).arg(&target_dir);
    clean_environment(&mut cargo);
    let status = cargo.status()?;
    if !status.success() {
        return Err(format!("building the tracker failed: {status}").into());
    }
    let built = target_dir.join(triple).join("release/libnilometer_tracker.so");
    fs::copy(&built, out)
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", built.display())))?;
    Ok(())
}

/// Nothing of the outer build's settings reaches the inner one, but where the tools are.
fn clean_environment(cargo: &mut Command) {
    const KEPT: [&str; 4] = ["CARGO_HOME", "RUSTUP_HOME", "RUSTUP_TOOLCHAIN", "CARGO_NET_OFFLINE"];
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let of_the_outer_build =
            name.starts_with("CARGO") || name.starts_with("RUST") || name.starts_with("LLVM_");
        if of_the_outer_build && !KEPT.contains(&name.as_str()) {
            cargo.env_remove(name);
        }
    }
    // Set and empty, this also overrides flags from configuration files.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "");
    let profile =
        [("PANIC", "abort"), ("LTO", "fat"), ("CODEGEN_UNITS", "1"), ("OPT_LEVEL", "3"), ("STRIP", "none")];
    for (key, value) in profile {
        cargo.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
    }
    // The symbols are small and name our frames in a debugger; line tables are not worth their size.
    cargo.env("CARGO_PROFILE_RELEASE_DEBUG", "false");
}
