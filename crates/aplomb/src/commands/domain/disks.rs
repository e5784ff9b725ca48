//! What each domain had the disks do: `aplomb domain ls --disk`, and part of `show`.
//!
//! As with memory, the command reads the cgroup's files itself. Only device time comes from the
//! daemon.

use aplomb_disk::{Disk, DiskUse, DomainUse, Number};
use aplomb_domain::Tree;
use aplomb_memory::Bytes;

use super::show::{name, Row};
use crate::commands::memory::or_none;
use crate::commands::table::{self, table};
use crate::explain::rough;
use crate::protocol::{DiskAccount, DiskTime, DiskTimes};

/// The reason of parks for dirty pages.
const PARKS: &str = "dirty";

/// Reads what each domain had the disks do.
pub fn add_disks(rows: &mut [Row], tree: &Tree) {
    for row in rows.iter_mut().filter(|row| !row.line.path.is_empty()) {
        let path = row.line.path.trim_start_matches('/');
        row.disk_use = Some(DomainUse::of(&tree.root().join(path)));
    }
}

/// What each domain had all disks do, one domain a line.
pub fn list_of_disks(rows: &[Row]) -> String {
    let mut table = table(&[
        "domain",
        ">read",
        ">requests",
        ">written",
        ">requests",
        ">to be written",
        ">device time",
        ">mean wait",
        ">parked",
    ]);
    for row in rows {
        let total = row.disk_use.as_ref().and_then(DomainUse::total);
        let bytes = |get: fn(&DiskUse) -> u64| or_none(total.as_ref().map(get));
        let count = |get: fn(&DiskUse) -> u64| {
            let number = total.as_ref().map(get);
            number.map_or("-".into(), |n| n.to_string())
        };
        let dirty = row.disk_use.as_ref().and_then(|d| d.dirty_bytes);
        let parks = row.line.parked.iter().filter(|p| p.reason == PARKS);
        let ns: u64 = parks.map(|p| p.ns).sum();
        table.add_row(vec![
            name(&row.line),
            bytes(|d| d.read_bytes),
            count(|d| d.reads),
            bytes(|d| d.written_bytes),
            count(|d| d.writes),
            or_none(dirty),
            device_time(row),
            mean_wait(&all_disks(&row.line.disk_times)),
            if ns > 0 { rough(ns) } else { "-".into() },
        ]);
    }
    let account = rows.iter().find_map(|r| r.disk_account);
    format!(
        "{}(so far, of all disks, with the domains below; parked: the domain's own tasks, which had \
         too much to be written)\n(device time, and mean wait for the disk: {})\n",
        table::text(&table),
        account_in_words(account)
    )
}

/// Which requests are counted as device time.
pub fn account_in_words(account: Option<DiskAccount>) -> String {
    let Some(account) = account else {
        return "not counted; that takes `order = true` in [disk]".into();
    };
    let long = rough(account.counted_ns);
    let mut text = match account.always {
        true => format!("of all requests, in {long}"),
        false => format!("of requests while disks were watched, so far for {long}"),
    };
    if account.uncounted > 0 {
        text += &format!("; {} are left out: too many domains", account.uncounted);
    }
    text
}

fn all_disks(times: &[DiskTimes]) -> DiskTime {
    let each = times.iter().map(|t| t.classes.total());
    each.fold(DiskTime::default(), |sum, one| sum.and(&one))
}

fn device_time(row: &Row) -> String {
    let all = all_disks(&row.line.disk_times);
    let known = row.disk_account.filter(|_| all.requests > 0);
    known.map_or("-".into(), |_| rough(all.device_ns))
}

/// For how long a request waited, on average.
pub fn mean_wait(time: &DiskTime) -> String {
    time.mean_wait_ns().map_or("-".into(), rough)
}

