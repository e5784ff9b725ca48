//! Compares the numbers of the kernel side's interface, read from its headers, with ours.

use aplomb_spec::{flags, limits, name_hash, MatchKind, ServerPolicy, IO_AUTO};

/// The value of `NAME = value` or `#define NAME value` in bpf/intf.h.
fn header(name: &str) -> u64 {
    number_in("intf.h", name)
}

fn number_in(file: &str, name: &str) -> u64 {
    let bpf = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf");
    let text = std::fs::read_to_string(bpf.join(file)).unwrap();
    // The formatter may put the value on the line after "NAME =".
    let begins_with_name = |line: &str| {
        let rest = line
            .trim()
            .trim_start_matches("#define ")
            .strip_prefix(name);
        rest.is_some_and(|r| r.starts_with([' ', '=', ',']))
    };
    let from = text
        .lines()
        .position(begins_with_name)
        .unwrap_or_else(|| panic!("{name} is not in bpf/{file}"));
    let lines: Vec<&str> = text.lines().skip(from).take(2).map(str::trim).collect();
    let lines = lines.join(" ");
    let value = lines.trim_start_matches("#define ")[name.len()..].trim_start_matches([' ', '=']);
    let value = value
        .split([',', '/', '#', '}'])
        .next()
        .unwrap()
        .trim()
        .trim_end_matches("ULL");
    let number = |t: &str| match t.trim().strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).unwrap(),
        None => t.trim().parse().unwrap(),
    };
    match value.split_once("<<") {
        Some((a, b)) => number(a) << number(b),
        None => number(value),
    }
}

#[test]
fn kinds_flags_and_limits_are_the_headers() {
    for (name, ours) in [
        ("MATCH_ARG", MatchKind::Argument as u64),
        ("MATCH_FILE", MatchKind::File as u64),
        ("MATCH_APP", MatchKind::App as u64),
        ("MATCH_COMM", MatchKind::Command as u64),
        ("MATCH_KTHREAD", MatchKind::KernelThread as u64),
        ("MATCH_NAMED", MatchKind::Named as u64),
        ("SPEC_INTERACTIVE", flags::INTERACTIVE.into()),
        ("SPEC_INHERIT", flags::INHERIT.into()),
        ("SPEC_REVOCABLE", flags::REVOCABLE.into()),
        ("SPEC_PARENT", flags::PARENT.into()),
        ("SPEC_GUARANTEED", flags::GUARANTEED.into()),
        ("MAX_SPECS", limits::MAX_MATCHERS as u64),
        ("COMM_LEN", limits::MAX_COMM_BYTES as u64 + 1),
        ("ARG_BYTES", limits::MAX_ARGUMENT_BYTES as u64 + 1),
        ("CGROUP_BYTES", limits::MAX_APP_BYTES as u64 + 1),
        ("NAME_HASH_INIT", name_hash(b"")),
    ] {
        assert_eq!(header(name), ours, "{name}");
    }
    assert_eq!(
        name_hash(b"\0"),
        header("NAME_HASH_INIT").wrapping_mul(header("NAME_HASH_PRIME"))
    );
    assert_eq!(IO_AUTO, 0xffff_ffff);
}

#[test]
fn servers_are_the_headers() {
    let policies = ServerPolicy::ALL.map(|p| {
        let name = p.name().to_uppercase().replace('-', "_");
        (number_in("policy/server.h", &format!("POLICY_{name}")), p)
    });
    for (number, policy) in policies {
        assert_eq!(u64::from(policy.number()), number, "{policy}");
        assert_eq!(ServerPolicy::numbered(policy.number()), Some(policy));
        assert_eq!(ServerPolicy::named(policy.name()), Some(policy));
        assert_eq!(serde_json::to_value(policy).unwrap(), policy.name());
    }
    let all = ServerPolicy::ALL.len() as u64 + 1; // including 0, the machine's setting
    assert_eq!(number_in("policy/server.h", "NR_POLICIES"), all);
    assert_eq!(ServerPolicy::numbered(0), None);
}
