//! The parser, tested with the kernel's own form of text.

use super::*;
use std::io::Cursor;

const TEXT: &str = "\
memcg     1 /
 node     0
          0    9000000          1          1 
          1    8000000          0          5 
memcg    68 /a b
 node     0
          7      21034          0      39221 
          8      11010         12       8000 
          9       1003        120       3000 
         10          5          1          0 
 node     1
          3       4000         10         20x          7 more
          4         20          1          1 
memcg    69 /a b/c
 node     0
          0          1          1          1 
memcg    70 /z
 nonsense
";

fn parse(text: impl BufRead, wanted: &str) -> Result<Option<Ages>, MemoryError> {
    let wanted = BTreeSet::from([wanted.to_owned()]);
    let found = super::parse(text, &wanted, Path::new("lru_gen"));
    found.map(|found| found.into_values().next())
}

fn ages(text: &str, wanted: &str) -> Result<Option<Ages>, MemoryError> {
    parse(Cursor::new(text), wanted)
}

fn s(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_cgroup_is_found_by_its_path() {
    let found = ages(TEXT, "/a b").unwrap().unwrap();
    assert_eq!((found.memcg, found.nodes.len()), (68, 2));
    let oldest = Generation {
        seq: 7,
        age: Duration::from_millis(21034),
        anon_pages: 0,
        file_pages: 39221,
    };
    assert_eq!(found.nodes[0].generations[0], oldest);
    assert_eq!(found.nodes[1].generations[0].file_pages, 20);
    assert_eq!(ages(TEXT, "/").unwrap().unwrap().memcg, 1);
    assert_eq!(ages(TEXT, "/a b/c").unwrap().unwrap().memcg, 69);
    assert_eq!(ages(TEXT, "/a").unwrap(), None);
    let e = ages(TEXT, "/z").unwrap_err().to_string();
    assert!(e.starts_with("lru_gen:18: not a generation"), "{e}");
}

#[test]
fn a_generation_expires_by_the_birth_of_the_next() {
    let found = ages(TEXT, "/a b").unwrap().unwrap();
    let all = 39221 + 8012 + 3120 + 1 + 30 + 2;
    // The oldest generation is 21 s old, but was used until 11 s ago.
    assert_eq!(found.expired(s(12)), Pages(0));
    assert_eq!(found.expired(s(11)), Pages(39221));
    assert_eq!(found.younger_than(s(11)), Pages(all - 39221));
    assert_eq!(found.expired(s(1)), Pages(39221 + 8012));
    // The youngest one never expires.
    assert_eq!(found.younger_than(Duration::ZERO), Pages(1 + 2));
}

/// A removed cgroup is listed by the same path, before the one that was created in its place.
#[test]
fn the_last_cgroup_of_a_path_lives() {
    let text = "\
memcg 5 /p\nmemcg 6 /p/x\n node 0\n 1 1 1 1\nmemcg 7 /p/y\nmemcg 8 /p/x\n node 0\n 2 1 1 1
memcg 9 /q\nmemcg 99999999999 /p/x\n";
    let found = ages(text, "/p/x").unwrap().unwrap();
    assert_eq!(found.memcg, 8, "and nothing after /q was read");
    assert_eq!(found.nodes[0].generations[0].seq, 2);
}

#[test]
fn one_pass_finds_several() {
    let wanted = ["/a b", "/a b/c", "/missing"].map(str::to_owned);
    let found = super::parse(Cursor::new(TEXT), &wanted.into(), Path::new("lru_gen")).unwrap();
    let found: Vec<_> = found
        .iter()
        .map(|(name, a)| (name.as_str(), a.memcg))
        .collect();
    assert_eq!(found, [("/a b", 68), ("/a b/c", 69)]);
}

#[test]
fn reading_stops_early() {
    let first = "memcg 5 /p/x\n node 0\n 1 1 1 1\nmemcg 6 /q\n";
    let rest = "memcg 7 /r\n".repeat(5000);
    let mut text = Cursor::new(format!("{first}{rest}"));
    assert!(parse(&mut text, "/p/x").unwrap().is_some());
    assert_eq!(text.position(), first.len() as u64);
}

#[test]
fn wrong_lines_are_named() {
    for (text, why) in [
        ("memcg x /a\n", "1: not \"memcg ID PATH\""),
        ("memcg 7\n", "1: not \"memcg ID PATH\""),
        ("memcg 7 /a\n node x\n", "2: not \"node ID\""),
        ("memcg 7 /a\n 1 2 3 4\n", "2: a generation before its node"),
        ("memcg 7 /a\n node 0\n 1 2 3\n", "3: not a generation"),
        ("memcg 7 /a\n node 0\n 1 2 3 -4\n", "3: not a generation"),
        (
            "memcg 7 /a\n node 0\n 2 2 3 4\n 2 2 3 4\n",
            "4: a generation that",
        ),
        ("memcg 7 /a\n\n", "2: an empty line"),
    ] {
        let e = ages(text, "/a").unwrap_err().to_string();
        assert!(e.starts_with(&format!("lru_gen:{why}")), "{text:?}: {e}");
    }
    let long = format!("memcg 7 /{}\n", "a".repeat(MAX_LINE));
    let e = ages(&long, "/a").unwrap_err().to_string();
    assert_eq!(e, "lru_gen:1: more than 8,192 bytes");
}

#[test]
fn aging_asks_each_node_for_its_next_generation() {
    let found = ages(TEXT, "/a b").unwrap().unwrap();
    let commands: Vec<_> = found.aging_commands().collect();
    assert_eq!(commands, ["+ 68 0 10\n", "+ 68 1 4\n"]);
    let dir = tempfile::tempdir().unwrap();
    let e = found.write_aging(dir.path()).unwrap_err();
    assert!(e.is_vanished(), "{e}");
    std::fs::write(dir.path().join(LRU_GEN), TEXT).unwrap();
    let wanted = BTreeSet::from(["/a b".to_owned()]);
    let read = read(dir.path(), &wanted).unwrap();
    assert_eq!(read.values().collect::<Vec<_>>(), [&found]);
    found.write_aging(dir.path()).unwrap();
    let text = std::fs::read_to_string(dir.path().join(LRU_GEN)).unwrap();
    assert_eq!(text, format!("{TEXT}+ 68 0 10\n+ 68 1 4\n"));
}

#[test]
fn the_switch_is_bit_0() {
    for (text, on) in [
        ("0x0007\n", true),
        ("0x0001", true),
        ("0x0006\n", false),
        ("0x0000\n", false),
        ("", false),
        ("y", false),
    ] {
        assert_eq!(is_enabled(text), on, "{text:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_bytes_break_the_parser(data: Vec<u8>) {
        let _ = parse(Cursor::new(data), "/a");
    }

    #[test]
    fn likely_lines_do_not_either(
        text in "(memcg {1,3}[0-9]{1,22} /[ab/]{0,3}\n|( node|[0-9]{1,22}|x| -0 ){1,5}\n){0,9}",
        pi in 0u64..100,
    ) {
        if let Ok(Some(ages)) = parse(Cursor::new(text), "/a") {
            let _ = ages.younger_than(Duration::from_millis(pi));
        }
    }
}
