//! File pages that a protected program shares with others: they stay in memory with it.
//!
//! 1. **Why.** Memory is charged by cgroup, and a file page to the program that touched it first. A
//!    library that another program read before is charged to that program's cgroup, where the
//!    protection of ours does not reach. When memory is short, the program reads its own code
//!    again, page by page.
//!
//! 2. **Means.** The daemon maps such a file too, and locks (mlock(2)) the pages that the program
//!    has in its page tables. The kernel does not reclaim a locked page, whatever cgroup it is
//!    charged to. The page is there once, so this costs no memory.
//!
//! 3. **Which files.** Those that root owns, that no other user can write to, in a file system on a
//!    local disk. Locking reads what is missing. A user's own file system could let the daemon wait
//!    for ever, or make up an owner. A user's own files are read by that user's programs, so their
//!    pages are charged to these.
//!
//! 4. **Which pages.** A page's age is not known here. What the program has mapped is held while it
//!    is protected, so its pages are held for the protection period after it ran last.
//!
//! 5. **Limits.** What is held for one user's programs and for all ([`Most`]); [`MAX_RUNS`]. What
//!    is beyond them is not held, and works as before.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::ptr::null_mut;

use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryPageFlags, PageInfo, Process};
use rustix::fs::fstatfs;
use rustix::mm::{mlock, mmap, munmap, MapFlags, ProtFlags};

use crate::cgroup::{page_size, Bytes};
use crate::MemoryError;

/// Runs of pages that are locked, in all. Each may split a mapping of the daemon, which may have
/// 65,530 (vm.max_map_count).
pub const MAX_RUNS: usize = 16_384;
/// The largest file that is held.
const MAX_FILE: u64 = 1 << 30;
/// File systems on a local disk, by their magic number (statfs(2)): btrfs, erofs, ext4, f2fs,
/// squashfs, xfs.
const LOCAL: [u64; 6] = [
    0x9123_683e,
    0xe0f5_e1e2,
    0xef53,
    0xf2f5_2010,
    0x7371_7368,
    0x5846_5342,
];

/// The most that is held.
#[derive(Debug, Clone, Copy)]
pub struct Most {
    pub all: Bytes,
    /// For the programs of one user other than root.
    pub user: Bytes,
}

/// The held pages.
#[derive(Debug, Default)]
pub struct Shared {
    files: BTreeMap<FileId, Held>,
    runs: usize,
}

/// A file: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileId {
    dev: u64,
    ino: u64,
}

/// The locked pages of one file.
#[derive(Debug)]
struct Held {
    mapping: Mapping,
    locked: Vec<bool>,
    runs: usize,
    /// Processes for which they are held.
    holders: BTreeSet<i32>,
    /// The user whose program was the first of them: it counts for that one's limit.
    uid: u32,
}

/// A mapping of a whole file in this process. Nothing reads or writes through it.
#[derive(Debug)]
struct Mapping {
    start: *mut core::ffi::c_void,
    bytes: usize,
}

impl Mapping {
    fn new(file: &File, bytes: usize) -> rustix::io::Result<Self> {
        // SAFETY: a new mapping at a place of the kernel's choice; no memory of this process is
        // replaced.
        let start = unsafe {
            mmap(
                null_mut(),
                bytes,
                ProtFlags::READ,
                MapFlags::SHARED,
                file,
                0,
            )?
        };
        Ok(Self { start, bytes })
    }

