//! Durations in text form ("5ms", "2.5 ms", "30min"). No floating point is involved.

/// Units and their lengths in ns, the longest first.
const UNITS: [(&str, u64); 5] = [
    ("h", 3_600_000_000_000),
    ("min", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
];

/// Parses a decimal number with a unit (us, ms, s, min, h) to ns, exactly.
///
/// # Errors
///
/// A message that names the problem: no number, no unit, an unknown unit, a fraction of a
/// nanosecond, or an overflow.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim());
    if number.is_empty() {
        return Err(format!(
            "\"{}\" is no duration (such as 5ms)",
            crate::diag::shorten(text)
        ));
    }
    let unit = if unit == "µs" || unit == "μs" {
        "us"
    } else {
        unit
    };
    match UNITS.iter().find(|(u, _)| *u == unit) {
        Some((_, ns)) => decimal(number, *ns),
        None if unit.is_empty() => Err(format!("\"{number}\" has no unit (us, ms, s, min, h)")),
        None => Err(format!(
            "\"{}\" is no unit (us, ms, s, min, h)",
            crate::diag::shorten(unit)
        )),
    }
}

/// `number` * `unit`, exactly, for a decimal number such as "2.5".
///
/// # Errors
///
/// `number` is no decimal number, it is finer than 1/`unit`, or the result exceeds 64 bits.
pub fn decimal(number: &str, unit: u64) -> Result<u64, String> {
    let bad = || format!("\"{}\" is no number", crate::diag::shorten(number));
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) {
        return Err(bad());
    }
    let too_big = || format!("{} is too large", crate::diag::shorten(number));
    let whole = whole
        .parse::<u64>()
        .map_err(|_| too_big())?
        .checked_mul(unit)
        .ok_or_else(too_big)?;
    let part = part.trim_end_matches('0');
    let fine = || {
        format!(
            "{} is finer than a nanosecond",
            crate::diag::shorten(number)
        )
    };
    let mut rest = 0;
    if !part.is_empty() {
        let scale = u32::try_from(part.len())
            .ok()
            .and_then(|n| 10u128.checked_pow(n))
            .ok_or_else(fine)?;
        let value = part
            .parse::<u128>()
            .map_err(|_| fine())?
            .checked_mul(u128::from(unit))
            .ok_or_else(fine)?;
        if value % scale != 0 {
            return Err(fine());
        }
        rest = u64::try_from(value / scale).map_err(|_| too_big())?;
    }
    whole.checked_add(rest).ok_or_else(too_big)
}

/// Writes `ns` in ms, or in s or min if that is a whole number. [`parse_duration`] gives the same
/// `ns`.
pub fn format_duration(ns: u64) -> String {
    for (unit, size) in &UNITS[1..3] {
        if ns >= *size && ns % size == 0 {
            return format!("{}{unit}", ns / size);
        }
    }
    format!("{}ms", format_decimal(ns, 1_000_000))
}

/// `value` / `unit` as a decimal number. `unit` must be a power of ten.
pub fn format_decimal(value: u64, unit: u64) -> String {
    let width = unit.ilog10() as usize;
    let text = format!("{}.{:0width$}", value / unit, value % unit);
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_and_decimals() {
        for (text, ns) in [
            ("5ms", 5_000_000),
            (" 2.5 ms ", 2_500_000),
            ("100us", 100_000),
            ("100µs", 100_000),
            ("0.1ms", 100_000),
            ("1s", 1_000_000_000),
            ("30min", 1_800_000_000_000),
            ("1.500000ms", 1_500_000),
        ] {
            assert_eq!(parse_duration(text), Ok(ns), "{text}");
        }
    }

    #[test]
    fn nonsense_is_named() {
        for (text, part) in [
            ("", "no duration"),
            ("ms", "no duration"),
            ("5", "no unit"),
            ("5 parsec", "no unit"),
            ("1..2ms", "no number"),
            (".5ms", "no number"),
            ("-5ms", "no duration"),
            ("0.0000001ms", "finer"),
            ("99999999999999999999s", "too large"),
            ("18446744073709551615s", "too large"),
        ] {
            let e = parse_duration(text).unwrap_err();
            assert!(e.contains(part), "{text}: {e}");
        }
    }

    proptest! {
        #[test]
        fn printed_reads_back(ns in 0u64..=20_000_000_000_000) {
            prop_assert_eq!(parse_duration(&format_duration(ns)), Ok(ns));
            prop_assert_eq!(decimal(&format_decimal(ns, 1_000_000), 1_000_000), Ok(ns));
        }
    }
}
