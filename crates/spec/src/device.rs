//! Finds the device number that the kernel side sees for a file.
//!
//! The kernel side identifies executables by inode number and by `s_dev` of the inode's superblock.
//! On overlayfs and btrfs, `stat` shows another number (an anonymous device for each layer or
//! subvolume). But the third field of /proc/self/mountinfo is `s_dev` itself, so the mount that
//! contains the file gives the right number. See proc(5).

use rustix::fs::{major, minor};
use std::path::PathBuf;

/// Encodes a device number as the kernel does internally (`MKDEV`): `major << 20 | minor`.
fn encode(major: u32, minor: u32) -> u64 {
    u64::from(major) << 20 | u64::from(minor & 0xf_ffff)
}

/// What is known about an opened file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileId {
    /// The file's path with all links resolved, as the mount table sees it.
    pub path: PathBuf,
    /// `stx_mnt_id` of statx; None if the kernel does not provide it.
    pub mount_id: Option<u64>,
    /// `st_dev`, as user space encodes it.
    pub st_dev: u64,
}

/// A device, and whether an inode number identifies one file there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Device {
    /// `s_dev`: `major << 20 | minor`.
    pub number: u64,
    /// True if several files of one superblock can have the same inode number: in subvolumes of
    /// btrfs and bcachefs, in layers of an overlay without `xino=on`. A user with a subvolume of
    /// their own can then create a file that matches.
    pub shared_inodes: bool,
    /// True if the file system keeps a generation with each inode, and lets root read it.
    pub has_generations: bool,
}

/// File systems whose FS_IOC_GETVERSION is `i_generation` of the inode that is executed. (One that
/// is stacked on another may answer for the file below.) tmpfs has no such request, but it does not
/// use a number twice.
const WITH_GENERATIONS: [&str; 5] = ["ext2", "ext3", "ext4", "f2fs", "xfs"];

/// Finds the device of a file's superblock.
pub trait DeviceOf {
    /// The device of the superblock that contains `file`.
    fn device_of(&self, file: &FileId) -> Device;
}

/// Uses `st_dev` itself. That is right on ext4, xfs, tmpfs and the like, but wrong on overlayfs and
/// btrfs.
#[derive(Debug, Clone, Copy, Default)]
pub struct StatDevice;

impl DeviceOf for StatDevice {
    fn device_of(&self, file: &FileId) -> Device {
        Device {
            number: encode(major(file.st_dev), minor(file.st_dev)),
            shared_inodes: false,
            has_generations: false,
        }
    }
}

/// The mounts in this process's namespace, from /proc/self/mountinfo. This is a snapshot, so it
/// must be read again at every reload.
#[derive(Debug, Clone, Default)]
pub struct MountTable {
    mounts: Vec<Mount>,
}

#[derive(Debug, Clone)]
struct Mount {
    id: u64,
    device: u64,
    point: PathBuf,
    shared_inodes: bool,
    has_generations: bool,
}

impl MountTable {
    /// Reads /proc/self/mountinfo.
    ///
    /// # Errors
    ///
    /// /proc/self/mountinfo does not exist or cannot be read.
    pub fn read() -> std::io::Result<MountTable> {
        Ok(MountTable::parse(&std::fs::read_to_string(
            "/proc/self/mountinfo",
        )?))
    }

    /// Parses the text of a mountinfo file. Lines that it cannot parse are skipped.
    pub fn parse(text: &str) -> MountTable {
        MountTable {
            mounts: text.lines().filter_map(Mount::parse).collect(),
        }
    }

    /// The mount with the file's mount id. If the id is not known: the mount with the longest mount
    /// point above the file's path.
    fn find(&self, file: &FileId) -> Option<&Mount> {
        let by_id = file
            .mount_id
            .and_then(|id| self.mounts.iter().find(|m| m.id == id));
        by_id.or_else(|| {
            self.mounts
                .iter()
                .filter(|m| file.path.starts_with(&m.point))
                // If several mounts have the same mount point, the last one covers the others.
                .max_by_key(|m| m.point.components().count())
        })
    }
}

impl Mount {
    /// Parses a line like `36 35 98:0 /root /mnt opts tag:x - ext4 /dev/root opts`.
    fn parse(line: &str) -> Option<Mount> {
        let (left, right) = line.split_once(" - ")?;
        let mut f = left.split(' ');
        let id = f.next()?.parse().ok()?;
        let (major, minor) = f.nth(1)?.split_once(':')?;
        let device = encode(major.parse().ok()?, minor.parse().ok()?);
        let point = unescape(f.nth(1)?);
        let mut right = right.split(' ');
        let kind = right.next()?;
        let shared_inodes = match kind {
            "btrfs" | "bcachefs" => true,
            "overlay" => {
                let options = right.nth(1).unwrap_or_default();
                !options.split(',').any(|o| o == "xino=on")
            }
            _ => false,
        };
        Some(Mount {
            id,
            device,
            point,
            shared_inodes,
            has_generations: WITH_GENERATIONS.contains(&kind),
        })
    }
}

