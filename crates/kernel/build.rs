//! Compiles the kernel side (bpf/main.bpf.c, bpf/net/qdisc.bpf.c) with clang. Generates its
//! skeletons, and the Rust equivalents of the structs in bpf/intf.h.
//!
//! The compiler is `$BPF_CLANG` if that variable is set, otherwise the first of clang-19, clang-18,
//! clang-17 and clang whose version is at least [`OLDEST_CLANG`]. Older versions lack BPF features
//! that the kernel side uses (cpu v4 instructions, 64-bit enums).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{bail, Context, Result};
use libbpf_cargo::SkeletonBuilder;

/// Major version of the oldest clang that compiles the kernel side.
const OLDEST_CLANG: u32 = 17;

fn main() -> Result<()> {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").context("not run by cargo")?);
    let out = PathBuf::from(env::var_os("OUT_DIR").context("not run by cargo")?);
    let bpf = here
        .join("../../bpf")
        .canonicalize()
        .context("the folder bpf/ is missing")?;
    println!("cargo:rerun-if-env-changed=BPF_CLANG");
    watch(&bpf)?;
    println!("cargo:rerun-if-changed=src/layout.bpf.c");

    let clang = find_clang()?;
    let arch = bpf_arch(&env::var("CARGO_CFG_TARGET_ARCH")?)?;
    let include = |dir: &Path| format!("-I{}", dir.display());
    let skeleton = |source: PathBuf, name: &str| {
        SkeletonBuilder::new()
            .source(&source)
            .clang(&clang)
            .clang_args([
                include(&bpf),
                format!("-D__TARGET_ARCH_{arch}"),
                "-Wall".into(),
                "-Werror=macro-redefined".into(), // one file includes all headers of bpf/
                "-Wno-compare-distinct-pointer-types".into(),
                "-mcpu=v3".into(),
            ])
            .obj(out.join(name.replace(".skel.rs", ".bpf.o"))) // for tests/frames.rs
            .build_and_generate(out.join(name))
            .with_context(|| format!("{} does not compile", source.display()))
    };
    skeleton(here.join("src/layout.bpf.c"), "layout.skel.rs")?;
    skeleton(bpf.join("net/qdisc.bpf.c"), "qdisc.skel.rs")?;
    skeleton(bpf.join("main.bpf.c"), "main.skel.rs")
}

/// Makes cargo run this build script again when a file below `dir` is changed, added or removed.
fn watch(dir: &Path) -> Result<()> {
    println!("cargo:rerun-if-changed={}", dir.display());
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            watch(&path)?;
        } else {
            println!("cargo:rerun-if-changed={}", path.display());
        }
    }
    Ok(())
}

fn find_clang() -> Result<String> {
    if let Ok(clang) = env::var("BPF_CLANG") {
        return match clang_version(&clang) {
            Some(v) if v >= OLDEST_CLANG => Ok(clang),
            Some(v) => bail!("BPF_CLANG={clang} is clang {v}; at least {OLDEST_CLANG} is needed"),
            None => bail!("BPF_CLANG={clang} cannot be run"),
        };
    }
    let mut seen = Vec::new();
    for clang in ["clang-19", "clang-18", "clang-17", "clang"] {
        match clang_version(clang) {
            Some(v) if v >= OLDEST_CLANG => return Ok(clang.into()),
            Some(v) => seen.push(format!("{clang} is version {v}")),
            None => {}
        }
    }
    bail!(
        "no clang of version {OLDEST_CLANG} or later{}; install one (Debian: apt install clang-19), \
         or name it in BPF_CLANG",
        if seen.is_empty() { String::new() } else { format!(" ({})", seen.join(", ")) }
    )
}

/// The major version from the output of `clang --version` ("Debian clang version 19.1.7 (…)").
/// Returns None if the program cannot be run.
fn clang_version(clang: &str) -> Option<u32> {
    let output = Command::new(clang).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let rest = text.split("version ").nth(1)?;
    rest.split('.').next()?.trim().parse().ok()
}

/// The name of an architecture in libbpf's headers.
fn bpf_arch(rust: &str) -> Result<&'static str> {
    Ok(match rust {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "riscv64" => "riscv",
        "powerpc64" => "powerpc",
        "s390x" => "s390",
        "loongarch64" => "loongarch",
        other => bail!("{other} is not an architecture that sched_ext runs on"),
    })
}
