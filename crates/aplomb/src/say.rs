//! Messages of the daemon: to standard error, with sd-daemon(3) priorities when the journal reads it.

use std::fmt::Display;
use std::sync::OnceLock;

/// Priorities of syslog that are used.
#[derive(Debug, Clone, Copy)]
#[repr(u8)]
enum Priority {
    Error = 3,
    Warning = 4,
    Info = 6,
}

/// systemd sets JOURNAL_STREAM to device and inode of the stream that the journal reads.
fn to_journal() -> bool {
    static JOURNAL: OnceLock<bool> = OnceLock::new();
    *JOURNAL.get_or_init(|| std::env::var_os("JOURNAL_STREAM").is_some())
}

fn line(priority: Priority, message: &dyn Display, journal: bool) -> String {
    let mut out = String::new();
    for part in message.to_string().lines() {
        if journal {
            out += &format!("<{}>", priority as u8);
        } else if matches!(priority, Priority::Error | Priority::Warning) && out.is_empty() {
            out += if matches!(priority, Priority::Error) {
                "error: "
            } else {
                "warning: "
            };
        }
        out += part;
        out.push('\n');
    }
    out
}

fn say(priority: Priority, message: &dyn Display) {
    // One write, so that lines of two processes do not mix. A closed stderr must not end the daemon.
    use std::io::Write;
    let _ = std::io::stderr().write_all(line(priority, message, to_journal()).as_bytes());
}

/// Something that needs attention.
pub fn error(message: impl Display) {
    say(Priority::Error, &message);
}

/// Something odd; the daemon goes on.
pub fn warning(message: impl Display) {
    say(Priority::Warning, &message);
}

/// Something worth knowing.
pub fn info(message: impl Display) {
    say(Priority::Info, &message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_journal_gets_a_priority_on_every_line() {
        assert_eq!(line(Priority::Info, &"a\nb", true), "<6>a\n<6>b\n");
        assert_eq!(line(Priority::Error, &"a\nb", false), "error: a\nb\n");
        assert_eq!(line(Priority::Info, &"a", false), "a\n");
    }
}
