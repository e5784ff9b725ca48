//! libFuzzer target; its body is `aplomb_protocol::fuzz_protocol`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| aplomb_protocol::fuzz_protocol(data));
