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
//!    local disk. Locking reads what is missing. A user's own file system (FUSE) could let the
//!    daemon wait for ever, or make up an owner. So such a file is not even opened: a path
//!    descriptor and cached attributes (statx(2)) say in which mount it is, without a question to
//!    its file system. A user's own files are read by that user's programs, so their pages are
//!    charged to these.
//!
//! 4. **Which pages.** A page's age is not known here. What the program has mapped is held while it
//!    is protected, so its pages are held for the protection period after it ran last.
//!
//! 5. **Huge pages.** The kernel's khugepaged joins 512 pages of a file into a new one, in the
//!    mappings of any process. The new page is charged to that process, and is not locked. So the
//!    daemon's mappings are left out of that, and what is new by another process's mapping is
//!    locked later ([`Shared::lock_again`]).
//!
//! 6. **Limits.** What is held for one user's programs and for all ([`Most`], [`MAX_RUNS`]); what
//!    is looked at of one program ([`MAX_MAPS`], [`MAX_LOOKED`]), since a program may map what it
//!    likes. What is beyond them is not held, and works as before.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::ptr::null_mut;

use procfs::process::{MMPermissions, MMapPath, MemoryMap, MemoryPageFlags, PageInfo, Process};
use rustix::fs::{openat, statx, AtFlags, FileType, Mode, OFlags, Statx, StatxFlags, CWD};
use rustix::mm::{madvise, mlock, mmap, munmap, Advice, MapFlags, ProtFlags};

use crate::cgroup::{page_size, Bytes};
use crate::MemoryError;

/// Runs of pages that are locked, in all. Each may split a mapping of the daemon, which may have
/// 65,530 (vm.max_map_count).
pub const MAX_RUNS: usize = 16_384;
/// The same for the programs of one user other than root: eight users fit.
const MAX_USER_RUNS: usize = MAX_RUNS / 8;
/// Mappings of one program that are looked at. A browser has about 1,000 of files.
const MAX_MAPS: usize = 4096;
/// Pages of one program that are looked at: 4 GB.
const MAX_LOOKED: usize = 1 << 20;
/// The largest file that is held.
const MAX_FILE: u64 = 1 << 30;
/// File systems on a local disk, as /proc/self/mountinfo names them.
const LOCAL: [&str; 8] = [
    "btrfs", "erofs", "ext2", "ext3", "ext4", "f2fs", "squashfs", "xfs",
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
}

/// A file: device and inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct FileId {
    dev: (u32, u32),
    ino: u64,
}

/// The locked pages of one file.
#[derive(Debug)]
struct Held {
    mapping: Mapping,
    locked: Vec<bool>,
    /// Number of locked pages.
    pages: usize,
    runs: usize,
    /// Processes for which they are held.
    holders: BTreeSet<i32>,
    /// The user whose program was the first of them: it counts for that one's limit.
    uid: u32,
}

/// What may be held yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Room {
    pages: usize,
    runs: usize,
}

/// A file that may be held (3).
#[derive(Debug)]
struct Candidate {
    /// A path descriptor: the file was not opened.
    path: OwnedFd,
    id: FileId,
    pages: usize,
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
        let mapping = Self { start, bytes };
        // SAFETY: the whole mapping, of which only the size of its pages is decided (5).
        unsafe { madvise(start, bytes, Advice::LinuxNoHugepage)? };
        Ok(mapping)
    }

    /// Lock these pages of the mapping, reading those that are not in memory.
    fn lock(&self, pages: &Range<usize>) -> rustix::io::Result<()> {
        let page = page_size().0 as usize;
        debug_assert!(pages.end * page <= self.bytes);
        // SAFETY: the range is inside the mapping, and locking changes no content.
        unsafe { mlock(self.start.byte_add(pages.start * page), pages.len() * page) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: made by mmap() with these values, and nothing refers to its content. Unmapping
        // unlocks.
        let _ = unsafe { munmap(self.start, self.bytes) };
    }
}

