//! A specification while it is read: every field is optional and has its place.
//!
//! Both parsers fill a [`Raw`]. Drop-ins then change it key by key. Finally [`Raw::build`] checks
//! the rules that concern more than one field. So the two formats cannot differ in what they allow.

use crate::diag::{Diagnostic, Place};
use crate::fields::name_for;
use crate::limits::{MAX_GUARANTEED_PPM, MAX_MATCHERS, MAX_PROTECT_S};
use crate::model::{Class, Launch, Matcher, ServerPolicy, Spec};

/// A value and where it was written.
#[derive(Debug, Clone)]
pub struct Field<T> {
    pub value: T,
    pub place: Place,
}

/// An argument, and the interpreter that it belongs to.
#[derive(Debug, Clone)]
pub enum RawArgument {
    /// The argument belongs to every `path` of the spec.
    OfPaths(String),
    /// The argument belongs to the interpreter that is given with it.
    Own { path: String, argument: String },
}

/// One spec as written, not yet complete.
#[derive(Debug, Clone, Default)]
pub struct Raw {
    pub place: Place,
    pub name: Option<Field<String>>,
    pub description: Option<Field<String>>,
    pub class: Option<Field<Class>>,
    /// C and T in ns, both in range.
    pub cpu: Option<Field<(u64, u64)>>,
    pub inherit: Option<Field<bool>>,
    pub revocable: Option<Field<bool>>,
    pub guaranteed: Option<Field<bool>>,
    pub server: Option<Field<Option<ServerPolicy>>>,
    pub launch: Option<Field<Launch>>,
    pub protect: Option<Field<Option<Protect>>>,
    pub memory: Option<Field<Option<u64>>>,
    pub io: Option<Field<Option<u8>>>,
    pub domain: Option<Field<String>>,
    pub path: Option<Field<Vec<String>>>,
    pub argument: Option<Field<Vec<RawArgument>>>,
    pub app: Option<Field<Vec<String>>>,
    pub command: Option<Field<Vec<String>>>,
    pub kernel_thread: Option<Field<Vec<String>>>,
}

/// A protection period as it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Protect {
    Seconds(u32),
    /// So many periods of the reservation (Kato section 6: pages expire after ten).
    Periods(u32),
}

impl Protect {
    /// In whole seconds, rounded up. None: the spec has no period (`period_ns` is 0).
    fn seconds(self, period_ns: u64) -> Option<u32> {
        match self {
            Self::Seconds(s) => Some(s),
            Self::Periods(_) if period_ns == 0 => None,
            Self::Periods(n) => {
                let ns = u64::from(n).saturating_mul(period_ns);
                let seconds = u32::try_from(ns.div_ceil(1_000_000_000)).unwrap_or(u32::MAX);
                Some(seconds.clamp(1, MAX_PROTECT_S))
            }
        }
    }
}

