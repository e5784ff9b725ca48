//! Both formats: what is written reads back unchanged, and both forms of a spec mean the same.

use aplomb_spec::{
    fuzzing, limits, tab, toml_format, Class, Launch, Matcher, Place, ServerPolicy, Spec,
};
use proptest::prelude::*;
use std::path::Path;

/// Text with characters that are special in one of the formats.
fn odd_text(max: usize) -> impl Strategy<Value = String> {
    let c = prop_oneof![
        8 => proptest::char::range('a', 'z'),
        2 => proptest::sample::select(vec![':', '#', '\\', '"', '\'', ' ', '[', ']', '-', '.', '0', '=', '{', 'é', '\u{3000}', '☃']),
    ];
    proptest::collection::vec(c, 1..max).prop_map(|v| v.into_iter().collect())
}

fn path() -> impl Strategy<Value = String> {
    (proptest::collection::vec(odd_text(8), 1..4), any::<bool>())
        .prop_map(|(parts, star)| format!("/{}{}", parts.join("/"), if star { "*" } else { "" }))
        .prop_filter("no . parts", |p| {
            !p.split('/').any(|q| q == "." || q == "..")
        })
}

fn kernel_thread() -> impl Strategy<Value = String> {
    (
        "[a-z_]{1,10}",
        prop_oneof![Just(""), Just("*"), Just("0"), Just("/0:1")],
    )
        .prop_map(|(a, b)| a + b)
}

fn any_matcher() -> impl Strategy<Value = Matcher> {
    prop_oneof![
        path().prop_map(Matcher::Path),
        (path(), odd_text(12)).prop_map(|(path, argument)| Matcher::Argument { path, argument }),
        odd_text(12).prop_map(Matcher::App),
        "[a-z#\" ]{1,15}".prop_map(Matcher::Command),
        kernel_thread().prop_map(Matcher::KernelThread),
    ]
}

fn tab_matcher() -> impl Strategy<Value = Matcher> {
    prop_oneof![
        path().prop_map(Matcher::Path),
        kernel_thread().prop_map(Matcher::KernelThread)
    ]
}

fn spec(matchers: impl Strategy<Value = Vec<Matcher>>) -> impl Strategy<Value = Spec> {
    let cpu = (1_000_000u64..=10_000_000_000).prop_flat_map(|t| (100_000..=t, Just(t)));
    let flags = proptest::array::uniform5(any::<bool>());
    let server = proptest::option::of(proptest::sample::select(&ServerPolicy::ALL[..]));
    let extra = (
        proptest::option::of(1u32..=604_800),
        proptest::option::of(limits::MIN_MEMORY..=limits::MAX_MEMORY),
        proptest::option::of(0u8..=7),
        proptest::option::of("[a-z][a-z .@-]{0,9}(/[a-z]{1,9}){0,3}"),
    );
    let names = (
        "[A-Za-z0-9._+@-]{1,64}",
        prop_oneof![Just(String::new()), odd_text(40)],
    );
    (cpu, (flags, server), extra, names, matchers).prop_map(
        |(
            (c, t),
            ([be, inherit, revocable, parent, guaranteed], server),
            (protect_s, memory, io, domain),
            (name, description),
            mut matchers,
        )| {
            matchers.sort();
            matchers.dedup();
            let (runtime_ns, period_ns) = if be { (0, 0) } else { (c, t) };
            let named = matchers.iter().any(Matcher::is_by_name);
            let fits = runtime_ns * 1_000_000 <= period_ns * limits::MAX_GUARANTEED_PPM;
            let guaranteed = guaranteed && !be && !named && fits;
            let kernel = matchers
                .iter()
                .any(|m| matches!(m, Matcher::KernelThread(_)));
            let domain = domain.filter(|_| !be && !named && !kernel);
            let server = server.filter(|s| !named || *s != ServerPolicy::CbsSoft);
            Spec {
                name,
                description,
                class: if be {
                    Class::BestEffort
                } else {
                    Class::Interactive
                },
                runtime_ns,
                period_ns,
                inherit,
                revocable: !guaranteed && (revocable || matchers.iter().all(Matcher::is_by_name)),
                guaranteed,
                server,
                launch: if parent {
                    Launch::Interactive
                } else {
                    Launch::Any
                },
                protect_s,
                memory: memory.filter(|_| !be && !kernel),
                io,
                domain,
                matchers,
                origin: Place::default(),
            }
        },
    )
}

