//! libFuzzer target; its body is `aplomb_domain::fuzz_domain`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| aplomb_domain::fuzz_domain(data));
