//! An interface for people: its domains and queues, and what each sent.

use std::collections::BTreeMap;

use aplomb_kernel::{queue_id, PacketNode, Received};

use super::{Installed, NetSettings};
use crate::protocol::{NetCounts, NetDomain, NetLine, NetQueue, NetReceived};

/// Domains of one interface in an answer: as many as the kernel side has weights for.
const MAX_LISTED: usize = 4096;

/// `settings`: those in force.
pub fn line(installed: &Installed, settings: &NetSettings) -> NetLine {
    let domains = installed.qdisc.nodes().into_iter().take(MAX_LISTED);
    NetLine {
        interface: installed.entry.name.clone(),
        index: installed.entry.index,
        rate: installed.wanted.rate,
        overhead: installed.wanted.overhead,
        leaf: installed.wanted.leaf,
        without_node: installed.qdisc.without_node(),
        domains: domains.map(|node| domain(&node)).collect(),
        queues: queues(installed.qdisc.queues(), settings),
        received: installed
            .qdisc
            .received()
            .map(|all| all.into_iter().map(received).collect()),
    }
}

fn received(by: Received) -> NetReceived {
    NetReceived {
        cgid: by.domain,
        bytes: by.bytes,
    }
}

fn domain(n: &PacketNode) -> NetDomain {
    NetDomain {
        cgid: n.domain,
        above: n.above,
        weight: n.weight,
        max: (n.ceiling > 0).then_some(n.ceiling * 8),
        counts: counts(n),
    }
}

fn counts(n: &PacketNode) -> NetCounts {
    NetCounts {
        packets: n.packets,
        sent_bytes: n.sent_bytes,
        sent_packets: n.sent_packets,
        dropped: n.dropped,
        mean_delay_ns: n.delay_ns.checked_div(n.sent_packets).unwrap_or(0),
        most_delay_ns: n.most_ns,
    }
}

/// The queues that are set, also those that have sent nothing.
fn queues(nodes: Vec<PacketNode>, settings: &NetSettings) -> Vec<NetQueue> {
    let nodes: BTreeMap<u64, PacketNode> = nodes.into_iter().map(|n| (n.domain, n)).collect();
    let all = settings.queues.iter();
    all.map(|(cgid, queue)| NetQueue {
        cgid: *cgid,
        queue: queue.name.to_string(),
        weight: queue.weight,
        priority: queue.priority,
        mark: queue.mark,
        counts: nodes
            .get(&queue_id(*cgid, queue.number))
            .map_or(NetCounts::default(), counts),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aplomb_domain::Marks;

    #[test]
    fn a_queue_is_shown_before_it_sends() {
        let marks = Marks {
            net_queues: "a number=1 mark=5; b number=2 weight=7".parse().unwrap(),
            ..Marks::default()
        };
        let settings = NetSettings::of([(9, &marks)].into_iter());
        let node = |domain| PacketNode {
            domain,
            above: Some(9),
            weight: 7,
            ceiling: 0,
            packets: 1,
            held: 2048,
            sent_bytes: 300,
            sent_packets: 3,
            dropped: 0,
            delay_ns: 30,
            most_ns: 20,
        };
        let removed = queue_id(9, 3);
        let lines = queues(vec![node(queue_id(9, 2)), node(removed)], &settings);
        assert_eq!(lines.len(), 2);
        let (a, b) = (&lines[0], &lines[1]);
        assert_eq!((a.cgid, a.queue.as_str(), a.mark), (9, "a", Some(5)));
        assert_eq!((a.weight, a.counts), (100, NetCounts::default()));
        assert_eq!((b.queue.as_str(), b.weight), ("b", 7));
        assert_eq!(b.counts.sent_packets, 3);
        assert_eq!((b.counts.mean_delay_ns, b.counts.most_delay_ns), (10, 20));
    }
}
