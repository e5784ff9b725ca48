use super::*;
use proptest::prelude::*;

const FILM: u32 = 1000;
const LIMITS: Limits = Limits {
    all: Bytes(800),
    user: Bytes(500),
};
/// Limits that no need in the tests reaches.
const WIDE: Limits = Limits {
    all: Bytes(u64::MAX),
    user: Bytes(u64::MAX),
};
const MANAGER: &str = "user.slice/user-1000.slice/user@1000.service";

fn path(text: &str) -> DomainPath {
    text.parse().unwrap()
}

fn unit(text: &str) -> Option<Unit> {
    Unit::of(&path(text))
}

#[test]
fn a_programs_own_unit_is_used_as_it_is() {
    for (cgroup, domain, user) in [
        (
            format!("{MANAGER}/app.slice/app-gnome-mpv-812.scope"),
            None,
            Some(FILM),
        ),
        (
            format!("{MANAGER}/session.slice/pipewire.service"),
            None,
            Some(FILM),
        ),
        (
            format!("{MANAGER}/app.slice/app-dbus\\x2d1.slice/app-x@0.service"),
            None,
            Some(FILM),
        ),
        // A cgroup below a unit, such as a container's, belongs to the unit.
        (
            format!("{MANAGER}/app.slice/a.scope/container/init.scope"),
            Some(format!("{MANAGER}/app.slice/a.scope")),
            Some(FILM),
        ),
        (
            "user.slice/user-1000.slice/aplomb-812-3.scope".into(),
            None,
            Some(FILM),
        ),
        ("system.slice/sddm.service".into(), None, None),
        (
            "system.slice/system-getty.slice/getty@tty1.service".into(),
            None,
            None,
        ),
    ] {
        let expected = Unit {
            domain: path(&domain.unwrap_or_else(|| cgroup.clone())),
            user,
        };
        assert_eq!(unit(&cgroup), Some(expected), "{cgroup}");
    }
}

#[test]
fn what_is_shared_or_no_unit_is_not() {
    for cgroup in [
        "/",
        "init.scope",
        "user.slice",
        "user.slice/user-1000.slice",
        "user.slice/user-1000.slice/session-3.scope",
        "user.slice/user-1000.slice/session-3.scope/a.scope",
        "user.slice/user-1000.slice/user-runtime-dir@1000.service",
        MANAGER,
        "user.slice/user-1000.slice/user@1000.service/init.scope",
        "user.slice/user-1000.slice/user@1000.service/app.slice",
        "user.slice/user-1000.slice/user@1001.service/app.slice/a.scope",
        "user.slice/user-x.slice/user@x.service/a.scope",
        "user.slice/other.slice/a.scope",
        "system.slice",
        "machine.slice/machine-a.scope",
        "media.slice/media-film.slice/a.scope",
        "aplomb/1000/mpv-812",
    ] {
        assert_eq!(unit(cgroup), None, "{cgroup}");
    }
}

#[test]
fn what_is_started_in_a_terminal_is_not_the_terminals() {
    let helper = Other {
        has_terminal: false,
        descends: true,
    };
    let shell = Other {
        has_terminal: true,
        ..helper
    };
    let stranger = Other {
        descends: false,
        ..helper
    };
    let none = Others::NoTerminal;
    assert!(none.allow(&[], false) && none.allow(&[helper, stranger], false));
    assert!(!none.allow(&[helper, shell], false));
    assert!(none.allow(&[helper, shell], true));
    let in_terminal = Other {
        descends: false,
        ..shell
    };
    assert!(!none.allow(&[in_terminal], true));
    assert!(Others::Family.allow(&[helper, shell], false));
    assert!(!Others::Family.allow(&[helper, stranger], true));
    assert!(Others::None.allow(&[], false) && !Others::None.allow(&[helper], true));
}

#[test]
fn users_and_services_share_the_limit() {
    let bound = |p: &str| bound(&path(p), LIMITS);
    assert_eq!(bound("user.slice"), Some(Bytes(700)));
    assert_eq!(bound("system.slice"), Some(Bytes(100)));
    assert_eq!(bound("user.slice/user-7.slice"), Some(Bytes(500)));
    assert_eq!(bound("user.slice/user-0.slice"), Some(Bytes(800)));
    assert_eq!(bound(MANAGER), None);
    assert_eq!(bound("system.slice/system-getty.slice"), None);
}

