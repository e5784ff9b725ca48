//! The file of the knob journal: its lines, and how they are written.
//!
//! It belongs to root, in a directory of root, and makes root write into files that it names. So a
//! file that another user could have put there is refused.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{DirBuilder, File};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{flock, FlockOperation, OFlags};
use rustix::process::geteuid;

use crate::MemoryError;

/// Bytes that the file may have. 16,384 knobs with paths of 450 bytes fit in.
const MAX_BYTES: u64 = 8 << 20;
/// Outdated lines that are kept beside one line for each knob, so that a journal of few knobs is
/// not written anew all the time.
const MAX_OUTDATED: usize = 1024;

/// One knob.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The value before us.
    pub old: String,
    /// The value that the knob reads since our last change.
    pub set: String,
    /// The value that it had before our last change, in case that one did not happen.
    before: String,
    /// The value that we wrote, which may be another one than the kernel shows.
    pub asked: String,
}

impl Entry {
    pub fn new(old: &str, before: &str, set: &str) -> Self {
        Self {
            old: old.into(),
            set: set.into(),
            before: before.into(),
            asked: set.into(),
        }
    }

    /// True if we wrote `value`.
    pub fn is_ours(&self, value: &str) -> bool {
        value == self.set || value == self.before
    }
}

/// The knobs that are not as they were.
pub type Entries = BTreeMap<PathBuf, Entry>;

/// The open file.
#[derive(Debug)]
pub struct Text {
    path: PathBuf,
    /// Opened for appending, and locked.
    file: File,
    bytes: u64,
    lines: usize,
}

impl Text {
    /// Open or create the file. Returns its entries, and an error for each line that cannot be
    /// parsed.
    pub fn open(path: &Path) -> Result<(Self, Entries, Vec<MemoryError>), MemoryError> {
        if let Some(dir) = path.parent() {
            let made = DirBuilder::new().recursive(true).mode(0o755).create(dir);
            made.map_err(|e| MemoryError::io(dir, "making it", e))?;
        }
        let mut file = open(path, File::options().create(true))?;
        lock(path, &file)?;
        let fail = |e| MemoryError::io(path, "reading it", e);
        let seen = file.metadata().map_err(fail)?;
        let why = if !seen.is_file() {
            Some("it is no regular file".to_owned())
        } else if seen.uid() != geteuid().as_raw() {
            Some(format!(
                "it belongs to user {}, not to this one",
                seen.uid()
            ))
        } else if seen.len() > MAX_BYTES {
            Some(format!("it has more than {MAX_BYTES} bytes"))
        } else {
            None
        };
        if let Some(why) = why {
            return Err(MemoryError::state(path, format!("{why}; remove it")));
        }
        // Another process may have renamed a new file to this name between our open and our lock.
        let named = std::fs::symlink_metadata(path).map_err(fail)?;
        if (named.dev(), named.ino()) != (seen.dev(), seen.ino()) {
            return Err(in_use(path));
        }
        let mut content = Vec::new();
        let limit = (&mut file).take(MAX_BYTES);
        { limit }.read_to_end(&mut content).map_err(fail)?;
        let (entries, wrong) = parse(&content, path);
        let mut text = Self {
            path: path.into(),
            file,
            bytes: content.len() as u64,
            lines: content.iter().filter(|b| **b == b'\n').count(),
        };
        if content.last().is_some_and(|b| *b != b'\n') {
            text.rewrite(&entries)?; // the next line must not continue a torn one
        }
        Ok((text, entries, wrong))
    }

    /// Append the line of one knob, of all that are `knobs`.
    pub fn append(
        &mut self,
        knob: &Path,
        entry: &Entry,
        knobs: &Entries,
    ) -> Result<(), MemoryError> {
        let line = print(knob, entry);
        let full = |text: &Self| text.bytes + line.len() as u64 > MAX_BYTES;
        if full(self) || self.lines > 2 * knobs.len() + MAX_OUTDATED {
            self.rewrite(knobs)?;
        }
        if full(self) {
            let why = format!("it would have more than {MAX_BYTES} bytes, which is the limit");
            return Err(MemoryError::state(&self.path, why));
        }
        if let Err(e) = self.file.write_all(line.as_bytes()) {
            // Part of the line may be there. If that cannot be cut off, the next line is lost with
            // it, and the next but one is whole again.
            let _ = self.file.set_len(self.bytes);
            return Err(MemoryError::io(&self.path, "writing it", e));
        }
        self.bytes += line.len() as u64;
        self.lines += 1;
        Ok(())
    }

