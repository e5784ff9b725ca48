//! A specification while it is read: every field optional, each with its place.
//!
//! Both parsers fill a [`Raw`], drop-ins are laid over it key by key, and [`Raw::build`] checks the rules
//! that concern more than one field. So the two formats cannot differ in what they allow.

use crate::diag::{is_invisible, Diagnostic, Place};
use crate::duration::format_duration;
use crate::limits::*;
use crate::model::{Class, Launch, Matcher, Spec};

/// A value and where it was written.
#[derive(Debug, Clone)]
pub struct Field<T> {
    pub value: T,
    pub place: Place,
}

/// An argument with the interpreter it belongs to.
#[derive(Debug, Clone)]
pub enum RawArgument {
    /// Belongs to every `path` of the spec.
    OfPaths(String),
    /// Names its own interpreter.
    Own { path: String, argument: String },
}

/// One spec as written, not yet complete.
#[derive(Debug, Clone, Default)]
pub struct Raw {
    pub place: Place,
    pub name: Option<Field<String>>,
    pub description: Option<Field<String>>,
    pub class: Option<Field<Class>>,
    /// Runtime and period in ns, in range.
    pub cpu: Option<Field<(u64, u64)>>,
    pub inherit: Option<Field<bool>>,
    pub revocable: Option<Field<bool>>,
    pub launch: Option<Field<Launch>>,
    pub protect: Option<Field<Option<u32>>>,
    pub io: Option<Field<Option<u8>>>,
    pub path: Option<Field<Vec<String>>>,
    pub argument: Option<Field<Vec<RawArgument>>>,
    pub app: Option<Field<Vec<String>>>,
    pub command: Option<Field<Vec<String>>>,
    pub kernel_thread: Option<Field<Vec<String>>>,
}

impl Raw {
    /// Lays a drop-in over the spec: the keys that it has replace those that were there.
    pub fn overlay(&mut self, over: Raw) {
        fn put<T>(base: &mut Option<T>, over: Option<T>) {
            if over.is_some() {
                *base = over;
            }
        }
        put(&mut self.description, over.description);
        put(&mut self.class, over.class);
        put(&mut self.cpu, over.cpu);
        put(&mut self.inherit, over.inherit);
        put(&mut self.revocable, over.revocable);
        put(&mut self.launch, over.launch);
        put(&mut self.protect, over.protect);
        put(&mut self.io, over.io);
        put(&mut self.path, over.path);
        put(&mut self.argument, over.argument);
        put(&mut self.app, over.app);
        put(&mut self.command, over.command);
        put(&mut self.kernel_thread, over.kernel_thread);
    }

    /// The finished spec, and warnings about it.
    ///
    /// # Errors
    /// What is missing or contradicts itself.
    pub fn build(self) -> Result<(Spec, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut bad = Vec::new();
        let mut warnings = Vec::new();
        let matchers = self.matchers().unwrap_or_else(|d| {
            bad.push(d);
            Vec::new()
        });
        let name = self.name.as_ref().map(|f| f.value.clone()).unwrap_or_else(|| {
            let hint = matchers.first().map(name_for);
            bad.push(Diagnostic::error(&self.place, "the spec has no name").field("name").suggest(hint));
            String::new()
        });
        if matchers.is_empty() && bad.is_empty() {
            let what = "nothing says which program is meant (path, app, command or kernel-thread)";
            bad.push(Diagnostic::error(&self.place, what).field("path"));
        }
        let class = self.class.as_ref().map_or(Class::Interactive, |f| f.value);
        let (runtime_ns, period_ns) = match (class, &self.cpu) {
            (Class::Interactive, Some(cpu)) => cpu.value,
            (Class::Interactive, None) => {
                let what = "an interactive spec needs a runtime and a period";
                bad.push(Diagnostic::error(&self.place, what).field("cpu").suggest(Some("5ms/30ms")));
                (0, 0)
            }
            (Class::BestEffort, cpu) => {
                if let Some(cpu) = cpu {
                    let what = "best-effort programs have no reservation: ignored";
                    warnings.push(Diagnostic::warning(&cpu.place, what).field("cpu"));
                }
                (0, 0)
            }
        };
        let revocable = is_true(&self.revocable);
        let anybodys = !matchers.is_empty() && matchers.iter().all(Matcher::is_by_name);
        if class == Class::Interactive && anybodys && !revocable {
            let place = self.revocable.as_ref().map_or(&self.place, |f| &f.place);
            let what = "a name can be taken by any program, so a spec found only by argument, app or \
                        command must be revocable";
            bad.push(Diagnostic::error(place, what).field("revocable").suggest(Some("revocable = true")));
        }
        if !bad.is_empty() {
            return Err(bad);
        }
        let spec = Spec {
            name,
            description: self.description.map(|f| f.value).unwrap_or_default(),
            class,
            runtime_ns,
            period_ns,
            inherit: is_true(&self.inherit),
            revocable,
            launch: self.launch.map_or(Launch::Any, |f| f.value),
            protect_s: self.protect.and_then(|f| f.value),
            io: self.io.and_then(|f| f.value),
            matchers,
            origin: self.place,
        };
        Ok((spec, warnings))
    }

