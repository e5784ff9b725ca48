//! Rows of the kernel side's matcher map: `struct match_key` and the name hash of bpf/intf.h.
//!
//! The numbers are those of bpf/intf.h. `tests/intf.rs` reads that file and compares them.

use serde::{Deserialize, Serialize};

/// `enum match_kind` of bpf/intf.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[repr(u64)]
pub enum MatchKind {
    Argument = 1,
    File = 2,
    App = 3,
    Command = 4,
    KernelThread = 5,
    Named = 6,
}

/// `struct match_key` of bpf/intf.h: four 64-bit words in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Key {
    pub kind: MatchKind,
    pub a: u64,
    pub b: u64,
    pub c: u64,
}

impl Key {
    /// The key of an executable: its inode number and device (`major << 20 | minor`).
    pub fn file(inode: u64, device: u64) -> Key {
        Key {
            kind: MatchKind::File,
            a: inode,
            b: device,
            c: 0,
        }
    }

    /// The same with the inode's generation: a later file of the same number has another one.
    pub fn file_of_generation(inode: u64, device: u64, generation: u32) -> Key {
        Key {
            c: generation.into(),
            ..Key::file(inode, device)
        }
    }

    /// The key of one argument of an interpreter: the interpreter's file, and the argument (the
    /// whole, or its part after the last `/`).
    pub fn argument(inode: u64, device: u64, argument: &str) -> Key {
        Key {
            kind: MatchKind::Argument,
            a: inode,
            b: device,
            c: name_hash(argument.as_bytes()),
        }
    }

    /// The key of one of the commands in an executable: its file, and the command's name. Bytes
    /// after the 15th do not count, as the kernel keeps no more of a name.
    pub fn named(inode: u64, device: u64, name: &str) -> Key {
        let name = name.as_bytes();
        Key {
            kind: MatchKind::Named,
            a: inode,
            b: device,
            c: name_hash(&name[..name.len().min(15)]),
        }
    }

    /// The key of an application id. The id is escaped as systemd escapes it in unit names.
    pub fn app(id: &str) -> Key {
        Key {
            kind: MatchKind::App,
            a: name_hash(escape_app(id).as_bytes()),
            b: 0,
            c: 0,
        }
    }

    /// The key of a command name. Bytes after the 15th are cut off, as the kernel does.
    pub fn command(name: &str) -> Key {
        let (a, b) = comm(name);
        Key {
            kind: MatchKind::Command,
            a,
            b,
            c: 0,
        }
    }

    /// The key of a kernel thread's name. If the name ends in `*`, the key is that of the base name
    /// before the star.
    pub fn kernel_thread(name: &str) -> Key {
        let (a, b) = comm(name.strip_suffix('*').unwrap_or(name));
        Key {
            kind: MatchKind::KernelThread,
            a,
            b,
            c: 0,
        }
    }

    /// The four words of the map's key, in its layout.
    pub fn words(&self) -> [u64; 4] {
        [self.kind as u64, self.a, self.b, self.c]
    }
}

/// 64-bit FNV-1a (`NAME_HASH_INIT`, `NAME_HASH_PRIME` of bpf/intf.h).
pub fn name_hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| {
        (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The 16 bytes of a task's `comm`, as two little-endian words.
fn comm(name: &str) -> (u64, u64) {
    let mut bytes = [0u8; 16];
    let n = name.len().min(15);
    bytes[..n].copy_from_slice(&name.as_bytes()[..n]);
    let [mut a, mut b] = [[0u8; 8]; 2];
    a.copy_from_slice(&bytes[..8]);
    b.copy_from_slice(&bytes[8..]);
    (u64::from_le_bytes(a), u64::from_le_bytes(b))
}

/// Escapes an application id as systemd escapes a string in a unit name (systemd.unit(5)): a
/// character like `-` or `@` becomes its hex code, such as `\x2d`. Launchers use the result in
/// names of cgroups ("app-gnome-firefox\x2desr-1234.scope").
pub fn escape_app(id: &str) -> String {
    let mut out = String::with_capacity(id.len());
    for (i, b) in id.bytes().enumerate() {
        match b {
            b'.' if i == 0 => out.push_str("\\x2e"),
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'.' | b'_' | b':' => out.push(b as char),
            _ => out.push_str(&format!("\\x{b:02x}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fnv_vectors() {
        // From the reference tables of FNV-1a.
        assert_eq!(name_hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(name_hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(name_hash(b"foobar"), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn comm_is_little_endian_and_cut() {
        let k = Key::command("bash");
        assert_eq!((k.a, k.b), (u64::from_le_bytes(*b"bash\0\0\0\0"), 0));
        let k = Key::command("0123456789abcdefgh");
        assert_eq!(
            (k.a, k.b),
            (
                u64::from_le_bytes(*b"01234567"),
                u64::from_le_bytes(*b"89abcde\0")
            )
        );
        assert_eq!(
            Key::kernel_thread("kswapd*").a,
            u64::from_le_bytes(*b"kswapd\0\0")
        );
        assert_eq!(Key::kernel_thread("kswapd*").words()[0], 5);
    }

    #[test]
    fn app_ids_are_escaped_like_unit_names() {
        assert_eq!(escape_app("org.mozilla.firefox"), "org.mozilla.firefox");
        assert_eq!(escape_app("firefox-esr"), "firefox\\x2desr");
        assert_eq!(escape_app(".hidden@x"), "\\x2ehidden\\x40x");
    }
}
