//! The table `[disk]` of the configuration.

use std::ops::{Range, RangeInclusive};

use aplomb_kernel::DiskShares;
use aplomb_spec::{format_duration, format_size, parse_duration, parse_size};
use serde::Deserialize;
use toml::Spanned;

use super::parse_percent;

/// How many dirty pages a domain may have on a device (bpf/policy/dirty.h), and how the time of
/// disks is shared (bpf/policy/cello.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskConfig {
    /// False: no limit but the kernel's, and no knob is turned.
    pub limit_dirty: bool,
    /// Of best-effort work, bytes.
    pub best_effort_dirty: u64,
    /// Of interactive programs, ppm of the machine's memory.
    pub interactive_dirty_ppm: u64,
    /// False: requests are not ordered, and no thread's priority is changed. By default as
    /// `[memory] protect`: on a disk that is read all the time, swap has no turn otherwise.
    pub order: bool,
    /// All requests are counted, also while disks are not watched. Only with `order`.
    pub account: bool,
    pub shares: DiskShares,
}

impl Default for DiskConfig {
    /// Redline section 5 for dirty pages, QLinux section 2.4 for the round. The rest keeps a fifth
    /// of a disk, as it keeps a tenth of a CPU: a disk has fewer turns to give.
    fn default() -> Self {
        Self {
            limit_dirty: false,
            best_effort_dirty: 2 << 20,
            interactive_dirty_ppm: 50_000,
            order: false,
            account: false,
            shares: DiskShares {
                round_ns: 1_000_000_000,
                soft_real_time: 40,
                interactive: 40,
                rest: 20,
            },
        }
    }
}

/// Below 256 kB the kernel's flusher would have nothing to put together; above 1 GB there is no
/// limit in practice.
const BEST_EFFORT: RangeInclusive<u64> = 256 << 10..=1 << 30;
/// The kernel's own limit is 20 %, unless it was changed.
const INTERACTIVE: RangeInclusive<u64> = 10_000..=200_000;

/// Shorter: a slow disk serves a few requests in it. Longer: requests wait for so long.
const ROUND_NS: RangeInclusive<u64> = 100_000_000..=1_000_000_000;
/// None is 0, so that no program starves.
const WEIGHT: RangeInclusive<i64> = 1..=10_000;

/// The table before it is checked.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    limit_dirty: Option<bool>,
    best_effort_dirty: Option<Spanned<String>>,
    interactive_dirty: Option<Spanned<String>>,
    order: Option<bool>,
    account: Option<Spanned<bool>>,
    round: Option<Spanned<String>>,
    soft_real_time: Option<Spanned<i64>>,
    interactive: Option<Spanned<i64>>,
    rest: Option<Spanned<i64>>,
}

/// Check the table. If memory is `protected`, disks are ordered by default. `at` makes an error of
/// a field, its place in the text and a message.
///
/// # Errors
/// A value is out of range, or needs another one.
pub fn read<E>(
    file: File,
    protected: bool,
    at: impl Fn(&str, Range<usize>, String) -> E,
) -> Result<DiskConfig, E> {
    let mut config = DiskConfig::default();
    config.limit_dirty = file.limit_dirty.unwrap_or(config.limit_dirty);
    if let Some(v) = &file.best_effort_dirty {
        let field = "disk.best-effort-dirty";
        config.best_effort_dirty = size(v.get_ref()).map_err(|m| at(field, v.span(), m))?;
    }
    if let Some(v) = &file.interactive_dirty {
        let field = "disk.interactive-dirty";
        config.interactive_dirty_ppm = part(v.get_ref()).map_err(|m| at(field, v.span(), m))?;
    }
    config.order = file.order.unwrap_or(protected);
    if let Some(v) = &file.account {
        config.account = *v.get_ref();
        if config.account && !config.order {
            // The programs that see requests are loaded for the order.
            return Err(at(
                "disk.account",
                v.span(),
                "it takes `order = true`".into(),
            ));
        }
    }
    if let Some(v) = &file.round {
        config.shares.round_ns = round(v.get_ref()).map_err(|m| at("disk.round", v.span(), m))?;
    }
    let shares = &mut config.shares;
    for (field, value, share) in [
        (
            "disk.soft-real-time",
            &file.soft_real_time,
            &mut shares.soft_real_time,
        ),
        (
            "disk.interactive",
            &file.interactive,
            &mut shares.interactive,
        ),
        ("disk.rest", &file.rest, &mut shares.rest),
    ] {
        if let Some(v) = value {
            *share = weight(*v.get_ref()).map_err(|m| at(field, v.span(), m))?;
        }
    }
    Ok(config)
}

