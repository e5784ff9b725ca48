//! The output of `aplomb domain ls` and `show`.

use std::collections::HashMap;

use aplomb_disk::{Disk, DomainUse};
use aplomb_domain::{DomainPath, Reservation, Tree};
use aplomb_memory::Bytes;
use serde::Serialize;

use super::disks::of_one;
use crate::commands::memory::{self, MemoryUse};
use crate::commands::table::{self, table};
use crate::config::percent;
use crate::explain::rough;
use crate::protocol::{DiskAccount, DomainLine, DomainTable, MemoryLine};

/// The reasons of parks that are for memory.
const PARKS_FOR_MEMORY: [&str; 2] = ["memory", "reserve"];

/// A domain, with the CPU time that it received.
#[derive(Debug, Serialize)]
pub struct Row {
    #[serde(flatten)]
    pub line: DomainLine,
    /// The part of the machine that the domain received in `over_ns`, ppm. None if not known.
    pub received_ppm: Option<u64>,
    /// The time between the two tables, ns.
    pub over_ns: u64,
    /// What it has of memory. None if it was not read, or the domain has no memory controller.
    pub memory_use: Option<MemoryUse>,
    /// Bytes that were used within its protection period. None if it is not protected by age.
    pub working_set: Option<u64>,
    /// What it had the disks do. None if it was not read.
    pub disk_use: Option<DomainUse>,
    /// How device time is counted. None: it is not, or no daemon answers.
    pub disk_account: Option<DiskAccount>,
    /// Number of CPUs of the machine.
    #[serde(skip)]
    cpus: u32,
    /// True if `share_ppm` is known, because the table is from the kernel side.
    #[serde(skip)]
    measured: bool,
}

/// The rows of `now`, with the CPU time that each domain received since `before`.
pub fn received(before: Option<DomainTable>, now: DomainTable) -> Vec<Row> {
    let over_ns = before
        .as_ref()
        .map_or(0, |b| now.time_ns.saturating_sub(b.time_ns));
    let all_ns = u128::from(over_ns) * u128::from(now.cpus.max(1));
    let ran_before: std::collections::HashMap<u64, u64> = before
        .iter()
        .flat_map(|t| &t.domains)
        .map(|d| (d.cgid, d.ran_ns))
        .collect();
    let (measured, cpus) = (now.time_ns > 0, now.cpus.max(1));
    let disk_account = now.disk_account;
    let rows = now.domains.into_iter().map(|line| {
        // A domain that was created meanwhile had used nothing before.
        let ran = line
            .ran_ns
            .saturating_sub(ran_before.get(&line.cgid).copied().unwrap_or(0));
        let ppm = (u128::from(ran) * 1_000_000).checked_div(all_ns);
        Row {
            received_ppm: ppm.map(|p| p as u64),
            over_ns,
            memory_use: None,
            working_set: None,
            disk_use: None,
            disk_account,
            cpus,
            measured,
            line,
        }
    });
    rows.collect()
}

/// The tree, one domain a line.
pub fn list(rows: &[Row]) -> String {
    let mut table = table(&[
        "domain",
        ">weight",
        "policy",
        ">reserved",
        ">memory",
        ">max",
        ">share",
        ">received",
        "",
    ]);
    for row in rows {
        let d = &row.line;
        table.add_row(vec![
            name(d),
            weight(d),
            d.policy.to_string(),
            or_none(d.reservation.map(|r| r.to_string())),
            or_none(reserved_memory(d).map(|m| m.to_string())),
            or_none(d.max.map(|m| m.to_string())),
            share(row),
            row.received_ppm.map_or("?".into(), percent),
            notes(d).join(", "),
        ]);
    }
    let mut text = table::text(&table);
    if let Some(row) = rows.iter().find(|r| r.over_ns > 0) {
        text += &format!(
            "(share: of the machine, while all others use theirs; received: over the last {})\n",
            rough(row.over_ns)
        );
    }
    text += &format!(
        "reserved in all: {} of the machine\n",
        percent(reserved(rows))
    );
    let root = rows.iter().find(|r| r.line.path == "/");
    let memory = root.and_then(|r| r.line.memory);
    if let Some(all) = memory.filter(|_| rows.iter().any(|r| r.measured)) {
        let (sum, limit) = (Bytes(all.sum), Bytes(all.limit));
        text += &format!("memory reserved in all: {sum}, at most {limit}\n");
    }
    text
}

