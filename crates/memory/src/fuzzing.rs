//! Body of the fuzz target `memory`. Cgroups may be named by any user, and the kernel's list of
//! ages has these names.

use std::path::Path;
use std::time::Duration;

use crate::{ages, cgroup, journal, meminfo, pressure};

/// Run every parser of this crate over any bytes.
///
/// # Panics
/// An error has more than one line, or the pages of a result do not add up.
pub fn fuzz_memory(data: &[u8]) {
    let path = Path::new("/fuzz");
    let wanted = ["/", "/a", "/a/b"].map(str::to_owned);
    match ages::parse(data, &wanted.into(), path) {
        Ok(all) => {
            for found in all.values() {
                for pi in [Duration::ZERO, Duration::from_secs(1), Duration::MAX] {
                    let (young, old) = (found.younger_than(pi), found.expired(pi));
                    let all = found.younger_than(Duration::MAX);
                    assert!(young <= all && old <= all, "{young:?} {old:?} {all:?}");
                }
                assert!(found.aging_commands().all(|c| c.is_ascii()));
            }
        }
        Err(e) => assert_eq!(e.to_string().lines().count(), 1, "{e}"),
    }
    for wrong in journal::parse_any(data, path) {
        assert_eq!(wrong.to_string().lines().count(), 1, "{wrong}");
    }
    let text = String::from_utf8_lossy(data);
    let _ = (
        cgroup::Limit::parse(&text),
        cgroup::Stat::parse(&text),
        cgroup::parse_usage_us(&text),
        ages::is_enabled(&text),
        pressure::parse_some_avg10(&text),
        meminfo::swapped(&text),
    );
}

#[cfg(test)]
mod tests {
    proptest::proptest! {
        #[test]
        fn no_bytes_break_the_parsers(data: Vec<u8>) {
            super::fuzz_memory(&data);
        }

        #[test]
        fn likely_lines_do_not_either(
            text in "(memcg +[0-9]{1,3} /(a(/b)?)?\n|  node +[0-9]\n|( +[0-9]{1,20}){4}\n|/a/[a-z\\\\]{0,4} [0-9]{0,3} max\n){0,9}",
        ) {
            super::fuzz_memory(text.as_bytes());
        }
    }
}
