//! The TOML form: keys, defaults, and the diagnostics about wrong files.

use aplomb_spec::toml_format::parse;
use aplomb_spec::{Class, Launch, Matcher, ServerPolicy, Spec};
use std::path::Path;

fn one(body: &str) -> Result<Spec, String> {
    let (mut specs, diags) = parse(Path::new("t"), format!("[[spec]]\n{body}").as_bytes());
    match diags.first() {
        Some(d) => Err(d.to_string()),
        None => Ok(specs.remove(0)),
    }
}

const OK: &str = "name = 'x'\npath = '/x'\ncpu = '5ms/30ms'\n";

#[test]
fn every_key() {
    let s = one(
        "name = 'mpv'\ndescription = 'a player'\npath = ['/usr/bin/mpv', '/opt/m*/mpv']\napp = 'io.mpv.Mpv'\n\
         command = ['mpv']\nkernel-thread = 'k*'\nargument = { path = '/usr/bin/python3', argument = 'gmpv' }\n\
         class = 'interactive'\ncpu = '2.5ms / 30ms'\ninherit = true\nrevocable = true\n\
         server = 'cbs-hard'\nlaunch = 'interactive'\nprotect = '30min'\nio = 2\n",
    )
    .unwrap();
    assert_eq!(
        s.matchers,
        [
            Matcher::Path("/opt/m*/mpv".into()),
            Matcher::Path("/usr/bin/mpv".into()),
            Matcher::Argument {
                path: "/usr/bin/python3".into(),
                argument: "gmpv".into()
            },
            Matcher::App("io.mpv.Mpv".into()),
            Matcher::Command("mpv".into()),
            Matcher::KernelThread("k*".into()),
        ]
    );
    assert_eq!((s.runtime_ns, s.period_ns), (2_500_000, 30_000_000));
    assert_eq!(
        (s.inherit, s.revocable, s.launch),
        (true, true, Launch::Interactive)
    );
    assert_eq!((s.protect_s, s.io, s.origin.line), (Some(1800), Some(2), 1));
    assert_eq!(
        (s.guaranteed, s.server),
        (false, Some(ServerPolicy::CbsHard))
    );
}

#[test]
fn guaranteed_and_soft_programs_are_found_by_file_or_kernel_thread() {
    for who in ["path = '/x'", "path = '/x*'", "kernel-thread = 'k*'"] {
        let body =
            format!("name = 'x'\n{who}\ncpu = '25ms/41ms'\nguaranteed = true\nserver = 'cbs-soft'");
        let s = one(&body).unwrap();
        assert!(s.guaranteed && !s.revocable, "{who}");
        assert_eq!(s.server, Some(ServerPolicy::CbsSoft));
    }
    for who in [
        "app = 'a.b'",
        "command = 'x'",
        "path = '/x'\nargument = 'y'",
        "path = '/x'\ncommand = 'x'",
    ] {
        let strong = ["guaranteed = true", "revocable = true\nserver = 'cbs-soft'"];
        for (strength, field) in strong.into_iter().zip(["guaranteed", "server"]) {
            let body = format!("name = 'x'\n{who}\ncpu = '25ms/41ms'\n{strength}");
            let said = one(&body).unwrap_err();
            assert!(
                said.contains(&format!("field \"{field}\": any program can take a name")),
                "{said}"
            );
        }
        let body =
            format!("name = 'x'\n{who}\ncpu = '25ms/41ms'\nrevocable = true\nserver = 'cbs-hard'");
        one(&body).unwrap(); // it takes no time from other programs
    }
}

#[test]
fn domains_are_for_programs_found_by_their_file() {
    let body = |who: &str, domain: &str| {
        format!("name = 'x'\n{who}\ncpu = '5ms/41ms'\nrevocable = true\ndomain = '{domain}'")
    };
    let s = one(&body("path = '/x'", "user.slice/media")).unwrap();
    assert_eq!(s.domain.as_deref(), Some("user.slice/media"));
    assert!(s.is_privileged());
    for (who, domain, words) in [
        ("command = 'x'", "media", "any program can take a name"),
        (
            "path = '/x'\nargument = 'y'",
            "media",
            "any program can take a name",
        ),
        ("kernel-thread = 'k'", "media", "stay in the root"),
        (
            "path = '/x'\nclass = 'best-effort'",
            "media",
            "aplomb domain run",
        ),
        ("path = '/x'", "../media", "\"..\""),
        ("path = '/x'", "", "1 to 3072 bytes"),
    ] {
        let said = one(&body(who, domain)).unwrap_err();
        assert!(
            said.contains("field \"domain\": ") && said.contains(words),
            "{said}"
        );
    }
}

