//! Where the cgroup v2 tree is mounted.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The mount point on almost every machine. Preferred if there are several.
const USUAL: &str = "/sys/fs/cgroup";

/// The mount point of the cgroup v2 tree in the text of /proc/self/mountinfo: /sys/fs/cgroup if it
/// is one, else the first that shows the tree from its root on. None if no mount does.
pub fn find_mount(mountinfo: &str) -> Option<PathBuf> {
    let mut first = None;
    for line in mountinfo.lines() {
        // 36 35 98:0 /root /mount/point options [tags…] - type source options
        let Some((mount, kind)) = line.split_once(" - ") else {
            continue;
        };
        let mut fields = mount.split(' ').skip(3);
        let (Some(root), Some(point)) = (fields.next(), fields.next()) else {
            continue;
        };
        if kind.split(' ').next() != Some("cgroup2") || root != "/" {
            continue;
        }
        let point = unescape(point);
        if point.as_os_str() == USUAL {
            return Some(point);
        }
        first.get_or_insert(point);
    }
    first
}

/// Replaces the escapes of mountinfo, in which space, tab, newline and backslash are a backslash
/// and three octal digits.
fn unescape(text: &str) -> PathBuf {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut i = 0;
    while i < bytes.len() {
        let code = bytes.get(i + 1..i + 4).filter(|_| bytes[i] == b'\\');
        let code = code.filter(|c| c[0] <= b'3' && c.iter().all(|d| (b'0'..=b'7').contains(d)));
        match code {
            Some(c) => {
                out.push((c[0] - b'0') * 64 + (c[1] - b'0') * 8 + (c[2] - b'0'));
                i += 4;
            }
            None => {
                out.push(bytes[i]);
                i += 1;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usual_place_comes_first() {
        let hybrid = "\
30 24 0:26 / /sys/fs/cgroup rw shared:4 - tmpfs tmpfs rw
31 30 0:27 / /sys/fs/cgroup/unified rw shared:5 - cgroup2 cgroup2 rw
32 30 0:28 / /sys/fs/cgroup/cpu rw shared:6 - cgroup cgroup rw,cpu
";
        assert_eq!(find_mount(hybrid), Some("/sys/fs/cgroup/unified".into()));
        let pure = "40 1 0:30 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let other = "39 1 0:30 / /mnt rw - cgroup2 none rw\n".to_owned() + pure;
        assert_eq!(find_mount(&other), Some("/sys/fs/cgroup".into()));
    }

    #[test]
    fn parts_of_the_tree_do_not_count() {
        let inside = "40 1 0:30 /docker/x /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(find_mount(inside), None);
        assert_eq!(find_mount(""), None);
        assert_eq!(find_mount("- cgroup2\n40 - cgroup2"), None);
    }

    #[test]
    fn names_are_unescaped() {
        let line = "40 1 0:30 / /mnt/a\\040b\\134\\9 rw - cgroup2 x rw\n";
        assert_eq!(find_mount(line), Some("/mnt/a b\\\\9".into()));
    }
}
