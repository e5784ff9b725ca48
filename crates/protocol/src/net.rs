//! Network interfaces whose packets the daemon orders.

use serde::{Deserialize, Serialize};

/// A question about interfaces, or a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum NetAsk {
    /// The interfaces, with their domains (all users).
    List {},
    /// Order the packets of an interface (root).
    Install(NetWanted),
    /// Change the rate of one (root).
    Set {
        interface: String,
        /// Bits a second. None: as fast as the interface takes them.
        rate: Option<u64>,
        /// What the link adds to each frame, bytes. None: as it is.
        #[serde(default)]
        overhead: Option<u32>,
    },
    /// Give an interface the queueing discipline back that it had (root).
    Remove { interface: String },
}

/// How to order the packets of an interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NetWanted {
    pub interface: String,
    /// Bits a second. None: as fast as the interface takes them.
    #[serde(default)]
    pub rate: Option<u64>,
    /// What the link adds to each frame, bytes.
    #[serde(default)]
    pub overhead: u32,
    #[serde(default)]
    pub leaf: NetLeaf,
}

/// How the packets of one domain are ordered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NetLeaf {
    /// Its flows share what it has, and of a flow that waits for long packets are dropped.
    #[default]
    Fair,
    /// One queue, of which packets are dropped if it stays long.
    Codel,
    /// One queue (QLinux's default).
    Fifo,
}

impl NetLeaf {
    /// All, with their names.
    pub const ALL: [(Self, &'static str); 3] = [
        (Self::Fair, "fair"),
        (Self::Codel, "codel"),
        (Self::Fifo, "fifo"),
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Codel => "codel",
            Self::Fifo => "fifo",
        }
    }
}

/// Bytes that a link may add to each frame: ATM's and VLANs' headers are below 64.
pub const MAX_OVERHEAD: u32 = 256;

/// One interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetLine {
    pub interface: String,
    pub index: u32,
    /// Bits a second. None: as fast as the interface takes them.
    pub rate: Option<u64>,
    pub overhead: u32,
    pub leaf: NetLeaf,
    /// Packets for which the kernel side had no node: more domains and flows than it holds.
    pub without_node: u64,
    pub domains: Vec<NetDomain>,
    pub queues: Vec<NetQueue>,
    /// None: what arrives is not counted.
    #[serde(default)]
    pub received: Option<Vec<NetReceived>>,
}

/// What the sockets of a domain's own processes received through an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetReceived {
    /// The id of the cgroup.
    pub cgid: u64,
    /// Since the interface was installed, with the headers of IP.
    pub bytes: u64,
}

/// What one domain sent through an interface, with the domains below it, since the interface was
/// installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetDomain {
    /// The id of the cgroup. 1: the root, so all; 0: packets without a socket.
    pub cgid: u64,
    /// The domain above it; None: the root.
    pub above: Option<u64>,
    pub weight: u32,
    /// Its ceiling, bits a second.
    pub max: Option<u64>,
    #[serde(flatten)]
    pub counts: NetCounts,
}

/// A queue of a domain, and what it sent through an interface. The domain's counts include it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetQueue {
    /// The id of the domain's cgroup.
    pub cgid: u64,
    pub queue: String,
    pub weight: u32,
    /// Which packets it takes, beside those of attached sockets: by SO_PRIORITY, and by SO_MARK.
    pub priority: Option<u32>,
    pub mark: Option<u32>,
    #[serde(flatten)]
    pub counts: NetCounts,
}

/// What a domain or queue sent through an interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetCounts {
    /// Packets that wait.
    pub packets: u32,
    pub sent_bytes: u64,
    pub sent_packets: u64,
    pub dropped: u64,
    /// How long packets waited on average, and at most, ns.
    pub mean_delay_ns: u64,
    pub most_delay_ns: u64,
}