    /// All matchers, sorted, each once.
    fn matchers(&self) -> Result<Vec<Matcher>, Diagnostic> {
        let paths = self.path.as_ref().map_or(&[][..], |f| &f.value);
        let arguments = self.argument.as_ref().map_or(&[][..], |f| &f.value);
        let of_paths = arguments.iter().filter(|a| matches!(a, RawArgument::OfPaths(_))).count();
        if let Some(field) = self.argument.as_ref().filter(|_| of_paths > 0) {
            if paths.is_empty() {
                let what = "an argument needs the path of the interpreter that it is given to";
                return Err(Diagnostic::error(&field.place, what).field("path"));
            }
            if paths.len().saturating_mul(of_paths) > MAX_MATCHERS {
                let what = format!("more than {MAX_MATCHERS} pairs of path and argument");
                return Err(Diagnostic::error(&field.place, what).field("argument"));
            }
        }
        let mut out = Vec::new();
        if of_paths == 0 {
            out.extend(paths.iter().cloned().map(Matcher::Path));
        }
        for argument in arguments {
            match argument {
                RawArgument::OfPaths(a) => out.extend(
                    paths.iter().map(|p| Matcher::Argument { path: p.clone(), argument: a.clone() }),
                ),
                RawArgument::Own { path, argument } => {
                    out.push(Matcher::Argument { path: path.clone(), argument: argument.clone() });
                }
            }
        }
        let list = |f: &Option<Field<Vec<String>>>| f.as_ref().map(|f| f.value.clone()).unwrap_or_default();
        out.extend(list(&self.app).into_iter().map(Matcher::App));
        out.extend(list(&self.command).into_iter().map(Matcher::Command));
        out.extend(list(&self.kernel_thread).into_iter().map(Matcher::KernelThread));
        out.sort();
        out.dedup();
        Ok(out)
    }
}

fn is_true(field: &Option<Field<bool>>) -> bool {
    field.as_ref().is_some_and(|f| f.value)
}

/// What is wrong with a value, and what was probably meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    pub message: String,
    pub suggestion: Option<String>,
}

fn problem(message: impl Into<String>) -> Problem {
    Problem { message: message.into(), suggestion: None }
}

fn suggesting(message: impl Into<String>, suggestion: impl Into<String>) -> Problem {
    Problem { message: message.into(), suggestion: Some(suggestion.into()) }
}

/// Checks C and T (ns). The message fits both formats; `write` puts a pair in the format's own form.
pub fn check_cpu(runtime: u64, period: u64, write: impl Fn(u64, u64) -> String) -> Result<(), Problem> {
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
        let swapped = (MIN_PERIOD_NS..=MAX_PERIOD_NS).contains(&runtime); // the period is no shorter
        return Err(if swapped { suggesting(message, write(period, runtime)) } else { problem(message) });
    }
    if runtime < MIN_RUNTIME_NS {
        return Err(problem(format!("runtime {} is below {}", show(runtime), show(MIN_RUNTIME_NS))));
    }
    Ok(())
}

/// Checks a spec's name.
pub fn check_name(name: &str) -> Result<(), Problem> {
    if name.is_empty() || name.len() > MAX_NAME_BYTES {
        return Err(problem(format!("a name has 1 to {MAX_NAME_BYTES} bytes")));
    }
    if name.chars().all(is_name_char) {
        return Ok(());
    }
    Err(suggesting("a name has letters, digits and . _ + @ - only", clean_name(name)))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "._+@-".contains(c)
}

/// `text` with everything that a name may not have replaced, and not too long.
fn clean_name(text: &str) -> String {
    let name: String =
        text.chars().map(|c| if is_name_char(c) { c } else { '_' }).take(MAX_NAME_BYTES).collect();
    if name.is_empty() {
        "spec".to_string()
    } else {
        name
    }
}

/// A name for a spec that has none: the last part of its path, or its other name, without stars.
pub fn name_for(matcher: &Matcher) -> String {
    let text = match matcher {
        Matcher::Path(p) => p.rsplit('/').next().unwrap_or(p),
        Matcher::Argument { argument: t, .. } => t.rsplit('/').next().unwrap_or(t),
        Matcher::App(t) | Matcher::Command(t) | Matcher::KernelThread(t) => t,
    };
    clean_name(&text.replace('*', ""))
}

