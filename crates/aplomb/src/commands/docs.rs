//! `aplomb completions` and `aplomb man`, generated from the definition of the command line.

use std::io::Write;
use std::path::Path;

use anyhow::{Context, Result};
use clap_mangen::roff::{bold, roman, Roff};

use crate::cli::{command, Shell};
use crate::exit::{Exit, HELP};

pub fn completions(shell: Shell) -> Result<Exit> {
    let mut text = Vec::new();
    let shell = match shell {
        Shell::Bash => clap_complete::Shell::Bash,
        Shell::Zsh => clap_complete::Shell::Zsh,
        Shell::Fish => clap_complete::Shell::Fish,
    };
    clap_complete::generate(shell, &mut command(), "aplomb", &mut text);
    std::io::stdout().lock().write_all(&text)?;
    Ok(Exit::Ok)
}

/// Without a folder: prints the main page. With one: writes a page for each command there.
pub fn man(dir: Option<&Path>) -> Result<Exit> {
    match dir {
        None => std::io::stdout().lock().write_all(&page()?)?,
        Some(dir) => {
            let write = |name: &str, text: &[u8]| {
                let file = dir.join(format!("{name}.8"));
                std::fs::write(&file, text).with_context(|| file.display().to_string())
            };
            write("aplomb", &page()?)?;
            for (name, text) in pages_below(&documented(), "aplomb", "aplomb")? {
                write(&name, &text)?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// The command line without its `help` commands, which have no pages: each command has `--help`.
fn documented() -> clap::Command {
    fn without_help(command: clap::Command) -> clap::Command {
        command
            .disable_help_subcommand(true)
            .mut_subcommands(without_help)
    }
    without_help(command())
}

/// The pages of all commands below `parent`, by name: "aplomb-spec", "aplomb-spec-list", ….
fn pages_below(parent: &clap::Command, name: &str, words: &str) -> Result<Vec<(String, Vec<u8>)>> {
    let mut pages = Vec::new();
    for sub in parent.get_subcommands().filter(|s| !s.is_hide_set()) {
        let name = format!("{name}-{}", sub.get_name());
        let words = format!("{words} {}", sub.get_name());
        let mut text = Vec::new();
        clap_mangen::Man::new(sub.clone().display_name(&name).bin_name(&words))
            .title(&name)
            .section("8")
            .manual("aplomb")
            .render(&mut text)?;
        pages.push((name.clone(), text));
        pages.extend(pages_below(sub, &name, &words)?);
    }
    Ok(pages)
}

/// The main page.
fn page() -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(documented())
        .section("8")
        .manual("aplomb");
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_subcommands_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let mut roff = Roff::new();
    roff.control("SH", ["EXIT STATUS"]);
    for code in HELP.lines().skip(1) {
        let (code, meaning) = code.trim().split_once(' ').unwrap_or((code, ""));
        roff.control("TP", ["6"])
            .text([bold(code)])
            .text([roman(meaning.trim())]);
    }
    roff.control("SH", ["FILES"]);
    for (file, what) in FILES {
        roff.control("TP", [])
            .text([bold(file)])
            .text([roman(what)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    let see: Vec<String> = command()
        .get_subcommands()
        .filter(|s| !s.is_hide_set())
        .map(|s| format!("aplomb-{}(8)", s.get_name()))
        .collect();
    roff.text([roman(see.join(", "))]);
    roff.to_writer(&mut text)?;
    Ok(text)
}

const FILES: [(&str, &str); 10] = [
    ("/etc/aplomb/aplomb.toml", "Settings of the daemon."),
    (
        "/usr/lib/aplomb/specs.d/*.toml",
        "Specs that come with aplomb.",
    ),
    (
        "/etc/aplomb/specs.d/*.toml",
        "The administrator's specs; a file of the same name replaces one that comes with aplomb.",
    ),
    (
        "/etc/aplomb/spec.tab",
        "Specs in Redline's form, one a line: path:type:C:T:flags:pi:io.",
    ),
    ("/run/aplomb/specs.d/*.toml", "Specs until the next boot."),
    (
        "NAME.toml.d/*.conf",
        "Drop-ins in any of these folders: their keys replace those of NAME.toml.",
    ),
    ("/run/aplomb/socket", "The daemon's socket."),
    (
        "/run/aplomb/knobs",
        "Settings of the kernel that aplomb has changed, with their old values.",
    ),
    (
        "/run/aplomb/disk",
        "Settings of the kernel's flusher that it has changed during a flood, with their old values.",
    ),
    (
        "/run/aplomb/oom",
        "Scores of processes that it has lowered while memory is short, with their old values.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_what_a_reader_looks_for() {
        let page = String::from_utf8(page().unwrap()).unwrap();
        for words in [
            ".TH aplomb 8",
            "EXIT STATUS",
            "no daemon answers",
            "/etc/aplomb/aplomb.toml",
            "aplomb\\-doctor(8)",
        ] {
            assert!(page.contains(words), "{words}");
        }
    }

    #[test]
    fn every_page_that_a_page_refers_to_exists() {
        let dir = tempfile::tempdir().unwrap();
        man(Some(dir.path())).unwrap();
        let mut references = 0;
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
            let text = text.replace("\\-", "-");
            for (at, _) in text.match_indices("(8)") {
                let begin = text[..at].rfind([' ', '\n', ',']).map_or(0, |i| i + 1);
                let name = &text[begin..at];
                assert!(dir.path().join(format!("{name}.8")).exists(), "{name}");
                references += 1;
            }
        }
        assert!(
            references
                > command()
                    .get_subcommands()
                    .filter(|s| !s.is_hide_set())
                    .count()
        );
        assert!(dir.path().join("aplomb-spec-list.8").exists());
    }
}