/// Reads what each domain has of memory. `protected`: those that the daemon protects by age.
pub fn add_memory(rows: &mut [Row], tree: &Tree, protected: &[MemoryLine]) {
    let protected: HashMap<_, _> = protected.iter().map(|p| (p.path.as_str(), p)).collect();
    for row in rows {
        let path = row.line.path.as_str();
        if path.is_empty() {
            continue; // removed, or not known yet
        }
        row.memory_use = MemoryUse::of(&tree.root().join(path.trim_start_matches('/')));
        row.working_set = protected.get(path).and_then(|p| p.working_set);
    }
}

/// What each domain has of memory, one domain a line.
pub fn list_of_memory(rows: &[Row]) -> String {
    let mut table = table(&[
        "domain",
        ">reserved",
        ">in memory",
        ">in swap",
        ">working set",
        ">protected",
        ">taken",
        ">read back",
        ">parked",
    ]);
    for row in rows {
        let d = &row.line;
        let of = |get: fn(&MemoryUse) -> u64| memory::or_none(row.memory_use.as_ref().map(get));
        let parked = d
            .parked
            .iter()
            .filter(|p| PARKS_FOR_MEMORY.contains(&p.reason.as_str()));
        let ns: u64 = parked.map(|p| p.ns).sum();
        table.add_row(vec![
            name(d),
            memory::or_none(d.memory.and_then(|m| m.reserved)),
            of(|m| m.in_memory),
            of(|m| m.in_swap),
            memory::or_none(row.working_set),
            or_none(row.memory_use.map(|m| memory::protection(m.protected))),
            of(|m| m.reclaimed),
            of(|m| m.read_back),
            or_none((ns > 0).then(|| rough(ns))),
        ]);
    }
    table::text(&table)
        + "(taken: by the kernel, so far; read back: of that, what was used again soon; parked: the \
           domain's own tasks, while memory was short)\n"
}

/// The reservation of memory, with what there is beside it.
fn reserved_beside(row: &Row) -> String {
    let own = or_none(reserved_memory(&row.line).map(|m| m.to_string()));
    match row.line.memory.filter(|_| row.measured) {
        None => own,
        Some(m) => {
            let (sum, limit) = (Bytes(m.sum), Bytes(m.limit));
            format!("{own} (with those beside it {sum}, at most {limit})")
        }
    }
}

fn reserved_memory(d: &DomainLine) -> Option<Bytes> {
    d.memory.and_then(|m| m.reserved).map(Bytes)
}

/// The reservations of all domains together, ppm of the machine. A reservation inside another one
/// is part of that one.
fn reserved(rows: &[Row]) -> u64 {
    let mut sum = 0;
    let mut inside: Option<DomainPath> = None;
    for row in rows {
        let Some(reservation) = row.line.reservation else {
            continue;
        };
        let path = row.line.path.parse::<DomainPath>().ok();
        if let (Some(outer), Some(path)) = (&inside, &path) {
            if outer.holds(path) {
                continue;
            }
        }
        inside = path;
        sum += match reservation {
            Reservation::Fraction(ppm) => u64::from(ppm),
            Reservation::Budget {
                runtime_ns,
                period_ns,
            } => {
                let whole = u128::from(period_ns) * u128::from(row.cpus);
                let part = u128::from(runtime_ns) * 1_000_000;
                part.checked_div(whole).map_or(0, |ppm| ppm as u64)
            }
        };
    }
    sum
}