fn round(text: &str) -> Result<u64, String> {
    check_round(parse_duration(text)?).map_err(|m| format!("{text} {m}"))
}

/// A round's length, ns, if it is one.
pub fn check_round(ns: u64) -> Result<u64, String> {
    if ROUND_NS.contains(&ns) {
        return Ok(ns);
    }
    let [least, most] = [ROUND_NS.start(), ROUND_NS.end()].map(|ns| format_duration(*ns));
    Err(format!("is not between {least} and {most}"))
}

/// A weight, if it is one.
pub fn weight(number: i64) -> Result<u32, String> {
    let wrong = || {
        format!(
            "{number} is not between {} and {}",
            WEIGHT.start(),
            WEIGHT.end()
        )
    };
    let number = u32::try_from(number)
        .ok()
        .filter(|n| WEIGHT.contains(&i64::from(*n)));
    number.ok_or_else(wrong)
}

fn size(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if BEST_EFFORT.contains(&bytes) {
        return Ok(bytes);
    }
    let [least, most] = [BEST_EFFORT.start(), BEST_EFFORT.end()].map(|b| format_size(*b));
    Err(format!("{text} is not between {least} and {most}"))
}

fn part(text: &str) -> Result<u64, String> {
    let ppm = parse_percent(text)?;
    if INTERACTIVE.contains(&ppm) {
        return Ok(ppm);
    }
    Err(format!("{text} is not between 1% and 20%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<DiskConfig, String> {
        let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
        read(file, false, |field, _, m| format!("{field}: {m}"))
    }

    #[test]
    fn disks_are_ordered_where_memory_is_protected_unless_the_table_says_not() {
        for (text, protected, order) in [
            ("", false, false),
            ("", true, true),
            ("order = false", true, false),
            ("order = true", false, true),
            ("account = true", true, true),
        ] {
            let file = toml::from_str(text).unwrap();
            let read = read(file, protected, |field, _, m| format!("{field}: {m}"));
            assert_eq!(read.unwrap().order, order, "{text} {protected}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default_and_what_is_wrong_is_named() {
        assert_eq!(parse("").unwrap(), DiskConfig::default());
        let all =
            parse("limit-dirty = true\nbest-effort-dirty = \"512K\"\ninteractive-dirty = \"20%\"");
        let all = all.unwrap();
        assert!(all.limit_dirty);
        assert_eq!(all.best_effort_dirty, 512 << 10);
        assert_eq!(all.interactive_dirty_ppm, 200_000);
        for (key, value, words) in [
            (
                "best-effort-dirty",
                "255K",
                "255K is not between 256K and 1G",
            ),
            ("best-effort-dirty", "2G", "2G is not between"),
            ("best-effort-dirty", "2%", "no size"),
            (
                "interactive-dirty",
                "0.9%",
                "0.9% is not between 1% and 20%",
            ),
            ("interactive-dirty", "21%", "is not between"),
            ("interactive-dirty", "64M", "is not a percentage"),
        ] {
            let e = parse(&format!("{key} = \"{value}\"")).unwrap_err();
            let begin = format!("disk.{key}: ");
            assert!(e.starts_with(&begin) && e.contains(words), "{e}");
        }
        let order = parse("order = true\nround = \"500ms\"\ninteractive = 60\nrest = 1").unwrap();
        assert!(order.order);
        let shares = order.shares;
        assert_eq!((shares.round_ns, shares.soft_real_time), (500_000_000, 40));
        assert_eq!((shares.interactive, shares.rest), (60, 1));
        for (line, words) in [
            (
                "round = \"2s\"",
                "disk.round: 2s is not between 100ms and 1s",
            ),
            ("rest = 0", "disk.rest: 0 is not between 1 and 10000"),
            (
                "soft-real-time = 99999",
                "disk.soft-real-time: 99999 is not",
            ),
        ] {
            let e = parse(line).unwrap_err();
            assert!(e.starts_with(words), "{e}");
        }
        assert!(parse("order = true\naccount = true").unwrap().account);
        assert!(!parse("account = false").unwrap().account);
        for alone in ["account = true", "order = false\naccount = true"] {
            let e = parse(alone).unwrap_err();
            assert_eq!(e, "disk.account: it takes `order = true`");
        }
        assert!(parse("dirty = true").is_err());
    }
}
