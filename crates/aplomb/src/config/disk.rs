//! The table `[disk]` of the configuration.

use std::ops::{Range, RangeInclusive};

use aplomb_spec::{format_size, parse_size};
use serde::Deserialize;
use toml::Spanned;

use super::parse_percent;

/// How many dirty pages a domain may have on a device (bpf/policy/dirty.h).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskConfig {
    /// False: no limit but the kernel's, and no knob is turned.
    pub limit_dirty: bool,
    /// Of best-effort work, bytes.
    pub best_effort_dirty: u64,
    /// Of interactive programs, ppm of the machine's memory.
    pub interactive_dirty_ppm: u64,
}

impl Default for DiskConfig {
    /// Redline section 5.
    fn default() -> Self {
        Self {
            limit_dirty: false,
            best_effort_dirty: 2 << 20,
            interactive_dirty_ppm: 50_000,
        }
    }
}

/// Below 256 kB the kernel's flusher would have nothing to put together; above 1 GB there is no
/// limit in practice.
const BEST_EFFORT: RangeInclusive<u64> = 256 << 10..=1 << 30;
/// The kernel's own limit is 20 %, unless it was changed.
const INTERACTIVE: RangeInclusive<u64> = 10_000..=200_000;

/// The table before it is checked.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    limit_dirty: Option<bool>,
    best_effort_dirty: Option<Spanned<String>>,
    interactive_dirty: Option<Spanned<String>>,
}

/// Check the table. `at` makes an error of a field, its place in the text and a message.
///
/// # Errors
/// A value is out of range.
pub fn read<E>(file: File, at: impl Fn(&str, Range<usize>, String) -> E) -> Result<DiskConfig, E> {
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
    Ok(config)
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
        read(file, |field, _, m| format!("{field}: {m}"))
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
        assert!(parse("dirty = true").is_err());
    }
}
