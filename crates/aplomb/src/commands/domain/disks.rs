//! What each domain had the disks do: `aplomb domain ls --disk`, and part of `show`.
//!
//! As with memory, the command reads the cgroup's files itself.

use aplomb_disk::{Disk, DiskUse, DomainUse};
use aplomb_domain::Tree;
use aplomb_memory::Bytes;

use super::show::{name, Row};
use crate::commands::memory::or_none;
use crate::commands::table::{self, table};
use crate::explain::rough;

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
            if ns > 0 { rough(ns) } else { "-".into() },
        ]);
    }
    table::text(&table)
        + "(so far, of all disks, with the domains below; parked: the domain's own tasks, which had \
           too much to be written)\n"
}

/// Of one domain: a title and a text for each disk that it used. `disks`: for their names.
pub fn of_one(found: &DomainUse, disks: &[Disk]) -> Vec<(String, String)> {
    let mut lines: Vec<(String, String)> = found
        .disks
        .iter()
        .flatten()
        .map(|used| {
            let disk = disks.iter().find(|d| d.number == used.number);
            let name = disk.map_or_else(|| used.number.to_string(), |d| d.name.clone());
            let [read, written] = [used.read_bytes, used.written_bytes].map(Bytes);
            let text = format!(
                "{read} read in {} requests, {written} written in {}",
                used.reads, used.writes
            );
            (format!("disk {name}"), text)
        })
        .collect();
    if let Some(dirty) = found.dirty_bytes {
        lines.push(("to be written".into(), Bytes(dirty).to_string()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::domain::show::received;
    use crate::protocol::{DomainLine, DomainTable, ParkLine};

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
                time_ns: 0,
                cpus: 2,
                domains: vec![line("/", 0), line("media", 1)],
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

    #[test]
    fn disks_are_a_table() {
        let text = list_of_disks(&rows());
        let expected = "\
domain      read  requests  written  requests  to be written  parked
/              -         -        -         -              -       -
  media  4.0 MiB         4  8.0 MiB         8        2.0 MiB  300 ms
(so far, of all disks, with the domains below; parked: the domain's own tasks, which had too much to be written)
";
        assert_eq!(text, expected, "\n{text}");
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
        let rows = rows();
        let lines = of_one(rows[1].disk_use.as_ref().unwrap(), &[disk]);
        let (titles, texts): (Vec<String>, Vec<String>) = lines.into_iter().unzip();
        assert_eq!(titles, ["disk sda", "disk 8:16", "to be written"]);
        assert_eq!(texts[0], "3.0 MiB read in 3 requests, 6.0 MiB written in 6");
        assert_eq!(texts[2], "2.0 MiB");
    }
}
