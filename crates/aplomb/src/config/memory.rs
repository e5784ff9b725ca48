//! The table `[memory]` of the configuration.

use std::ops::Range;

use aplomb_spec::parse_size;
use serde::Deserialize;
use toml::Spanned;

use super::parse_percent;

/// How the memory of interactive programs is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemoryConfig {
    /// False: no program gets a memory domain, and no knob is turned.
    pub protect: bool,
    /// The most that all programs together are protected for, ppm of what programs can have.
    pub limit_ppm: u64,
    /// The most that the programs of one user are protected for, ppm.
    pub user_limit_ppm: u64,
    /// Free memory that is kept for interactive programs, bytes.
    pub reserve: u64,
    /// Free memory beyond that while an interactive program grows, bytes.
    pub growth_buffer: u64,
    /// The free part of the shared reserve, bytes.
    pub shared_reserve: u64,
    /// Interactive programs are killed after others when memory runs out.
    pub oom: bool,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            protect: false,
            limit_ppm: 800_000,
            user_limit_ppm: 500_000,
            reserve: 8 << 20,
            growth_buffer: 64 << 20,
            shared_reserve: 32 << 20,
            oom: true,
        }
    }
}

/// The largest reserve, growth buffer, and free part of the shared reserve, bytes.
const MAX_RESERVE: u64 = 1 << 30;

/// The table before it is checked.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    protect: Option<bool>,
    limit: Option<Spanned<String>>,
    user_limit: Option<Spanned<String>>,
    reserve: Option<Spanned<String>>,
    growth_buffer: Option<Spanned<String>>,
    shared_reserve: Option<Spanned<String>>,
    oom: Option<bool>,
}

/// Check the table. `at` makes an error of a field, its place in the text and a message.
///
/// # Errors
/// A value is out of range.
pub fn read<E>(
    file: File,
    at: impl Fn(&str, Range<usize>, String) -> E,
) -> Result<MemoryConfig, E> {
    let mut config = MemoryConfig::default();
    config.protect = file.protect.unwrap_or(config.protect);
    config.oom = file.oom.unwrap_or(config.oom);
    for (field, value, place) in [
        ("memory.limit", &file.limit, &mut config.limit_ppm),
        (
            "memory.user-limit",
            &file.user_limit,
            &mut config.user_limit_ppm,
        ),
    ] {
        if let Some(v) = value {
            *place = parse_percent(v.get_ref()).map_err(|m| at(field, v.span(), m))?;
        }
    }
    for (field, value, place) in [
        ("memory.reserve", &file.reserve, &mut config.reserve),
        (
            "memory.growth-buffer",
            &file.growth_buffer,
            &mut config.growth_buffer,
        ),
        (
            "memory.shared-reserve",
            &file.shared_reserve,
            &mut config.shared_reserve,
        ),
    ] {
        if let Some(v) = value {
            *place = reserve(v.get_ref()).map_err(|m| at(field, v.span(), m))?;
        }
    }
    Ok(config)
}

fn reserve(text: &str) -> Result<u64, String> {
    let bytes = parse_size(text)?;
    if bytes <= MAX_RESERVE {
        return Ok(bytes);
    }
    Err(format!("{text} is more than 1G"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_has_its_default_and_what_is_wrong_is_named() {
        let parse = |text: &str| {
            let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
            read(file, |field, _, m| format!("{field}: {m}"))
        };
        assert_eq!(parse("").unwrap(), MemoryConfig::default());
        let some =
            parse("protect = true\nuser-limit = \"10%\"\nreserve = \"4M\"\noom = false").unwrap();
        assert_eq!(
            (some.protect, some.reserve, some.oom),
            (true, 4 << 20, false)
        );
        assert_eq!((some.limit_ppm, some.user_limit_ppm), (800_000, 100_000));
        assert!(parse("limit = \"101%\"")
            .unwrap_err()
            .starts_with("memory.limit: "));
        for (key, value, words) in [
            ("reserve", "2G", "2G is more than 1G"),
            ("reserve", "1.5M", "no size, such as 32M"),
            ("shared-reserve", "1025M", "1025M is more than 1G"),
        ] {
            let e = parse(&format!("{key} = \"{value}\"")).unwrap_err();
            assert!(
                e.starts_with(&format!("memory.{key}: ")) && e.contains(words),
                "{e}"
            );
        }
        let all = parse("reserve = \"1G\"\nshared-reserve = \"0\"").unwrap();
        assert_eq!((all.reserve, all.shared_reserve), (1 << 30, 0));
        assert!(parse("protected = true").is_err());
    }
}
