//! Quotas on CPUs that claim, run too long and give back; on a path of domains; and with the
//! largest and smallest numbers.

use proptest::prelude::*;

use super::{Quota, DEBT, MOST};
use crate::{assert_layout, MS, SEC, US};

fn new(quota: u64, period: u64, burst: u64) -> Quota {
    let mut q = Quota::default();
    q.set(0, quota, period, burst);
    q
}

#[test]
fn layout_and_constants_are_the_headers() {
    assert_layout!(
        policy_layout_quota,
        Quota,
        period,
        quota,
        burst,
        left,
        refill
    );
    extern "C" {
        static policy_quota_most: u64;
        static policy_quota_debt_ns: u64;
    }
    // SAFETY: constants of shim_tree.c.
    assert_eq!(
        unsafe { (policy_quota_most, policy_quota_debt_ns) },
        (MOST, DEBT)
    );
}

#[test]
fn no_limit() {
    let mut q = Quota::default();
    q.set(5, 0, 100 * MS, 0);
    q.roll(SEC);
    assert_eq!(q.claim(SEC), SEC);
    q.give_back(SEC, 10 * SEC);
    assert!(!q.throttled() && q.left == 0);
}

#[test]
fn a_period() {
    let mut q = new(20 * MS, 100 * MS, 0);
    assert_eq!(q.claim(5 * MS), 5 * MS);
    assert_eq!(q.claim(18 * MS), 15 * MS, "what is left");
    assert!(q.throttled());
    assert_eq!(q.claim(1), 0);
    q.give_back(5 * MS, 2 * MS);
    assert!(!q.throttled());
    assert_eq!(q.claim(5 * MS), 3 * MS);
    q.roll(100 * MS - 1);
    assert!(q.throttled());
    q.roll(100 * MS);
    assert_eq!((q.left, q.refill), (20 * MS as i64, 200 * MS));
    // Time that is given back late does not raise the pool above a quota.
    q.give_back(15 * MS, 0);
    assert_eq!(q.left, 20 * MS as i64);
}

#[test]
fn burst_is_saved_up_to_its_end() {
    let mut q = new(20 * MS, 100 * MS, 30 * MS);
    assert_eq!(q.claim(SEC), 20 * MS, "it begins with a quota");
    q.roll(100 * MS);
    q.roll(200 * MS);
    assert_eq!(q.left, 40 * MS as i64);
    q.roll(SEC);
    assert_eq!((q.left, q.refill), (50 * MS as i64, SEC + 100 * MS));
}

#[test]
fn a_debt_is_paid_from_later_periods() {
    let mut q = new(20 * MS, 100 * MS, 50 * MS);
    let granted = q.claim(20 * MS);
    q.give_back(granted, granted + 45 * MS);
    for (now, left) in [(100, -25), (200, -5), (300, 15), (400, 35)] {
        q.roll(now * MS);
        assert_eq!((q.left, q.throttled()), (left * MS as i64, left < 0));
    }
    // A debt that would throttle the domain for minutes is cut to 10 s.
    let granted = q.claim(20 * MS);
    q.give_back(granted, 100 * SEC);
    q.roll(10 * SEC + 300 * MS);
    assert!(q.throttled());
    q.roll(10 * SEC + 400 * MS);
    assert!(q.throttled(), "nothing yet, but no debt either");
    q.roll(10 * SEC + 500 * MS);
    assert_eq!(q.claim(SEC), 20 * MS);
}

#[test]
fn a_new_limit_begins_full_and_the_same_one_goes_on() {
    let mut q = new(20 * MS, 100 * MS, 0);
    q.claim(15 * MS);
    let before = q;
    q.set(50 * MS, 20 * MS, 100 * MS, 0);
    assert_eq!(q, before);
    q.set(50 * MS, 20 * MS, 100 * MS, 1);
    assert_eq!((q.left, q.refill), (20 * MS as i64, 150 * MS));
    // The limit is removed and set again.
    q.set(60 * MS, 0, 100 * MS, 0);
    assert_eq!(q.claim(SEC), SEC);
    q.set(70 * MS, 10 * MS, 0, 0);
    assert_eq!(
        (q.left, q.period, q.refill),
        (10 * MS as i64, 100 * MS, 170 * MS),
        "no period: the kernel's default"
    );
}

