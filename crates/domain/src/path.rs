//! Names of domains: paths below the cgroup root. They come from users, settings, specs and
//! sockets. So a path that does not lead plainly downwards is refused before it reaches the file
//! system.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use aplomb_spec::check_domain;
use serde::{Deserialize, Serialize};

/// A domain's path: "/" for the root, else "media" or "user.slice/media", at most 16 levels.
///
/// Sorted paths have each domain right before the domains below it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct DomainPath(String);

/// Compares part by part, not as text: "a/b" comes before "a-b".
impl Ord for DomainPath {
    fn cmp(&self, other: &Self) -> Ordering {
        self.parts().cmp(other.parts())
    }
}

impl PartialOrd for DomainPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl DomainPath {
    /// The root of the tree.
    pub fn root() -> Self {
        Self::default()
    }

    /// The parts of the path, from the root on. The root has none.
    pub fn parts(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.0.split('/').filter(|p| !p.is_empty())
    }

    /// Levels below the root. The root itself has 0.
    pub fn depth(&self) -> usize {
        self.parts().count()
    }

    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// The domain above. None for the root.
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let above = self.0.rsplit_once('/').map_or("", |(above, _)| above);
        Some(Self(above.into()))
    }

    /// The last part of the path. Empty for the root.
    pub fn name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or("")
    }

    /// The path of the child domain `name`.
    ///
    /// # Errors
    /// As [`DomainPath::from_str`].
    pub fn child(&self, name: &str) -> Result<Self, String> {
        if self.is_root() {
            return name.parse();
        }
        format!("{}/{name}", self.0).parse()
    }

    /// True if `other` is this domain or is below it.
    pub fn holds(&self, other: &Self) -> bool {
        let mut others = other.parts();
        self.parts().all(|part| others.next() == Some(part))
    }
}

impl FromStr for DomainPath {
    type Err = String;

    /// "/" is the root. One "/" before a path is allowed, because `/proc/PID/cgroup` writes it so.
    fn from_str(text: &str) -> Result<Self, String> {
        let below = text.strip_prefix('/').unwrap_or(text);
        if below.is_empty() && !text.is_empty() {
            return Ok(Self::root());
        }
        match check_domain(below) {
            Ok(()) => Ok(Self(below.into())),
            Err(p) => Err(match p.suggestion {
                Some(hint) => format!("{}; did you mean \"{hint}\"?", p.message),
                None => p.message,
            }),
        }
    }
}

impl TryFrom<String> for DomainPath {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<DomainPath> for String {
    fn from(path: DomainPath) -> Self {
        path.to_string()
    }
}

impl fmt::Display for DomainPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.is_root() { "/" } else { &self.0 })
    }
}

/// The cgroup v2 path in the text of /proc/PID/cgroup: its line "0::/…".
///
/// # Errors
/// There is no such line, or its path is no domain's (deeper than 16 levels, a deleted cgroup).
pub fn parse_proc_cgroup(text: &str) -> Result<DomainPath, String> {
    let line = text.lines().find_map(|l| l.strip_prefix("0::"));
    line.ok_or("the process is in no cgroup of version 2")?
        .parse()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_domain_comes_right_after_it() {
        let mut paths = ["a-b", "b", "a0", "a/b", "/", "a", "a/b/c", "a/a-b"]
            .map(|p| p.parse::<DomainPath>().unwrap());
        paths.sort();
        let text = paths.map(|p| p.to_string());
        assert_eq!(text, ["/", "a", "a/a-b", "a/b", "a/b/c", "a-b", "a0", "b"]);
    }

    #[test]
    fn paths_lead_downwards_only() {
        let media: DomainPath = "user.slice/media".parse().unwrap();
        assert_eq!(media.parts().collect::<Vec<_>>(), ["user.slice", "media"]);
        assert_eq!((media.depth(), media.name()), (2, "media"));
        assert_eq!(media.parent().unwrap().to_string(), "user.slice");
        assert_eq!("/media".parse::<DomainPath>().unwrap().to_string(), "media");
        for bad in [
            "", "//", "..", "/..", "a/..", "a//b", "a/", "./a", "a\0b", "a\nb",
        ] {
            assert!(bad.parse::<DomainPath>().is_err(), "{bad:?}");
        }
        let e = "/a//b/".parse::<DomainPath>().unwrap_err();
        assert!(e.ends_with("did you mean \"a/b\"?"), "{e}");
    }

    #[test]
    fn the_root_is_above_all() {
        let root: DomainPath = "/".parse().unwrap();
        let (a, ab): (DomainPath, DomainPath) = ("a".parse().unwrap(), "ab".parse().unwrap());
        assert!(root.is_root() && root.depth() == 0 && root.parent().is_none());
        assert_eq!(
            (root.to_string(), a.parent()),
            ("/".into(), Some(root.clone()))
        );
        assert!(root.holds(&a) && a.holds(&a) && a.holds(&a.child("x").unwrap()));
        assert!(!a.holds(&ab), "a longer name is another one");
        assert!(!a.holds(&root));
        assert!(root.child("a/../b").is_err());
        assert_eq!(root.child("a"), Ok(a));
    }

    #[test]
    fn json_is_checked_too() {
        assert!(serde_json::from_str::<DomainPath>("\"../x\"").is_err());
        let a: DomainPath = serde_json::from_str("\"a/b\"").unwrap();
        assert_eq!(serde_json::to_string(&a).unwrap(), "\"a/b\"");
    }

    #[test]
    fn where_a_process_is() {
        let text = "1:cpu:/x\n0::/user.slice/a\n";
        assert_eq!(parse_proc_cgroup(text).unwrap().to_string(), "user.slice/a");
        assert!(parse_proc_cgroup("0::/\n").unwrap().is_root());
        assert!(parse_proc_cgroup("1:cpu:/\n").is_err());
        assert!(
            parse_proc_cgroup("0::/../x\n").is_err(),
            "outside our namespace"
        );
    }
}
