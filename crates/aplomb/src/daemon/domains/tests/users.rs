//! What is delegated to users, which errands look at.

use super::*;
use crate::daemon::domains::users::MAX_LOOKS;
use aplomb_domain::Attributes;
use std::collections::BTreeSet;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, Mutex};

const USER: u32 = 1000;

/// Attributes whose reading waits below the folder `stuck` as long as the lock is held: as in the
/// kernel, while a user's task holds the lock of a directory.
#[derive(Clone, Default)]
struct Locked {
    lock: Arc<Mutex<()>>,
}

impl Attributes for Locked {
    fn get(&self, dir: BorrowedFd<'_>, name: &str) -> std::io::Result<Option<Vec<u8>>> {
        let at = fs::read_link(format!("/proc/self/fd/{}", dir.as_raw_fd()))?;
        if at.components().any(|part| part.as_os_str() == "stuck") {
            drop(self.lock.lock().unwrap());
        }
        InFiles::default().get(dir, name)
    }

    fn set(&self, dir: BorrowedFd<'_>, name: &str, value: Option<&str>) -> std::io::Result<()> {
        InFiles::default().set(dir, name, value)
    }
}

fn with_errands(root: &Path, store: &Locked) -> Domains {
    let (at, other) = (root.to_path_buf(), store.clone());
    let errands = Errands::start(move || Tree::at(&at, other.clone()).ok()).unwrap();
    let mut domains = Domains::new(Tree::at(root, store.clone()).ok()).unwrap();
    domains.use_errands(errands);
    domains
}

/// Serve `domains` until `done`, as the daemon's loop does.
fn serve(domains: &mut Domains, fake: &mut Fake, done: impl Fn(&Domains) -> bool) {
    let late = Instant::now() + Duration::from_secs(20);
    while !done(domains) {
        assert!(Instant::now() < late, "never done");
        std::thread::sleep(Duration::from_millis(1));
        domains.changed(fake);
        domains.errands_done(false, fake);
        domains.tick(Instant::now(), fake);
    }
}

#[test]
fn a_users_locks_hold_up_that_users_looks_only() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake, store) = (dir.path(), Fake::new(), Locked::default());
    tree(root, &["stuck/own", "b"], InFiles::default());
    if !delegate(root, &["stuck"], USER) {
        return;
    }
    known_to(&fake, root, &["stuck", "stuck/own", "b"]);
    mark(root, "stuck/own", CPU, "10%");
    mark(root, "b", CPU, "25%");
    let mut domains = with_errands(root, &store);
    let held = store.lock.lock().unwrap();
    domains.scan(&mut fake);
    assert_eq!(changes(&fake), [DomainChange::Fraction(250_000)]);
    // A flood of changes there costs nothing here.
    for n in 0..300 {
        fs::create_dir(root.join(format!("stuck/{n}"))).unwrap();
        domains.changed(&mut fake);
    }
    mark(root, "b", CPU, "20%");
    let of_root = domains.look(&path("b"), &mut fake);
    assert!(of_root.is_some_and(|found| found.is_ok()));
    assert_eq!(changes(&fake), [DomainChange::Fraction(200_000)]);
    let of_user = path("stuck/own");
    assert!(domains.look(&of_user, &mut fake).is_none(), "it waits");
    assert!(!domains.known.contains_key(&of_user));
    drop(held);
    let looked = |d: &Domains| d.verdict(&of_user).is_some();
    serve(&mut domains, &mut fake, looked);
    assert_eq!(domains.verdict(&of_user), Some(Ok(())));
    assert_eq!(changes(&fake), [DomainChange::Fraction(100_000)]);
    serve(&mut domains, &mut fake, |d| d.users.is_empty());
    assert_eq!(domains.known.len(), 3 + 1 + 300);
    let missing = domains.look(&path("stuck/no"), &mut fake);
    assert!(missing.is_none());
    serve(&mut domains, &mut fake, |d| d.users.is_empty());
    let missing = domains.verdict(&path("stuck/no")).unwrap().unwrap_err();
    assert_eq!(missing.message, "there is no domain stuck/no");
}

#[test]
fn what_changes_while_an_errand_looks_is_found_in_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let (root, mut fake, store) = (dir.path(), Fake::new(), Locked::default());
    tree(root, &["u"], InFiles::default());
    if !delegate(root, &["u"], USER) {
        return;
    }
    let mut domains = with_errands(root, &store);
    domains.scan(&mut fake);
    let mut seed = 7u64;
    let mut random = |n: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (seed >> 33) % n
    };
    for _ in 0..3000 {
        let at = root.join(format!("u/{}", random(4)));
        let below = at.join(format!("{}", random(3)));
        match random(6) {
            0 | 1 => drop(fs::create_dir(&at)),
            2 | 3 => drop(fs::create_dir(&below)),
            4 => drop(fs::remove_dir(&below)),
            _ => drop(fs::remove_dir_all(&at)),
        }
        match random(4) {
            0 => domains.changed(&mut fake),
            1 => domains.errands_done(false, &mut fake),
            2 if random(20) == 0 => std::thread::sleep(Duration::from_millis(1)),
            _ => {}
        }
    }
    domains.changed(&mut fake);
    // Until nothing waits, nor is reported any more.
    for _ in 0..3 {
        std::thread::sleep(Duration::from_millis(5));
        domains.changed(&mut fake);
        serve(&mut domains, &mut fake, |d| d.users.is_empty());
    }
    let tree = domains.tree().unwrap();
    let walk = tree.walk(&DomainPath::root()).unwrap();
    let found: BTreeSet<_> = walk.domains.into_iter().map(|f| (f.path, f.cgid)).collect();
    let known = domains.known.iter().map(|(p, k)| (p.clone(), k.cgid));
    assert_eq!(known.collect::<BTreeSet<_>>(), found);
    assert!(domains.known.values().all(|k| k.watched.is_some()));
}

#[test]
fn the_looks_that_wait_for_one_user_are_bounded() {
    let mut users = Users::new();
    let look = |top: String, below| read::Look {
        top: path(&top),
        below,
    };
    for n in 0..MAX_LOOKS {
        assert!(users.ask(USER, look(format!("u/{n}"), false)));
    }
    assert!(!users.ask(USER, look("u/x".into(), true)));
    assert!(users.ask(USER, look("u/7".into(), true)), "it waits");
    assert!(users.ask(USER + 1, look("v".into(), true)));
    // One look at all takes the place of the others.
    assert!(users.is_pending(&path("u/9")) && !users.is_pending(&path("u/x")));
    assert!(!users.is_pending(&path("u")));
}
