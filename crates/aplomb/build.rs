//! Link settings of the static binary that depend on the machine's libelf.
//!
//! Debian 13's libelf.a needs libzstd, Debian 12's does not, and neither says so to rustc. The
//! linker is given libzstd after everything else if there is one; it takes from it what is missing
//! and no more.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let features = std::env::var("CARGO_CFG_TARGET_FEATURE").unwrap_or_default();
    if features.split(',').any(|f| f == "crt-static") && has_library("libzstd.a") {
        // by file name: rustc has switched to shared libraries by then
        println!("cargo:rustc-link-arg=-l:libzstd.a");
    }
}

/// Does the C compiler find the library? (It prints the bare name if not.)
fn has_library(name: &str) -> bool {
    let cc = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(cc)
        .arg(format!("-print-file-name={name}"))
        .output();
    output.is_ok_and(|o| Path::new(String::from_utf8_lossy(&o.stdout).trim()).is_absolute())
}
