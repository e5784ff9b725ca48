//! `aplomb disk`: the disks of the machine.
//!
//! What they did comes from sysfs; whose time it was, by class, from the daemon, if one answers.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use aplomb_disk::{disks, Disk, Done, Number};
use serde::Serialize;

use super::domain::{account_in_words, mean_wait};
use super::table::{self, table};
use super::{line, print_json};
use crate::cli::{DiskClass, DiskCommand};
use crate::client::Client;
use crate::config::percent;
use crate::exit::{code_of, Exit};
use crate::protocol::{Ask, ClassTimes, DiskAccount, DiskChange, DiskTimes, DomainTable};

/// Where sysfs is mounted.
const SYS: &str = "/sys";

/// `aplomb disk ls`.
pub fn list_all(socket: &Path, over: Duration, json: bool) -> Result<Exit> {
    let mut client = match Client::connect(socket) {
        Ok(client) => Some(client),
        // Only the daemon knows device time.
        Err(e) if [Exit::NoDaemon, Exit::Permission].contains(&code_of(&e)) => None,
        Err(e) => return Err(e),
    };
    let mut counted = || match client.as_mut() {
        None => Ok(None),
        Some(client) => client.domains().map(Counted::of),
    };
    let (before, counted_before, start) = (disks(Path::new(SYS))?, counted()?, Instant::now());
    std::thread::sleep(over);
    let (now, counted_now, over) = (disks(Path::new(SYS))?, counted()?, start.elapsed());
    let mut rows = rows(&before, now, over);
    if let (Some(before), Some(now)) = (counted_before, counted_now) {
        add_times(&mut rows, &before, &now);
    }
    if json {
        print_json(&rows)?;
    } else {
        line(list(&rows).trim_end())?;
        let times = list_of_times(&rows);
        if !times.is_empty() {
            line("")?;
            line(times.trim_end())?;
        }
    }
    Ok(Exit::Ok)
}

/// Device time of all domains together, at one moment.
struct Counted {
    account: DiskAccount,
    disks: Vec<DiskTimes>,
}

impl Counted {
    /// None if requests are not counted.
    fn of(table: DomainTable) -> Option<Self> {
        let account = table.disk_account?;
        // The root has its own, and that of all below.
        let root = table.domains.into_iter().find(|d| d.depth == 0);
        Some(Self {
            account,
            disks: root.map_or(Vec::new(), |d| d.disk_times),
        })
    }

    fn on(&self, number: Number) -> ClassTimes {
        let found = self.disks.iter().find(|d| d.number == number);
        found.map_or_else(ClassTimes::default, |d| d.classes)
    }
}

/// A volume has no time of its own: its requests are those of its disk.
fn add_times(rows: &mut [Row], before: &Counted, now: &Counted) {
    for row in rows.iter_mut().filter(|r| r.disk.below.is_empty()) {
        let done = now.on(row.disk.number);
        row.device_time = Some(DeviceTime {
            account: now.account,
            meanwhile: done.since(&before.on(row.disk.number)),
            done,
        });
    }
}

/// What the other commands ask the daemon for.
pub fn ask(command: &DiskCommand) -> Ask {
    let mut change = DiskChange::default();
    match command {
        DiskCommand::Ls { .. } => {}
        DiskCommand::Class { weights } => {
            for (class, weight) in weights {
                let of = match class {
                    DiskClass::SoftRealTime => &mut change.soft_real_time,
                    DiskClass::Interactive => &mut change.interactive,
                    DiskClass::Rest => &mut change.rest,
                };
                *of = Some(*weight);
            }
        }
        DiskCommand::Round { length_ns } => change.round_ns = Some(*length_ns),
        DiskCommand::Start { name } => change.start = Some(name.clone()),
        DiskCommand::Stop { name } => change.stop = Some(name.clone()),
    }
    Ask::Disks(change)
}

/// The disks, for their names; none if they cannot be read.
pub fn known() -> Vec<Disk> {
    disks(Path::new(SYS)).unwrap_or_default()
}

/// A disk, and what it did in some time.
#[derive(Debug, Serialize)]
struct Row {
    #[serde(flatten)]
    disk: Disk,
    over_ms: u64,
    meanwhile: Done,
    /// None: no daemon answers, or it counts no requests; a volume.
    device_time: Option<DeviceTime>,
}

