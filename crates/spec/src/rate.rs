//! Rates of links, as tc(8) writes them: `40Mbit`, `1.5gbit`, `300kbit`. A number alone is bits a
//! second.

use std::ops::RangeInclusive;

/// Bits a second that a link may have. Slower, one packet takes more than a second; faster, one
/// takes less than the clock can tell.
pub const RATES: RangeInclusive<u64> = 8_000..=1_000_000_000_000;

const UNITS: [(&str, u64); 4] = [
    ("kbit", 1_000),
    ("mbit", 1_000_000),
    ("gbit", 1_000_000_000),
    ("bit", 1),
];

/// Bits a second.
///
/// # Errors
/// A text for the user.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let shown: String = text.chars().filter(|c| !c.is_control()).take(20).collect();
    let wrong = || format!("\"{shown}\" is no rate: write 40Mbit, or 300kbit");
    let lower = text.trim().to_ascii_lowercase();
    let unit = UNITS.iter().find(|(name, _)| lower.ends_with(name));
    let (number, factor) = match unit {
        Some((name, factor)) => (lower.trim_end_matches(name).trim_end(), *factor),
        None => (lower.as_str(), 1),
    };
    if number.is_empty() || !number.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return Err(wrong());
    }
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let bits = (number * factor as f64).round();
    let (least, most) = (*RATES.start(), *RATES.end());
    if !(least as f64..=most as f64).contains(&bits) {
        return Err(format!("{shown} is not between 8kbit and 1000Gbit"));
    }
    Ok(bits as u64)
}

/// The rate in the largest unit that shows it exactly.
pub fn format_rate(bits: u64) -> String {
    for (name, factor) in [
        ("Gbit", 1_000_000_000),
        ("Mbit", 1_000_000),
        ("kbit", 1_000),
    ] {
        if bits >= factor && bits % (factor / 1_000) == 0 {
            let text = format!("{:.3}", bits as f64 / factor as f64);
            return format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'));
        }
    }
    format!("{bits}bit")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_and_written() {
        for (text, bits) in [
            ("40Mbit", 40_000_000),
            ("1.5Gbit", 1_500_000_000),
            ("300kbit", 300_000),
            ("8001bit", 8_001),
        ] {
            assert_eq!(parse_rate(text), Ok(bits));
            assert_eq!(parse_rate(&format_rate(bits)), Ok(bits), "{text}");
        }
        assert_eq!(parse_rate("40000000"), Ok(40_000_000));
        assert_eq!(format_rate(40_000_000), "40Mbit");
        assert_eq!(format_rate(1_500_000_000), "1.5Gbit");
        for text in [
            "",
            "fast",
            "40MB",
            "-1Mbit",
            "1e9",
            "nan",
            "7kbit",
            "2000Gbit",
            "1.2.3Mbit",
        ] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn each_rate_comes_back(bits in RATES) {
            proptest::prop_assert_eq!(parse_rate(&format_rate(bits)), Ok(bits));
        }

        #[test]
        fn no_text_breaks_it(text: String) {
            let _ = parse_rate(&text);
        }
    }
}
