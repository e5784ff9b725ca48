//! Runs the fuzz targets' bodies on the committed seeds in every build.

use aplomb_spec::fuzzing;
use std::path::Path;

fn replay(target: &str, body: fn(&[u8])) {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fuzz/corpus")
        .join(target);
    let mut count = 0;
    for entry in std::fs::read_dir(&dir).unwrap() {
        body(&std::fs::read(entry.unwrap().path()).unwrap());
        count += 1;
    }
    assert!(count >= 5, "{}: {count} seeds", dir.display());
}

#[test]
fn spec_tab() {
    replay("spec_tab", fuzzing::spec_tab);
}

#[test]
fn spec_toml() {
    replay("spec_toml", fuzzing::spec_toml);
}
