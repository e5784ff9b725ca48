//! Interfaces, as /sys/class/net has them.

use std::fs;
use std::path::Path;

use crate::NetError;

const FOLDER: &str = "/sys/class/net";

/// An interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: String,
    /// Its number; that of another interface later, at the earliest after 2^31 others.
    pub index: u32,
}

/// The interface with this name.
///
/// # Errors
/// There is none.
pub fn find(name: &str) -> Result<Interface, NetError> {
    let missing = || NetError::NoInterface(shorten(name));
    // A name is one part of a path.
    if name.is_empty() || name.len() > 15 || name.contains('/') || name.starts_with('.') {
        return Err(missing());
    }
    let text = fs::read_to_string(Path::new(FOLDER).join(name).join("ifindex"));
    let index = text.ok().and_then(|t| t.trim().parse().ok());
    Ok(Interface {
        name: name.into(),
        index: index.ok_or_else(missing)?,
    })
}

/// All interfaces, by name.
pub fn all() -> Vec<Interface> {
    let names = fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let mut found: Vec<_> = names
        .filter_map(|e| find(e.file_name().to_str()?).ok())
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// A name of any length and content, for a message.
fn shorten(name: &str) -> String {
    let printed = name.chars().filter(|c| !c.is_control());
    printed.take(20).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_part_of_a_path() {
        assert_eq!(find("lo").unwrap().index, 1);
        for name in ["", "..", "a/b", "../lo", "none-such", "a-name-of-sixteen"] {
            assert!(find(name).is_err(), "{name}");
        }
        let e = find("a\nb").unwrap_err().to_string();
        assert_eq!(e, "there is no interface ab");
        assert!(all().iter().any(|i| i.name == "lo"));
    }
}