#[test]
fn a_reserve_of_memory_is_a_size_of_an_interactive_program() {
    let body = |who: &str, memory: &str| {
        format!("name = 'x'\n{who}\ncpu = '5ms/41ms'\nrevocable = true\nmemory = {memory}")
    };
    for (text, bytes) in [
        ("'32M'", Some(32 << 20)),
        ("'64K'", Some(64 << 10)),
        ("'none'", None),
    ] {
        let s = one(&body("command = 'x'", text)).unwrap();
        assert_eq!(s.memory, bytes, "a name is enough: it counts for its user");
        assert!(!s.is_privileged());
    }
    for (who, memory, words) in [
        ("path = '/x'", "'32'", "not between 64K and 64T"),
        ("path = '/x'", "'65T'", "not between 64K and 64T"),
        ("path = '/x'", "'32 pages'", "is no size, such as 32M"),
        ("path = '/x'", "32", "a string is needed"),
        (
            "kernel-thread = 'k'",
            "'32M'",
            "kernel threads have no memory",
        ),
        (
            "path = '/x'\nclass = 'best-effort'",
            "'32M'",
            "aplomb domain set",
        ),
    ] {
        let said = one(&body(who, memory)).unwrap_err();
        assert!(
            said.contains("field \"memory\": ") && said.contains(words),
            "{said}"
        );
    }
}

#[test]
fn arguments_belong_to_every_path() {
    let s = one(
        "name = 'x'\npath = ['/a', '/b']\nargument = ['p', 'q']\ncpu = '1ms/9ms'\nrevocable = true",
    )
    .unwrap();
    assert_eq!(s.matchers.len(), 4);
    assert!(s.matchers.iter().all(Matcher::is_by_name));
}

#[test]
fn a_protection_period_in_periods_is_rounded_up_to_seconds() {
    let of = |protect: &str, cpu: &str| {
        let text = format!("name = 'x'\npath = '/x'\ncpu = '{cpu}'\nprotect = '{protect}'");
        one(&text).unwrap().protect_s
    };
    assert_eq!(of("10T", "1ms/33ms"), Some(1));
    assert_eq!(of("10T", "1ms/101ms"), Some(2));
    assert_eq!(of("1000000T", "1ms/10s"), Some(7 * 24 * 3600));
    let e = one("name = 'x'\npath = '/x'\nclass = 'best-effort'\nprotect = '10T'").unwrap_err();
    assert!(e.to_string().contains("has no period"), "{e:?}");
}

#[test]
fn defaults() {
    let s = one(OK).unwrap();
    assert_eq!(
        (s.class, s.inherit, s.revocable, s.launch),
        (Class::Interactive, false, false, Launch::Any)
    );
    assert_eq!(
        (s.protect_s, s.io, s.description.as_str()),
        (None, None, "")
    );
    assert_eq!((s.guaranteed, s.server), (false, None));
    let auto = one(&format!(
        "{OK}protect = 'auto'\nio = 'auto'\nserver = 'auto'"
    ))
    .unwrap();
    assert_eq!(auto.without_origin(), s.without_origin());
}

