//! The policy's theorems, over a model of the kernel's generations and random uses.

use super::*;
use crate::testing::Kernel;
use crate::Pages;
use proptest::prelude::*;

/// A page of the model is 1 MB, so that some pages matter beside the least headroom of 8 MB.
const PAGE: Bytes = Bytes(1 << 20);
const MS: Duration = Duration::from_millis(1);

/// A look that is due or not, after a check. Both in MB.
fn look(set: &mut WorkingSet, now: Instant, usage: u64, expired: u64, ran: bool) -> Decision {
    set.begin(now);
    set.check(now, ran);
    let seen = Observation {
        usage: Bytes(usage << 20),
        expired: Bytes(expired << 20),
    };
    set.look(now, seen)
}

#[test]
fn a_domain_goes_through_its_states() {
    let start = Instant::now();
    let pi = 1600 * MS;
    let step = 900 * MS;
    let (mut set, first) = WorkingSet::new(pi, PAGE, start);
    assert_eq!((first.protection, first.age), (Protection::Whole, false));
    assert_eq!((first.next_look, set.size()), (Some(start + step), None));
    // It grows by 100 MB. Then 40 MB are expired; 100 MB is the growth since.
    let found = look(&mut set, start + step, 100, 0, true);
    assert_eq!((found.protection, found.age), (Protection::Whole, false));
    let found = look(&mut set, start + 2 * step, 200, 40, true);
    assert_eq!(found.protection, Protection::Bytes(Bytes(260 << 20)));
    assert_eq!(set.size(), Some(Bytes(160 << 20)));
    // Without growth the headroom is 1/8 of the usage; 8 MB at least.
    let found = look(&mut set, start + 3 * step, 200, 40, true);
    assert_eq!(found.protection, Protection::Bytes(Bytes(185 << 20)));
    let found = look(&mut set, start + 4 * step, 40, 10, true);
    assert_eq!(found.protection, Protection::Bytes(Bytes(38 << 20)));
    let found = look(&mut set, start + 5 * step, 40, 0, true);
    assert_eq!(found.protection, Protection::Whole);
    assert_eq!(found.next_look, Some(start + 6 * step));
    // Idle from here on.
    let found = look(&mut set, start + 6 * step, 40, 0, false);
    assert_eq!(found.next_look, Some(start + 5 * step + pi));
    let found = look(&mut set, start + 5 * step + pi, 40, 0, false);
    assert_eq!(
        (found.protection, found.next_look),
        (Protection::None, None)
    );
    let later = start + 100 * pi;
    assert_eq!(look(&mut set, later, 40, 0, false).next_look, None);
    let back = set.used(later).unwrap();
    assert_eq!((back.protection, back.age), (Protection::Whole, true));
    assert_eq!(back.next_look, Some(later + step));
    assert_eq!(set.used(later), None);
}

#[test]
fn a_use_brings_the_look_of_the_withdrawal_forward() {
    let start = Instant::now();
    let (mut set, _) = WorkingSet::new(1600 * MS, PAGE, start);
    look(&mut set, start, 40, 0, true);
    let found = look(&mut set, start + 100 * MS, 40, 0, false);
    assert_eq!(found.next_look, Some(start + 1600 * MS));
    set.used(start + 200 * MS);
    assert_eq!(set.next_look(), Some(start + 1100 * MS));
    set.set_pi(800 * MS, start + 200 * MS);
    assert_eq!(set.next_look(), Some(start + 650 * MS));
    set.skip(start + 650 * MS);
    assert_eq!(set.next_look(), Some(start + 1100 * MS));
}

#[test]
fn periods_have_bounds() {
    let now = Instant::now();
    for (pi, counts_as) in [(Duration::ZERO, MIN_PI), (Duration::MAX, MAX_PI)] {
        let (set, first) = WorkingSet::new(pi, PAGE, now);
        assert_eq!(set.pi(), counts_as);
        assert!(first.next_look >= Some(now + MIN_STEP));
    }
    assert_eq!(round_up(Bytes(u64::MAX), Bytes(4096)), Bytes(u64::MAX));
}

/// A domain, its pages and a clock. Looks happen when they are due.
struct World {
    now: Instant,
    pi: Duration,
    kernel: Kernel,
    set: WorkingSet,
    /// A task ran since the last check.
    ran: bool,
    last_use: Instant,
    /// Usage, and pages that were young, at the last look.
    at_look: (u64, u64),
    /// Looks come this much late.
    late: Duration,
    looks: u32,
}

impl World {
    fn new(pi: Duration, late: Duration) -> Self {
        let now = Instant::now();
        let mut kernel = Kernel::new(now);
        let (set, first) = WorkingSet::new(pi, PAGE, now);
        if first.age {
            kernel.age(now);
        }
        Self {
            now,
            pi,
            kernel,
            set,
            ran: false,
            last_use: now,
            at_look: (0, 0),
            late,
            looks: 0,
        }
    }

    /// Use pages now.
    fn run(&mut self, first: usize, count: usize) {
        self.ran = true;
        self.last_use = self.now;
        if self.set.used(self.now).is_some_and(|d| d.age) {
            self.kernel.age(self.now);
        }
        self.kernel.touch(self.now, first, count);
    }

