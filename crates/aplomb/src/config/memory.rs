//! The table `[memory]` of the configuration.

use std::ops::Range;

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
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            protect: false,
            limit_ppm: 800_000,
            user_limit_ppm: 500_000,
            reserve: 8 << 20,
        }
    }
}

/// The largest reserve, bytes.
const MAX_RESERVE: u64 = 1 << 30;

/// The table before it is checked.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct File {
    protect: Option<bool>,
    limit: Option<Spanned<String>>,
    user_limit: Option<Spanned<String>>,
    reserve: Option<Spanned<String>>,
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
    if let Some(v) = &file.reserve {
        config.reserve = parse_size(v.get_ref()).map_err(|m| at("memory.reserve", v.span(), m))?;
    }
    Ok(config)
}

/// "8M", "512K", "1G" in bytes.
fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{text}\" is no size from 0 to 1G, such as \"8M\"");
    let text_only = text.trim();
    let (number, unit) = match text_only.char_indices().last() {
        Some((at, 'K')) => (&text_only[..at], 1 << 10),
        Some((at, 'M')) => (&text_only[..at], 1 << 20),
        Some((at, 'G')) => (&text_only[..at], 1 << 30),
        _ => (text_only, 1),
    };
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let bytes = number.parse::<u64>().ok().and_then(|n| n.checked_mul(unit));
    bytes.filter(|n| *n <= MAX_RESERVE).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("8M", 8 << 20),
            ("0", 0),
            ("1G", 1 << 30),
            ("512K", 512 << 10),
        ] {
            assert_eq!(parse_size(text), Ok(bytes));
        }
        for text in [
            "",
            "M",
            "-1",
            "1.5M",
            "2G",
            "99999999999999999999G",
            "8 MB",
            "8é",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_left_out_has_its_default_and_what_is_wrong_is_named() {
        let parse = |text: &str| {
            let file: File = toml::from_str(text).map_err(|e| e.to_string())?;
            read(file, |field, _, m| format!("{field}: {m}"))
        };
        assert_eq!(parse("").unwrap(), MemoryConfig::default());
        let some = parse("protect = true\nuser-limit = \"10%\"\nreserve = \"4M\"").unwrap();
        assert_eq!((some.protect, some.reserve), (true, 4 << 20));
        assert_eq!((some.limit_ppm, some.user_limit_ppm), (800_000, 100_000));
        assert!(parse("limit = \"101%\"")
            .unwrap_err()
            .starts_with("memory.limit: "));
        assert!(parse("reserve = \"2G\"")
            .unwrap_err()
            .starts_with("memory.reserve: "));
        assert!(parse("protected = true").is_err());
    }
}
