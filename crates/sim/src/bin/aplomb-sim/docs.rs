//! `aplomb-sim completions` and `aplomb-sim man`, from the definition of the command line.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{command, print};

pub const COMPLETIONS_EXAMPLES: &str = "\
Example:
  aplomb-sim completions bash > /usr/share/bash-completion/completions/aplomb-sim";

pub const MAN_EXAMPLES: &str = "\
Examples:
  aplomb-sim man | man -l -
  sudo aplomb-sim man --dir /usr/local/share/man/man1   one page for each command";

#[derive(clap::Args)]
pub struct ManArgs {
    /// Write one page for each command into this folder instead
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub fn completions(shell: clap_complete::Shell) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command(), "aplomb-sim", &mut text);
    print(&String::from_utf8(text)?)
}

pub fn man(args: &ManArgs) -> Result<()> {
    let Some(dir) = &args.dir else {
        return print(&page("aplomb-sim", command())?);
    };
    write(dir, "aplomb-sim", command())?;
    for sub in command().get_subcommands().filter(|s| !s.is_hide_set()) {
        let name = format!("aplomb-sim-{}", sub.get_name());
        let spoken = format!("aplomb-sim {}", sub.get_name());
        write(dir, &name, sub.clone().display_name(&name).bin_name(spoken))?;
    }
    Ok(())
}

fn write(dir: &Path, name: &str, command: clap::Command) -> Result<()> {
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page(name, command)?).with_context(|| path.display().to_string())
}

fn page(name: &str, command: clap::Command) -> Result<String> {
    let mut text = Vec::new();
    let page = clap_mangen::Man::new(command.disable_help_subcommand(true))
        .title(name)
        .section("1")
        .manual("aplomb");
    page.render(&mut text)?;
    Ok(String::from_utf8(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_page_that_the_main_page_refers_to_is_written() {
        let main = page("aplomb-sim", command()).unwrap();
        assert!(main.contains(".TH aplomb-sim 1"), "{main}");
        let dir = tempfile::tempdir().unwrap();
        man(&ManArgs {
            dir: Some(dir.path().into()),
        })
        .unwrap();
        let mut pages = 1;
        for sub in command().get_subcommands().filter(|s| !s.is_hide_set()) {
            let name = format!("aplomb-sim-{}", sub.get_name());
            assert!(
                main.contains(&format!("{}(1)", name.replace('-', "\\-"))),
                "{name}: {main}"
            );
            assert!(dir.path().join(name + ".1").exists());
            pages += 1;
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), pages);
        assert!(!main.contains("worker"), "a hidden command has no page");
    }
}
