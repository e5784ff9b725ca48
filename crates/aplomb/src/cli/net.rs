//! `aplomb net …`: its commands and options.

use clap::{Subcommand, ValueEnum};

use crate::protocol::{NetLeaf, MAX_OVERHEAD};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  aplomb net ls
  sudo aplomb net install eth0 --rate 38Mbit
  sudo aplomb domain set media net.weight=300")]
pub enum NetCommand {
    /// Show the interfaces whose packets are ordered, and what each domain sends
    #[command(after_help = "Example:\n  aplomb net ls

The root cgroup (\"/\") stands for all domains together. Delay: how long packets waited here, on
average and at most, since the interface was installed.")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Order the packets of an interface by domain
    #[command(after_help = "Examples:
  sudo aplomb net install eth0                     the interface is the slowest link
  sudo aplomb net install eth0 --rate 38Mbit       a modem behind it sends 40Mbit
  sudo aplomb net install ppp0 --rate 9Mbit --overhead 26
  sudo aplomb net install lo --leaf fifo

An order has an effect only where packets wait. Behind most machines that is in a modem or router:
give a rate a little below its own, so that they wait here. Until the daemon ends; for good: [[net]]
in aplomb.toml. The interface gets its queueing discipline back when the daemon ends in any way.")]
    Install {
        /// As in `ip link`
        interface: String,
        /// Packets leave no faster, such as 40Mbit
        #[arg(long, value_parser = aplomb_spec::parse_rate)]
        rate: Option<u64>,
        /// Bytes that the link adds to each frame
        #[arg(long, value_name = "BYTES", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=MAX_OVERHEAD as i64))]
        overhead: u32,
        /// How packets of one domain are ordered
        #[arg(long, value_enum, default_value_t = Leaf::Fair)]
        leaf: Leaf,
    },
    /// Change the rate of an interface
    #[command(after_help = "Examples:
  sudo aplomb net set eth0 rate=18Mbit
  sudo aplomb net set eth0 rate=none               as fast as the interface takes them
  sudo aplomb net set eth0 rate=9Mbit overhead=26")]
    Set {
        /// As in `ip link`
        interface: String,
        /// rate=RATE, rate=none, overhead=BYTES
        #[arg(value_name = "KEY=VALUE", required = true, value_parser = change)]
        changes: Vec<NetChange>,
    },
    /// Order the packets of an interface no longer: it gets back what it had
    #[command(after_help = "Example:\n  sudo aplomb net remove eth0")]
    Remove {
        /// As in `ip link`
        interface: String,
    },
    /// Wait until standard input ends, then put back what a killed daemon has left
    #[command(hide = true)]
    Keeper {
        /// The daemon's process id
        daemon: u32,
    },
}

/// How the packets of one domain are ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Leaf {
    /// Its flows share what it has; packets of a flow that waits for long are dropped
    Fair,
    /// One queue, of which packets are dropped if it stays long
    Codel,
    /// One queue
    Fifo,
}

impl From<Leaf> for NetLeaf {
    fn from(leaf: Leaf) -> Self {
        match leaf {
            Leaf::Fair => Self::Fair,
            Leaf::Codel => Self::Codel,
            Leaf::Fifo => Self::Fifo,
        }
    }
}

/// A change of an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NetChange {
    /// Bits a second. None: as fast as the interface takes them.
    Rate(Option<u64>),
    Overhead(u32),
}

fn change(text: &str) -> Result<NetChange, String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("a change is written KEY=VALUE, such as rate=40Mbit")?;
    match key {
        "rate" if value == "none" => Ok(NetChange::Rate(None)),
        "rate" => aplomb_spec::parse_rate(value).map(|r| NetChange::Rate(Some(r))),
        "overhead" => {
            let bytes = value.parse().ok().filter(|b| *b <= MAX_OVERHEAD);
            let wrong = || format!("overhead: it is not between 0 and {MAX_OVERHEAD} bytes");
            bytes.map(NetChange::Overhead).ok_or_else(wrong)
        }
        other => {
            let other = aplomb_spec::shorten(other);
            Err(format!("\"{other}\" is none of rate, overhead"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_read() {
        assert_eq!(change("rate=none"), Ok(NetChange::Rate(None)));
        assert_eq!(change("rate=1Mbit"), Ok(NetChange::Rate(Some(1_000_000))));
        assert_eq!(change("overhead=26"), Ok(NetChange::Overhead(26)));
        for text in ["rate", "rate=", "rate=fast", "overhead=257", "mtu=1500"] {
            assert!(change(text).is_err(), "{text}");
        }
    }
}
