//! libFuzzer target; its body is `aplomb_spec::fuzzing::spec_tab`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| aplomb_spec::fuzzing::spec_tab(data));