/// Claims along a path of domains, from the leaf upwards, as section 3 of the header says.
fn claim_path(path: &mut [Quota], want: u64) -> u64 {
    let mut granted = Vec::new();
    let mut least = want;
    for q in path.iter_mut() {
        least = q.claim(least);
        granted.push(least);
    }
    for (q, granted) in path.iter_mut().zip(granted) {
        q.give_back(granted, least);
    }
    least
}

/// A CPU: what it has claimed, and what it has run of that.
#[derive(Clone, Copy, Default)]
struct Cpu {
    granted: u64,
    used: u64,
}

/// The longest step, ns: a timer is late by this at most.
const STEP: u64 = 2 * MS;

/// What happened in one period of a domain, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    used: u64,
    /// What CPUs held of their claims when the period began.
    flight: u64,
    /// What CPUs ran beyond their claims in the period.
    over: u64,
}

/// CPUs that want to run a domain, or not (`wants`), from the beginning of the first period to the
/// end of the last.
struct Play<'a> {
    path: Vec<Quota>,
    cpus: Vec<Cpu>,
    slice: u64,
    /// Each step: its length, a bit for each CPU that wants to run, and whether timers are late in
    /// it.
    steps: &'a [(u64, u8, bool)],
}

impl Play<'_> {
    /// Runs `most` periods of the domain at `level`, and returns what happened in each.
    fn periods(mut self, level: usize, most: usize) -> Vec<Period> {
        let length = self.path[level].period;
        let mut periods = vec![Period::default()];
        let mut now = 0;
        for &(step, wants, late) in self.steps.iter().cycle() {
            let end = (now + step).min(length * periods.len() as u64);
            for i in 0..self.cpus.len() {
                let period = periods.last_mut().unwrap();
                period.used += self.run(i, now, end, wants >> i & 1 != 0, late);
                if late {
                    let cpu = &self.cpus[i];
                    period.over += cpu.used.saturating_sub(cpu.granted).min(end - now);
                }
            }
            now = end;
            if now == length * periods.len() as u64 {
                if periods.len() == most {
                    break;
                }
                let flight = self
                    .cpus
                    .iter()
                    .map(|c| c.granted.saturating_sub(c.used))
                    .sum();
                periods.push(Period {
                    flight,
                    ..Period::default()
                });
            }
        }
        periods
    }

    /// CPU `i` runs from `now` to `end`. Returns its run time, ns.
    fn run(&mut self, i: usize, now: u64, end: u64, wants: bool, late: bool) -> u64 {
        let (mut at, mut ran) = (now, 0);
        while at < end {
            let cpu = &mut self.cpus[i];
            if !wants || cpu.used >= cpu.granted {
                for q in &mut self.path {
                    q.roll(at);
                    q.give_back(cpu.granted, cpu.used);
                }
                *cpu = Cpu::default();
                if !wants {
                    break;
                }
                cpu.granted = claim_path(&mut self.path, self.slice);
                if cpu.granted == 0 {
                    break;
                }
            }
            let most = if late {
                u64::MAX
            } else {
                cpu.granted - cpu.used
            };
            let ns = (end - at).min(most);
            cpu.used += ns;
            ran += ns;
            at += ns;
        }
        ran
    }
}

fn steps() -> impl Strategy<Value = Vec<(u64, u8, bool)>> {
    prop::collection::vec(
        (50 * US..STEP, any::<u8>(), prop::bool::weighted(0.2)),
        20..200,
    )
}

/// (period, quota, burst), ns.
fn limit() -> impl Strategy<Value = (u64, u64, u64)> {
    let period = prop_oneof![Just(MS), Just(10 * MS), Just(100 * MS)];
    (period, 1u64..2_000, 0u64..1_000)
        .prop_map(|(p, q, b)| (p, p / 1_000 * q, p / 1_000 * q * b / 1_000))
}