/// Everything about one domain. `disks`: those of the machine, for their names.
pub fn one(row: &Row, disks: &[Disk]) -> String {
    let d = &row.line;
    let mut table = table(&["domain", &d.path]);
    let mut put = |what: &str, value: String| {
        table.add_row([what.to_owned(), value]);
    };
    put("cgroup id", d.cgid.to_string());
    put("weight", weight(d));
    put("idle", if d.idle { "yes" } else { "no" }.into());
    put("policy", d.policy.to_string());
    put("reserved", or_none(d.reservation.map(|r| r.to_string())));
    put("memory", reserved_beside(row));
    put("disks", or_none(d.disk_ppm.map(aplomb_domain::percent)));
    if let Some(m) = &row.memory_use {
        let amount = |bytes| Bytes(bytes).to_string();
        put("in memory", amount(m.in_memory));
        put("in swap", amount(m.in_swap));
        put("working set", memory::or_none(row.working_set));
        put("protected", memory::protection(m.protected));
        let (taken, back) = (amount(m.reclaimed), amount(m.read_back));
        put("taken", format!("{taken}, of which {back} was read back"));
    }
    for (title, text) in of_one(row, disks) {
        put(&title, text);
    }
    if let Some(why) = &d.refused {
        put("not in force", why.clone());
    }
    put("max", or_none(d.max.map(|m| m.to_string())));
    put("share", share(row));
    let received = row.received_ppm.map_or("?".into(), percent);
    put("received", received);
    if row.measured {
        put("CPU time", rough(d.ran_ns));
        put(
            "throttled",
            match d.throttled {
                0 => "never".into(),
                n => format!("{n} times, {} in all", rough(d.throttled_ns)),
            },
        );
        for park in d.parked.iter().filter(|p| p.times > 0) {
            let title = format!("parked ({})", park.reason);
            put(
                &title,
                format!("{} times, {} in all", park.times, rough(park.ns)),
            );
        }
        put("waiting tasks", d.waiting.to_string());
    }
    put("ephemeral", if d.ephemeral { "yes" } else { "no" }.into());
    table::text(&table)
}

/// The last part of its path, indented by its depth. The name is escaped, because the creator of a
/// cgroup chooses it freely.
pub fn name(d: &DomainLine) -> String {
    let name = match d.path.as_str() {
        "" => format!("(cgroup {})", d.cgid),
        "/" => "/".into(),
        path => aplomb_spec::shorten(path.rsplit('/').next().unwrap_or(path)),
    };
    "  ".repeat(d.depth as usize) + &name
}

fn weight(d: &DomainLine) -> String {
    match (d.idle, d.weight) {
        (true, _) => "idle".into(),
        (_, 0) => "-".into(),
        (_, weight) => weight.to_string(),
    }
}

fn share(row: &Row) -> String {
    if row.measured {
        percent(row.line.share_ppm.into())
    } else {
        "?".into()
    }
}

fn or_none(value: Option<String>) -> String {
    value.unwrap_or_else(|| "-".into())
}