    /// Lock bytes of the mapping, reading those that are not in memory.
    fn lock(&self, range: Range<usize>) -> rustix::io::Result<()> {
        debug_assert!(range.end <= self.bytes);
        // SAFETY: the range is inside the mapping, and locking changes no content.
        unsafe { mlock(self.start.byte_add(range.start), range.len()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by mmap() with these values, and nothing refers to its content. Unmapping
        // unlocks.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

impl Held {
    fn bytes(&self) -> Bytes {
        let locked = self.locked.iter().filter(|l| **l).count() as u64;
        Bytes(locked * page_size().0)
    }
}

impl Shared {
    /// Hold what process `pid` of user `uid` has mapped now, beside what is held for it already.
    /// A process that has exited holds nothing.
    ///
    /// # Errors
    /// A file cannot be mapped, or its pages not be locked. The others are held.
    pub fn hold(&mut self, pid: i32, uid: u32, most: Most) -> Result<(), MemoryError> {
        let Ok(process) = Process::new(pid) else {
            return Ok(());
        };
        let (Ok(maps), Ok(mut pages)) = (process.maps(), process.pagemap()) else {
            return Ok(()); // it has just exited
        };
        let mut result = Ok(());
        for map in maps.into_iter().filter(is_of_a_file) {
            let range = map.address.0 / page_size().0..map.address.1 / page_size().0;
            let Ok(infos) = pages.get_range_info(range.start as usize..range.end as usize) else {
                continue;
            };
            let present: Vec<bool> = infos.iter().map(is_file_page).collect();
            let held = self.hold_map(pid, uid, &map, &present, most);
            result = result.and(held);
        }
        result
    }

    fn hold_map(
        &mut self,
        pid: i32,
        uid: u32,
        map: &MemoryMap,
        present: &[bool],
        most: Most,
    ) -> Result<(), MemoryError> {
        let at = format!(
            "/proc/{pid}/map_files/{:x}-{:x}",
            map.address.0, map.address.1
        );
        let at = Path::new(&at);
        let Ok(file) = File::open(at) else {
            return Ok(()); // unmapped meanwhile
        };
        let Some((id, pages)) = checked(&file) else {
            return Ok(());
        };
        let mut room = self.room(uid, most);
        let held = match self.files.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let mapping = Mapping::new(&file, pages * page_size().0 as usize);
                new.insert(Held {
                    mapping: mapping.map_err(|e| MemoryError::io(at, "mapping it", e))?,
                    locked: vec![false; pages],
                    runs: 0,
                    holders: BTreeSet::new(),
                    uid,
                })
            }
        };
        held.holders.insert(pid);
        let first = (map.offset / page_size().0) as usize;
        for run in runs(first, present, &held.locked) {
            if run.len() > room || self.runs >= MAX_RUNS {
                break;
            }
            let bytes = run.start * page_size().0 as usize..run.end * page_size().0 as usize;
            let locked = held.mapping.lock(bytes);
            locked.map_err(|e| MemoryError::io(at, "locking its pages", e))?;
            room -= run.len();
            held.runs += 1;
            self.runs += 1;
            held.locked[run].fill(true);
        }
        Ok(())
    }

    /// Pages that may be held beside what is held.
    fn room(&self, uid: u32, most: Most) -> usize {
        let all = most.all.0.saturating_sub(self.bytes().0);
        let of_user = self.files.values().filter(|h| h.uid == uid);
        let of_user: u64 = of_user.map(|h| h.bytes().0).sum();
        let user = if uid == 0 {
            all
        } else {
            most.user.0.saturating_sub(of_user)
        };
        (all.min(user) / page_size().0) as usize
    }

    /// Hold nothing more for process `pid`.
    pub fn release(&mut self, pid: i32) {
        for held in self.files.values_mut() {
            held.holders.remove(&pid);
        }
        self.files.retain(|_, held| !held.holders.is_empty());
        self.runs = self.files.values().map(|h| h.runs).sum();
    }

    /// The processes for which something is held.
    pub fn holders(&self) -> BTreeSet<i32> {
        let all = self.files.values().flat_map(|h| &h.holders);
        all.copied().collect()
    }

    /// What is held, in all.
    pub fn bytes(&self) -> Bytes {
        Bytes(self.files.values().map(|h| h.bytes().0).sum())
    }
}

fn is_of_a_file(map: &MemoryMap) -> bool {
    let shared_writable = MMPermissions::SHARED | MMPermissions::WRITE;
    matches!(map.pathname, MMapPath::Path(_))
        && map.inode != 0
        && !map.perms.contains(shared_writable)
}

/// True for a page of the file itself: not for the program's own copy of it, which is charged to
/// the program.
fn is_file_page(info: &PageInfo) -> bool {
    match info {
        PageInfo::MemoryPage(flags) => {
            flags.contains(MemoryPageFlags::PRESENT | MemoryPageFlags::FILE)
        }
        PageInfo::SwapPage(_) => false,
    }
}

/// The file's identity and its number of pages, if it may be held (3).
fn checked(file: &File) -> Option<(FileId, usize)> {
    let meta = file.metadata().ok()?;
    let local = LOCAL.contains(&(fstatfs(file).ok()?.f_type as u64 & 0xffff_ffff));
    let roots = meta.uid() == 0 && meta.mode() & 0o022 == 0;
    let fits = meta.is_file() && meta.len() > 0 && meta.len() <= MAX_FILE;
    let id = FileId {
        dev: meta.dev(),
        ino: meta.ino(),
    };
    let pages = meta.len().div_ceil(page_size().0) as usize;
    (local && roots && fits).then_some((id, pages))
}

/// The runs of pages to lock: those that are `present`, where the first one is page `first` of the
/// file, and not yet `locked`. Pages beyond the file's end are left out.
fn runs(first: usize, present: &[bool], locked: &[bool]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for (page, _) in (first..).zip(present).filter(|(_, present)| **present) {
        if locked.get(page) != Some(&false) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == page => run.end = page + 1,
            _ => runs.push(page..page + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn runs_are_what_is_present_and_not_locked() {
        let (t, f) = (true, false);
        let locked = [f, f, f, t, f, f];
        assert_eq!(runs(1, &[t, t, t, t, f, t], &locked), [1..3, 4..5]);
        assert_eq!(runs(9, &[t, t], &locked), []);
    }

    proptest! {
        #[test]
        fn each_present_page_is_locked_once(
            first in 0usize..9,
            present: [bool; 20],
            locked: [bool; 20],
        ) {
            let mut now = locked.to_vec();
            for run in runs(first, &present, &locked) {
                prop_assert!(now[run.clone()].iter().all(|l| !l), "locked twice");
                now[run].fill(true);
            }
            for (page, was) in locked.iter().enumerate() {
                let wanted = page.checked_sub(first).is_some_and(|i| present[i]);
                prop_assert_eq!(now[page], *was || wanted);
            }
        }
    }

    #[test]
    fn only_roots_own_files_on_a_disk_are_held() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library");
        std::fs::write(&path, vec![1; 5000]).unwrap();
        let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&path, everyone).unwrap();
        assert_eq!(
            checked(&File::open(&path).unwrap()),
            None,
            "others may write it"
        );
        assert_eq!(
            checked(&File::open("/proc/self/maps").unwrap()),
            None,
            "no disk"
        );
        assert_eq!(checked(&File::open(dir.path()).unwrap()), None, "no file");
    }

    #[test]
    fn what_is_held_is_counted_until_it_is_released() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("library");
        std::fs::write(&path, vec![1; 3 * page_size().0 as usize]).unwrap();
        let mapping = Mapping::new(&File::open(&path).unwrap(), 3 * page_size().0 as usize);
        let held = Held {
            mapping: mapping.unwrap(),
            locked: vec![true, true, false],
            runs: 1,
            holders: [7, 8].into(),
            uid: 1000,
        };
        let mut shared = Shared {
            files: BTreeMap::new(),
            runs: 1,
        };
        shared.files.insert(FileId { dev: 1, ino: 2 }, held);
        let page = page_size().0;
        let most = Most {
            all: Bytes(9 * page),
            user: Bytes(3 * page),
        };
        assert_eq!(shared.bytes(), Bytes(2 * page));
        assert_eq!(
            (
                shared.room(1000, most),
                shared.room(1001, most),
                shared.room(0, most)
            ),
            (1, 3, 7)
        );
        shared.release(7);
        assert_eq!(shared.holders(), [8].into());
        shared.release(8);
        assert_eq!((shared.bytes(), shared.runs), (Bytes(0), 0));
    }
}