#[test]
fn a_unit_needs_what_it_uses_and_some_growth() {
    let mb = |n: u64| Bytes(n << 20);
    assert_eq!(need(Protection::Whole, mb(100)), mb(128));
    assert_eq!(need(Protection::Whole, Bytes(0)), mb(16));
    assert_eq!(need(Protection::Bytes(mb(40)), mb(100)), mb(40));
    assert_eq!(need(Protection::None, mb(100)), mb(0));
    assert!(need(Protection::Whole, Bytes(u64::MAX)) >= mb(100));
    let a = unit(&format!("{MANAGER}/app.slice/a.scope")).unwrap();
    let b = unit(&format!("{MANAGER}/b.service")).unwrap();
    let c = unit("system.slice/c.service").unwrap();
    let units = [
        (&a, Protection::Whole, mb(100)),
        (&b, Protection::Whole, mb(0)),
        (&c, Protection::None, mb(9)),
    ];
    let sums = needs(units.into_iter(), WIDE);
    let shown: Vec<_> = sums.iter().map(|(p, b)| (p.to_string(), *b)).collect();
    let expected = [
        ("system.slice".into(), mb(0)),
        ("user.slice".into(), mb(144)),
        ("user.slice/user-1000.slice".into(), mb(144)),
        (MANAGER.into(), mb(144)),
        (format!("{MANAGER}/app.slice"), mb(128)),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_user_beyond_the_limit_does_not_count_above_for_more() {
    let film = unit(&format!("{MANAGER}/app.slice/a.scope")).unwrap();
    let other = unit("user.slice/user-7.slice/user@7.service/a.scope").unwrap();
    let limits = Limits {
        all: Bytes(800 << 20),
        user: Bytes(100 << 20),
    };
    let units = [
        (&film, Protection::Whole, Bytes(1 << 40)),
        (&other, Protection::Bytes(Bytes(40 << 20)), Bytes(90 << 20)),
    ];
    let sums = needs(units.into_iter(), limits);
    assert_eq!(sums[&path("user.slice/user-1000.slice")], limits.user);
    assert_eq!(sums[&path("user.slice/user-7.slice")], Bytes(40 << 20));
    assert_eq!(sums[&path("user.slice")], Bytes(140 << 20));
}

/// Parts that a hostile user, or systemd, could name a cgroup.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("user.slice".to_owned()),
        Just("system.slice".to_owned()),
        Just("init.scope".to_owned()),
        (0..3u32).prop_map(|u| format!("user-{u}.slice")),
        (0..3u32).prop_map(|u| format!("user@{u}.service")),
        (0..3u32).prop_map(|u| format!("session-{u}.scope")),
        Just("app.slice".to_owned()),
        Just("app-mpv-1.scope".to_owned()),
        Just("mpv.service".to_owned()),
        "[a-z@.-]{1,12}".prop_filter("no name of a cgroup", |p| p != "." && p != ".."),
    ]
}

fn cgroup() -> impl Strategy<Value = DomainPath> {
    // Half of them begin as the cgroups of a user's manager do.
    let free = prop::collection::vec(part(), 0..7);
    let managed = (0..3u32, prop::collection::vec(part(), 0..4)).prop_map(|(u, rest)| {
        let mut parts = vec![
            "user.slice".into(),
            format!("user-{u}.slice"),
            format!("user@{u}.service"),
        ];
        parts.extend(rest);
        parts
    });
    prop_oneof![free, managed].prop_filter_map("no path", |parts| parts.join("/").parse().ok())
}

proptest! {
    /// A user's program changes cgroups in that user's slice only, the slices above them, and a
    /// service in which it is alone. So what it has is bounded by that user's limit.
    #[test]
    fn no_user_protects_what_is_outside_that_users_slice(at in cgroup(), uid in 1..4u32) {
        let found = Unit::of(&at).and_then(|u| Some((u.for_user(uid)?, u)));
        if let Some((others, unit)) = found {
            let slice = path(&format!("user.slice/user-{uid}.slice"));
            if others == Others::None {
                prop_assert_eq!(unit.user, None);
                prop_assert!(path("system.slice").holds(&unit.domain));
            } else {
                prop_assert!(slice.holds(&unit.domain) && slice != unit.domain);
                let above = unit.above();
                prop_assert!(above.contains(&slice));
                prop_assert_eq!(bound(&slice, LIMITS), Some(LIMITS.user));
                for a in above {
                    prop_assert!(slice.holds(&a) || a == path("user.slice"), "{}", a);
                }
            }
        }
    }

    /// The unit holds the process, and is neither a slice, nor a session, nor a manager.
    #[test]
    fn a_unit_is_a_scope_or_a_service_above_the_process(at in cgroup()) {
        if let Some(unit) = Unit::of(&at) {
            prop_assert!(unit.domain.holds(&at));
            let name = unit.domain.name();
            prop_assert!(name.ends_with(".scope") || name.ends_with(".service"));
            prop_assert!(name != "init.scope" && !name.starts_with("user@"));
            let above = unit.above();
            prop_assert!(above.iter().all(|a| a.holds(&unit.domain) && !a.is_root()));
            prop_assert_eq!(above.len() + 1, unit.domain.depth());
            let in_session = at.parts().nth(2).is_some_and(|p| p.starts_with("session-"));
            prop_assert!(unit.user.is_none() || !in_session);
        }
    }

    /// Whatever the units use and however many they are, a cgroup above has what they
    /// use, and no more than that and what they may grow by.
    #[test]
    fn nothing_is_protected_that_no_unit_needs(used in prop::collection::vec(0..1u64 << 33, 1..20)) {
        let units: Vec<Unit> = (0..used.len())
            .map(|n| unit(&format!("{MANAGER}/app.slice/app-{n}.scope")).unwrap())
            .collect();
        let with = units.iter().zip(&used).map(|(u, n)| (u, Protection::Whole, Bytes(*n)));
        let sum = needs(with, WIDE)[&path("user.slice")].0;
        let total: u64 = used.iter().sum();
        let rounding = STEP * used.len() as u64;
        prop_assert!(sum >= total);
        prop_assert!(sum <= total + total / 4 + MIN_GROWTH * used.len() as u64 + rounding);
    }
}