/// Checks that any number of periods, beginning with any one, keep to the bound of section 2.
fn check(periods: &[Period], quota: u64, burst: u64, overrun: u64) -> Result<(), TestCaseError> {
    for from in 0..periods.len() {
        let mut used = 0;
        for (n, period) in periods[from..].iter().enumerate() {
            used += period.used;
            let most = (n as u64 + 1) * quota + burst + periods[from].flight + overrun;
            prop_assert!(used <= most, "periods {from} + {n}: {used} > {most}");
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// However long it goes on, what was run beyond claims and is not repaid at the end is at most
    /// one late step of each CPU.
    #[test]
    fn no_periods_have_more_than_their_quota((period, quota, burst) in limit(), cpus in 1usize..5,
                                             slice in 100 * US..5 * MS, steps in steps()) {
        let path = vec![new(quota, period, burst)];
        let play = Play { path, cpus: vec![Cpu::default(); cpus], slice, steps: &steps };
        let late = steps.iter().any(|s| s.2);
        let overrun = if late { cpus as u64 * STEP } else { 0 };
        check(&play.periods(0, 60), quota, burst, overrun)?;
    }

    /// A domain that always wants to run gets its whole quota. No time is lost between periods and
    /// claims, and late timers lose no more than they are late.
    #[test]
    fn no_time_is_lost((period, quota, burst) in limit(), cpus in 1usize..5, slice in 100 * US..5 * MS,
                       mut steps in steps()) {
        prop_assume!(quota <= cpus as u64 * period);
        steps.iter_mut().for_each(|s| s.1 = !0);
        let path = vec![new(quota, period, burst)];
        let play = Play { path, cpus: vec![Cpu::default(); cpus], slice, steps: &steps };
        let periods = play.periods(0, 60);
        let used: u64 = periods.iter().map(|p| p.used).sum();
        let over: u64 = periods.iter().map(|p| p.over).sum();
        // One late step of each CPU at the end may not be repaid yet.
        let most = 60 * quota + cpus as u64 * STEP;
        // CPUs hold claims at the end. And the pool could not keep the quota that it missed because
        // an overrun was reported late.
        let least = (60 * quota).saturating_sub(cpus as u64 * (slice + STEP) + over);
        prop_assert!((least..=most).contains(&used), "{used} of {}", 60 * quota);
    }

    /// Domains within domains: each level's limit holds.
    #[test]
    fn on_a_path_each_limit_holds(limits in prop::collection::vec(limit(), 2..5), cpus in 1usize..4,
                                  slice in 100 * US..5 * MS, steps in steps()) {
        for level in 0..limits.len() {
            let path = limits.iter().map(|&(p, q, b)| new(q, p, b)).collect();
            let play = Play { path, cpus: vec![Cpu::default(); cpus], slice, steps: &steps };
            let (_, quota, burst) = limits[level];
            check(&play.periods(level, 20), quota, burst, cpus as u64 * STEP)?;
        }
    }

    /// A claim along a path takes the least that is left, the same from each domain.
    #[test]
    fn a_path_grants_the_least(lefts in prop::collection::vec(-5i64..50, 1..17), want in 0u64..60) {
        let mut path: Vec<_> = lefts.iter().map(|&left| Quota { left, ..new(50, MS, 0) }).collect();
        let least = lefts.iter().copied().min().unwrap().clamp(0, want as i64);
        prop_assert_eq!(claim_path(&mut path, want), least as u64);
        let after: Vec<_> = path.iter().map(|q| q.left + least).collect();
        prop_assert_eq!(after, lefts);
    }

    /// Many periods at once give the same result as one period after the other.
    #[test]
    fn any_number_of_periods(
        left in -5_000i64..100,
        quota in 1u64..100,
        burst in 0u64..200,
        periods in 0u64..200,
    ) {
        let begin = Quota { left, ..new(quota, MS, burst) };
        let (mut once, mut each) = (begin, begin);
        let now = periods * MS + MS / 2;
        once.roll(now);
        (0..=periods).for_each(|n| each.roll(n * MS + MS / 2));
        prop_assert_eq!(once, each);
    }

    /// No number is too large (the sanitizer traps overflows), and `left` stays within its bounds.
    #[test]
    fn at_the_ends_of_the_numbers(
        ops in prop::collection::vec((0u8..5, large(), large(), large(), large()), 1..40),
    ) {
        let (mut q, mut now) = (Quota::default(), 0u64);
        for (op, a, b, c, step) in ops {
            now = now.saturating_add(step).min(1 << 62);
            match op {
                0 => q.set(now, a, b, c),
                1 => {
                    q.roll(now);
                    prop_assert!(q.quota == 0 || q.refill > now);
                }
                2 => prop_assert!(q.claim(a) <= a),
                3 => q.give_back(a, b),
                _ => prop_assert_eq!(q.throttled(), q.quota > 0 && q.left <= 0),
            }
            prop_assert!(q.quota == 0 || q.left <= (q.quota + q.burst) as i64);
            prop_assert!(q.left >= -(MOST as i64));
        }
    }
}

fn large() -> impl Strategy<Value = u64> {
    prop_oneof![
        any::<u64>(),
        Just(u64::MAX),
        Just(0),
        Just(1u64),
        MS..SEC,
        Just((1u64 << 44) * 1_000)
    ]
}
