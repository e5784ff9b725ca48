//! `aplomb net`: interfaces whose packets are ordered by domain.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::Result;
use aplomb_domain::Tree;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::table::{self, table};
use super::{line, print_json, send, unexpected};
use crate::cli::{NetChange, NetCommand};
use crate::client::Client;
use crate::daemon::net::restore;
use crate::exit::{Exit, Failure};
use crate::explain::rough;
use crate::protocol::{Answer, Ask, NetAsk, NetCounts, NetDomain, NetLine, NetQueue, NetWanted};

mod queues;

pub fn net(socket: &Path, command: NetCommand) -> Result<Exit> {
    let ask = match command {
        NetCommand::Ls { json } => return list(socket, json),
        NetCommand::Keeper { daemon } => return keeper(daemon),
        NetCommand::Queue {
            queue,
            changes,
            remove,
        } => return queues::queue(socket, &queue, &changes, remove),
        NetCommand::Attach { queue, sockets } => return queues::attach(&queue, sockets),
        NetCommand::Detach { sockets } => return queues::detach(sockets),
        NetCommand::Move { queue, domain } => return queues::move_to(socket, &queue, &domain),
        NetCommand::Install {
            interface,
            rate,
            overhead,
            leaf,
        } => NetAsk::Install(NetWanted {
            interface,
            rate,
            overhead,
            leaf: leaf.into(),
        }),
        NetCommand::Set { interface, changes } => return set(socket, interface, &changes),
        NetCommand::Remove { interface } => NetAsk::Remove { interface },
    };
    send(socket, Ask::Net(ask))
}

fn lines(socket: &Path) -> Result<Vec<NetLine>> {
    match Client::connect(socket)?.call(Ask::Net(NetAsk::List {}))? {
        Answer::Net(lines) => Ok(lines),
        _ => Err(unexpected()),
    }
}

fn set(socket: &Path, interface: String, changes: &[NetChange]) -> Result<Exit> {
    let (mut rate, mut overhead) = (None, None);
    for change in changes {
        match change {
            NetChange::Rate(r) => rate = Some(*r),
            NetChange::Overhead(o) => overhead = Some(*o),
        }
    }
    let rate = match rate {
        Some(rate) => rate,
        None => {
            let now = lines(socket)?
                .into_iter()
                .find(|l| l.interface == interface);
            let missing = || format!("the packets of {interface} are not ordered");
            now.ok_or_else(|| Failure::new(Exit::Failure, missing()))?
                .rate
        }
    };
    let ask = NetAsk::Set {
        interface,
        rate,
        overhead,
    };
    send(socket, Ask::Net(ask))
}

fn list(socket: &Path, json: bool) -> Result<Exit> {
    let lines = lines(socket)?;
    if json {
        print_json(&lines)?;
        return Ok(Exit::Ok);
    }
    if lines.is_empty() {
        line("no interface; order the packets of one with: sudo aplomb net install INTERFACE")?;
    }
    let paths = Tree::system()
        .map(|tree| paths(tree.root()))
        .unwrap_or_default();
    for (i, interface) in lines.iter().enumerate() {
        if i > 0 {
            line("")?;
        }
        line(text(interface, &paths).trim_end())?;
    }
    Ok(Exit::Ok)
}

/// The paths of all cgroups, by id.
fn paths(root: &Path) -> BTreeMap<u64, String> {
    /// As many as a walk of the daemon's visits.
    const MOST: usize = 16_384;
    let mut found = BTreeMap::new();
    let mut open = vec![root.to_path_buf()];
    while let Some(dir) = open.pop() {
        if found.len() >= MOST {
            break;
        }
        let Ok(meta) = std::fs::metadata(&dir) else {
            continue;
        };
        let below = dir.strip_prefix(root).unwrap_or(Path::new(""));
        let id = std::os::unix::fs::MetadataExt::ino(&meta);
        found.insert(id, format!("/{}", below.display()));
        let children = std::fs::read_dir(&dir).into_iter().flatten().flatten();
        open.extend(
            children
                .filter(|e| e.file_type().is_ok_and(|t| t.is_dir()))
                .map(|e| e.path()),
        );
    }
    found
}

fn text(net: &NetLine, paths: &BTreeMap<u64, String>) -> String {
    let rate = net.rate.map_or("no limit".into(), aplomb_spec::format_rate);
    let mut head = format!("{}: rate {rate}, {}", net.interface, net.leaf.name());
    if net.overhead > 0 {
        head += &format!(", overhead {}", net.overhead);
    }
    if net.without_node > 0 {
        head += &format!(
            ", {} packets of too many domains or flows",
            net.without_node
        );
    }
    let mut table = table(&[
        "domain", ">weight", ">max", ">sent", ">packets", ">waiting", ">dropped", ">delay",
        ">at most",
    ]);
    let mut rows: Vec<Row> = net.domains.iter().map(|d| domain(d, paths)).collect();
    rows.extend(net.queues.iter().map(|q| queue(q, paths)));
    rows.sort_by(|a, b| (&a.domain, &a.queue).cmp(&(&b.domain, &b.queue)));
    let taken: String = rows.iter().filter_map(|row| row.takes.clone()).collect();
    for row in rows {
        table.add_row(row.cells);
    }
    format!("{head}\n{}{taken}", table::text(&table))
}