#[test]
fn errors_name_line_column_field_and_a_way_out() {
    for (body, want) in [
        ("name = 'x'\npath = '/x'\ncpu = '40ms/30ms'", "t:4:7: field \"cpu\": runtime 40ms exceeds period 30ms; did you mean \"30ms/40ms\"?"),
        ("name = 'x'\npath = '/x'\ncpu = '5/30ms'", "t:4:7: field \"cpu\": \"5\" has no unit (us, ms, s, min, h); did you mean \"5ms/30ms\"?"),
        ("name = 'x'\npath = '/x'\ncpu = 5", "t:4:7: field \"cpu\": a number where a string is needed"),
        ("name = 'x'\npath = '/x'", "t:1:1: field \"cpu\": an interactive spec needs a runtime and a period; did you mean \"5ms/30ms\"?"),
        ("path = '/x/mpv'\ncpu = '1ms/9ms'", "t:1:1: field \"name\": the spec has no name; did you mean \"mpv\"?"),
        ("name = 'x'\ncpu = '1ms/9ms'", "t:1:1: field \"path\": nothing says which program is meant (path, app, command or kernel-thread)"),
        ("name = 'x'\ncommand = 'x'\ncpu = '1ms/9ms'", "t:1:1: field \"revocable\": a name can be taken by any program, so a spec found only by argument, app or command must be revocable; did you mean \"revocable = true\"?"),
        ("name = 'x'\ncommand = 'x'\nrevocable = false\ncpu = '1ms/9ms'", "t:4:13: field \"revocable\": a name can be taken by any program, so a spec found only by argument, app or command must be revocable; did you mean \"revocable = true\"?"),
        ("name = 'x'\npath = ['/x', 'y']\ncpu = '1ms/9ms'", "t:3:15: field \"path\": a path must be absolute; did you mean \"/usr/bin/y\"?"),
        ("name = 'x'\nrevokable = true", "t:3:1: field \"revokable\": unknown key; did you mean \"revocable\"?"),
        ("name = 'x'\nkernel_thread = 'x'", "t:3:1: field \"kernel_thread\": unknown key; did you mean \"kernel-thread\"?"),
        ("name = 'x'\ninherit = 'true'", "t:3:11: field \"inherit\": true and false have no quotes; did you mean \"inherit = true\"?"),
        ("name = 'x'\nclass = 'iact'", "t:3:9: field \"class\": \"iact\" is neither interactive nor best-effort; did you mean \"interactive\"?"),
        ("name = 'x'\npath = '/x'\ncpu = '5ms/30ms'\nrevocable = true\nguaranteed = true", "t:5:13: field \"revocable\": what is guaranteed is never revoked: a spec is one or the other; did you mean \"revocable = false\"?"),
        ("name = 'x'\ncommand = 'x'\ncpu = '1ms/9ms'\nguaranteed = true", "t:5:14: field \"guaranteed\": any program can take a name, so command \"x\" cannot be guaranteed"),
        ("name = 'x'\ncommand = 'x'\ncpu = '1ms/9ms'\nrevocable = true\nserver = 'cbs-soft'", "t:6:10: field \"server\": any program can take a name, so command \"x\" cannot have this server; did you mean \"fcbs\"?"),
        ("name = 'x'\npath = '/x'\nclass = 'best-effort'\nguaranteed = true", "t:5:14: field \"guaranteed\": a best-effort program has no reservation that could be guaranteed"),
        ("name = 'x'\npath = '/x'\ncpu = '96ms/100ms'\nguaranteed = true", "t:4:7: field \"cpu\": at most 95 % of a CPU can be guaranteed; the rest is best-effort work's"),
        ("name = 'x'\nguaranteed = 'true'", "t:3:14: field \"guaranteed\": true and false have no quotes; did you mean \"guaranteed = true\"?"),
        ("name = 'x'\nguarantee = true", "t:3:1: field \"guarantee\": unknown key; did you mean \"guaranteed\"?"),
        ("name = 'x'\nserver = 'csb-hard'", "t:3:10: field \"server\": \"csb-hard\" is no server (redline, cbs-hard, cbs-soft, fcbs, deferred, auto); did you mean \"cbs-hard\"?"),
        ("name = 'x'\nserver = 4", "t:3:10: field \"server\": a number where a string is needed"),
        ("name = 'x'\npolicy = 'fcbs'", "t:3:1: field \"policy\": unknown key; did you mean \"server\"?"),
        ("name = 'x'\nlaunch = 'Any'", "t:3:10: field \"launch\": \"Any\" is neither any nor interactive; did you mean \"any\"?"),
        ("name = 'x'\nprotect = 30", "t:3:11: field \"protect\": a duration needs a unit; did you mean \"30s\"?"),
        ("name = 'x'\nprotect = '0T'", "t:3:11: field \"protect\": protect is 1T to 1000000T in periods; did you mean \"10T\"?"),
        ("name = 'x'\nprotect = '+1T'", "t:3:11: field \"protect\": protect is 1T to 1000000T in periods; did you mean \"10T\"?"),
        ("name = 'x'\nprotect = '8000h'", "t:3:11: field \"protect\": protect is 1 to 604800 whole seconds"),
        ("name = 'x'\nio = 8", "t:3:6: field \"io\": an I/O priority is 0 (most urgent) to 7"),
        ("name = 'x'\nargument = 'y'\nrevocable = true\ncpu = '1ms/9ms'", "t:3:12: field \"path\": an argument needs the path of the interpreter that it is given to"),
    ] {
        assert_eq!(one(body).unwrap_err(), want);
    }
}

