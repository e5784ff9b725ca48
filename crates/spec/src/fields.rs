//! The rules for each field's value, the same for both formats. Where possible, an error suggests a
//! valid value.

use crate::diag::is_invisible;
use crate::duration::format_duration;
use crate::limits::*;
use crate::model::Matcher;

/// A problem with a value, and what was probably meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub suggestion: Option<String>,
}

fn problem(message: impl Into<String>) -> Problem {
    Problem {
        message: message.into(),
        suggestion: None,
    }
}

fn suggesting(message: impl Into<String>, suggestion: impl Into<String>) -> Problem {
    Problem {
        message: message.into(),
        suggestion: Some(suggestion.into()),
    }
}

/// Checks C and T (ns). The message fits both formats. `write` formats a pair (C, T) for the
/// suggestion.
///
/// # Errors
///
/// C or T is out of range, or C exceeds T.
pub fn check_cpu(
    runtime: u64,
    period: u64,
    write: impl Fn(u64, u64) -> String,
) -> Result<(), Problem> {
    let show = format_duration;
    if !(MIN_PERIOD_NS..=MAX_PERIOD_NS).contains(&period) {
        return Err(problem(format!(
            "period {} is not within {} and {}",
            show(period),
            show(MIN_PERIOD_NS),
            show(MAX_PERIOD_NS)
        )));
    }
    if runtime > period {
        let message = format!("runtime {} exceeds period {}", show(runtime), show(period));
        // C and T were probably swapped, if C can be a period.
        let swapped = (MIN_PERIOD_NS..=MAX_PERIOD_NS).contains(&runtime);
        return Err(if swapped {
            suggesting(message, write(period, runtime))
        } else {
            problem(message)
        });
    }
    if runtime < MIN_RUNTIME_NS {
        return Err(problem(format!(
            "runtime {} is below {}",
            show(runtime),
            show(MIN_RUNTIME_NS)
        )));
    }
    Ok(())
}

/// Checks a spec's name.
///
/// # Errors
///
/// The name is empty, is too long, or contains a character that is not allowed.
pub fn check_name(name: &str) -> Result<(), Problem> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(problem(format!("a name has 1 to {MAX_NAME_BYTES} bytes")));
    }
    if name.chars().all(is_name_char) {
        return Ok(());
    }
    Err(suggesting(
        "a name has letters, digits and . _ + @ - only",
        clean_name(name),
    ))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._+@-".contains(c)
}

/// `text`, with each character replaced that a name must not contain, and cut to the longest name.
fn clean_name(text: &str) -> String {
    let name: String = text
        .chars()
        .map(|c| if is_name_char(c) { c } else { '_' })
        .take(MAX_NAME_BYTES)
        .collect();
    if name.is_empty() {
        "spec".to_string()
    } else {
        name
    }
}

/// A name for a spec without one: the last part of its path, or its other matcher, without stars.
pub fn name_for(matcher: &Matcher) -> String {
    let text = match matcher {
        Matcher::Path(p) => p.rsplit('/').next().unwrap_or(p),
        Matcher::Argument { argument: t, .. } => t.rsplit('/').next().unwrap_or(t),
        Matcher::App(t) | Matcher::Command(t) | Matcher::KernelThread(t) => t,
    };
    clean_name(&text.replace('*', ""))
}

/// Checks the path of an executable.
///
/// # Errors
///
/// The path is not absolute, names a directory, is too long, or has too many stars or invalid
/// parts.
pub fn check_path(path: &str) -> Result<(), Problem> {
    check_text(path, "a path", MAX_PATH_BYTES)?;
    if !path.starts_with('/') {
        let hint = if path.contains(['/', '~']) {
            None
        } else {
            Some(format!("/usr/bin/{path}"))
        };
        return Err(Problem {
            message: "a path must be absolute".into(),
            suggestion: hint,
        });
    }
    if path.contains("**") {
        return Err(suggesting(
            "a star stands for one part of a path",
            path.replace("**", "*"),
        ));
    }
    if path.matches('*').count() > MAX_STARS {
        return Err(problem(format!("a path has at most {MAX_STARS} stars")));
    }
    if path.ends_with('/') {
        return Err(problem("this is a directory, not a program"));
    }
    if path
        .split('/')
        .skip(1)
        .any(|part| matches!(part, "" | "." | ".."))
    {
        let parts: Vec<_> = path
            .split('/')
            .filter(|p| !matches!(*p, "" | "."))
            .collect();
        let hint = (!parts.contains(&"..")).then(|| format!("/{}", parts.join("/")));
        return Err(Problem {
            message: "a path has no empty, \".\" or \"..\" parts".into(),
            suggestion: hint,
        });
    }
    Ok(())
}

