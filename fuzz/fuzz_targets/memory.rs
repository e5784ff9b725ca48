//! libFuzzer target; its body is `aplomb_memory::fuzz_memory`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| aplomb_memory::fuzz_memory(data));
