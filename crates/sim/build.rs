//! Compiles the scheduler (bpf/main.bpf.c) for the host, through host/scheduler.c. The compiler is
//! clang, because no other can put all variables of a unit into a section of our choice. The kernel
//! side needs clang anyway.

use std::process::{Command, Stdio};

fn main() {
    for watched in ["host", "../../bpf", "../../bpf/policy"] {
        println!("cargo::rerun-if-changed={watched}");
    }
    println!("cargo::rerun-if-env-changed=BPF_CLANG");
    let clang = std::env::var("BPF_CLANG").ok().or_else(|| {
        let runs = |name: &&str| {
            let mut version = Command::new(*name);
            version.arg("--version").stdout(Stdio::null());
            version.status().is_ok_and(|status| status.success())
        };
        let known = ["clang-19", "clang-18", "clang-17", "clang"];
        known
            .iter()
            .find(|name| runs(name))
            .map(|name| name.to_string())
    });
    let clang =
        clang.expect("clang is missing (Debian: apt install clang-19), or name it in BPF_CLANG");
    cc::Build::new()
        .compiler(clang)
        .file("host/scheduler.c")
        .include("host")
        .include("../../bpf")
        .std("gnu11")
        .warnings(true)
        .flag("-Wno-unused-parameter") // callbacks have the kernel's signatures
        .flag("-Werror=macro-redefined") // all headers of bpf/ meet in one file
        .opt_level(2)
        .compile("aplomb_scheduler_host");
}