#[test]
fn what_is_no_spec() {
    let first = |text: &str| parse(Path::new("t"), text.as_bytes()).1[0].to_string();
    assert_eq!(
        first("[spec]\nname = 'x'"),
        "t:1:1: field \"spec\": specs are a list of tables; did you mean \"[[spec]]\"?"
    );
    assert_eq!(first("[[specs]]"), "t:1:3: field \"specs\": unknown key; a file has [[spec]] tables only; did you mean \"spec\"?");
    assert_eq!(first("cpu = '1ms/2ms'"), "t:1:1: field \"cpu\": unknown key; a file has [[spec]] tables only; did you mean \"[[spec]]\"?");
    assert!(
        first("[[spec]]\nname = \n").starts_with("t:2:"),
        "{}",
        first("[[spec]]\nname = \n")
    );
    assert!(first("x = \"\\\u{1b}[2J\"").find('\u{1b}').is_none());
}

#[test]
fn an_error_costs_only_the_spec_that_it_is_in() {
    let good = format!("[[spec]]\n{OK}");
    let other = "[[spec]]\nname = 'z'\npath = '/z'\ncpu = '1ms/9ms'\n";
    for (bad, place) in [
        ("[[spec]]\nname = 'y'\nio = 9\n", "t:7:6: "), // a value
        ("[[spec]]\nname = \n", "t:6:"),               // no value
        ("[[spec]\nname = 'y'\n", "t:"),               // the header itself
        ("[[spec]]\nname = 'y\n", "t:6:"),             // a quote
        ("[[spec]]\npath = ['/y',\n", "t:"),           // a bracket
        ("[[spec]]\n= = =\n", "t:6:"),
    ] {
        let text = format!("{good}{bad}{other}");
        let (specs, diags) = parse(Path::new("t"), text.as_bytes());
        let names: Vec<_> = specs.iter().map(|s| s.name.as_str()).collect();
        let said: Vec<_> = diags.iter().map(ToString::to_string).collect();
        assert_eq!(names, ["x", "z"], "{text}\n{said:?}");
        assert!(
            said.iter().any(|d| d.starts_with(place)),
            "{text}\n{said:?}"
        );
    }
}

#[test]
fn a_string_of_several_lines_never_becomes_a_spec() {
    let text = format!("[[spec]]\nname = 'a'\ndescription = \"\"\"\n[[spec]]\n{OK}\"\"\"\nio =\n");
    let (specs, diags) = parse(Path::new("t"), text.as_bytes());
    assert_eq!((specs.len(), diags.is_empty()), (0, false));
}

#[test]
fn twice_the_same_name() {
    let (specs, diags) = parse(
        Path::new("t"),
        format!("[[spec]]\n{OK}[[spec]]\n{OK}").as_bytes(),
    );
    assert_eq!(specs.len(), 1);
    assert_eq!(
        diags[0].to_string(),
        "t:6:8: field \"name\": \"x\" is defined twice (see t:2:8)"
    );
}

#[test]
fn a_flood_of_pairs_is_refused() {
    let paths: Vec<String> = (0..200).map(|i| format!("'/p{i}'")).collect();
    let args: Vec<String> = (0..200).map(|i| format!("'a{i}'")).collect();
    let e = one(&format!(
        "name='x'\ncpu='1ms/9ms'\nrevocable=true\npath=[{}]\nargument=[{}]",
        paths.join(","),
        args.join(",")
    ));
    assert!(e.unwrap_err().contains("more than 8192 pairs"));
}