    /// Write the file anew with these knobs only.
    pub fn rewrite(&mut self, knobs: &Entries) -> Result<(), MemoryError> {
        // Two lines for each knob, because either value may be in force.
        let lines = knobs.iter().flat_map(|(knob, entry)| {
            let before = Entry::new(&entry.old, "", &entry.before);
            let before = (entry.before != entry.old).then(|| print(knob, &before));
            before.into_iter().chain([print(knob, entry)])
        });
        let lines: Vec<_> = lines.collect();
        let content = lines.concat();
        let mut temporary = self.path.clone().into_os_string();
        temporary.push(".new");
        let temporary = PathBuf::from(temporary);
        match std::fs::remove_file(&temporary) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(MemoryError::io(&temporary, "removing it", e));
            }
            _ => {}
        }
        let mut file = open(&temporary, File::options().create_new(true))?;
        lock(&temporary, &file)?; // the name is never without a locked file
        let written = file.write_all(content.as_bytes());
        written.map_err(|e| MemoryError::io(&temporary, "writing it", e))?;
        let renamed = std::fs::rename(&temporary, &self.path);
        renamed.map_err(|e| MemoryError::io(&self.path, "renaming the new one to it", e))?;
        self.file = file;
        self.bytes = content.len() as u64;
        self.lines = lines.len();
        Ok(())
    }
}

fn open(path: &Path, options: &mut std::fs::OpenOptions) -> Result<File, MemoryError> {
    // O_NONBLOCK: nothing waits if the file is a pipe; such a file is refused afterwards.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let options = options.read(true).append(true).mode(0o600);
    let file = options.custom_flags(flags.bits() as i32).open(path);
    file.map_err(|e| MemoryError::io(path, "opening it", e))
}

fn lock(path: &Path, file: &File) -> Result<(), MemoryError> {
    flock(file, FlockOperation::NonBlockingLockExclusive).map_err(|e| match e {
        rustix::io::Errno::WOULDBLOCK => in_use(path),
        e => MemoryError::io(path, "locking it", e),
    })
}

fn in_use(path: &Path) -> MemoryError {
    MemoryError::state(path, "another process uses it; only one may turn knobs")
}

/// One line, with its newline.
fn print(knob: &Path, entry: &Entry) -> String {
    let words = [
        knob.as_os_str().as_bytes(),
        entry.old.as_bytes(),
        entry.set.as_bytes(),
    ];
    format!("{}\n", words.map(escape).join(" "))
}

fn escape(word: &[u8]) -> String {
    let mut text = String::with_capacity(word.len());
    for &byte in word {
        if byte.is_ascii_graphic() && byte != b'\\' {
            text.push(byte.into());
        } else {
            let _ = write!(text, "\\{byte:03o}"); // writing to a String does not fail
        }
    }
    text
}

fn unescape(word: &[u8]) -> Result<Vec<u8>, &'static str> {
    const WRONG: &str = "a backslash without three octal digits";
    let mut bytes = Vec::with_capacity(word.len());
    let mut rest = word;
    while let Some((&first, after)) = rest.split_first() {
        if first == b'\\' {
            let digits = after.get(..3).ok_or(WRONG)?;
            if !digits.iter().all(|d| (b'0'..=b'7').contains(d)) {
                return Err(WRONG);
            }
            let value = digits.iter().fold(0u32, |n, d| n * 8 + u32::from(d - b'0'));
            bytes.push(u8::try_from(value).map_err(|_| WRONG)?);
            rest = &after[3..];
        } else if first.is_ascii_graphic() {
            bytes.push(first);
            rest = after;
        } else {
            return Err("a byte that should be escaped");
        }
    }
    Ok(bytes)
}