/// Of one domain: a title and a text for each disk that it used, and for each class of its requests
/// there. `disks`: for their names.
pub fn of_one(row: &Row, disks: &[Disk]) -> Vec<(String, String)> {
    let name = |number: Number| {
        let disk = disks.iter().find(|d| d.number == number);
        disk.map_or_else(|| number.to_string(), |d| d.name.clone())
    };
    let used = row.disk_use.iter().flat_map(|u| &u.disks).flatten();
    let mut numbers: Vec<Number> = used.clone().map(|u| u.number).collect();
    // Without an `io` controller only device time is known.
    numbers.extend(row.line.disk_times.iter().map(|t| t.number));
    numbers.sort_unstable();
    numbers.dedup();
    let mut lines = Vec::new();
    for number in numbers {
        let name = name(number);
        if let Some(used) = used.clone().find(|u| u.number == number) {
            let [read, written] = [used.read_bytes, used.written_bytes].map(Bytes);
            let text = format!(
                "{read} read in {} requests, {written} written in {}",
                used.reads, used.writes
            );
            lines.push((format!("disk {name}"), text));
        }
        let times = row.line.disk_times.iter().find(|t| t.number == number);
        let classes = times.map_or(Vec::new(), |t| t.classes.named().to_vec());
        for (class, time) in classes.iter().filter(|(_, t)| t.requests > 0) {
            let text = format!(
                "{} requests, device time {}, mean wait {}",
                time.requests,
                rough(time.device_ns),
                mean_wait(time)
            );
            lines.push((format!("{name}, {class}"), text));
        }
    }
    if row.disk_account.is_some() {
        let text = account_in_words(row.disk_account);
        lines.push(("device time".into(), text));
    }
    if let Some(dirty) = row.disk_use.as_ref().and_then(|u| u.dirty_bytes) {
        lines.push(("to be written".into(), Bytes(dirty).to_string()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::domain::show::received;
    use crate::protocol::{ClassTimes, DomainLine, DomainTable, ParkLine};

    fn used(number: &str, n: u64) -> DiskUse {
        DiskUse {
            number: number.parse().unwrap(),
            read_bytes: n << 20,
            written_bytes: n << 21,
            reads: n,
            writes: 2 * n,
        }
    }

    fn rows() -> Vec<Row> {
        let line = |path: &str, depth| DomainLine {
            path: path.into(),
            depth,
            ..DomainLine::default()
        };
        let mut rows = received(
            None,
            DomainTable {
                more: false,
                time_ns: 0,
                cpus: 2,
                domains: vec![line("/", 0), line("media", 1)],
                disk_account: None,
            },
        );
        rows[1].disk_use = Some(DomainUse {
            disks: Some(vec![used("8:0", 3), used("8:16", 1)]),
            dirty_bytes: Some(2 << 20),
        });
        rows[1].line.parked = vec![ParkLine {
            reason: PARKS.into(),
            times: 3,
            ns: 300_000_000,
        }];
        rows
    }

    fn counted() -> Vec<Row> {
        let mut rows = rows();
        let time = DiskTime {
            requests: 900,
            device_ns: 2_250_000_000,
            wait_ns: 5_400_000_000,
            waits: 450,
        };
        for row in &mut rows {
            row.disk_account = Some(DiskAccount {
                always: false,
                counted_ns: 38_000_000_000,
                uncounted: 0,
            });
        }
        rows[1].line.disk_times = vec![DiskTimes {
            number: "8:0".parse().unwrap(),
            classes: ClassTimes {
                interactive: DiskTime {
                    waits: 0,
                    wait_ns: 0,
                    ..time
                },
                rest: time,
                ..ClassTimes::default()
            },
        }];
        rows
    }

    #[test]
    fn disks_are_a_table() {
        let text = list_of_disks(&rows());
        let expected = "\
domain      read  requests  written  requests  to be written  device time  mean wait  parked
/              -         -        -         -              -            -          -       -
  media  4.0 MiB         4  8.0 MiB         8        2.0 MiB            -          -  300 ms
(so far, of all disks, with the domains below; parked: the domain's own tasks, which had too much to be written)
(device time, and mean wait for the disk: not counted; that takes `order = true` in [disk])
";
        assert_eq!(text, expected, "\n{text}");
        let text = list_of_disks(&counted());
        let expected = "\
domain      read  requests  written  requests  to be written  device time  mean wait  parked
/              -         -        -         -              -            -          -       -
  media  4.0 MiB         4  8.0 MiB         8        2.0 MiB       4.50 s    12.0 ms  300 ms
(so far, of all disks, with the domains below; parked: the domain's own tasks, which had too much to be written)
(device time, and mean wait for the disk: of requests while disks were watched, so far for 38.0 s)
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn which_requests_are_counted_is_said() {
        let all = DiskAccount {
            always: true,
            counted_ns: 2_000_000_000,
            uncounted: 7,
        };
        assert_eq!(
            account_in_words(Some(all)),
            "of all requests, in 2.00 s; 7 are left out: too many domains"
        );
    }

    #[test]
    fn of_one_domain_each_disk_is_told_by_its_name_if_that_is_known() {
        let disk = Disk {
            name: "sda".into(),
            number: "8:0".parse().unwrap(),
            size_bytes: 0,
            scheduler: None,
            queues: 1,
            rotational: false,
            removable: false,
            below: Vec::new(),
            file: None,
            done: aplomb_disk::Done::default(),
        };
        let split = |row: &Row| -> (Vec<String>, Vec<String>) {
            let lines = of_one(row, std::slice::from_ref(&disk));
            lines.into_iter().unzip()
        };
        let (titles, texts) = split(&rows()[1]);
        assert_eq!(titles, ["disk sda", "disk 8:16", "to be written"]);
        assert_eq!(texts[0], "3.0 MiB read in 3 requests, 6.0 MiB written in 6");
        assert_eq!(texts[2], "2.0 MiB");
        let mut row = counted().remove(1);
        let (titles, texts) = split(&row);
        assert_eq!(
            titles[..4],
            ["disk sda", "sda, interactive", "sda, rest", "disk 8:16"]
        );
        assert_eq!(titles[4..], ["device time", "to be written"]);
        assert_eq!(texts[1], "900 requests, device time 2.25 s, mean wait -");
        assert_eq!(
            texts[2],
            "900 requests, device time 2.25 s, mean wait 12.0 ms"
        );
        row.disk_use = None;
        let (titles, _) = split(&row);
        assert_eq!(titles, ["sda, interactive", "sda, rest", "device time"]);
    }

    #[test]
    fn json_has_the_nanoseconds() {
        let json = serde_json::to_value(&counted()[1]).unwrap();
        assert_eq!(json["disk_account"]["always"], false);
        assert_eq!(json["disk_times"][0]["number"], "8:0");
        assert_eq!(json["disk_times"][0]["rest"]["device_ns"], 2_250_000_000u64);
        assert_eq!(json["disk_times"][0]["rest"]["wait_ns"], 5_400_000_000u64);
    }
}
