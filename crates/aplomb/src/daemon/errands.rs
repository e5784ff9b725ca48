//! Errands: what may have to wait is not done in the daemon's loop. These are calls of the service
//! manager, which may take seconds, and what waits for a lock that a user's task can hold: a look
//! at a user's cgroup directories (domains/read.rs).
//!
//! Three threads run them: one those of the system (root's), two those of users. At most one errand
//! of a user runs at a time, and users take turns. So an errand waits for other users' errands only
//! if two of them run, however many a third user has. A call ends by the time limits of
//! [`aplomb_domain::Systemd`]; a lock is free when the user's task that holds it had its turn.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use aplomb_domain::Tree;

use super::budget::warn_about;

/// Errands of one user that wait. A further one is refused.
pub const MAX_PER_OWNER: usize = 64;
/// Errands of all users that wait; root's do not count. Each may hold a file descriptor.
pub const MAX_WAITING: usize = 512;
/// Threads for the errands of users. One more is for those of root.
const USER_THREADS: usize = 2;

type Act = Box<dyn FnOnce(&Tree) -> Result<(), String> + Send>;

#[derive(Default)]
struct Waiting {
    by_owner: BTreeMap<u32, VecDeque<Act>>,
    /// Owners of which an errand runs.
    running: BTreeSet<u32>,
    /// The user whose turn was last.
    last: u32,
}

struct Shared {
    waiting: Mutex<Waiting>,
    more: Condvar,
    /// Gets a byte after each errand.
    bell: UnixStream,
}

/// The threads and what waits for them. The threads end with the process: an errand that a dead bus
/// holds up must not hold up the daemon's end.
#[derive(Clone)]
pub struct Errands {
    shared: Arc<Shared>,
    done: Arc<UnixStream>,
}

impl Errands {
    /// `tree` opens the tree of domains, for each thread.
    ///
    /// # Errors
    /// No memory or descriptors left.
    pub fn start(tree: impl Fn() -> Option<Tree> + Clone + Send + 'static) -> io::Result<Self> {
        let (done, bell) = UnixStream::pair()?;
        done.set_nonblocking(true)?;
        bell.set_nonblocking(true)?; // a full bell rings already
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            more: Condvar::new(),
            bell,
        });
        for of_root in std::iter::once(true).chain([false; USER_THREADS]) {
            let (shared, tree) = (shared.clone(), tree.clone());
            let name = if of_root { "errands" } else { "user-errands" };
            let thread = std::thread::Builder::new().name(name.into());
            thread.spawn(move || shared.run(of_root, tree))?;
        }
        Ok(Self {
            shared,
            done: Arc::new(done),
        })
    }

    /// Run `act` for `owner` soon. Its error is written to the journal.
    ///
    /// # Errors
    /// Too many errands wait.
    pub fn add(
        &self,
        owner: u32,
        act: impl FnOnce(&Tree) -> Result<(), String> + Send + 'static,
    ) -> Result<(), String> {
        let mut waiting = self.shared.lock();
        let of_users = waiting.by_owner.iter().filter(|(owner, _)| **owner != 0);
        if owner != 0 && of_users.map(|(_, acts)| acts.len()).sum::<usize>() >= MAX_WAITING {
            return Err(format!("{MAX_WAITING} errands wait before it"));
        }
        let own = waiting.by_owner.entry(owner).or_default();
        if own.len() >= MAX_PER_OWNER {
            return Err(format!(
                "{MAX_PER_OWNER} errands of user {owner} wait before it"
            ));
        }
        own.push_back(Box::new(act));
        drop(waiting);
        self.shared.more.notify_all();
        Ok(())
    }

    /// Forget that errands were done. Call this when the descriptor is readable.
    pub fn clear(&self) {
        let mut bytes = [0; 64];
        while matches!((&*self.done).read(&mut bytes), Ok(n) if n > 0) {}
    }
}

/// Readable when errands were done.
impl AsFd for Errands {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.done.as_fd()
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, of_root: bool, tree: impl Fn() -> Option<Tree>) {
        loop {
            let mut waiting = self.lock();
            let (owner, act) = loop {
                if let Some(next) = waiting.next(of_root) {
                    break next;
                }
                waiting = self
                    .more
                    .wait(waiting)
                    .unwrap_or_else(PoisonError::into_inner);
            };
            drop(waiting);
            if let Some(tree) = tree() {
                if let Err(e) = act(&tree) {
                    warn_about(owner, &e);
                }
            }
            self.lock().running.remove(&owner);
            self.more.notify_all();
            let _ = (&self.bell).write(&[1]);
        }
    }
}

impl Waiting {
    /// The next errand: of root, or of the user after the last one.
    fn next(&mut self, of_root: bool) -> Option<(u32, Act)> {
        let owner = match of_root {
            true => self.by_owner.contains_key(&0).then_some(0)?,
            false => {
                let after = self.by_owner.range(self.last.saturating_add(1)..);
                let all = after.chain(self.by_owner.range(1..));
                let mut free = all.map(|(o, _)| *o).filter(|o| !self.running.contains(o));
                self.last = free.next()?;
                self.last
            }
        };
        let acts = self.by_owner.get_mut(&owner)?;
        let act = acts.pop_front()?;
        if acts.is_empty() {
            self.by_owner.remove(&owner);
        }
        self.running.insert(owner);
        Some((owner, act))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aplomb_domain::testing::{tree, InFiles};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// When a test gives up.
    const LATE: Duration = Duration::from_secs(5);

    fn errands(dir: &tempfile::TempDir) -> Errands {
        let root = dir.path().to_path_buf();
        Errands::start(move || Some(tree(&root, &[], InFiles::default()))).unwrap()
    }

    #[test]
    fn one_user_holds_up_neither_root_nor_another() {
        let dir = tempfile::tempdir().unwrap();
        let errands = errands(&dir);
        let (stuck, go) = channel::<()>();
        let (begins, begun) = channel();
        let (said, heard) = channel();
        // The first one is stuck, as with a bus that does not answer; the others wait.
        let first = errands.add(1000, move |_| {
            let _ = begins.send(());
            let _ = go.recv();
            Ok(())
        });
        first.unwrap();
        begun.recv_timeout(LATE).unwrap();
        for _ in 0..MAX_PER_OWNER {
            errands.add(1000, |_| Ok(())).unwrap();
        }
        assert!(errands.add(1000, |_| Ok(())).unwrap_err().contains("1000"));
        for owner in [0, 1001] {
            let said = said.clone();
            let added = errands.add(owner, move |_| said.send(owner).map_err(|e| e.to_string()));
            added.unwrap();
        }
        let mut both = [(); 2].map(|()| heard.recv_timeout(LATE).unwrap());
        both.sort_unstable();
        assert_eq!(both, [0, 1001]);
        drop(stuck);
    }

    #[test]
    fn the_end_of_an_errand_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let errands = errands(&dir);
        errands.add(0, |_| Err("an error".into())).unwrap();
        let poll = super::super::poll::Poll::new().unwrap();
        use super::super::poll::{Interest, Source};
        poll.add(&errands, Source::Errands, Interest::Read).unwrap();
        let late = std::time::Instant::now() + LATE;
        assert_eq!(poll.wait(Some(late)).unwrap(), [Source::Errands]);
        errands.clear();
        assert_eq!(poll.wait(Some(std::time::Instant::now())).unwrap(), []);
    }
}
