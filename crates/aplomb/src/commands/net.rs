//! `aplomb net`: interfaces whose packets are ordered by domain.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use anyhow::Result;
use aplomb_domain::Tree;
use aplomb_memory::Bytes;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::table::{self, table};
use super::{line, print_json, send, unexpected};
use crate::cli::{NetChange, NetCommand};
use crate::client::Client;
use crate::daemon::net::restore;
use crate::exit::{Exit, Failure};
use crate::explain::rough;
use crate::protocol::{
    Answer, Ask, NetAsk, NetCounts, NetDomain, NetLine, NetQueue, NetReceived, NetWanted,
};

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

const COLUMNS: [&str; 9] = [
    "domain",
    ">weight",
    ">max",
    ">sent",
    ">waiting",
    ">drops",
    ">delay",
    ">at most",
    ">received",
];

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
    let mut table = table(&COLUMNS);
    let mut received = received(net, paths);
    let domains = net.domains.iter();
    let mut rows: Vec<Row> = domains.map(|d| domain(d, paths, &mut received)).collect();
    rows.extend(
        received
            .into_iter()
            .map(|(path, bytes)| receiver(path, bytes)),
    );
    rows.extend(net.queues.iter().map(|q| queue(q, paths)));
    rows.sort_by(|a, b| (&a.domain, &a.queue).cmp(&(&b.domain, &b.queue)));
    let taken: String = rows.iter().filter_map(|row| row.takes.clone()).collect();
    for row in rows {
        table.add_row(row.cells);
    }
    format!("{head}\n{}{taken}", table::text(&table))
}

/// What each domain received, with those below it, by its path. They are those that sent something,
/// those whose sockets received, and those above these. What a cgroup received that is gone is the
/// root's. Nothing if it is not counted.
fn received<'a>(net: &NetLine, paths: &'a BTreeMap<u64, String>) -> BTreeMap<&'a str, u64> {
    let Some(all) = &net.received else {
        return BTreeMap::new();
    };
    let of_path = |r: &NetReceived| (paths.get(&r.cgid).map_or("/", String::as_str), r.bytes);
    let own: Vec<(&str, u64)> = all.iter().map(of_path).collect();
    let sent = net.domains.iter().filter_map(|d| paths.get(&d.cgid));
    let mut sums: BTreeMap<&str, u64> = sent.map(|path| (path.as_str(), 0)).collect();
    // of a receiver, as of a sender, those above it, too: their paths end before a slash
    let ends = |path: &'a str| {
        path.match_indices('/')
            .map(|(at, _)| at)
            .chain([path.len()])
    };
    let with_above = |path: &'a str| ends(path).skip(1).map(|end| (&path[..end], 0));
    sums.extend(own.iter().flat_map(|(path, _)| with_above(path)));
    for (path, sum) in &mut sums {
        let below = format!("{}/", path.trim_end_matches('/'));
        let counts = |p: &str| p == *path || p.starts_with(&below);
        *sum = own
            .iter()
            .filter(|(p, _)| counts(p))
            .map(|(_, bytes)| bytes)
            .sum();
    }
    sums
}

/// A row of the table. A queue's is below its domain's.
struct Row {
    domain: String,
    queue: String,
    cells: Vec<String>,
    /// Of a queue: a line that says which packets it takes.
    takes: Option<String>,
}

/// What it received is taken out of `received`.
fn domain(d: &NetDomain, paths: &BTreeMap<u64, String>, received: &mut BTreeMap<&str, u64>) -> Row {
    let domain = name(d.cgid, paths);
    let max = d.max.map_or("-".into(), aplomb_spec::format_rate);
    let received = received.remove(domain.as_str());
    Row {
        cells: cells(domain.clone(), d.weight, max, &d.counts, received),
        domain,
        queue: String::new(),
        takes: None,
    }
}

/// A domain that has sent nothing.
fn receiver(domain: &str, bytes: u64) -> Row {
    let mut cells = vec!["-".to_owned(); COLUMNS.len()];
    cells[0] = domain.into();
    cells[COLUMNS.len() - 1] = Bytes(bytes).to_string();
    Row {
        domain: domain.into(),
        queue: String::new(),
        cells,
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
        cells: cells(shown, q.weight, "-".into(), &q.counts, None),
        takes,
    }
}

fn cells(
    name: String,
    weight: u32,
    max: String,
    counts: &NetCounts,
    received: Option<u64>,
) -> Vec<String> {
    vec![
        name,
        weight.to_string(),
        max,
        Bytes(counts.sent_bytes).to_string(),
        counts.packets.to_string(),
        counts.dropped.to_string(),
        rough(counts.mean_delay_ns),
        rough(counts.most_delay_ns),
        received.map_or("-".into(), |bytes| Bytes(bytes).to_string()),
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
        let received = |cgid, bytes| NetReceived { cgid, bytes };
        let mut net = NetLine {
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
            received: Some(vec![
                received(7, 1 << 20),
                received(8, 3 << 20),
                received(5, 2 << 20),
            ]),
        };
        let paths = [(1, "/"), (7, "/media"), (8, "/media/x/y"), (4, "/m")];
        let paths = BTreeMap::from(paths.map(|(id, path)| (id, path.into())));
        let counted = text(&net, &paths);
        net.received = None;
        let uncounted = text(&net, &paths);
        let ends = uncounted
            .lines()
            .skip(2)
            .take(4)
            .map(|row| row.ends_with(" -"));
        assert_eq!(ends.filter(|is_none| *is_none).count(), 4, "{uncounted}");
        let text = counted;
        assert!(text.starts_with("eth0: rate 40Mbit, fair\n"), "{text}");
        let rows: Vec<&str> = text.lines().skip(2).collect();
        assert!(rows[0].starts_with("(gone: 9)"), "{text}");
        assert!(rows[1].starts_with("/ "), "{text}");
        assert!(rows[2].starts_with("/media "), "{text}");
        assert!(rows[3].starts_with("/media:v "), "{text}");
        assert!(rows[4].starts_with("/media/x  "), "{text}");
        assert!(rows[5].starts_with("/media/x/y  "), "{text}");
        // with those below; the root's has that of a cgroup that is gone
        let right = [" -", "6.0 MiB", "4.0 MiB", " -", "3.0 MiB", "3.0 MiB"];
        assert!(
            right.iter().zip(&rows).all(|(end, row)| row.ends_with(end)),
            "{text}"
        );
        let takes = "/media:v takes: priority 6, mark 0x10, attached sockets";
        assert_eq!(rows.last(), Some(&takes), "{text}");
        assert!(text.lines().all(|l| l.len() <= 80), "{text}");
    }
}
