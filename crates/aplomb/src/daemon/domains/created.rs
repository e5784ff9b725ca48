//! The domains of the settings. The daemon creates them when it starts, and removes those that it
//! created and that are empty when it ends. An attribute says which these are, so what a killed
//! daemon created is removed by the next one.

use aplomb_domain::{DomainError, DomainPath, Tree, CREATED};

use crate::config::WantedDomain;
use crate::domains::{place_of, with_manager};
use tracing::{error, warn};

/// The domains that the daemon created.
#[derive(Debug, Default)]
pub struct Created {
    paths: Vec<DomainPath>,
}

impl Created {
    /// Create the missing domains of `tables`, and set all as the tables say. A failure is logged
    /// and the other domains are still created, because the scheduler must start in any case.
    /// `file`: the settings file, for messages.
    pub fn create(tree: &Tree, tables: &[WantedDomain], file: &str) -> Self {
        let mut created = Self::default();
        for table in tables {
            let at = |what: &str, e: DomainError| {
                let (line, path) = (table.line, &table.path);
                error!("{file}:{line}: domain {path}: {what}: {e}");
            };
            let ours = missing_or_created(tree, &table.path);
            match with_manager(tree, |m| m.create(&table.path, false)) {
                Ok(_) => created.add(tree, ours),
                Err(e) => {
                    at("cannot be made", e);
                    continue;
                }
            }
            for change in &table.changes {
                if let Err(e) = with_manager(tree, |m| m.set(&table.path, &[*change])) {
                    at(&change.to_string(), e);
                }
            }
        }
        created
    }

    fn add(&mut self, tree: &Tree, ours: Vec<DomainPath>) {
        for path in ours {
            let dir = place_of(tree, &path).and_then(|at| tree.open(&at));
            let marked = dir.and_then(|dir| tree.set_mark(&dir, CREATED, Some("1")));
            if let Err(e) = marked {
                warn!("domain {path} stays if the daemon is killed: {e}");
            }
            if !self.paths.contains(&path) {
                self.paths.push(path);
            }
        }
    }

    /// Remove the created domains, the lowest first. Domains with processes or children stay.
    pub fn remove(self, tree: &Tree) {
        for path in self.paths.iter().rev() {
            match with_manager(tree, |m| m.remove(path)) {
                Ok(()) | Err(DomainError::State { .. } | DomainError::Missing(_)) => {}
                Err(e) => warn!("{e}"),
            }
        }
    }
}

/// The domain and its ancestors that do not exist, or that a daemon created, the highest first.
fn missing_or_created(tree: &Tree, path: &DomainPath) -> Vec<DomainPath> {
    let mut missing = Vec::new();
    let mut next = Some(path.clone());
    while let Some(path) = next.filter(|p| !p.is_root()) {
        let place = place_of(tree, &path);
        let dir = place.and_then(|p| tree.open(&p));
        if dir.is_ok_and(|dir| !tree.is_marked(&dir, CREATED)) {
            break;
        }
        next = path.parent();
        missing.push(path);
    }
    missing.reverse();
    missing
}

#[cfg(test)]
mod tests {
    use super::*;
    use aplomb_domain::testing::{tree, InFiles};
    use std::fs;

    fn table(path: &str, changes: &[&str]) -> WantedDomain {
        WantedDomain {
            line: 1,
            path: path.parse().unwrap(),
            changes: changes.iter().map(|c| c.parse().unwrap()).collect(),
        }
    }

    #[test]
    fn what_was_there_stays_and_what_was_made_goes_if_it_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let tree = tree(root, &["old"], InFiles::default());
        // A new folder has no file cpu.weight. The failure is logged, and the next change is still
        // made.
        let tables = [
            table("old", &["weight=300", "policy=mtr"]),
            table("new", &["weight=300", "cpu=25%"]),
            table("full", &[]),
        ];
        let created = Created::create(&tree, &tables, "aplomb.toml");
        assert_eq!(
            fs::read_to_string(root.join("old/cpu.weight")).unwrap(),
            "300"
        );
        let marks = |d: &str| tree.marks(&tree.open(&d.parse().unwrap()).unwrap()).0;
        assert!(marks("new").reservation.is_some());
        assert_eq!(marks("old").policy.name(), "mtr");
        fs::create_dir(root.join("full/below")).unwrap();
        created.remove(&tree);
        let there: Vec<_> = ["old", "new", "full"]
            .into_iter()
            .filter(|d| root.join(d).exists())
            .collect();
        assert_eq!(there, ["old", "full"]);
    }

    #[test]
    fn what_a_killed_daemon_made_goes_with_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), &["old"], InFiles::default());
        let tables = [table("old/a/b", &[]), table("old/a/c", &[])];
        let killed = Created::create(&tree, &tables, "aplomb.toml");
        std::mem::forget(killed);
        Created::create(&tree, &tables, "aplomb.toml").remove(&tree);
        assert!(dir.path().join("old").is_dir() && !dir.path().join("old/a").exists());
    }

    #[test]
    fn what_cannot_be_made_does_not_stop_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let tree = tree(dir.path(), &[], InFiles::default());
        fs::write(dir.path().join("file"), "").unwrap();
        let tables = [table("file/x", &[]), table("a", &[])];
        let created = Created::create(&tree, &tables, "aplomb.toml");
        assert!(dir.path().join("a").is_dir());
        assert_eq!(created.paths, ["a".parse().unwrap()]);
    }
}