/// Whose requests a disk did, by class.
#[derive(Debug, Serialize)]
struct DeviceTime {
    account: DiskAccount,
    /// So far.
    done: ClassTimes,
    meanwhile: ClassTimes,
}

/// A disk that came meanwhile has done nothing yet.
fn rows(before: &[Disk], now: Vec<Disk>, over: Duration) -> Vec<Row> {
    let row = |disk: Disk| {
        let same = |d: &&Disk| (d.number, d.name.as_str()) == (disk.number, disk.name.as_str());
        let first = before.iter().find(same).map_or(disk.done, |d| d.done);
        Row {
            meanwhile: disk.done.since(&first),
            over_ms: u64::try_from(over.as_millis()).unwrap_or(u64::MAX),
            device_time: None,
            disk,
        }
    };
    now.into_iter().map(row).collect()
}

fn list(rows: &[Row]) -> String {
    let mut table = table(&[
        "disk",
        "scheduler",
        ">busy",
        ">read MB/s",
        ">written MB/s",
        ">requests/s",
        ">each takes ms",
        ">in flight",
        "",
    ]);
    for Row {
        disk,
        over_ms,
        meanwhile: did,
        ..
    } in rows
    {
        let ms = (*over_ms).max(1);
        let requests = did.reads + did.writes;
        let rate = |bytes: u64| format!("{:.1}", bytes as f64 / ms as f64 / 1000.0);
        table.add_row(vec![
            disk.name.clone(),
            disk.scheduler.clone().unwrap_or_else(|| "-".into()),
            percent((did.busy_ms * 1_000_000 / ms).min(1_000_000)),
            rate(did.read_bytes),
            rate(did.written_bytes),
            (requests * 1000 / ms).to_string(),
            match requests {
                0 => "-".into(),
                n => format!("{:.1}", did.waited_ms as f64 / n as f64),
            },
            did.in_flight.to_string(),
            notes(disk),
        ]);
    }
    table::text(&table)
}

/// The time of disks that had requests counted, by class. Empty if none has.
fn list_of_times(rows: &[Row]) -> String {
    let mut table = table(&[
        "device time",
        ">soft-real-time",
        ">interactive",
        ">rest",
        ">requests/s",
        ">mean wait",
    ]);
    let mut account = None;
    for row in rows {
        let counted = row.device_time.as_ref();
        let Some(time) = counted.filter(|t| t.done.total().requests > 0) else {
            continue;
        };
        account = Some(time.account);
        let ms = row.over_ms.max(1);
        // 1 ns of 1 ms is 1 ppm
        let part = |ns: u64| percent((ns / ms).min(1_000_000));
        let [srt, interactive, rest] = time.meanwhile.named().map(|(_, t)| part(t.device_ns));
        let all = time.meanwhile.total();
        table.add_row(vec![
            row.disk.name.clone(),
            srt,
            interactive,
            rest,
            (all.requests * 1000 / ms).to_string(),
            mean_wait(&all),
        ]);
    }
    match account {
        None => String::new(),
        Some(_) => format!("{}({})\n", table::text(&table), account_in_words(account)),
    }
}

