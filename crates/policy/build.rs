//! Compiles the policy headers with the host's C compiler, through src/shim*.c.
//!
//! The undefined-behaviour sanitizer traps, so an overflow in a header aborts the test that causes
//! it.

fn main() {
    let headers = "../../bpf/policy";
    println!("cargo::rerun-if-changed={headers}");
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/shim_tree.c");
    println!("cargo::rerun-if-changed=src/shim_memory.c");
    println!("cargo::rerun-if-changed=src/shim_disk.c");
    println!("cargo::rerun-if-changed=src/shim_net.c");
    cc::Build::new()
        .file("src/shim.c")
        .file("src/shim_tree.c")
        .file("src/shim_memory.c")
        .file("src/shim_disk.c")
        .file("src/shim_net.c")
        .include(headers)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        // The tests call these functions millions of times.
        .opt_level(2)
        .flag_if_supported("-fsanitize=undefined")
        .flag_if_supported("-fsanitize-undefined-trap-on-error")
        .compile("aplomb_policy_shim");
}
