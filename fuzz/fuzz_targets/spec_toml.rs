//! libFuzzer target; its body is `aplomb_spec::fuzzing::spec_toml`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| aplomb_spec::fuzzing::spec_toml(data));
