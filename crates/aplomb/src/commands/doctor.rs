//! `aplomb doctor`.

use std::io::IsTerminal;

use anyhow::Result;
use aplomb_kernel::facts::{Fact, Level, Machine};

use super::{line, print_json};
use crate::config::Config;
use crate::exit::Exit;

pub fn doctor(json: bool) -> Result<Exit> {
    // A configuration that is wrong says nothing here. The daemon names the error.
    let config = Config::load(None).unwrap_or_default();
    let facts = Machine::here().facts(&config.kernel.cpu_capacities);
    if json {
        print_json(&facts)?;
    } else {
        line(text(&facts, std::io::stdout().is_terminal()).trim_end())?;
    }
    Ok(verdict(&facts))
}

fn verdict(facts: &[Fact]) -> Exit {
    let fails = |name: &str| {
        facts
            .iter()
            .any(|f| f.name == name && f.level == Level::Fail)
    };
    match facts.iter().filter(|f| f.level == Level::Fail).count() {
        0 => Exit::Ok,
        1 if fails("scheduler") => Exit::Busy,
        _ => Exit::Unsupported,
    }
}

fn text(facts: &[Fact], colours: bool) -> String {
    let width = facts.iter().map(|f| f.name.len()).max().unwrap_or(0);
    let mut out = String::new();
    for f in facts {
        let (word, colour) = match f.level {
            Level::Ok => ("ok  ", "32"),
            Level::Warn => ("warn", "33"),
            Level::Fail => ("FAIL", "31"),
        };
        let word = if colours {
            format!("\x1b[{colour}m{word}\x1b[0m")
        } else {
            word.into()
        };
        out += &format!("{word}  {:<width$}  {}\n", f.name, f.found);
        for (label, text) in [("why", &f.why), ("do", &f.change)] {
            if !text.is_empty() {
                out += &format!("      {:<width$}  {label}: {text}\n", "");
            }
        }
    }
    out += match verdict(facts) {
        Exit::Ok => "\naplomb can run here\n",
        Exit::Busy => "\naplomb can run here once the other scheduler is stopped\n",
        _ => "\naplomb cannot run here as it is\n",
    };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(name: &str, level: Level) -> Fact {
        let text = |t: &str| {
            if level == Level::Ok {
                String::new()
            } else {
                t.into()
            }
        };
        Fact {
            name: name.into(),
            level,
            found: "found".into(),
            why: text("because"),
            change: text("change it"),
        }
    }

    #[test]
    fn the_verdict_is_that_of_the_worst() {
        let ok = [fact("a", Level::Ok), fact("b", Level::Warn)];
        assert_eq!(verdict(&ok), Exit::Ok);
        assert!(
            text(&ok, false)
                .contains("warn  b  found\n         why: because\n         do: change it\n"),
            "{}",
            text(&ok, false)
        );
        assert_eq!(verdict(&[fact("scheduler", Level::Fail)]), Exit::Busy);
        let bad = [fact("scheduler", Level::Fail), fact("btf", Level::Fail)];
        assert_eq!(verdict(&bad), Exit::Unsupported);
        assert!(!text(&bad, false).contains('\x1b'));
        assert!(text(&bad, true).contains("\x1b[31mFAIL"));
    }
}