/// Checks the path of an executable.
pub fn check_path(path: &str) -> Result<(), Problem> {
    check_text(path, "a path", MAX_PATH_BYTES)?;
    if !path.starts_with('/') {
        let hint = if path.contains(['/', '~']) { None } else { Some(format!("/usr/bin/{path}")) };
        return Err(Problem { message: "a path must be absolute".into(), suggestion: hint });
    }
    if path.contains("**") {
        return Err(suggesting("a star stands for one part of a path", path.replace("**", "*")));
    }
    if path.matches('*').count() > MAX_STARS {
        return Err(problem(format!("a path has at most {MAX_STARS} stars")));
    }
    if path.ends_with('/') {
        return Err(problem("this is a directory, not a program"));
    }
    if path.split('/').skip(1).any(|part| matches!(part, "" | "." | "..")) {
        let parts: Vec<_> = path.split('/').filter(|p| !matches!(*p, "" | ".")).collect();
        let hint = (!parts.contains(&"..")).then(|| format!("/{}", parts.join("/")));
        return Err(Problem { message: "a path has no empty, \".\" or \"..\" parts".into(), suggestion: hint });
    }
    Ok(())
}

/// Checks an argument.
pub fn check_argument(argument: &str) -> Result<(), Problem> {
    check_text(argument, "an argument", MAX_ARGUMENT_BYTES)?;
    no_star(argument, "an argument")
}

/// Checks an application id.
pub fn check_app(app: &str) -> Result<(), Problem> {
    check_text(app, "an application id", MAX_APP_BYTES)?;
    no_star(app, "an application id")?;
    if let Some(id) = app.strip_suffix(".desktop").filter(|id| !id.is_empty()) {
        return Err(suggesting("an application id is written without \".desktop\"", id));
    }
    if app.contains('/') {
        return Err(problem("an application id has no \"/\""));
    }
    if crate::key::escape_app(app).len() > MAX_APP_BYTES {
        return Err(problem(format!("an application id has at most {MAX_APP_BYTES} bytes when escaped")));
    }
    Ok(())
}

/// Checks a command name.
pub fn check_command(command: &str) -> Result<(), Problem> {
    if let Some((_, name)) = command.rsplit_once('/') {
        return Err(suggesting("a command name is no path", cut(name)));
    }
    check_comm(command, "a command name")?;
    no_star(command, "a command name")
}

/// Checks a kernel thread's name or starred base name.
pub fn check_kernel_thread(name: &str) -> Result<(), Problem> {
    let Some(base) = name.strip_suffix('*') else {
        check_comm(name, "a kernel thread's name")?;
        return no_star(name, "a kernel thread's name, but for one at its end,");
    };
    check_comm(base, "a kernel thread's name")?;
    no_star(base, "a kernel thread's name, but for one at its end,")?;
    match base.find(|c: char| c.is_ascii_digit() || "/:".contains(c)) {
        Some(0) => Err(problem("a star needs a name before the first digit, \"/\" or \":\"")),
        Some(end) => Err(suggesting(
            "a star stands for what follows from the first digit, \"/\" or \":\" on",
            format!("{}*", &base[..end]),
        )),
        None => Ok(()),
    }
}

/// Checks a description.
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

/// The bytes that the kernel keeps of a name.
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
        return Err(problem(format!("{what} has no control or invisible characters")));
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
        for good in ["/usr/bin/mpv", "/opt/a b/[x]?:#\\", "/usr/lib/firefox*/firefox", "/*/x"] {
            assert_eq!(check_path(good), Ok(()), "{good}");
        }
        for bad in ["", "mpv", "./mpv", "~/mpv", "/usr/bin/", "/a//b", "/a/../b", "/a/**/b", "/a\0b"] {
            assert!(check_path(bad).is_err(), "{bad}");
        }
        assert!(check_path("/a/*b*/*c*/*").is_err(), "five stars");
        assert!(check_path(&format!("/{}", "x".repeat(4095))).is_err());
        assert_eq!(hint(check_path("mpv")).as_deref(), Some("/usr/bin/mpv"));
        assert_eq!(hint(check_path("//usr/./bin/mpv")).as_deref(), Some("/usr/bin/mpv"));
    }

    #[test]
    fn kernel_threads() {
        for good in ["kswapd0", "kswapd*", "kworker/0:1", "jbd2/sda1-8", "oom_reaper"] {
            assert_eq!(check_kernel_thread(good), Ok(()), "{good}");
        }
        assert_eq!(hint(check_kernel_thread("jbd2/*")).as_deref(), Some("jbd*"));
        assert_eq!(hint(check_kernel_thread("btrfs-transaction")).as_deref(), Some("btrfs-transacti"));
        for bad in ["", "*", "0*", "a*b", "k*d*"] {
            assert!(check_kernel_thread(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn names_of_programs() {
        assert_eq!(hint(check_command("/usr/bin/gnome-shell")).as_deref(), Some("gnome-shell"));
        assert_eq!(hint(check_command("gnome-session-binary")).as_deref(), Some("gnome-session-b"));
        assert_eq!(hint(check_app("org.gnome.Totem.desktop")).as_deref(), Some("org.gnome.Totem"));
        assert!(check_app("a/b").is_err());
        assert!(check_app(&"-".repeat(40)).is_err(), "160 bytes when escaped");
        assert!(check_argument("*.exe").is_err());
        assert_eq!(hint(check_name("my player")).as_deref(), Some("my_player"));
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
        assert_eq!(check_cpu(20_000 * ms, 30 * ms, write).unwrap_err().suggestion, None);
    }
}