/// Checks an argument.
///
/// # Errors
///
/// The argument is empty or too long, or contains a star or a control character.
pub fn check_argument(argument: &str) -> Result<(), Problem> {
    check_text(argument, "an argument", MAX_ARGUMENT_BYTES)?;
    no_star(argument, "an argument")
}

/// Checks an application id.
///
/// # Errors
///
/// The id is empty or too long, or contains a star, a slash or a control character.
pub fn check_app(app: &str) -> Result<(), Problem> {
    check_text(app, "an application id", MAX_APP_BYTES)?;
    no_star(app, "an application id")?;
    if app.contains('/') {
        return Err(problem("an application id has no \"/\""));
    }
    if crate::key::escape_app(app).len() > MAX_APP_BYTES {
        return Err(problem(format!(
            "an application id has at most {MAX_APP_BYTES} bytes when escaped"
        )));
    }
    Ok(())
}

/// Checks a command name.
///
/// # Errors
///
/// The name is a path, is empty or too long, or contains a star or a control character.
pub fn check_command(command: &str) -> Result<(), Problem> {
    if let Some((_, name)) = command.rsplit_once('/') {
        return Err(suggesting("a command name is no path", cut(name)));
    }
    check_comm(command, "a command name")?;
    no_star(command, "a command name")
}

/// Checks a kernel thread's name, or its base name with a star at the end.
///
/// # Errors
///
/// The name is empty or too long, or has a star in a wrong place.
pub fn check_kernel_thread(name: &str) -> Result<(), Problem> {
    let Some(base) = name.strip_suffix('*') else {
        check_comm(name, "a kernel thread's name")?;
        return no_star(name, "a kernel thread's name, but for one at its end,");
    };
    check_comm(base, "a kernel thread's name")?;
    no_star(base, "a kernel thread's name, but for one at its end,")?;
    match base.find(|c: char| c.is_ascii_digit() || "/:".contains(c)) {
        Some(0) => Err(problem(
            "a star needs a name before the first digit, \"/\" or \":\"",
        )),
        Some(end) => Err(suggesting(
            "a star stands for what follows from the first digit, \"/\" or \":\" on",
            format!("{}*", &base[..end]),
        )),
        None => Ok(()),
    }
}

/// Checks a domain: a cgroup's path below the cgroup root, such as "media" or "user.slice/media".
/// It is used as a path of directories, so it must not lead elsewhere ("..").
///
/// # Errors
///
/// The path is empty or too long, has too many levels, or has an empty, "." or ".." part.
pub fn check_domain(domain: &str) -> Result<(), Problem> {
    check_text(domain, "a domain", MAX_DOMAIN_BYTES)?;
    let parts: Vec<&str> = domain.split('/').collect();
    if parts.iter().any(|p| matches!(*p, "" | "." | "..")) {
        let clean: Vec<&str> = parts
            .into_iter()
            .filter(|p| !matches!(*p, "" | "." | ".."))
            .collect();
        let message = "a domain is a path without empty parts, \".\" and \"..\"";
        return Err(match clean.as_slice() {
            [] => problem(message),
            _ => suggesting(message, clean.join("/")),
        });
    }
    if parts.len() > MAX_DOMAIN_DEPTH {
        return Err(problem(format!(
            "a domain has at most {MAX_DOMAIN_DEPTH} levels"
        )));
    }
    if let Some(long) = parts.iter().find(|p| p.len() > MAX_DOMAIN_PART_BYTES) {
        return Err(problem(format!(
            "\"{}\" has more than {MAX_DOMAIN_PART_BYTES} bytes",
            crate::diag::shorten(long)
        )));
    }
    Ok(())
}

/// Checks a description, which may be empty.
///
/// # Errors
///
/// The description is too long, or contains a control character.
pub fn check_description(text: &str) -> Result<(), Problem> {
    if text.is_empty() {
        return Ok(());
    }
    check_text(text, "a description", MAX_DESCRIPTION_BYTES)
}

fn check_comm(name: &str, what: &str) -> Result<(), Problem> {
    if name.len() > MAX_COMM_BYTES {
        let message = format!("the kernel keeps {MAX_COMM_BYTES} bytes of {what}");
        return Err(suggesting(message, cut(name)));
    }
    check_text(name, what, MAX_COMM_BYTES)
}

