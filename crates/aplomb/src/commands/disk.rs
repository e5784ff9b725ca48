//! `aplomb disk`: the disks of the machine.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;
use aplomb_disk::{disks, Disk, Done};
use serde::Serialize;

use super::table::{self, table};
use super::{line, print_json};
use crate::cli::{DiskClass, DiskCommand};
use crate::config::percent;
use crate::exit::Exit;
use crate::protocol::{Ask, DiskChange};

/// Where sysfs is mounted.
const SYS: &str = "/sys";

/// `aplomb disk ls`.
pub fn list_all(over: Duration, json: bool) -> Result<Exit> {
    let (before, start) = (disks(Path::new(SYS))?, Instant::now());
    std::thread::sleep(over);
    let (now, over) = (disks(Path::new(SYS))?, start.elapsed());
    let rows = rows(&before, now, over);
    if json {
        print_json(&rows)?;
    } else {
        line(list(&rows).trim_end())?;
    }
    Ok(Exit::Ok)
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
}

/// A disk that came meanwhile has done nothing yet.
fn rows(before: &[Disk], now: Vec<Disk>, over: Duration) -> Vec<Row> {
    let row = |disk: Disk| {
        let same = |d: &&Disk| (d.number, d.name.as_str()) == (disk.number, disk.name.as_str());
        let first = before.iter().find(same).map_or(disk.done, |d| d.done);
        Row {
            meanwhile: disk.done.since(&first),
            over_ms: u64::try_from(over.as_millis()).unwrap_or(u64::MAX),
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
    }
}