/// Decodes mountinfo's octal escapes (`\040` is a space).
fn unescape(field: &str) -> PathBuf {
    use std::os::unix::ffi::OsStringExt;
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&b, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|d| b == b'\\' && d.iter().all(|c| (b'0'..=b'7').contains(c)));
        match octal {
            Some(d) => {
                out.push(
                    d.iter()
                        .fold(0u8, |v, c| v.wrapping_mul(8).wrapping_add(c - b'0')),
                );
                rest = &tail[3..];
            }
            None => {
                out.push(b);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

impl DeviceOf for MountTable {
    fn device_of(&self, file: &FileId) -> Device {
        match self.find(file) {
            Some(m) => Device {
                number: m.device,
                shared_inodes: m.shared_inodes,
                has_generations: m.has_generations,
            },
            None => StatDevice.device_of(file),
        }
    }
}

impl<D: DeviceOf + ?Sized> DeviceOf for &D {
    fn device_of(&self, file: &FileId) -> Device {
        (**self).device_of(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const FIXTURE: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
30 22 0:35 /@home /home rw,relatime shared:9 - btrfs /dev/sdb1 rw,subvol=/@home
31 22 0:35 /@usr /usr rw shared:10 master:3 - btrfs /dev/sdb1 rw,subvol=/@usr
40 22 0:50 / /var/lib/docker/overlay2/abc/merged rw - overlay overlay rw,lowerdir=/l
41 22 259:1048575 / /mnt/with\\040space rw - xfs /dev/nvme0n1 rw
42 41 0:60 / /mnt/with\\040space rw - tmpfs none rw
this line is broken
43 22 nonsense / /x rw - ext4 x rw
";

    fn at(path: &str, mount_id: Option<u64>) -> FileId {
        FileId {
            path: path.into(),
            mount_id,
            st_dev: rustix::fs::makedev(0, 99),
        }
    }

    #[test]
    fn longest_mount_point_and_the_uppermost() {
        let t = MountTable::parse(FIXTURE);
        let dev = |p| t.device_of(&at(p, None)).number;
        assert_eq!(dev("/etc/passwd"), 8 << 20 | 1);
        assert_eq!(dev("/usr/bin/mpv"), 35);
        assert_eq!(
            dev("/usrlocal/x"),
            8 << 20 | 1,
            "/usr is no prefix by path parts"
        );
        assert_eq!(dev("/var/lib/docker/overlay2/abc/merged/bin/sh"), 50);
        assert_eq!(dev("/mnt/with space/f"), 60, "the tmpfs covers the xfs");
    }

    #[test]
    fn mount_id_decides_where_known() {
        let t = MountTable::parse(FIXTURE);
        assert_eq!(
            t.device_of(&at("/usr/bin/mpv", Some(41))).number,
            259 << 20 | 1_048_575
        );
        assert_eq!(
            t.device_of(&at("/usr/bin/mpv", Some(999))).number,
            35,
            "unknown id: by path"
        );
    }

    #[test]
    fn subvolumes_share_inode_numbers() {
        let t = MountTable::parse(FIXTURE);
        assert!(t.device_of(&at("/home/u/x", None)).shared_inodes);
        assert!(!t.device_of(&at("/etc/x", None)).shared_inodes);
        let layers = |t: &MountTable| {
            let file = at("/var/lib/docker/overlay2/abc/merged/x", None);
            t.device_of(&file).shared_inodes
        };
        assert!(layers(&t));
        let unique = FIXTURE.replace("lowerdir=/l", "lowerdir=/l,xino=on");
        assert!(!layers(&MountTable::parse(&unique)));
    }

    #[test]
    fn generations_are_read_where_they_are_the_inodes_own() {
        let t = MountTable::parse(FIXTURE);
        let has = |p| t.device_of(&at(p, None)).has_generations;
        assert!(has("/etc/x"), "ext4");
        assert!(!has("/home/u/x"), "btrfs");
        assert!(!has("/var/lib/docker/overlay2/abc/merged/x"), "overlay");
        assert!(!has("/mnt/with space/f"), "tmpfs");
    }

    #[test]
    fn without_a_mount_stat_is_taken() {
        let none = MountTable::parse("");
        assert_eq!(none.device_of(&at("/x", Some(1))).number, 99);
        let file = FileId {
            st_dev: rustix::fs::makedev(259, 0x12345),
            ..at("/x", None)
        };
        assert_eq!(StatDevice.device_of(&file).number, 259 << 20 | 0x12345);
    }

    #[test]
    fn this_machine_has_a_root_mount() {
        use std::os::unix::fs::MetadataExt;
        let t = MountTable::read().unwrap();
        assert!(t.mounts.iter().any(|m| m.point == Path::new("/")));
        // A memory file system has one device everywhere, so stat and the mount table must agree on
        // it.
        if let Ok(m) = std::fs::metadata("/dev/shm") {
            let f = FileId {
                path: "/dev/shm".into(),
                mount_id: None,
                st_dev: m.dev(),
            };
            assert_eq!(t.device_of(&f), StatDevice.device_of(&f));
        }
    }
}
