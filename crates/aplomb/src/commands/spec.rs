//! `aplomb spec`: lists the specs in force, and checks and changes their files.
//!
//! The command changes files with its caller's own rights. The daemon writes nothing but its lock
//! and socket. It sees the change, or gets a request to reload.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use aplomb_spec::{
    check_files, format_duration, toml_format, Class, Dirs, Launch, LoadOptions, MountTable,
    Resolver, Spec,
};
use serde_json::json;

use super::table::{self, table};
use super::{line, print_json, unexpected};
use crate::client::Client;
use crate::config::percent;
use crate::exit::{Exit, Failure};
use crate::protocol::{Answer, Ask, SpecLine};
use tracing::info;

fn in_force(socket: &Path) -> Result<Vec<SpecLine>> {
    match Client::connect(socket)?.call(Ask::Specs {})? {
        Answer::Specs(specs) => Ok(specs),
        _ => Err(unexpected()),
    }
}

pub fn list(socket: &Path, json: bool) -> Result<Exit> {
    let mut specs = in_force(socket)?;
    if json {
        print_json(&specs)?;
        return Ok(Exit::Ok);
    }
    specs.sort_by(|a, b| a.spec.name.cmp(&b.spec.name));
    line(listed(&specs).trim_end())?;
    Ok(Exit::Ok)
}

/// The table of specs. So that its lines fit in a terminal, the directory from which most specs
/// come is named once, below it.
fn listed(specs: &[SpecLine]) -> String {
    let mut dirs: BTreeMap<&Path, usize> = BTreeMap::new();
    for dir in specs.iter().filter_map(|s| s.spec.origin.file.parent()) {
        *dirs.entry(dir).or_default() += 1;
    }
    let usual = dirs.iter().max_by_key(|(_, n)| **n).map(|(dir, _)| *dir);
    let mut table = table(&["name", "C/T", "flags", ">here", "from"]);
    for s in specs {
        let file = &s.spec.origin.file;
        let shown = match file.file_name() {
            Some(name) if file.parent() == usual => Path::new(name),
            _ => file,
        };
        table.add_row(vec![
            s.spec.name.clone(),
            cpu(&s.spec),
            letters(&s.spec),
            s.rows.to_string(),
            shown.display().to_string(),
        ]);
    }
    let mut out = table::text(&table);
    if let Some(dir) = usual {
        let (n, dir) = (specs.len(), dir.display());
        out += &format!("\n{n} specs; files without a directory are in {dir}\n");
        out += "here: how many files and names of this machine it means (aplomb spec show NAME)\n";
    }
    out
}

pub fn show(socket: &Path, name: &str, json: bool) -> Result<Exit> {
    let specs = in_force(socket)?;
    let Some(found) = specs.iter().find(|s| s.spec.name == name) else {
        return Err(Failure::new(
            Exit::Failure,
            format!("no spec \"{name}\" is in force; see aplomb spec list"),
        )
        .into());
    };
    if json {
        print_json(found)?;
        return Ok(Exit::Ok);
    }
    line(format!("# {}", found.spec.origin))?;
    line(toml_format::print(&found.spec).trim_end())?;
    line(format!("# {} matchers on this machine", found.rows))?;
    for file in &found.files {
        line(format!("#   {file}"))?;
    }
    for why in &found.weak {
        line(format!(
            "# weak: {why}; so revocable, neither guaranteed nor cbs-soft, and in no domain"
        ))?;
    }
    Ok(Exit::Ok)
}

pub fn check(files: &[PathBuf], json: bool) -> Result<Exit> {
    let paths: Vec<&Path> = files.iter().map(PathBuf::as_path).collect();
    let machine = Resolver::new("/".as_ref()).ok();
    let checked = check_files(&paths, machine.as_ref());
    if json {
        print_json(
            &json!({ "ok": !checked.has_errors(), "specs": checked.specs, "diagnostics": checked.diagnostics }),
        )?;
    } else {
        for d in &checked.diagnostics {
            line(d)?;
        }
        if !checked.has_errors() {
            line(format!("{} specs, all right", checked.specs.len()))?;
        }
    }
    Ok(if checked.has_errors() {
        Exit::Usage
    } else {
        Exit::Ok
    })
}

