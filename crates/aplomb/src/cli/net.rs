//! `aplomb net …`: its commands and options.

use aplomb_domain::{DomainPath, QueueChange, QueuePath};
use clap::{Subcommand, ValueEnum};

use crate::protocol::{NetLeaf, MAX_OVERHEAD};

#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  aplomb net ls
  sudo aplomb net install eth0 --rate 38Mbit
  sudo aplomb domain set media net.weight=300
  sudo aplomb net queue media:voice weight=300 priority=6")]
pub enum NetCommand {
    /// Show the interfaces whose packets are ordered, and what each domain sends
    #[command(after_help = "Example:\n  aplomb net ls

The root cgroup (\"/\") stands for all domains together. Delay: how long packets waited here, on
average and at most, since the interface was installed. \"/media:voice\" is media's queue voice;
media's own numbers include it.")]
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
    /// Create or change a queue: a part of what a domain's own processes send, with its own weight
    #[command(after_help = "Examples:
  sudo aplomb net queue media:voice weight=300 priority=6    of sockets with SO_PRIORITY 6
  sudo aplomb net queue media:voice mark=0x10                and of those with SO_MARK 0x10
  sudo aplomb net queue media:voice priority=none
  sudo aplomb net queue media:voice --remove

The last \":\" divides domain and queue. The queue shares with the domain's other packets (weight
100) and the domains below it. An attached socket (aplomb net attach) goes before a mark, and a mark
before a priority. Packets of other domains never come to it.")]
    Queue {
        /// DOMAIN:QUEUE, such as media:voice
        queue: QueuePath,
        /// weight=1..10000, priority=N, mark=N; priority=none, mark=none
        #[arg(value_name = "KEY=VALUE")]
        changes: Vec<QueueChange>,
        /// Remove it: its packets are the domain's own again
        #[arg(long, conflicts_with = "changes")]
        remove: bool,
    },
    /// Attach sockets of a running process to a queue of its domain
    #[command(after_help = "Examples:
  sudo aplomb net attach media:voice 1234      all of its sockets, not those that it makes later
  sudo aplomb net attach media:voice 1234:7    the one with file descriptor 7

The sockets get a priority (SO_PRIORITY) of aplomb's. They keep it until they are closed or
detached, also when aplomb ends.")]
    Attach {
        /// DOMAIN:QUEUE, such as media:voice
        queue: QueuePath,
        /// A process, and one of its file descriptors
        #[arg(value_name = "PID[:FD]", value_parser = sockets)]
        sockets: SocketsOf,
    },
    /// Detach sockets of a running process: their priority is 0 again
    #[command(
        after_help = "Examples:\n  sudo aplomb net detach 1234\n  sudo aplomb net detach 1234:7"
    )]
    Detach {
        /// A process, and one of its file descriptors
        #[arg(value_name = "PID[:FD]", value_parser = sockets)]
        sockets: SocketsOf,
    },
    /// Move a queue, with its weight and what it takes, to another domain
    #[command(after_help = "Example:
  sudo aplomb net move media:voice calls       it is calls:voice then

It takes packets of that domain's processes from then on. Attached sockets stay in their domain.")]
    Move {
        /// DOMAIN:QUEUE, such as media:voice
        queue: QueuePath,
        /// The other domain
        domain: DomainPath,
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

/// All sockets of a process, or the one with a file descriptor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SocketsOf {
    pub pid: i32,
    pub descriptor: Option<i32>,
}

fn sockets(text: &str) -> Result<SocketsOf, String> {
    let (pid, descriptor) = match text.split_once(':') {
        Some((pid, descriptor)) => (pid, Some(descriptor)),
        None => (text, None),
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        is_number.then(|| text.parse::<i32>().ok()).flatten()
    };
    let pid = number(pid).filter(|pid| *pid > 0);
    let descriptor = descriptor.map(|d| number(d).ok_or("FD: it is no file descriptor"));
    Ok(SocketsOf {
        pid: pid.ok_or("PID: it is no process id")?,
        descriptor: descriptor.transpose()?,
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    #[test]
    fn changes_are_read() {
        assert_eq!(change("rate=none"), Ok(NetChange::Rate(None)));
        assert_eq!(change("rate=1Mbit"), Ok(NetChange::Rate(Some(1_000_000))));
        assert_eq!(change("overhead=26"), Ok(NetChange::Overhead(26)));
        for text in ["rate", "rate=", "rate=fast", "overhead=257", "mtu=1500"] {
            assert!(change(text).is_err(), "{text}");
        }
    }
    fn parse(args: &[&str]) -> Result<NetCommand, String> {
        let all = ["aplomb", "net"].iter().chain(args);
        match Cli::try_parse_from(all).map_err(|e| e.to_string())?.command {
            Command::Net(command) => Ok(command),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn queues_are_named_with_their_domain() {
        let NetCommand::Queue { queue, changes, .. } =
            parse(&["queue", "media:voice", "weight=300", "mark=0x10"]).unwrap()
        else {
            panic!()
        };
        assert_eq!(
            (queue.to_string().as_str(), changes.len()),
            ("media:voice", 2)
        );
        for (args, words) in [
            (&["queue", "media"] as &[&str], "DOMAIN:QUEUE"),
            (&["queue", "media:V"], "queue: \"V\""),
            (&["queue", "media:v", "weight=0"], "weight: \"0\""),
            (&["queue", "media:v", "weight=1", "--remove"], "--remove"),
            (&["attach", "media:v"], "PID[:FD]"),
            (&["attach", "media:v", "0"], "PID: "),
            (&["attach", "media:v", "12:"], "FD: "),
            (&["detach", "12:-1"], "FD: "),
            (&["move", "media:v", "../x"], "\"..\""),
        ] {
            let e = parse(args).unwrap_err();
            assert!(e.contains(words), "{args:?}: {e}");
        }
    }

    #[test]
    fn sockets_are_named_by_process_and_descriptor() {
        let of = |pid, descriptor| Ok(SocketsOf { pid, descriptor });
        assert_eq!(sockets("1234"), of(1234, None));
        assert_eq!(sockets("1234:7"), of(1234, Some(7)));
        for text in ["", ":", "1:2:3", "+1", "1:+2", "99999999999"] {
            assert!(sockets(text).is_err(), "{text}");
        }
    }
}
