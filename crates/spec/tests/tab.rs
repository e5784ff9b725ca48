//! Redline's line format: fields, comments, and the diagnostics about wrong lines.

use aplomb_spec::limits::MAX_DIAGNOSTICS;
use aplomb_spec::tab::{parse, print};
use aplomb_spec::{Class, Launch, Matcher, Spec};
use std::path::Path;

const MS: u64 = 1_000_000;

fn one(line: &str) -> Result<Spec, String> {
    let (mut specs, diags) = parse(Path::new("t"), line.as_bytes());
    match diags.first() {
        Some(d) => Err(d.to_string()),
        None => Ok(specs.remove(0)),
    }
}

#[test]
fn redlines_own_example() {
    let s = one("/usr/bin/mplayer:Iact:5:30:IR:-:-").unwrap();
    assert_eq!((s.name.as_str(), s.class), ("mplayer", Class::Interactive));
    assert_eq!((s.runtime_ns, s.period_ns), (5 * MS, 30 * MS));
    assert_eq!(
        (s.inherit, s.revocable, s.launch),
        (true, true, Launch::Any)
    );
    assert_eq!((s.protect_s, s.io), (None, None));
    assert_eq!(s.matchers, [Matcher::Path("/usr/bin/mplayer".into())]);
    assert_eq!(print(&s).unwrap(), "/usr/bin/mplayer:iact:5:30:IR:-:-\n");
}

#[test]
fn every_field() {
    let s = one(" /opt/a\\:b\\ /c d#e : iact : 2.5 : 20 : P : 1800 : 7 # why").unwrap();
    assert_eq!(s.matchers, [Matcher::Path("/opt/a:b /c d#e".into())]);
    assert_eq!(
        (s.runtime_ns, s.launch, s.protect_s, s.io),
        (2_500_000, Launch::Interactive, Some(1800), Some(7))
    );
    let be = one("/usr/bin/make:BE:::").unwrap();
    assert_eq!(
        (be.class, be.runtime_ns, be.period_ns),
        (Class::BestEffort, 0, 0)
    );
    let g = one("/a:iact:25:41:GI").unwrap();
    assert_eq!((g.guaranteed, g.inherit, g.revocable), (true, true, false));
    assert_eq!(print(&g).unwrap(), "/a:iact:25:41:IG:-:-\n");
    let k = one("[kswapd*]:iact:2:20:-").unwrap();
    assert_eq!(
        (k.name.as_str(), &k.matchers[0]),
        ("kswapd", &Matcher::KernelThread("kswapd*".into()))
    );
}

#[test]
fn comments_and_blank_lines() {
    let (specs, diags) = parse(
        Path::new("t"),
        b"# x\n\n  \t# y\r\n/a/b:iact:1:10:-\r\n/a/b:iact:1:10:-",
    );
    assert_eq!(diags, []);
    assert_eq!(
        specs.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(),
        ["b", "b-2"]
    );
    assert_eq!((specs[0].origin.line, specs[1].origin.line), (4, 5));
}

#[test]
fn errors_name_line_column_field_and_a_way_out() {
    for (line, want) in [
        ("mplayer:iact:5:30:-", "t:1:1: field \"path\": a path must be absolute; did you mean \"/usr/bin/mplayer\"?"),
        ("/a/b:lact:5:30:-", "t:1:6: field \"type\": \"lact\" is neither iact nor be; did you mean \"iact\"?"),
        ("/a/b:iact:30:5:-", "t:1:11: field \"C\": runtime 30ms exceeds period 5ms; did you mean \"5:30\"?"),
        ("/a/b:iact:5ms:30:-", "t:1:11: field \"C\": milliseconds are written without a unit; did you mean \"5\"?"),
        ("/a/b:iact:-:30:-", "t:1:11: field \"C\": a runtime and a period are needed, in ms"),
        ("/a/b:iact:5::-", "t:1:13: field \"T\": a runtime and a period are needed, in ms"),
        ("/a/b:iact:5:30:ir", "t:1:16: field \"flags\": \"i\" is no flag (I, R, P, G); did you mean \"IR\"?"),
        ("/a/b:iact:5:30:ig", "t:1:16: field \"flags\": \"i\" is no flag (I, R, P, G); did you mean \"IG\"?"),
        ("/a/b:iact:5:30:RG", "t:1:16: field \"flags\": what is guaranteed is never revoked: a spec is one or the other"),
        ("/a/b:be:-:-:G", "t:1:13: field \"flags\": a best-effort program has no reservation that could be guaranteed"),
        ("/a/b:iact:29:30:G", "t:1:11: field \"C\": at most 95 % of a CPU can be guaranteed; the rest is best-effort work's"),
        ("/a/b:iact:5:30:RR", "t:1:16: field \"flags\": \"R\" is given twice"),
        ("/a/b:iact:5:30:-:0", "t:1:18: field \"pi\": \"0\" is no whole number from 1 to 604800"),
        ("/a/b:iact:5:30:-:-:8", "t:1:20: field \"io\": \"8\" is no whole number from 0 to 7"),
        ("/a/b:iact:5:30:-:-:+7", "t:1:20: field \"io\": \"+7\" is no whole number from 0 to 7"),
        ("/a/b:iact:5:30", "t:1:15: field \"flags\": the line ends before this field; it has the form path:type:C:T:flags:pi:io"),
        ("/a:b/c:iact:5:30:-:-:-", "t:1:22: 8 fields, there are 7; a \":\" in a path is written \"\\:\""),
        ("/a\\b:iact:5:30:-", "t:1:3: a backslash stands before \":\", \"#\", \" \" or \"\\\" only"),
        ("[jbd2/*]:iact:1:10:-", "t:1:1: field \"path\": a star stands for what \
          follows from the first digit, \"/\" or \":\" on; did you mean \"[jbd*]\"?"),
    ] {
        assert_eq!(one(line).unwrap_err(), want);
    }
}

#[test]
fn one_bad_line_costs_only_itself() {
    let (specs, diags) = parse(
        Path::new("t"),
        b"/a/b:iact:1:10:-\nnonsense\n/c/d:iact:1:10:-\n",
    );
    assert_eq!((specs.len(), diags.len(), diags[0].place.line), (2, 1, 2));
}

#[test]
fn bytes_and_floods_are_refused_politely() {
    let (specs, diags) = parse(Path::new("t"), b"/a/b:iact:1:10:-\n/\xff:iact:1:10:-\n");
    assert_eq!(
        (specs.len(), diags[0].place.line, diags[0].place.column),
        (0, 2, 2)
    );
    let (_, diags) = parse(Path::new("t"), "x\n".repeat(1000).as_bytes());
    assert_eq!(diags.len(), MAX_DIAGNOSTICS + 1);
    assert!(
        diags[MAX_DIAGNOSTICS].is_error() && diags[MAX_DIAGNOSTICS].message.starts_with("900 more")
    );
}