impl Candidate {
    /// The file of a mapping of process `pid`, if it may be held. `mounts`: see [`local_mounts`].
    fn of(pid: i32, map: &MemoryMap, mounts: &BTreeSet<u64>) -> Option<Self> {
        let (start, end) = map.address;
        let name = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
        let path = openat(CWD, name, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
        let wanted = StatxFlags::BASIC_STATS | StatxFlags::MNT_ID;
        let flags = AtFlags::EMPTY_PATH | AtFlags::STATX_DONT_SYNC;
        let meta = statx(path.as_fd(), "", flags, wanted).ok()?;
        may_be_held(&meta, mounts).then(|| Self {
            id: FileId {
                dev: (meta.stx_dev_major, meta.stx_dev_minor),
                ino: meta.stx_ino,
            },
            pages: meta.stx_size.div_ceil(page_size().0) as usize,
            path,
        })
    }

    fn map(&self) -> Result<Mapping, MemoryError> {
        let path = format!("/proc/self/fd/{}", self.path.as_raw_fd());
        let path = Path::new(&path);
        let file = File::open(path).map_err(|e| MemoryError::io(path, "opening it", e))?;
        let mapping = Mapping::new(&file, self.pages * page_size().0 as usize);
        mapping.map_err(|e| MemoryError::io(path, "mapping it", e))
    }
}

impl Shared {
    /// Hold what these processes (process id, user) have mapped now, beside what is held for them
    /// already. A process that has exited holds nothing. Returns what went wrong: a file cannot be
    /// mapped, or its pages not be locked. The others are held.
    pub fn hold(&mut self, programs: &[(i32, u32)], most: Most) -> Vec<MemoryError> {
        if programs.is_empty() {
            return Vec::new();
        }
        let mounts = local_mounts().unwrap_or_default();
        let held = programs.iter();
        let held = held.map(|(pid, uid)| self.hold_one(*pid, *uid, &mounts, most));
        held.filter_map(Result::err).collect()
    }

    fn hold_one(
        &mut self,
        pid: i32,
        uid: u32,
        mounts: &BTreeSet<u64>,
        most: Most,
    ) -> Result<(), MemoryError> {
        let Ok(process) = Process::new(pid) else {
            return Ok(());
        };
        let (Ok(maps), Ok(mut pages)) = (process.maps(), process.pagemap()) else {
            return Ok(()); // it has just exited
        };
        let (mut result, mut left) = (Ok(()), MAX_LOOKED);
        for map in maps.into_iter().filter(is_of_a_file).take(MAX_MAPS) {
            let Some(file) = Candidate::of(pid, &map, mounts) else {
                continue;
            };
            let looked = pages_to_look_at(&map, file.pages);
            if looked.len() > left {
                break;
            }
            left -= looked.len();
            let Ok(infos) = pages.get_range_info(looked) else {
                continue;
            };
            let present: Vec<bool> = infos.iter().map(is_file_page).collect();
            let first = (map.offset / page_size().0) as usize;
            let held = self.hold_pages(pid, uid, &file, first, &present, most);
            result = result.and(held);
        }
        result
    }

    /// Hold the pages of `file` that are `present`, the first of which is page `first` of the file.
    fn hold_pages(
        &mut self,
        pid: i32,
        uid: u32,
        file: &Candidate,
        first: usize,
        present: &[bool],
        most: Most,
    ) -> Result<(), MemoryError> {
        let mut room = self.room(uid, most);
        let held = match self.files.entry(file.id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(Held {
                mapping: file.map()?,
                locked: vec![false; file.pages],
                pages: 0,
                runs: 0,
                holders: BTreeSet::new(),
                uid,
            }),
        };
        held.holders.insert(pid);
        for run in runs(first, present, &held.locked) {
            if run.len() > room.pages || room.runs == 0 {
                break;
            }
            held.mapping.lock(&run).map_err(|e| cannot_lock(pid, e))?;
            room.pages -= run.len();
            room.runs -= 1;
            held.pages += run.len();
            held.runs += 1;
            held.locked[run].fill(true);
        }
        Ok(())
    }