/// The part of a name that the kernel keeps.
fn cut(name: &str) -> String {
    let mut end = name.len().min(MAX_COMM_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name[..end].to_string()
}

fn no_star(text: &str, what: &str) -> Result<(), Problem> {
    if text.contains('*') {
        return Err(problem(format!("{what} has no stars")));
    }
    Ok(())
}

fn check_text(text: &str, what: &str, max: usize) -> Result<(), Problem> {
    if text.is_empty() || text.len() > max {
        return Err(problem(format!("{what} has 1 to {max} bytes")));
    }
    if text.chars().any(|c| c.is_control() || is_invisible(c)) {
        return Err(problem(format!(
            "{what} has no control or invisible characters"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(r: Result<(), Problem>) -> Option<String> {
        r.unwrap_err().suggestion
    }

    #[test]
    fn paths() {
        for good in [
            "/usr/bin/mpv",
            "/opt/a b/[x]?:#\\",
            "/usr/lib/firefox*/firefox",
            "/*/x",
        ] {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "mpv",
            "./mpv",
            "~/mpv",
            "/usr/bin/",
            "/a//b",
            "/a/../b",
            "/a/**/b",
            "/a\0b",
        ] {
            assert!(check_path(bad).is_err(), "{bad}");
        }
        assert!(check_path("/a/*b*/*c*/*").is_err(), "five stars");
        assert!(check_path(&format!("/{}", "x".repeat(4095))).is_err());
        assert_eq!(hint(check_path("mpv")).as_deref(), Some("/usr/bin/mpv"));
        assert_eq!(
            hint(check_path("//usr/./bin/mpv")).as_deref(),
            Some("/usr/bin/mpv")
        );
    }

    #[test]
    fn kernel_threads() {
        for good in [
            "kswapd0",
            "kswapd*",
            "kworker/0:1",
            "jbd2/sda1-8",
            "oom_reaper",
        ] {
            assert_eq!(check_kernel_thread(good), Ok(()), "{good}");
        }
        assert_eq!(hint(check_kernel_thread("jbd2/*")).as_deref(), Some("jbd*"));
        assert_eq!(
            hint(check_kernel_thread("btrfs-transaction")).as_deref(),
            Some("btrfs-transacti")
        );
        for bad in ["", "*", "0*", "a*b", "k*d*"] {
            assert!(check_kernel_thread(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_programs() {
        assert_eq!(
            hint(check_command("/usr/bin/gnome-shell")).as_deref(),
            Some("gnome-shell")
        );
        assert_eq!(
            hint(check_command("gnome-session-binary")).as_deref(),
            Some("gnome-session-b")
        );
        assert_eq!(
            check_app("org.telegram.desktop"),
            Ok(()),
            "a real id, no file name"
        );
        assert!(check_app("a/b").is_err());
        assert!(
            check_app(&"-".repeat(40)).is_err(),
            "160 bytes when escaped"
        );
        assert!(check_argument("*.exe").is_err());
        assert_eq!(hint(check_name("my player")).as_deref(), Some("my_player"));
    }

    #[test]
    fn domains() {
        for good in ["media", "user.slice/user-1000.slice", "a b/\\x2d@:c", "_x"] {
            assert_eq!(check_domain(good), Ok(()), "{good}");
        }
        assert_eq!(check_domain(&["d"; 16].join("/")), Ok(()));
        for bad in ["", "..", "a/../b", "/a/", "a\nb", "a\0", "a\u{202e}b"] {
            assert!(check_domain(bad).is_err(), "{bad:?}");
        }
        assert!(check_domain(&["d"; 17].join("/")).is_err());
        assert!(check_domain(&"x".repeat(256)).is_err());
        assert_eq!(hint(check_domain("/media//x/")).as_deref(), Some("media/x"));
    }

    #[test]
    fn runtime_and_period() {
        let write = |c, t| format!("{}/{}", format_duration(c), format_duration(t));
        let ms = 1_000_000;
        assert_eq!(check_cpu(30 * ms, 30 * ms, write), Ok(()));
        assert_eq!(check_cpu(100_000, ms, write), Ok(()));
        assert_eq!(check_cpu(10_000 * ms, 10_000 * ms, write), Ok(()));
        let e = check_cpu(40 * ms, 30 * ms, write).unwrap_err();
        assert_eq!(e.message, "runtime 40ms exceeds period 30ms");
        assert_eq!(e.suggestion.as_deref(), Some("30ms/40ms"));
        assert!(check_cpu(99_999, ms, write).is_err());
        assert!(check_cpu(ms, 10_001 * ms, write).is_err());
        assert!(check_cpu(100_000, ms - 1, write).is_err());
        assert_eq!(
            check_cpu(20_000 * ms, 30 * ms, write)
                .unwrap_err()
                .suggestion,
            None
        );
    }
}