fn notes(d: &DomainLine) -> Vec<String> {
    let mut notes = Vec::new();
    if d.gone {
        notes.push("removed, with tasks left".into());
    }
    if d.ephemeral {
        notes.push("ephemeral".into());
    }
    if let Some(why) = &d.refused {
        notes.push(format!("not in force: {why}"));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{MemoryAccount, ParkLine};
    use aplomb_domain::{DomainPolicy, Max};

    fn example(time_ns: u64, ran: [u64; 3]) -> DomainTable {
        let domain = |path: &str, depth, cgid, ran_ns| DomainLine {
            path: path.into(),
            depth,
            cgid,
            ran_ns,
            weight: 100,
            share_ppm: 1_000_000,
            ..DomainLine::default()
        };
        let memory = |reserved: Option<u64>, sum: u64| {
            Some(MemoryAccount {
                reserved: reserved.map(|mb| mb << 20),
                sum: sum << 20,
                limit: 500 << 20,
            })
        };
        DomainTable {
            more: false,
            time_ns,
            cpus: 2,
            disk_account: None,
            domains: vec![
                DomainLine {
                    weight: 0,
                    memory: memory(None, 200),
                    ..domain("/", 0, 1, ran[0])
                },
                DomainLine {
                    policy: DomainPolicy::Mtr,
                    memory: memory(Some(200), 200),
                    reservation: Some(Reservation::Fraction(250_000)),
                    weight: 200,
                    share_ppm: 666_667,
                    ..domain("media", 1, 2, ran[1])
                },
                DomainLine {
                    max: Some(Max {
                        quota_ns: 50_000_000,
                        period_ns: 100_000_000,
                    }),
                    ephemeral: true,
                    refused: Some("no room".into()),
                    share_ppm: 333_333,
                    ..domain("media/a\u{1b}b", 2, 3, ran[2])
                },
            ],
        }
    }

    #[test]
    fn the_tree_is_a_table() {
        let second = 1_000_000_000;
        let before = example(second, [0, 0, 0]);
        let now = example(2 * second, [2 * second, second, second / 2]);
        let text = list(&received(Some(before), now));
        let expected = "\
domain        weight  policy   reserved     memory         max   share  received
/                  -  default         -          -           -   100 %     100 %
  media          200  mtr           25%  200.0 MiB           -  66.7 %      50 %
    a\\u{1b}b     100  default         -          -  50ms/100ms  33.3 %      25 %  ephemeral, not in force: no room
(share: of the machine, while all others use theirs; received: over the last 1.00 s)
reserved in all: 25 % of the machine
memory reserved in all: 200.0 MiB, at most 500.0 MiB
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn memory_is_a_table() {
        let mut rows = received(None, example(1, [0; 3]));
        rows[1].line.parked = vec![ParkLine {
            reason: "memory".into(),
            times: 3,
            ns: 300_000_000,
        }];
        rows[1].working_set = Some(150 << 20);
        rows[1].memory_use = Some(MemoryUse {
            in_memory: 180 << 20,
            in_swap: 20 << 20,
            protected: Some(200 << 20),
            reclaimed: 40 << 20,
            read_back: 10 << 20,
        });
        let text = list_of_memory(&rows);
        let expected = "\
domain         reserved  in memory   in swap  working set  protected     taken  read back  parked
/                     -          -         -            -          -         -          -       -
  media       200.0 MiB  180.0 MiB  20.0 MiB    150.0 MiB  200.0 MiB  40.0 MiB   10.0 MiB  300 ms
    a\\u{1b}b          -          -         -            -          -         -          -       -
(taken: by the kernel, so far; read back: of that, what was used again soon; parked: the domain's own tasks, while memory was short)
";
        assert_eq!(text, expected, "\n{text}");
        let text = one(&rows[1], &[]);
        for words in [
            "in memory        180.0 MiB",
            "working set      150.0 MiB",
            "taken            40.0 MiB, of which 10.0 MiB was read back",
        ] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
    }

    #[test]
    fn what_is_not_known_is_not_made_up() {
        let rows = received(None, example(0, [0, 0, 0]));
        assert_eq!(rows[1].received_ppm, None);
        let text = list(&rows);
        assert!(text.contains("-      ?         ?"), "{text}");
        assert!(!text.contains("memory reserved in all"), "{text}");
        assert!(!one(&rows[1], &[]).contains("CPU time"));
        let json = serde_json::to_value(&rows[1]).unwrap();
        assert_eq!(json["path"], "media");
        assert_eq!(json["reservation"]["fraction"], 250_000);
        assert_eq!(json["received_ppm"], serde_json::Value::Null);
    }

    #[test]
    fn reservations_add_up_once() {
        let line = |path: &str, reservation| DomainLine {
            path: path.into(),
            reservation: Some(reservation),
            ..DomainLine::default()
        };
        let budget = Reservation::Budget {
            runtime_ns: 10_000_000,
            period_ns: 100_000_000,
        };
        let table = DomainTable {
            more: false,
            time_ns: 1,
            cpus: 2,
            disk_account: None,
            domains: vec![
                line("a", Reservation::Fraction(250_000)),
                line("a/b", Reservation::Fraction(100_000)), // of a's
                line("c", budget),                           // 10 % of one of two CPUs
            ],
        };
        assert_eq!(reserved(&received(None, table)), 300_000);
    }

    #[test]
    fn one_domain_is_told_whole() {
        let rows = received(Some(example(1, [0; 3])), example(1001, [0, 0, 500]));
        let text = one(&rows[1], &[]);
        let words = "memory         200.0 MiB (with those beside it 200.0 MiB, at most 500.0 MiB)";
        assert!(text.contains(words), "{text}");
        let text = one(&rows[2], &[]);
        for words in [
            "not in force   no room",
            "received       25 %",
            "throttled      never",
        ] {
            assert!(text.contains(words), "{words}:\n{text}");
        }
    }
}
