//! Amounts of memory in text form ("32M", "1536K", "4096").

use crate::diag::shorten;

/// Units and their lengths in bytes, the longest first.
const UNITS: [(char, u64); 4] = [
    ('T', 1 << 40),
    ('G', 1 << 30),
    ('M', 1 << 20),
    ('K', 1 << 10),
];

/// Parses a whole number of bytes, or of K, M, G or T (powers of 1024).
///
/// # Errors
///
/// One sentence: the text has another form, or the amount exceeds 64 bits.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let wrong = || format!("\"{}\" is no size, such as 32M", shorten(text));
    let text = text.trim();
    let unit = UNITS
        .iter()
        .find_map(|(name, bytes)| text.strip_suffix(*name).map(|number| (number, *bytes)));
    let (number, unit) = unit.unwrap_or((text, 1));
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(wrong());
    }
    let bytes = number.parse::<u64>().ok();
    bytes.and_then(|n| n.checked_mul(unit)).ok_or_else(wrong)
}

/// The shortest text that [`parse_size`] reads as `bytes`.
pub fn format_size(bytes: u64) -> String {
    let unit = UNITS
        .iter()
        .find(|(_, unit)| bytes > 0 && bytes % unit == 0);
    match unit {
        Some((name, unit)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_whole_numbers_with_a_unit() {
        for (text, bytes) in [
            ("0", 0),
            ("4096", 4096),
            (" 8M ", 8 << 20),
            ("512K", 512 << 10),
            ("1G", 1 << 30),
            ("2T", 2 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in [
            "",
            "M",
            "-1",
            "+1",
            "1.5M",
            "8 M",
            "8MB",
            "8m",
            "8é",
            "16777216T",
        ] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_is_written_is_read_back(number: u64, shift in 0u32..64) {
            let bytes = (number >> shift) << (shift % 44).min(shift);
            proptest::prop_assert_eq!(parse_size(&format_size(bytes)), Ok(bytes));
        }
    }
}
