//! Compiles the policy headers, through src/shim.c and src/shim_tree.c, with the host's C compiler.
//!
//! The undefined-behaviour sanitizer traps, so that an overflow in a header ends the test that
//! found it.

fn main() {
    let headers = "../../bpf/policy";
    println!("cargo::rerun-if-changed={headers}");
    println!("cargo::rerun-if-changed=src/shim.c");
    println!("cargo::rerun-if-changed=src/shim_tree.c");
    cc::Build::new()
        .file("src/shim.c")
        .file("src/shim_tree.c")
        .include(headers)
        .std("gnu11")
        .warnings(true)
        .extra_warnings(true)
        // the tests call these functions millions of times
        .opt_level(2)
        .flag_if_supported("-fsanitize=undefined")
        .flag_if_supported("-fsanitize-undefined-trap-on-error")
        .compile("aplomb_policy_shim");
}