/// The entries of the text, and an error for each line that cannot be parsed. A last line without
/// its newline was torn and is left out.
fn parse(content: &[u8], path: &Path) -> (Entries, Vec<MemoryError>) {
    let mut entries: Entries = Entries::new();
    let mut wrong = Vec::new();
    let lines = content.split_inclusive(|b| *b == b'\n');
    for (number, line) in (1..).zip(lines) {
        let Some(line) = line.strip_suffix(b"\n") else {
            break;
        };
        match parse_line(line) {
            Ok((knob, old, set)) if old == set => {
                entries.remove(&knob);
            }
            Ok((knob, old, set)) => {
                let before = entries.get(&knob).map_or(old.clone(), |e| e.set.clone());
                entries.insert(knob, Entry::new(&old, &before, &set));
            }
            Err(why) => wrong.push(MemoryError::Line {
                path: path.into(),
                line: number,
                why: why.into(),
            }),
        }
    }
    (entries, wrong)
}

/// The errors in any bytes; for the fuzz target.
pub(crate) fn parse_any(content: &[u8], path: &Path) -> Vec<MemoryError> {
    parse(content, path).1
}

fn parse_line(line: &[u8]) -> Result<(PathBuf, String, String), &'static str> {
    let words: Vec<_> = line.split(|b| *b == b' ').map(unescape).collect();
    let [knob, old, set] = <[_; 3]>::try_from(words).map_err(|_| "not three words")?;
    let knob = PathBuf::from(OsString::from_vec(knob?));
    let plain = knob.components().all(|c| c.as_os_str() != "..");
    if !knob.is_absolute() || !plain {
        return Err("its path does not lead down from \"/\"");
    }
    let utf8 = |word| String::from_utf8(word).map_err(|_| "a value that is not UTF-8");
    Ok((knob, utf8(old?)?, utf8(set?)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_can_be_read_by_people() {
        let line = print(Path::new("/a b\n/ü\\/low"), &Entry::new("max 5", "", ""));
        assert_eq!(line, "/a\\040b\\012/\\303\\274\\134/low max\\0405 \n");
        let line = line.trim_end_matches('\n').as_bytes();
        let parsed = parse_line(line).unwrap();
        let wanted = (
            PathBuf::from("/a b\n/ü\\/low"),
            "max 5".into(),
            String::new(),
        );
        assert_eq!(parsed, wanted);
    }

    #[test]
    fn wrong_lines_have_reasons() {
        for (line, why) in [
            ("", "not three words"),
            ("/a 1", "not three words"),
            ("/a 1 2 3", "not three words"),
            ("a 1 2", "does not lead down"),
            ("/a/../b 1 2", "does not lead down"),
            ("/a\\9 1 2", "three octal digits"),
            ("/a\\777 1 2", "three octal digits"),
            ("/a\\0400\t 1 2", "should be escaped"),
            ("/a \\377 2", "not UTF-8"),
        ] {
            let e = parse_line(line.as_bytes()).unwrap_err();
            assert!(e.contains(why), "{line:?}: {e}");
        }
    }

    proptest::proptest! {
        #[test]
        fn lines_are_read_as_written(path: Vec<u8>, old: String, set: String) {
            let knob = PathBuf::from(OsString::from_vec([b"/", path.as_slice()].concat()));
            let line = print(&knob, &Entry::new(&old, "", &set));
            proptest::prop_assert!(line.is_ascii() && line.matches('\n').count() == 1);
            match parse_line(line.trim_end_matches('\n').as_bytes()) {
                Ok(parsed) => proptest::prop_assert_eq!(parsed, (knob, old, set)),
                Err(_) => proptest::prop_assert!(knob.components().any(|c| c.as_os_str() == "..")),
            }
        }

        #[test]
        fn no_bytes_break_the_parser(data: Vec<u8>) {
            parse(&data, Path::new("f"));
        }

        /// Of a journal that was cut anywhere, the whole lines count.
        #[test]
        fn a_torn_line_costs_itself_only(cut in 0usize..40) {
            let text = "/a 1 2\n/b\\040 1 2\n/c 1 2\n";
            let text = &text.as_bytes()[..cut.min(text.len())];
            let (entries, wrong) = parse(text, Path::new("f"));
            proptest::prop_assert!(wrong.is_empty());
            let whole = text.iter().filter(|b| **b == b'\n').count();
            proptest::prop_assert_eq!(entries.len(), whole);
        }
    }
}