pub fn add(socket: &Path, file: &Path, runtime: bool) -> Result<Exit> {
    let checked = check_files(&[file], None::<&Resolver<MountTable>>);
    for d in &checked.diagnostics {
        info!("{d}");
    }
    if checked.has_errors() || checked.specs.is_empty() {
        let why = if checked.has_errors() {
            "it has errors"
        } else {
            "there is no spec in it"
        };
        return Err(Failure::new(
            Exit::Usage,
            format!("{} is not added: {why}", file.display()),
        )
        .into());
    }
    let dirs = Dirs::system();
    let dir = if runtime { &dirs.runtime } else { &dirs.etc };
    let name = file
        .file_stem()
        .context("a file has a name")?
        .to_string_lossy();
    let text = if file.extension() == Some("toml".as_ref()) {
        fs::read_to_string(file).with_context(|| file.display().to_string())?
    } else {
        // The file is in Redline's form: print the same specs as TOML.
        checked
            .specs
            .iter()
            .map(toml_format::print)
            .collect::<Vec<_>>()
            .join("\n")
    };
    put(socket, &dirs, &dir.join(format!("{name}.toml")), &text)
}

pub fn remove(socket: &Path, name: &str) -> Result<Exit> {
    let dirs = Dirs::system();
    let set = aplomb_spec::load(&dirs, &LoadOptions::default());
    let Some(spec) = set.get(name) else {
        return Err(Failure::new(
            Exit::Failure,
            format!("there is no spec \"{name}\"; see aplomb spec list"),
        )
        .into());
    };
    let file: &Path = &spec.origin.file;
    let own = file.starts_with(&dirs.etc) || file.starts_with(&dirs.runtime);
    if own && file.extension() == Some("toml".as_ref()) {
        let others = set
            .specs
            .iter()
            .filter(|s| s.origin.file == spec.origin.file)
            .count()
            - 1;
        if others > 0 {
            let message = format!(
                "{} has {others} other specs: take \"{name}\" out of it in an editor",
                spec.origin
            );
            return Err(Failure::new(Exit::Failure, message).into());
        }
        fs::remove_file(file).map_err(|e| denied(e, file))?;
        line(format!("removed {}", file.display()))?;
        return reload_daemon(socket);
    }
    if !file.starts_with(&dirs.vendor) {
        let message = format!("take \"{name}\" out of {} in an editor", spec.origin);
        return Err(Failure::new(Exit::Failure, message).into());
    }
    // A shipped spec stays as it is. A best-effort spec of the same name overrides it.
    let off = Spec {
        class: Class::BestEffort,
        runtime_ns: 0,
        period_ns: 0,
        inherit: false,
        guaranteed: false,
        server: None,
        launch: Launch::Any,
        protect_s: None,
        memory: None,
        io: None,
        domain: None,
        ..spec.clone()
    };
    let text = format!("# \"{name}\" was taken out of force by aplomb spec remove; delete this file to have it back\n{}", toml_format::print(&off));
    put(
        socket,
        &dirs,
        &dirs.etc.join(format!("removed-{name}.toml")),
        &text,
    )
}

/// Write a new file of specs, completely or not at all. If the set has an error with it, remove it
/// again.
fn put(socket: &Path, dirs: &Dirs, target: &Path, text: &str) -> Result<Exit> {
    if target.exists() {
        let message = format!("{} exists already; edit or remove it", target.display());
        return Err(Failure::new(Exit::Failure, message).into());
    }
    write_new(target, text).map_err(|e| denied(e, target))?;
    let errors: Vec<String> = aplomb_spec::load(dirs, &LoadOptions::default())
        .diagnostics
        .iter()
        .filter(|d| d.is_error() && *d.place.file == *target)
        .map(ToString::to_string)
        .collect();
    if !errors.is_empty() {
        fs::remove_file(target).with_context(|| target.display().to_string())?;
        return Err(Failure::new(
            Exit::Usage,
            format!("nothing is added:\n{}", errors.join("\n")),
        )
        .into());
    }
    line(format!("wrote {}", target.display()))?;
    reload_daemon(socket)
}

fn write_new(target: &Path, text: &str) -> std::io::Result<()> {
    let dir = target.parent().unwrap_or(Path::new("/"));
    fs::create_dir_all(dir)?;
    // The loader does not read files of this name. The file gets its real name when it is whole.
    let partial = target.with_extension(format!("new-{}", std::process::id()));
    let written = fs::File::create_new(&partial).and_then(|mut f| {
        f.write_all(text.as_bytes())?;
        f.sync_all()
    });
    // A link fails if another process has just created the target. A rename would replace it.
    let result = written.and_then(|()| fs::hard_link(&partial, target));
    let _ = fs::remove_file(&partial);
    result
}