fn only((mut specs, diags): tab::Parsed) -> Spec {
    assert_eq!(diags, []);
    assert_eq!(specs.len(), 1);
    specs.remove(0).without_origin()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn toml_reads_back(s in spec(proptest::collection::vec(any_matcher(), 1..5))) {
        prop_assert_eq!(&only(toml_format::parse(Path::new("x"), toml_format::print(&s).as_bytes())), &s);
    }

    #[test]
    fn tab_reads_back_and_means_the_same(s in spec(proptest::collection::vec(tab_matcher(), 1..2))) {
        let s = Spec { server: None, memory: None, domain: None, ..s }; // the form has no place for these
        let line = tab::print(&s).unwrap();
        let from_tab = only(tab::parse(Path::new("x"), line.as_bytes()));
        prop_assert_eq!(tab::print(&from_tab).unwrap(), line.clone());
        // The form has no name and no description. Everything else is equal, also after a round
        // trip through TOML.
        let expected = Spec { name: from_tab.name.clone(), description: String::new(), ..s };
        prop_assert_eq!(&from_tab, &expected);
        let toml = toml_format::print(&from_tab);
        prop_assert_eq!(&only(toml_format::parse(Path::new("x"), toml.as_bytes())), &expected);
    }

    #[test]
    fn lists_of_lines_keep_every_path(s in spec(proptest::collection::vec(tab_matcher(), 1..6))) {
        let s = Spec { server: None, memory: None, domain: None, ..s };
        let (specs, diags) = tab::parse(Path::new("x"), tab::print(&s).unwrap().as_bytes());
        prop_assert_eq!(diags, vec![]);
        let all: Vec<_> = specs.iter().flat_map(|s| s.matchers.clone()).collect();
        prop_assert_eq!(all, s.matchers);
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        fuzzing::spec_tab(&bytes);
        fuzzing::spec_toml(&bytes);
        fuzzing::script(&bytes);
        fuzzing::mountinfo(&bytes);
    }

    #[test]
    fn likely_text_is_survived(lines in proptest::collection::vec("(name|path|cpu|io|guaranteed|server|\\[\\[spec\\]\\]|/a|b|iact|be)[:= ]['\"/5ms3:0IRPG\\\\#\\[*-]{0,20}", 0..20)) {
        let text = lines.join("\n");
        fuzzing::spec_tab(text.as_bytes());
        fuzzing::spec_toml(text.as_bytes());
    }
}

#[test]
fn what_a_line_cannot_say_is_refused() {
    for (field, what) in [
        ("app='a.b'\nrevocable=true", "app \"a.b\""),
        ("path='/a'\nserver='cbs-hard'", "server \"cbs-hard\""),
    ] {
        let text = format!("[[spec]]\nname='x'\n{field}\ncpu='1ms/9ms'");
        let s = only(toml_format::parse(Path::new("x"), text.as_bytes()));
        assert_eq!(
            tab::print(&s).unwrap_err().to_string(),
            format!("spec.tab has no place for {what}")
        );
    }
}

#[test]
fn json_reads_back() {
    let s = only(tab::parse(Path::new("x"), b"/usr/bin/mpv:iact:5:30:IR"));
    let json = serde_json::to_string(&s).unwrap();
    assert_eq!(serde_json::from_str::<Spec>(&json).unwrap(), s);
}
