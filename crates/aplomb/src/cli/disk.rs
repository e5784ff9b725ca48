//! `aplomb disk …`: its commands and options.

use std::time::Duration;

use clap::Subcommand;

use super::domain::over;
use crate::config::check_disk_weight;

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  aplomb disk ls
  sudo aplomb disk class interactive=60 rest=40")]
pub enum DiskCommand {
    /// Show the disks: I/O scheduler, how busy, what is read and written, how long requests take
    #[command(after_help = "Examples:
  aplomb disk ls --over 10s       over the next ten seconds
  aplomb domain ls --disk         which domain it is

Needs neither the daemon nor root. With --json: what each has done so far, and in that time.
Where the daemon counts requests ([disk] order, account), a second table has the device time of each
class: the part of that time in which the disk worked for it.")]
    Ls {
        /// Look at them for so long (0.1s to 1min)
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = over)]
        over: Duration,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show or change the weights of the classes in what domains leave of a disk's time
    #[command(after_help = "Examples:
  aplomb disk class                                  how it is
  sudo aplomb disk class soft-real-time=75 rest=25   until the daemon ends

The classes: soft-real-time (aplomb run --io), interactive (programs with a spec), rest. A domain's
own share is set by `aplomb domain set D io=20%`. For good: [disk] in aplomb.toml.")]
    Class {
        /// A class and its weight, 1 to 10000
        #[arg(value_name = "CLASS=WEIGHT", value_parser = class_weight)]
        weights: Vec<(DiskClass, u32)>,
    },
    /// Change the length of a round, in which each class and domain gets its share of a disk
    #[command(after_help = "Example:\n  sudo aplomb disk round 500ms")]
    Round {
        /// 100ms to 1s
        #[arg(value_name = "TIME", value_parser = super::run::parse_age)]
        length_ns: u64,
    },
    /// Order the requests of a disk again
    #[command(after_help = "Example:\n  sudo aplomb disk start sda")]
    Start {
        /// As in `aplomb disk ls`
        name: String,
    },
    /// Order the requests of a disk no longer, until the daemon ends
    #[command(after_help = "Example:\n  sudo aplomb disk stop sda")]
    Stop {
        /// As in `aplomb disk ls`
        name: String,
    },
}

/// A class of programs at a disk (Cello).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskClass {
    SoftRealTime,
    Interactive,
    Rest,
}

fn class_weight(text: &str) -> Result<(DiskClass, u32), String> {
    let (name, weight) = text
        .split_once('=')
        .ok_or("write CLASS=WEIGHT, such as rest=20")?;
    let class = match name {
        "soft-real-time" => DiskClass::SoftRealTime,
        "interactive" => DiskClass::Interactive,
        "rest" => DiskClass::Rest,
        other => {
            let other = aplomb_spec::shorten(other);
            return Err(format!(
                "\"{other}\" is none of soft-real-time, interactive, rest"
            ));
        }
    };
    let number = weight
        .parse()
        .map_err(|_| format!("\"{}\" is no weight", aplomb_spec::shorten(weight)))?;
    Ok((class, check_disk_weight(number)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_and_its_weight() {
        assert_eq!(class_weight("rest=20"), Ok((DiskClass::Rest, 20)));
        assert_eq!(
            class_weight("soft-real-time=1"),
            Ok((DiskClass::SoftRealTime, 1))
        );
        for (text, words) in [
            ("rest", "CLASS=WEIGHT"),
            ("batch=3", "\"batch\" is none of"),
            ("rest=0", "0 is not between"),
            ("rest=much", "\"much\" is no weight"),
        ] {
            let e = class_weight(text).unwrap_err();
            assert!(e.contains(words), "{e}");
        }
    }
}