/// A row of the table. A queue's is below its domain's.
struct Row {
    domain: String,
    queue: String,
    cells: Vec<String>,
    /// Of a queue: a line that says which packets it takes.
    takes: Option<String>,
}

fn domain(d: &NetDomain, paths: &BTreeMap<u64, String>) -> Row {
    let domain = name(d.cgid, paths);
    let max = d.max.map_or("-".into(), aplomb_spec::format_rate);
    Row {
        cells: cells(domain.clone(), d.weight, max, &d.counts),
        domain,
        queue: String::new(),
        takes: None,
    }
}

fn queue(q: &NetQueue, paths: &BTreeMap<u64, String>) -> Row {
    let domain = name(q.cgid, paths);
    let shown = format!("{domain}:{}", q.queue);
    let by = [
        q.priority.map(|p| format!("priority {p}")),
        q.mark.map(|m| format!("mark {m:#x}")),
        Some("attached sockets".into()),
    ];
    let by: Vec<String> = by.into_iter().flatten().collect();
    let takes = Some(format!("{shown} takes: {}\n", by.join(", ")));
    Row {
        domain,
        queue: q.queue.clone(),
        cells: cells(shown, q.weight, "-".into(), &q.counts),
        takes,
    }
}

fn cells(name: String, weight: u32, max: String, counts: &NetCounts) -> Vec<String> {
    vec![
        name,
        weight.to_string(),
        max,
        aplomb_memory::Bytes(counts.sent_bytes).to_string(),
        counts.sent_packets.to_string(),
        counts.packets.to_string(),
        counts.dropped.to_string(),
        rough(counts.mean_delay_ns),
        rough(counts.most_delay_ns),
    ]
}

fn name(cgid: u64, paths: &BTreeMap<u64, String>) -> String {
    match cgid {
        0 => "(no socket)".into(),
        1 => "/".into(),
        _ => {
            let path = paths.get(&cgid).cloned();
            path.unwrap_or_else(|| format!("(gone: {cgid})"))
        }
    }
}

/// Wait until the daemon, which holds the other end of standard input, is gone.
fn keeper(daemon: u32) -> Result<Exit> {
    // A service manager ends all processes of the service at once, and this one has to be the last.
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::flag::register(signal, Default::default())?;
    }
    let mut buffer = [0; 64];
    loop {
        match std::io::stdin().read(&mut buffer) {
            Ok(0) => break,
            Err(e) if e.kind() != std::io::ErrorKind::Interrupted => break,
            _ => {}
        }
    }
    for e in restore(Some(daemon)) {
        tracing::warn!("{e}");
    }
    Ok(Exit::Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_has_paths_and_units() {
        let domain = |cgid, sent_bytes| NetDomain {
            cgid,
            above: None,
            weight: 100,
            max: (cgid == 7).then_some(5_000_000),
            counts: NetCounts {
                packets: 2,
                sent_bytes,
                sent_packets: 10,
                dropped: 3,
                mean_delay_ns: 1_500_000,
                most_delay_ns: 20_000_000,
            },
        };
        let net = NetLine {
            interface: "eth0".into(),
            index: 2,
            rate: Some(40_000_000),
            overhead: 0,
            leaf: Default::default(),
            without_node: 0,
            domains: vec![domain(1, 3 << 20), domain(7, 2 << 20), domain(9, 1 << 20)],
            queues: vec![NetQueue {
                cgid: 7,
                queue: "v".into(),
                weight: 300,
                priority: Some(6),
                mark: Some(16),
                ..NetQueue::default()
            }],
        };
        let paths = BTreeMap::from([(1, "/".into()), (7, "/media".into())]);
        let text = text(&net, &paths);
        assert!(text.starts_with("eth0: rate 40Mbit, fair\n"), "{text}");
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert!(rows[0].starts_with("(gone: 9)"), "{text}");
        assert!(rows[1].starts_with("/ "), "{text}");
        assert!(rows[2].starts_with("/media "), "{text}");
        assert!(rows[3].starts_with("/media:v "), "{text}");
        let takes = "/media:v takes: priority 6, mark 0x10, attached sockets";
        assert_eq!(rows.last(), Some(&takes), "{text}");
        assert!(text.lines().all(|l| l.len() <= 80), "{text}");
    }
}
