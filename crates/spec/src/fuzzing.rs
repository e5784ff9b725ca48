//! Bodies of the fuzz targets (`fuzz/`). Each takes arbitrary bytes and panics if a guarantee is
//! broken.
//!
//! The bodies are in this crate so that the tests run them on the committed seeds in every build.

use crate::diag::Diagnostic;
use crate::model::{Matcher, Spec};
use crate::{limits, tab, toml_format};
use std::path::Path;

/// Redline's form: parsing never panics. A parsed spec can be written and read back without a
/// change, in both forms.
pub fn spec_tab(data: &[u8]) {
    let (specs, diags) = tab::parse(Path::new("f"), data);
    check(data, &specs, &diags);
    for spec in &specs {
        let line = tab::print(spec).expect("what came from spec.tab can go there");
        let again = reread(tab::parse(Path::new("g"), line.as_bytes()), &line);
        assert!(
            same_but_name(&again, spec),
            "{line}: {again:?} is not {spec:?}"
        );
        through_toml(spec);
    }
}

/// The TOML form: the same for `[[spec]]` tables.
pub fn spec_toml(data: &[u8]) {
    let (specs, diags) = toml_format::parse(Path::new("f"), data);
    check(data, &specs, &diags);
    for spec in &specs {
        through_toml(spec);
        if spec.description.is_empty() && spec.matchers.len() == 1 {
            if let Ok(line) = tab::print(spec) {
                let again = reread(tab::parse(Path::new("g"), line.as_bytes()), &line);
                assert!(
                    same_but_name(&again, spec),
                    "{line}: {again:?} is not {spec:?}"
                );
            }
        }
    }
}

/// Parsing the first bytes of a script never panics.
pub fn script(data: &[u8]) {
    if let Ok(Some(i)) = crate::script::interpreter(data) {
        assert!(data.starts_with(b"#!"), "{i:?}");
    }
}

/// Parsing /proc/self/mountinfo never panics.
pub fn mountinfo(data: &[u8]) {
    let table = crate::MountTable::parse(&String::from_utf8_lossy(data));
    let file = crate::FileId {
        path: "/usr/bin/x".into(),
        mount_id: Some(1),
        st_dev: 0,
    };
    let _ = crate::DeviceOf::device_of(&table, &file);
}

fn check(data: &[u8], specs: &[Spec], diags: &[Diagnostic]) {
    assert!(diags.len() <= limits::MAX_DIAGNOSTICS + 1);
    let lines = data.split(|&b| b == b'\n').count();
    for d in diags {
        let text = d.to_string();
        assert!(
            !text.contains(|c: char| c.is_control()),
            "control characters reach the terminal: {text:?}"
        );
        assert!(
            d.place.line as usize <= lines,
            "{text} is beyond the file's {lines} lines"
        );
    }
    for s in specs {
        assert!(
            (1..=limits::MAX_NAME_BYTES).contains(&s.name.len()),
            "{s:?}"
        );
        assert!(!s.matchers.is_empty() && s.matchers.is_sorted(), "{s:?}");
        if s.class == crate::Class::Interactive {
            assert!(
                s.runtime_ns >= limits::MIN_RUNTIME_NS && s.runtime_ns <= s.period_ns,
                "{s:?}"
            );
            assert!(
                s.period_ns >= limits::MIN_PERIOD_NS && s.period_ns <= limits::MAX_PERIOD_NS,
                "{s:?}"
            );
            assert!(
                s.revocable || !s.matchers.iter().all(Matcher::is_by_name),
                "{s:?}"
            );
            assert!(
                !s.is_privileged() || !s.matchers.iter().any(Matcher::is_by_name),
                "{s:?}"
            );
            assert!(
                !s.guaranteed || (!s.revocable && s.bandwidth_ppm() <= limits::MAX_GUARANTEED_PPM),
                "{s:?}"
            );
        } else {
            assert_eq!((s.runtime_ns, s.period_ns), (0, 0), "{s:?}");
            assert!(!s.guaranteed, "{s:?}");
        }
    }
}

fn through_toml(spec: &Spec) {
    let text = toml_format::print(spec);
    let again = reread(toml_format::parse(Path::new("g"), text.as_bytes()), &text);
    assert_eq!(again.without_origin(), spec.without_origin(), "{text}");
}

fn reread((mut specs, diags): tab::Parsed, text: &str) -> Spec {
    assert!(diags.is_empty() && specs.len() == 1, "{text}: {diags:?}");
    specs.remove(0)
}

/// Compares two specs without their names: lines of spec.tab have none, so those are generated.
fn same_but_name(a: &Spec, b: &Spec) -> bool {
    Spec {
        name: b.name.clone(),
        ..a.without_origin()
    } == b.without_origin()
}
