//! `aplomb completions` and `aplomb man`: made from the definition of the command line.

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

pub fn man(dir: Option<&Path>) -> Result<Exit> {
    match dir {
        None => std::io::stdout().lock().write_all(&page()?)?,
        Some(dir) => {
            std::fs::write(dir.join("aplomb.8"), page()?)
                .with_context(|| dir.display().to_string())?;
            for sub in command().get_subcommands().filter(|s| !s.is_hide_set()) {
                let name = format!("aplomb-{}", sub.get_name());
                let mut text = Vec::new();
                let named = sub
                    .clone()
                    .display_name(&name)
                    .bin_name(format!("aplomb {}", sub.get_name()));
                clap_mangen::Man::new(named)
                    .title(&name)
                    .section("8")
                    .manual("aplomb")
                    .render(&mut text)?;
                std::fs::write(dir.join(format!("{name}.8")), text)
                    .with_context(|| dir.display().to_string())?;
            }
        }
    }
    Ok(Exit::Ok)
}

/// The main page.
fn page() -> Result<Vec<u8>> {
    let mut text = Vec::new();
    let man = clap_mangen::Man::new(command())
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

const FILES: [(&str, &str); 7] = [
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
    fn every_command_has_a_page() {
        let dir = tempfile::tempdir().unwrap();
        man(Some(dir.path())).unwrap();
        let pages = std::fs::read_dir(dir.path()).unwrap().count();
        let command = command();
        let shown = command.get_subcommands().filter(|s| !s.is_hide_set());
        assert_eq!(pages, shown.count() + 1);
    }
}