/// What it is made of, and of which kind.
fn notes(disk: &Disk) -> String {
    let mut notes = Vec::new();
    if !disk.below.is_empty() {
        notes.push(format!("on {}", disk.below.join(", ")));
    }
    // A name that any user may have chosen.
    notes.extend(disk.file.as_deref().map(aplomb_spec::shorten));
    let kinds = [(disk.rotational, "rotates"), (disk.removable, "removable")];
    notes.extend(kinds.iter().filter(|(is, _)| *is).map(|(_, k)| (*k).into()));
    notes.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{DiskTime, DomainLine};

    fn disk(name: &str, number: &str, n: u64) -> Disk {
        Disk {
            name: name.into(),
            number: number.parse().unwrap(),
            size_bytes: 1 << 30,
            scheduler: Some("mq-deadline".into()),
            queues: 1,
            rotational: true,
            removable: false,
            below: Vec::new(),
            file: None,
            done: Done {
                reads: n,
                read_bytes: n * 1_000_000,
                writes: n,
                written_bytes: n * 500_000,
                waited_ms: 10 * n,
                busy_ms: 5 * n,
                in_flight: 3,
            },
        }
    }

    #[test]
    fn disks_are_a_table_of_what_they_did_meanwhile() {
        let volume = Disk {
            scheduler: None,
            queues: 1,
            rotational: false,
            below: vec!["sda".into(), "sdb".into()],
            ..disk("dm-0", "254:0", 0)
        };
        let before = [volume.clone(), disk("sda", "8:0", 100)];
        let now = vec![volume, disk("sda", "8:0", 200), disk("sdb", "8:16", 7)];
        let text = list(&rows(&before, now, Duration::from_secs(2)));
        let expected = "\
disk  scheduler    busy  read MB/s  written MB/s  requests/s  each takes ms  in flight
dm-0  -             0 %        0.0           0.0           0              -          3  on sda, sdb
sda   mq-deadline  25 %       50.0          25.0         100            5.0          3  rotates
sdb   mq-deadline   0 %        0.0           0.0           0              -          3  rotates
";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn json_has_the_sums_and_the_time() {
        let found = rows(
            &[disk("sda", "8:0", 1)],
            vec![disk("sda", "8:0", 3)],
            Duration::from_secs(1),
        );
        let json = serde_json::to_value(&found).unwrap();
        assert_eq!(json[0]["name"], "sda");
        assert_eq!(json[0]["number"], "8:0");
        assert_eq!(json[0]["done"]["reads"], 3);
        assert_eq!(json[0]["meanwhile"]["reads"], 2);
        assert_eq!(json[0]["over_ms"], 1000);
        assert_eq!(json[0]["device_time"], serde_json::Value::Null);
    }

    /// With `n` requests of 1 ms for soft real-time programs, and twice as many for the rest.
    fn counted(n: u64) -> Counted {
        let time = |n: u64| DiskTime {
            requests: n,
            device_ns: n * 1_000_000,
            wait_ns: n * 3_000_000,
            waits: n,
        };
        Counted {
            account: DiskAccount {
                always: true,
                counted_ns: 60_000_000_000,
                uncounted: 0,
            },
            disks: vec![DiskTimes {
                number: "8:0".parse().unwrap(),
                classes: ClassTimes {
                    soft_real_time: time(n),
                    rest: time(2 * n),
                    ..ClassTimes::default()
                },
            }],
        }
    }

    #[test]
    fn device_time_is_a_table_of_those_that_had_some() {
        let volume = Disk {
            below: vec!["sda".into()],
            ..disk("dm-0", "8:0", 0)
        };
        let now = vec![volume, disk("sda", "8:0", 200), disk("sdb", "8:16", 7)];
        let mut rows = rows(&now.clone(), now, Duration::from_secs(1));
        assert_eq!(list_of_times(&rows), "");
        add_times(&mut rows, &counted(100), &counted(350));
        let text = list_of_times(&rows);
        let expected = "\
device time  soft-real-time  interactive  rest  requests/s  mean wait
sda                    25 %          0 %  50 %         750    3.00 ms
(of all requests, in 60.0 s)
";
        assert_eq!(text, expected, "\n{text}");
        let json = serde_json::to_value(&rows).unwrap();
        let time = &json[1]["device_time"];
        assert_eq!(time["meanwhile"]["rest"]["device_ns"], 500_000_000);
        assert_eq!(time["done"]["soft_real_time"]["wait_ns"], 1_050_000_000);
        assert_eq!(time["account"]["counted_ns"], 60_000_000_000u64);
        assert_eq!(json[0]["device_time"], serde_json::Value::Null);
    }

    #[test]
    fn what_the_root_has_is_what_the_disk_did() {
        let line = |depth, disk_times| DomainLine {
            depth,
            disk_times,
            ..DomainLine::default()
        };
        let mut table = DomainTable {
            more: false,
            time_ns: 1,
            cpus: 1,
            domains: vec![line(1, Vec::new()), line(0, counted(5).disks)],
            disk_account: None,
        };
        assert!(Counted::of(table.clone()).is_none());
        table.disk_account = Some(counted(5).account);
        let found = Counted::of(table).unwrap();
        assert_eq!(found.on("8:0".parse().unwrap()).total().requests, 15);
        assert_eq!(found.on("8:1".parse().unwrap()).total().requests, 0);
    }
}
