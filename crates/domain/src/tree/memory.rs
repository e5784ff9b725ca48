//! The memory controller of the tree, for the domains whose working set is protected.
//!
//! Domains are made with the CPU controller only, because accounting memory costs time in each
//! page fault. The memory controller is given along the path of a domain that needs it, and not to
//! the domains below it: their memory then belongs to it.

use rustix::io::Errno;

use rustix::fs::{mkdirat, Mode};

use super::{failed, is, words, wrap, Tree, FULL};
use crate::{Directory, DomainError, DomainPath};

impl Tree {
    /// Create a domain and its missing ancestors, all with the memory controller and none with the
    /// CPU controller: its tasks keep their place in the tree of shares. Returns the domains that
    /// were created, each after its parent, or None if the tree has no memory controller.
    ///
    /// # Errors
    /// As [`Tree::give_memory`]. Domains that were created before the error stay, empty.
    pub fn create_for_memory(
        &self,
        path: &DomainPath,
    ) -> Result<Option<Vec<DomainPath>>, DomainError> {
        let (mut dir, mut made) = (self.top()?, Vec::new());
        if !has_memory(&dir.read("cgroup.controllers")?) {
            return Ok(None);
        }
        for part in path.parts() {
            dir.give_memory_to_children()?;
            match mkdirat(&dir.fd, part, Mode::from(0o755)) {
                Ok(()) => made.push(wrap(&dir.at, dir.path.child(part))?),
                Err(Errno::EXIST) => {}
                Err(e) => return Err(failed(&dir.at.join(part), "making it", e)),
            }
            dir = dir.below(part)?;
        }
        Ok(Some(made))
    }

    /// Processes of a domain: some hundreds of them if it has more.
    ///
    /// # Errors
    /// Failed system calls.
    pub fn pids(&self, dir: &Directory) -> Result<Vec<i32>, DomainError> {
        let text = dir.read("cgroup.procs")?;
        // The last line may be cut off.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        Ok(whole.lines().filter_map(|l| l.parse().ok()).collect())
    }

    /// Give a domain the memory controller (the files `memory.*`), by enabling it in all domains
    /// above. The siblings along the path get it too. Returns false if the tree has no memory
    /// controller: it belongs to cgroup v1, or is not in this kernel.
    ///
    /// # Errors
    /// The domain or one above it is missing; a domain above, except the root, has processes of its
    /// own, or is threaded; failed system calls. Domains above that one keep the controller.
    pub fn give_memory(&self, path: &DomainPath) -> Result<bool, DomainError> {
        let mut dir = self.top()?;
        if !has_memory(&dir.read("cgroup.controllers")?) {
            return Ok(false);
        }
        for part in path.parts() {
            let below = dir.below(part)?;
            dir.give_memory_to_children()?;
            dir = below;
        }
        Ok(true)
    }
}

impl Directory {
    /// memory.min, bytes; u64::MAX for "max". None without the memory controller.
    ///
    /// # Errors
    /// Failed system calls; unknown content.
    pub fn memory_min(&self) -> Result<Option<u64>, DomainError> {
        let Some(text) = self.read_if_there("memory.min")? else {
            return Ok(None);
        };
        let min = match text.trim() {
            "max" => Ok(u64::MAX),
            number => number.parse().map_err(|_| {
                let shown = aplomb_spec::shorten(number);
                format!("\"{shown}\" is no number of bytes")
            }),
        };
        wrap(&self.at.join("memory.min"), min).map(Some)
    }

    fn give_memory_to_children(&self) -> Result<(), DomainError> {
        const CONTROL: &str = "cgroup.subtree_control";
        if has_memory(&self.read(CONTROL)?) {
            return Ok(());
        }
        self.can_have_children()?;
        let why = match self.write(CONTROL, "+memory") {
            Err(DomainError::Io { source, .. }) if is(&source, Errno::BUSY) => FULL,
            Err(DomainError::Io { source, .. })
                if is(&source, Errno::OPNOTSUPP) || is(&source, Errno::NOENT) =>
            {
                "it is threaded, so its children cannot have the memory controller"
            }
            done => return done,
        };
        Err(DomainError::State {
            path: self.at.join(CONTROL),
            why,
        })
    }
}

fn has_memory(controllers: &str) -> bool {
    words(controllers).any(|c| c == "memory")
}
