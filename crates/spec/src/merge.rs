//! Makes one set of many files: each name and each matcher belongs to one spec, that of the highest
//! precedence.

use crate::diag::{Diagnostic, Place, Severity};
use crate::limits::MAX_MATCHERS;
use crate::model::{Matcher, Spec};
use crate::tab::Names;
use std::collections::{BTreeMap, HashMap};

/// A spec, and whether its name was generated (spec.tab has no names). A spec with a generated name
/// does not replace others by name.
pub struct Candidate {
    pub spec: Spec,
    pub nameless: bool,
}

/// Merges specs, which are given in order of increasing precedence. A later spec takes over
/// matchers that it shares with earlier ones. It replaces an earlier spec with the same name as a
/// whole. A spec without any matcher left is removed.
pub fn merge(candidates: Vec<Candidate>) -> (Vec<Spec>, Vec<Diagnostic>) {
    let mut diags = Vec::new();
    let mut kept: BTreeMap<usize, Candidate> = BTreeMap::new();
    let mut by_name: HashMap<String, usize> = HashMap::new();
    let mut owner: HashMap<Matcher, usize> = HashMap::new();
    for (index, new) in candidates.into_iter().enumerate() {
        let fresh = new
            .spec
            .matchers
            .iter()
            .filter(|m| !owner.contains_key(m))
            .count();
        if owner.len() + fresh > MAX_MATCHERS {
            let what = format!(
                "\"{}\" is left out: more than {MAX_MATCHERS} matchers in all",
                new.spec.name
            );
            diags.push(Diagnostic::error(&new.spec.origin, what));
            continue;
        }
        if !new.nameless {
            if let Some(old) = by_name
                .insert(new.spec.name.clone(), index)
                .and_then(|i| kept.remove(&i))
            {
                let what = format!("this \"{}\" replaces another", new.spec.name);
                diags.push(replaced(&new.spec.origin, &old.spec.origin, what));
                for matcher in &old.spec.matchers {
                    owner.remove(matcher);
                }
            }
        }
        for matcher in &new.spec.matchers {
            let Some(i) = owner.insert(matcher.clone(), index) else {
                continue;
            };
            let Some(old) = kept.get_mut(&i) else {
                continue;
            };
            let what = format!(
                "\"{}\" takes {matcher} over from \"{}\"",
                new.spec.name, old.spec.name
            );
            diags.push(replaced(&new.spec.origin, &old.spec.origin, what));
            old.spec.matchers.retain(|m| m != matcher);
            if old.spec.matchers.is_empty() {
                if let Some(gone) = kept.remove(&i).filter(|c| !c.nameless) {
                    by_name.remove(&gone.spec.name);
                }
            }
        }
        kept.insert(index, new);
    }
    (named(kept.into_values().collect()), diags)
}

/// Changes generated names that are already taken.
fn named(mut kept: Vec<Candidate>) -> Vec<Spec> {
    let mut names = Names::default();
    kept.iter()
        .filter(|c| !c.nameless)
        .for_each(|c| drop(names.take(&c.spec.name)));
    kept.iter_mut()
        .filter(|c| c.nameless)
        .for_each(|c| c.spec.name = names.take(&c.spec.name));
    kept.into_iter().map(|c| c.spec).collect()
}

/// The diagnostic about a spec that loses to another. Between directories this is how overriding
/// works (a note). Within one directory it is hardly intended (a warning).
fn replaced(winner: &Place, loser: &Place, what: String) -> Diagnostic {
    let together = winner.file.parent() == loser.file.parent();
    let severity = if together {
        Severity::Warning
    } else {
        Severity::Note
    };
    Diagnostic::new(severity, winner, what).also(loser)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn of(file: &str, text: &str) -> Vec<Candidate> {
        let nameless = file.ends_with(".tab");
        let parse = if nameless {
            crate::tab::parse
        } else {
            crate::toml_format::parse
        };
        let (specs, diags) = parse(Path::new(file), text.as_bytes());
        assert_eq!(diags, []);
        specs
            .into_iter()
            .map(|spec| Candidate { spec, nameless })
            .collect()
    }

    fn spec(name: &str, paths: &str) -> String {
        format!("[[spec]]\nname = '{name}'\npath = {paths}\ncpu = '1ms/10ms'\n")
    }

    fn shape(specs: &[Spec]) -> Vec<(String, usize)> {
        specs
            .iter()
            .map(|s| (s.name.clone(), s.matchers.len()))
            .collect()
    }

    #[test]
    fn a_later_spec_takes_matchers_over() {
        let mut all = of("/v/a.toml", &spec("a", "['/x', '/y']"));
        all.extend(of("/e/b.toml", &spec("b", "'/x'")));
        let (specs, diags) = merge(all);
        assert_eq!(shape(&specs), [("a".into(), 1), ("b".into(), 1)]);
        assert_eq!(
            diags[0].to_string(),
            "/e/b.toml:1:1: note: \"b\" takes path \"/x\" over from \"a\" (see /v/a.toml:1:1)"
        );
    }

    #[test]
    fn nothing_left_or_same_name_goes() {
        let mut all = of(
            "/v/a.toml",
            &(spec("a", "'/x'") + &spec("c", "['/p', '/q']")),
        );
        all.extend(of("/v/b.toml", &(spec("b", "'/x'") + &spec("c", "'/q'"))));
        let (specs, diags) = merge(all);
        assert_eq!(shape(&specs), [("b".into(), 1), ("c".into(), 1)]);
        assert_eq!(
            diags.iter().map(|d| d.severity).collect::<Vec<_>>(),
            [Severity::Warning; 2]
        );
    }

    #[test]
    fn a_line_does_not_replace_by_its_made_up_name() {
        let mut all = of("/v/a.toml", &spec("mpv", "['/usr/bin/mpv', '/opt/mpv']"));
        all.extend(of("/e/spec.tab", "/usr/bin/mpv:iact:5:30:-\n"));
        let (specs, _) = merge(all);
        assert_eq!(shape(&specs), [("mpv".into(), 1), ("mpv-2".into(), 1)]);
        let mut all = of("/v/a.toml", &spec("mpv", "'/usr/bin/mpv'"));
        all.extend(of("/e/spec.tab", "/usr/bin/mpv:iact:5:30:-\n"));
        assert_eq!(shape(&merge(all).0), [("mpv".into(), 1)]);
    }

    #[test]
    fn the_limit_refuses_what_is_over() {
        let lines: String = (0..MAX_MATCHERS)
            .map(|i| format!("/p/{i}:iact:1:10:-\n"))
            .collect();
        let mut all = of("/e/spec.tab", &lines);
        all.extend(of("/r/new.toml", &spec("new", "'/one/more'")));
        all.extend(of("/r/same.toml", &spec("same", "'/p/7'")));
        let (specs, diags) = merge(all);
        assert_eq!(
            specs.iter().map(|s| s.matchers.len()).sum::<usize>(),
            MAX_MATCHERS
        );
        let errors: Vec<_> = diags
            .iter()
            .filter(|d| d.is_error())
            .map(|d| d.to_string())
            .collect();
        assert_eq!(
            errors,
            ["/r/new.toml:1:1: \"new\" is left out: more than 8192 matchers in all"]
        );
        assert!(
            specs.iter().any(|s| s.name == "same"),
            "taking over what is there fits"
        );
    }
}
