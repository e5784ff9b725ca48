//! Values are parsed exactly, and wrong ones are refused with the reason.

use super::*;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

#[test]
fn reservations() {
    let budget = |c, t| {
        Some(Reservation::Budget {
            runtime_ns: c,
            period_ns: t,
        })
    };
    for (text, wanted) in [
        ("25%", Some(Reservation::Fraction(250_000))),
        (" 12.5 % ", Some(Reservation::Fraction(125_000))),
        ("100%", Some(Reservation::Fraction(1_000_000))),
        ("0.01%", Some(Reservation::Fraction(100))),
        ("10ms/100ms", budget(10 * MS, 100 * MS)),
        ("500us / 1ms", budget(MS / 2, MS)),
        ("none", None),
    ] {
        assert_eq!(parse_reservation(text), Ok(wanted), "{text}");
    }
    for (text, part) in [
        ("", "1 to 64 bytes"),
        ("25", "none of 25%"),
        ("0%", "percentage"),
        ("100.1%", "percentage"),
        ("1e1%", "percentage"),
        ("-5%", "percentage"),
        ("5.12345%", "percentage"),
        ("99999999999999999999%", "percentage"),
        ("5/30", "unit"),
        ("40ms/30ms", "the runtime 40ms is not between"),
        ("5ms/1h", "the period"),
        ("1us/30ms", "the runtime"),
    ] {
        let e = parse_reservation(text).unwrap_err();
        assert!(e.contains(part), "{text}: {e}");
    }
    assert!(parse_reservation(&"9".repeat(65)).is_err());
}

#[test]
fn limits() {
    let max = |q, p| Max {
        quota_ns: q * MS,
        period_ns: p * MS,
    };
    assert_eq!(
        parse_limit("20ms/100ms"),
        Ok(Some(Limit::Max(max(20, 100))))
    );
    assert_eq!(
        parse_limit("200ms/100ms"),
        Ok(Some(Limit::Max(max(200, 100))))
    );
    assert_eq!(parse_limit("none"), Ok(None));
    assert_eq!(parse_limit("max"), Ok(None), "the kernel's word");
    assert!(parse_limit("0.5ms/100ms").is_err());
    assert!(parse_limit("20ms/2s").is_err());
    let half = parse_limit("50%").unwrap().unwrap();
    assert_eq!(half.on(1), max(50, 100));
    assert_eq!(half.on(4), max(200, 100), "of the whole machine");
    let least = Limit::Fraction(MIN_PPM);
    assert_eq!(least.on(1), max(1, 100), "the least that the kernel takes");
}

#[test]
fn the_kernels_file() {
    let half = Some(Max {
        quota_ns: 50 * MS,
        period_ns: 100 * MS,
    });
    assert_eq!(parse_cpu_max("50000 100000\n"), Ok(half));
    assert_eq!(parse_cpu_max("max 100000\n"), Ok(None));
    assert_eq!(print_cpu_max(half), "50000 100000");
    assert_eq!(print_cpu_max(None), "max");
    for wrong in [
        "",
        "max",
        "50000",
        "x 100000",
        "5 -1",
        "1 99999999999999999999",
    ] {
        assert!(parse_cpu_max(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn weights_policies_and_switches() {
    assert_eq!(parse_weight("200"), Ok(200));
    for wrong in ["0", "10001", "-1", "1.5", "", "+5", "99999999999999999999"] {
        assert!(parse_weight(wrong).is_err(), "{wrong}");
    }
    for p in DomainPolicy::ALL {
        assert_eq!(p.name().parse(), Ok(p));
        assert_eq!(DomainPolicy::numbered(p.number()), Some(p));
        assert_eq!(serde_json::to_value(p).unwrap(), p.name());
    }
    let e = "edf\u{1b}[2J".parse::<DomainPolicy>().unwrap_err();
    assert_eq!(
        e,
        "\"edf\\u{1b}[2J\" is none of default, sfq, mtr, wrr, fair, fifo"
    );
    assert_eq!(
        (parse_switch("1\n"), parse_switch("0")),
        (Ok(true), Ok(false))
    );
    assert!(parse_switch("yes").is_err());
}

proptest! {
    #[test]
    fn what_is_printed_reads_back(ppm in MIN_PPM..=WHOLE_PPM, c in 100_000u64..=10_000_000_000, t in 1_000_000u64..=10_000_000_000) {
        let fraction = Reservation::Fraction(ppm);
        prop_assert_eq!(parse_reservation(&fraction.to_string()), Ok(Some(fraction)));
        prop_assume!(c <= t);
        let budget = Reservation::Budget { runtime_ns: c, period_ns: t };
        prop_assert_eq!(parse_reservation(&budget.to_string()), Ok(Some(budget)));
    }

    #[test]
    fn a_limit_is_never_above_its_share(ppm in 10_000..=WHOLE_PPM, cpus in 1u32..=1024) {
        let max = Limit::Fraction(ppm).on(cpus);
        prop_assert!(u128::from(max.quota_ns) * 1_000_000 <= u128::from(max.period_ns) * u128::from(cpus) * u128::from(ppm));
        prop_assert_eq!(parse_cpu_max(&print_cpu_max(Some(max))), Ok(Some(max)));
    }
}
