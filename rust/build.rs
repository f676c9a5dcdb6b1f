//! Tells the crate which profile it is built with. Cargo has no variable for that: a profile's name is that of the
//! folder that it builds in. Nothing here depends on the commit, which would compile everything after each one.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

fn main() {
    println!("cargo::rerun-if-changed=rust/build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    println!(
        "cargo::rustc-env=OTTLA_PROFILE={}",
        profile(&out).unwrap_or("unknown")
    );
}

/// The profile of `.../PROFILE/build/PACKAGE-HASH/out`.
fn profile(out: &Path) -> Option<&str> {
    let build = out.ancestors().nth(2)?;
    if build.file_name() != Some(OsStr::new("build")) {
        return None;
    }
    build.parent()?.file_name()?.to_str()
}