    /// Let time pass.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.set.next_due().filter(|due| *due + self.late <= end) {
            self.now = self.now.max(due + self.late);
            self.look();
        }
        self.now = end;
    }

    /// A check, and a look if one is due.
    fn look(&mut self) {
        self.looks += 1;
        let is_look = self.set.begin(self.now);
        self.set.check(self.now, std::mem::take(&mut self.ran));
        if !is_look {
            return;
        }
        if self.set.was_used() {
            self.kernel.age(self.now);
        }
        let ages = self.kernel.ages(self.now);
        let observation = Observation {
            usage: Pages(self.kernel.pages()).bytes(PAGE),
            expired: ages.expired(self.pi).bytes(PAGE),
        };
        let decision = self.set.look(self.now, observation);
        assert_eq!(decision.next_look, self.set.next_look());
        self.at_look = (self.kernel.pages(), self.kernel.young(self.now, self.pi));
    }

    /// Pages by which the working set grew since the last look, new ones and expired ones that
    /// were used again.
    fn growth(&self) -> u64 {
        let young = self.kernel.young(self.now, self.pi);
        young.saturating_sub(self.at_look.1)
    }

    fn young(&self) -> Bytes {
        Pages(self.kernel.young(self.now, self.pi)).bytes(PAGE)
    }
}

/// Pauses in 1/16 of pi, and the pages that are used after each.
fn life() -> impl Strategy<Value = Vec<(u32, usize, usize)>> {
    let pages = (0usize..60, 1usize..30);
    let step = (0u32..24, pages).prop_map(|(pause, (first, count))| (pause, first, count));
    prop::collection::vec(step, 1..60)
}

proptest! {
    /// No page that is younger than pi is without protection, if the working set did not grow by
    /// more than the least headroom since the last look.
    #[test]
    fn young_pages_are_protected(life in life(), pi_ms in 250u32..100_000, late_ms in 0u32..30) {
        let mut world = World::new(pi_ms * MS, late_ms * MS);
        for (pause, first, count) in life {
            world.pass(world.pi * pause / 16);
            let check = |world: &World| {
                let protection = world.set.protection();
                let covered = protection.limit() >= Limit::Bytes(world.young());
                prop_assert!(covered || world.growth() > 8, "{protection:?} {:?}", world.young());
                Ok(())
            };
            check(&world)?;
            world.run(first, count);
            check(&world)?;
        }
    }

    /// The protection ends pi after the last use, at most a check and a look later, and no
    /// deadline is left.
    #[test]
    fn an_idle_domain_costs_nothing(life in life(), pi_ms in 250u32..100_000) {
        let mut world = World::new(pi_ms * MS, Duration::ZERO);
        for (pause, first, count) in life {
            world.pass(world.pi * pause / 16);
            world.run(first, count);
        }
        world.pass(world.pi - MS);
        prop_assert!(world.set.protection() != Protection::None, "too early");
        world.pass((world.pi / 16).max(MIN_STEP) + MIN_STEP + MS);
        prop_assert_eq!(world.set.protection(), Protection::None);
        prop_assert_eq!(world.set.next_due(), None);
        let looks = world.looks;
        world.pass(world.pi * 100);
        prop_assert_eq!(world.looks, looks);
    }

    /// A domain that runs at least once each pi/2 is never withdrawn.
    #[test]
    fn a_running_domain_stays_protected(life in life(), pi_ms in 250u32..100_000) {
        let mut world = World::new(pi_ms * MS, Duration::ZERO);
        for (pause, first, count) in life {
            world.pass(world.pi * (pause % 9) / 16);
            prop_assert!(world.set.protection() != Protection::None);
            prop_assert!(world.set.next_look().is_some());
            world.run(first, count);
        }
    }

    /// The protection does not grow stale: pages that are not used any more are found expired
    /// within 27/16 pi, while the domain runs on.
    #[test]
    fn unused_pages_lose_their_protection(pi_ms in 250u32..100_000, late_ms in 0u32..10) {
        let mut world = World::new(pi_ms * MS, late_ms * MS);
        world.run(0, 1000);
        for _ in 0..27 {
            world.pass(world.pi / 16);
            world.run(0, 10);
        }
        world.pass(3 * late_ms * MS + MS);
        prop_assert_eq!(world.set.size(), Some(Pages(10).bytes(PAGE)));
        let bytes = world.set.protection();
        prop_assert!(bytes.limit() < Limit::Bytes(Pages(200).bytes(PAGE)), "{bytes:?}");
    }

    /// Looks are never closer than the shortest step, if none is brought forward by a use.
    #[test]
    fn looks_have_a_distance(runs in prop::collection::vec(any::<bool>(), 1..50), ms in 1u32..2000) {
        let mut now = Instant::now();
        let (mut set, _) = WorkingSet::new(ms * MS, PAGE, now);
        for ran in runs {
            let Some(due) = set.next_look() else { break };
            prop_assert!(due >= now + MIN_STEP);
            now = due;
            look(&mut set, now, 100, 10, ran);
        }
    }
}