fn denied(error: std::io::Error, path: &Path) -> anyhow::Error {
    let exit = match error.kind() {
        std::io::ErrorKind::PermissionDenied => Exit::Permission,
        _ => Exit::Failure,
    };
    Failure::new(exit, format!("{}: {error}", path.display())).into()
}

/// Have a running daemon read the specs again at once, and print its answer.
fn reload_daemon(socket: &Path) -> Result<Exit> {
    match Client::connect(socket) {
        Err(_) => line("no daemon is running: it holds from the next start on")?,
        Ok(mut client) => {
            if let Answer::Done(text) = client.call(Ask::Reload {})? {
                line(format!("in force: {text}"))?;
            }
        }
    }
    Ok(Exit::Ok)
}

fn cpu(spec: &Spec) -> String {
    if spec.class == Class::BestEffort {
        return "best-effort".into();
    }
    let (c, t) = (
        format_duration(spec.runtime_ns),
        format_duration(spec.period_ns),
    );
    let server = spec.server.map_or(String::new(), |s| format!(" {s}"));
    format!("{c}/{t} ({}){server}", percent(spec.bandwidth_ppm()))
}

fn letters(spec: &Spec) -> String {
    let flags = [
        (spec.inherit, 'I'),
        (spec.revocable, 'R'),
        (spec.launch == Launch::Interactive, 'P'),
        (spec.guaranteed, 'G'),
    ];
    let letters: String = flags
        .iter()
        .filter(|(set, _)| *set)
        .map(|(_, letter)| letter)
        .collect();
    if letters.is_empty() {
        "-".into()
    } else {
        letters
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_tells_flags_and_server() {
        let text = "[[spec]]\nname = 'x'\npath = '/x'\ncpu = '25ms/41ms'\nguaranteed = true\ninherit = true\n\
                    launch = 'interactive'\nserver = 'cbs-hard'\n[[spec]]\nname = 'y'\npath = '/y'\ncpu = '5ms/30ms'";
        let (specs, diagnostics) = toml_format::parse(Path::new("t"), text.as_bytes());
        assert_eq!(diagnostics, []);
        assert_eq!(
            (letters(&specs[0]), cpu(&specs[0])),
            ("IPG".into(), "25ms/41ms (61 %) cbs-hard".into())
        );
        assert_eq!(
            (letters(&specs[1]), cpu(&specs[1])),
            ("-".into(), "5ms/30ms (16.7 %)".into())
        );
    }

    #[test]
    fn the_list_of_all_shipped_specs_fits_in_a_terminal() {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../specs");
        let mut specs = Vec::new();
        for file in fs::read_dir(shipped).unwrap().map(|f| f.unwrap().path()) {
            let installed =
                Path::new("/usr/local/lib/aplomb/specs.d").join(file.file_name().unwrap());
            if file.extension() == Some("toml".as_ref()) {
                let (of_file, _) = toml_format::parse(&installed, &fs::read(&file).unwrap());
                specs.extend(of_file);
            }
        }
        let own = Path::new("/etc/aplomb/specs.d/own.toml");
        let (of_file, _) = toml_format::parse(
            own,
            b"[[spec]]\nname = 'own'\npath = '/x'\ncpu = '5ms/30ms'",
        );
        specs.extend(of_file);
        let lines: Vec<_> = specs
            .into_iter()
            .map(|spec| SpecLine {
                spec,
                files: vec![],
                rows: 12,
                weak: vec![],
            })
            .collect();
        assert!(lines.len() > 200, "{}", lines.len());
        let text = listed(&lines);
        let width = |l: &&str| l.chars().count();
        let shipped = text.lines().filter(|l| !l.starts_with("own "));
        let widest = shipped.max_by_key(width).unwrap();
        assert!(width(&widest) <= 80, "{widest}");
        let of_own = text.lines().find(|l| l.starts_with("own ")).unwrap();
        assert!(
            of_own.ends_with(" /etc/aplomb/specs.d/own.toml"),
            "{of_own}"
        );
        assert!(
            text.contains("are in /usr/local/lib/aplomb/specs.d\n"),
            "{text}"
        );
    }

    #[test]
    fn new_files_are_whole_and_replace_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("specs.d/mine.toml");
        write_new(&target, "one").unwrap();
        assert!(write_new(&target, "two").is_err());
        assert_eq!(fs::read_to_string(&target).unwrap(), "one");
        assert_eq!(
            fs::read_dir(target.parent().unwrap()).unwrap().count(),
            1,
            "nothing is left over"
        );
    }
}