    /// Lock what is held anew: the pages may be other ones since they were locked (5). Returns what
    /// went wrong.
    pub fn lock_again(&self) -> Vec<MemoryError> {
        let mut complaints = Vec::new();
        for held in self.files.values() {
            let pid = held.holders.first().copied().unwrap_or_default();
            for run in runs(0, &held.locked, &vec![false; held.locked.len()]) {
                let done = held.mapping.lock(&run).map_err(|e| cannot_lock(pid, e));
                complaints.extend(done.err());
            }
        }
        complaints
    }

    /// What may be held for `uid` beside what is held.
    fn room(&self, uid: u32, most: Most) -> Room {
        let sum = |counts: &dyn Fn(&Held) -> bool| {
            let counted = self.files.values().filter(|h| counts(h));
            counted.fold((0, 0), |(p, r), h| (p + h.pages, r + h.runs))
        };
        let left = |(pages, runs): (usize, usize), most: Bytes, most_runs: usize| Room {
            pages: ((most.0 / page_size().0) as usize).saturating_sub(pages),
            runs: most_runs.saturating_sub(runs),
        };
        let all = left(sum(&|_| true), most.all, MAX_RUNS);
        if uid == 0 {
            return all;
        }
        let user = left(sum(&|h| h.uid == uid), most.user, MAX_USER_RUNS);
        Room {
            pages: all.pages.min(user.pages),
            runs: all.runs.min(user.runs),
        }
    }

    /// Hold nothing more for process `pid`.
    pub fn release(&mut self, pid: i32) {
        for held in self.files.values_mut() {
            held.holders.remove(&pid);
        }
        self.files.retain(|_, held| !held.holders.is_empty());
    }

    /// The processes for which something is held.
    pub fn holders(&self) -> BTreeSet<i32> {
        let all = self.files.values().flat_map(|h| &h.holders);
        all.copied().collect()
    }

    /// What is held, in all.
    pub fn bytes(&self) -> Bytes {
        let pages = self.files.values().map(|h| h.pages as u64).sum::<u64>();
        Bytes(pages * page_size().0)
    }
}

fn cannot_lock(pid: i32, error: rustix::io::Errno) -> MemoryError {
    let at = format!("/proc/{pid}/map_files");
    MemoryError::io(Path::new(&at), "locking pages of a file", error)
}

/// The ids of the mounts that this process sees and that are on a local disk. None: /proc does not
/// say.
fn local_mounts() -> Option<BTreeSet<u64>> {
    let mounts = Process::myself().ok()?.mountinfo().ok()?;
    let local = mounts.into_iter();
    let local = local.filter(|m| LOCAL.contains(&m.fs_type.as_str()));
    Some(local.filter_map(|m| u64::try_from(m.mnt_id).ok()).collect())
}

/// True for a file that may be held (3).
fn may_be_held(meta: &Statx, mounts: &BTreeSet<u64>) -> bool {
    let mode = u32::from(meta.stx_mode);
    let roots = meta.stx_uid == 0 && mode & 0o022 == 0;
    let is_file = FileType::from_raw_mode(mode) == FileType::RegularFile;
    let fits = (1..=MAX_FILE).contains(&meta.stx_size);
    mounts.contains(&meta.stx_mnt_id) && roots && is_file && fits
}

fn is_of_a_file(map: &MemoryMap) -> bool {
    let shared_writable = MMPermissions::SHARED | MMPermissions::WRITE;
    matches!(map.pathname, MMapPath::Path(_))
        && map.inode != 0
        && !map.perms.contains(shared_writable)
}

/// The pages of the process that `map` covers, without those beyond the end of its file, which has
/// `file_pages`.
fn pages_to_look_at(map: &MemoryMap, file_pages: usize) -> Range<usize> {
    let page = |address: u64| (address / page_size().0) as usize;
    let (start, end) = (page(map.address.0), page(map.address.1));
    let of_file = file_pages.saturating_sub(page(map.offset));
    start..end.min(start.saturating_add(of_file))
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
mod tests;
