//! Scripts: what the kernel really executes for a file that begins with `#!`.
//!
//! The rules are those of fs/binfmt_script.c. `env` is skipped, because it executes another
//! program.

use std::path::Path;

/// Bytes of a file that the kernel reads for this (BINPRM_BUF_SIZE).
pub const HEAD_BYTES: usize = 256;

/// Most levels of scripts that are interpreters of scripts: the kernel follows no more.
pub const MAX_DEPTH: usize = 5;

/// Directories in which `env` finds programs: the usual PATH of root and users, in its order.
pub const PATH: [&str; 6] = [
    "/usr/local/sbin",
    "/usr/local/bin",
    "/usr/sbin",
    "/usr/bin",
    "/sbin",
    "/bin",
];

/// What a `#!` line names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interpreter {
    /// An absolute path.
    Path(String),
    /// A name that `env` looks for in [`PATH`].
    Name(String),
}

/// The interpreter of a file that begins with the bytes `head`. None if the file is no script.
///
/// # Errors
///
/// A message, if the file is a script but its first line is invalid.
pub fn interpreter(head: &[u8]) -> Result<Option<Interpreter>, String> {
    let Some(line) = head.strip_prefix(b"#!") else {
        return Ok(None);
    };
    let line = line
        .split(|&b| b == b'\n' || b == 0)
        .next()
        .unwrap_or_default();
    let line = std::str::from_utf8(line).map_err(|_| "its #! line is not UTF-8")?;
    let mut words = line.split([' ', '\t']).filter(|w| !w.is_empty());
    let program = words.next().ok_or("its #! line is empty")?;
    if !program.starts_with('/') {
        return Err("its #! line has a relative path".into());
    }
    if Path::new(program).file_name().is_none_or(|n| n != "env") {
        return Ok(Some(Interpreter::Path(program.to_string())));
    }
    // env [-S] [option]… [NAME=value]… program
    let word = words
        .find(|w| !w.starts_with('-') && !w.contains('='))
        .ok_or("env is given no program")?;
    Ok(Some(if word.starts_with('/') {
        Interpreter::Path(word.to_string())
    } else {
        Interpreter::Name(word.to_string())
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interpreters() {
        let path = |p: &str| Ok(Some(Interpreter::Path(p.into())));
        let name = |p: &str| Ok(Some(Interpreter::Name(p.into())));
        assert_eq!(interpreter(b"\x7fELF"), Ok(None));
        assert_eq!(interpreter(b"#"), Ok(None));
        assert_eq!(interpreter(b"#!/bin/sh\necho"), path("/bin/sh"));
        assert_eq!(
            interpreter(b"#! \t/usr/bin/python3 -Es\n"),
            path("/usr/bin/python3")
        );
        assert_eq!(interpreter(b"#!/usr/bin/env python3\n"), name("python3"));
        assert_eq!(
            interpreter(b"#!/usr/bin/env -S A=b python3 -u\n"),
            name("python3")
        );
        assert_eq!(interpreter(b"#!/usr/bin/env /opt/x\n"), path("/opt/x"));
        assert_eq!(interpreter(b"#!/bin/sh"), path("/bin/sh"));
    }

    #[test]
    fn broken_first_lines() {
        for head in [
            &b"#!"[..],
            b"#!\n/bin/sh",
            b"#!sh\n",
            b"#!/usr/bin/env\n",
            b"#!/\xff\n",
        ] {
            assert!(interpreter(head).is_err(), "{head:?}");
        }
    }
}