impl Raw {
    /// Applies a drop-in to the spec: each key that the drop-in has replaces the spec's.
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
        put(&mut self.guaranteed, over.guaranteed);
        put(&mut self.server, over.server);
        put(&mut self.launch, over.launch);
        put(&mut self.protect, over.protect);
        put(&mut self.memory, over.memory);
        put(&mut self.io, over.io);
        put(&mut self.domain, over.domain);
        put(&mut self.path, over.path);
        put(&mut self.argument, over.argument);
        put(&mut self.app, over.app);
        put(&mut self.command, over.command);
        put(&mut self.kernel_thread, over.kernel_thread);
    }

    /// The finished spec, and warnings about it.
    ///
    /// # Errors
    ///
    /// Diagnostics: fields that are missing or contradict each other.
    pub fn build(self) -> Result<(Spec, Vec<Diagnostic>), Vec<Diagnostic>> {
        let mut bad = Vec::new();
        let mut warnings = Vec::new();
        let matchers = self.matchers().unwrap_or_else(|d| {
            bad.push(d);
            Vec::new()
        });
        let name = self
            .name
            .as_ref()
            .map(|f| f.value.clone())
            .unwrap_or_else(|| {
                let hint = matchers.first().map(name_for);
                bad.push(
                    Diagnostic::error(&self.place, "the spec has no name")
                        .field("name")
                        .suggest(hint),
                );
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
                bad.push(
                    Diagnostic::error(&self.place, what)
                        .field("cpu")
                        .suggest(Some("5ms/30ms")),
                );
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
        let protect = self.protect.as_ref();
        let protect_s = protect.and_then(|field| {
            let seconds = field.value?.seconds(period_ns);
            if seconds.is_none() {
                let what = "a best-effort program has no period: give a time, such as 30min";
                bad.push(Diagnostic::error(&field.place, what).field("protect"));
            }
            seconds
        });
        let revocable = is_true(&self.revocable);
        bad.extend(self.strength(class, &matchers));
        let anybodys = !matchers.is_empty() && matchers.iter().all(Matcher::is_by_name);
        if class == Class::Interactive && anybodys && !revocable && !is_true(&self.guaranteed) {
            let place = self.revocable.as_ref().map_or(&self.place, |f| &f.place);
            let what =
                "a name can be taken by any program, so a spec found only by argument, app or \
                        command must be revocable";
            bad.push(
                Diagnostic::error(place, what)
                    .field("revocable")
                    .suggest(Some("revocable = true")),
            );
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
            guaranteed: is_true(&self.guaranteed),
            server: self.server.and_then(|f| f.value),
            launch: self.launch.map_or(Launch::Any, |f| f.value),
            protect_s,
            memory: self.memory.and_then(|f| f.value),
            io: self.io.and_then(|f| f.value),
            domain: self.domain.map(|f| f.value),
            matchers,
            origin: self.place,
        };
        Ok((spec, warnings))
    }

    /// Checks what must not be combined with a guarantee (`guaranteed`), a reserve of memory, a
    /// domain, or precedence without limit (`cbs-soft`).
    fn strength(&self, class: Class, matchers: &[Matcher]) -> Vec<Diagnostic> {
        let mut bad = Vec::new();
        let named = matchers.iter().find(|m| m.is_by_name());
        if let (Some(matcher), Some(server)) = (named, &self.server) {
            if server.value == Some(ServerPolicy::CbsSoft) {
                let what =
                    format!("any program can take a name, so {matcher} cannot have this server");
                let d = Diagnostic::error(&server.place, what).field("server");
                bad.push(d.suggest(Some(ServerPolicy::Fcbs.name())));
            }
        }
        if let Some(memory) = self.memory.as_ref().filter(|f| f.value.is_some()) {
            let mut refuse = |what: &str| {
                bad.push(Diagnostic::error(&memory.place, what).field("memory"));
            };
            if class == Class::BestEffort {
                refuse("only interactive programs have a reserve; a domain has one by: aplomb domain set");
            }
            if matchers
                .iter()
                .any(|m| matches!(m, Matcher::KernelThread(_)))
            {
                refuse("kernel threads have no memory of their own");
            }
        }
        if let Some(domain) = &self.domain {
            let mut refuse = |what: String| {
                bad.push(Diagnostic::error(&domain.place, what).field("domain"));
            };
            if let Some(matcher) = named {
                refuse(format!(
                    "any program can take a name, so {matcher} cannot lead into a domain"
                ));
            }
            if matchers
                .iter()
                .any(|m| matches!(m, Matcher::KernelThread(_)))
            {
                refuse("kernel threads stay in the root".into());
            }
            if class == Class::BestEffort {
                refuse("only interactive programs are seen when they start; start this one with: aplomb domain run".into());
            }
        }
        let Some(place) = self
            .guaranteed
            .as_ref()
            .filter(|f| f.value)
            .map(|f| &f.place)
        else {
            return bad;
        };
        let mut refuse = |place, field, what: String, hint| {
            bad.push(Diagnostic::error(place, what).field(field).suggest(hint));
        };
        if class == Class::BestEffort {
            let what = "a best-effort program has no reservation that could be guaranteed";
            refuse(place, "guaranteed", what.into(), None);
        }
        if let Some(matcher) = named {
            let what = format!("any program can take a name, so {matcher} cannot be guaranteed");
            refuse(place, "guaranteed", what, None);
        }
        if let Some(revocable) = self.revocable.as_ref().filter(|f| f.value) {
            let what = "what is guaranteed is never revoked: a spec is one or the other";
            let hint = Some("revocable = false");
            refuse(&revocable.place, "revocable", what.into(), hint);
        }
        if let Some(Field {
            value: (c, t),
            place,
        }) = &self.cpu
        {
            if c * 1_000_000 > t * MAX_GUARANTEED_PPM {
                let percent = MAX_GUARANTEED_PPM / 10_000;
                let what = format!(
                    "at most {percent} % of a CPU can be guaranteed; the rest is best-effort work's"
                );
                refuse(place, "cpu", what, None);
            }
        }
        bad
    }

    /// All matchers, sorted, each once.
    ///
    /// # Errors
    ///
    /// An argument has no interpreter, or there are too many pairs of path and argument.
    fn matchers(&self) -> Result<Vec<Matcher>, Diagnostic> {
        let paths = self.path.as_ref().map_or(&[][..], |f| &f.value);
        let arguments = self.argument.as_ref().map_or(&[][..], |f| &f.value);
        let of_paths = arguments
            .iter()
            .filter(|a| matches!(a, RawArgument::OfPaths(_)))
            .count();
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
                RawArgument::OfPaths(a) => out.extend(paths.iter().map(|p| Matcher::Argument {
                    path: p.clone(),
                    argument: a.clone(),
                })),
                RawArgument::Own { path, argument } => {
                    out.push(Matcher::Argument {
                        path: path.clone(),
                        argument: argument.clone(),
                    });
                }
            }
        }
        let list = |f: &Option<Field<Vec<String>>>| {
            f.as_ref().map(|f| f.value.clone()).unwrap_or_default()
        };
        out.extend(list(&self.app).into_iter().map(Matcher::App));
        out.extend(list(&self.command).into_iter().map(Matcher::Command));
        out.extend(
            list(&self.kernel_thread)
                .into_iter()
                .map(Matcher::KernelThread),
        );
        out.sort();
        out.dedup();
        Ok(out)
    }
}

fn is_true(field: &Option<Field<bool>>) -> bool {
    field.as_ref().is_some_and(|f| f.value)
}
