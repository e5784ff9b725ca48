//! Walks of the tree: which domains there are, within bounds for each owner.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use super::{Directory, Tree};
use crate::{DomainError, DomainPath, Marks, WrongMark};

/// Directories of root that one walk visits at most, and of all other users together.
pub const MAX_WALK: usize = 16_384;
/// Directories of one owner other than root that one walk visits at most. See [`Directory::owner`].
pub const MAX_OWNED: usize = 1024;

/// One domain that a walk found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub path: DomainPath,
    /// The cgroup's id: the inode number of its directory.
    pub cgid: u64,
    /// See [`Directory::owner`].
    pub owner: u32,
    pub marks: Marks,
    pub wrong: Vec<WrongMark>,
}

/// The domains that a walk found, each after its parent.
#[derive(Debug, Default)]
pub struct Walk {
    pub domains: Vec<Found>,
    /// Some domains were left out: there were more than [`MAX_WALK`] or [`MAX_OWNED`], or some
    /// deeper than 16 levels. So a domain that is missing here may still exist.
    pub truncated: bool,
    /// The owners with more than [`MAX_OWNED`] directories.
    pub cut: BTreeSet<u32>,
}

/// What a walk does with a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Enter {
    /// Leaves it out, with all below.
    No,
    /// Looks at it alone.
    Alone,
    /// Looks at it and goes on below.
    Below,
}

/// Counts the directories of a walk, by owner.
#[derive(Debug, Default)]
struct Visits {
    of_root: usize,
    of_users: usize,
    by_user: BTreeMap<u32, usize>,
}

impl Visits {
    /// True if the walk may visit one more directory of this owner.
    fn allow(&mut self, owner: u32) -> bool {
        let all = match owner {
            0 => &mut self.of_root,
            _ => &mut self.of_users,
        };
        let own = (owner != 0).then(|| self.by_user.entry(owner).or_insert(0));
        if *all >= MAX_WALK || own.as_ref().is_some_and(|own| **own >= MAX_OWNED) {
            return false;
        }
        *all += 1;
        own.into_iter().for_each(|own| *own += 1);
        true
    }
}

impl Tree {
    /// All domains at `top` and below, each after its parent, at most [`MAX_WALK`] of root and as
    /// many of users, and [`MAX_OWNED`] of each of these. What one user has too many hides nothing
    /// of another one.
    ///
    /// # Errors
    /// `top` is missing. Domains that are removed during the walk are left out.
    pub fn walk(&self, top: &DomainPath) -> Result<Walk, DomainError> {
        self.walk_as(top, |_| Enter::Below)
    }

    /// As [`Tree::walk`]. Each directory is opened, then `enter` says what to do with it, and only
    /// then it is read and listed. A directory that is left out here does not make the walk
    /// truncated.
    ///
    /// # Errors
    /// As [`Tree::walk`].
    pub fn walk_as(
        &self,
        top: &DomainPath,
        mut enter: impl FnMut(&Directory) -> Enter,
    ) -> Result<Walk, DomainError> {
        let (mut walk, mut visits) = (Walk::default(), Visits::default());
        let top = Rc::new(self.open(top)?);
        // Only directories above the present one are open, however many it has below.
        let mut todo = self.visit(&top, &mut walk, &mut visits, &mut enter);
        while let Some((above, name)) = todo.pop() {
            match above.below(&name) {
                Ok(dir) => {
                    drop(above);
                    todo.extend(self.visit(&Rc::new(dir), &mut walk, &mut visits, &mut enter));
                }
                Err(DomainError::Wrong { .. }) => walk.truncated = true,
                Err(DomainError::Missing(_)) => {} // removed meanwhile
                Err(_) => walk.truncated = true,
            }
        }
        Ok(walk)
    }

    /// Put a directory into a walk. Returns its children, the last one first.
    fn visit(
        &self,
        dir: &Rc<Directory>,
        walk: &mut Walk,
        visits: &mut Visits,
        enter: &mut impl FnMut(&Directory) -> Enter,
    ) -> Vec<(Rc<Directory>, String)> {
        if !visits.allow(dir.owner) {
            walk.truncated = true;
            if dir.owner != 0 {
                walk.cut.insert(dir.owner);
            }
            return Vec::new();
        }
        let enter = enter(dir);
        if enter == Enter::No {
            return Vec::new();
        }
        let Ok(cgid) = dir.cgid() else {
            return Vec::new();
        };
        let (marks, wrong) = self.marks(dir);
        walk.domains.push(Found {
            path: dir.path.clone(),
            cgid,
            owner: dir.owner,
            marks,
            wrong,
        });
        if enter == Enter::Alone {
            return Vec::new();
        }
        let mut names = dir.children().unwrap_or_default();
        names.sort();
        names.reverse();
        names.into_iter().map(|n| (dir.clone(), n)).collect()
    }
}
