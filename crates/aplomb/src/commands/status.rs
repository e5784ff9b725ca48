//! `aplomb status`.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use aplomb_domain::Tree;
use aplomb_memory::Bytes;
use aplomb_spec::format_duration;
use serde::Serialize;

use super::memory::{or_none, protection, MemoryUse};
use super::table::{self, table};
use super::{cpus, line, print_json, unexpected};
use crate::client::Client;
use crate::config::percent;
use crate::exit::Exit;
use crate::explain::rough;
use crate::protocol::{Answer, Ask, MemoryCounts, MemoryStatus, Status, TaskLine};

const ROOT: &str = "/"; // of the tree of domains

pub fn status(socket: &Path, json: bool) -> Result<Exit> {
    let Answer::Status(status) = Client::connect(socket)?.call(Ask::Status {})? else {
        return Err(unexpected());
    };
    let memory_use = memory_use(&status.memory);
    if json {
        print_json(&Shown {
            status: *status,
            memory_use,
        })?;
    } else {
        line(text(&status, &memory_use).trim_end())?;
    }
    Ok(Exit::Ok)
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Shown {
    #[serde(flatten)]
    status: Status,
    memory_use: Uses,
}

/// What domains have of memory, by path.
type Uses = BTreeMap<String, MemoryUse>;

/// Of the protected domains, and of the root, which is the whole machine.
fn memory_use(m: &MemoryStatus) -> Uses {
    let Ok(tree) = Tree::system() else {
        return Uses::new();
    };
    let protected = m.protected.iter().flat_map(|t| &t.domains);
    let paths = protected.map(|d| d.path.as_str()).chain([ROOT]);
    let uses = paths.filter_map(|path| {
        let dir = tree.root().join(path.trim_start_matches('/'));
        Some((path.to_owned(), MemoryUse::of(&dir)?))
    });
    uses.collect()
}

fn text(s: &Status, uses: &Uses) -> String {
    let mut out = format!(
        "{} {} is {} on Linux {}, for {}; {} specs, {} matchers{}\n",
        s.scheduler,
        s.version,
        if s.attached {
            "attached"
        } else {
            "not attached"
        },
        s.kernel,
        age(s.attached_s),
        s.specs,
        s.matchers,
        match s.restarts {
            0 => String::new(),
            n => format!(", {n} restarts"),
        }
    );
    for error in &s.spec_errors {
        out += &format!("{error}\n");
    }
    out.push('\n');
    let mut loads = table(&[
        "CPU",
        ">guaranteed",
        ">R_load",
        ">S_load",
        ">interactive tasks",
    ]);
    for c in &s.cpus {
        let here =
            |t: &&TaskLine| t.cpu == c.cpu as i32 || t.parts.iter().any(|p| p.cpu == c.cpu as i32);
        let here = s.tasks.iter().filter(here).count();
        loads.add_row(vec![
            c.cpu.to_string(),
            percent(c.guaranteed_ppm),
            percent(c.r_load_ppm),
            percent(c.s_load_ppm),
            here.to_string(),
        ]);
    }
    out += &table::text(&loads);
    out += &format!(
        "(guaranteed and load together: admission below {}, revocation above {}, reactivation below {}; server {})\n\n",
        percent(s.r_hi_ppm),
        percent(s.r_max_ppm),
        percent(s.r_lo_ppm),
        s.server
    );
    if s.tasks.is_empty() {
        out += "no interactive tasks\n";
    } else {
        let mut tasks = table(&[
            ">PID",
            "command",
            "spec",
            "C/T",
            ">CPU",
            "state",
            ">use",
            ">threads",
            ">exhausted",
            ">missed",
            ">migrations",
            ">reclaimed",
        ]);
        for t in &s.tasks {
            let cpu_time = format!(
                "{}/{}",
                format_duration(t.runtime_ns),
                format_duration(t.period_ns)
            );
            tasks.add_row(vec![
                t.pid.to_string(),
                t.comm.clone(),
                if t.inherited {
                    format!("{} (inherited)", t.spec)
                } else {
                    t.spec.clone()
                },
                if t.server == s.server {
                    cpu_time
                } else {
                    format!("{cpu_time} {}", t.server)
                },
                cpus(t.cpu, &t.parts),
                if t.guaranteed {
                    "guaranteed".into()
                } else {
                    t.state.to_string()
                },
                percent(t.use_ppm),
                t.threads.to_string(),
                t.exhausted.to_string(),
                t.missed.to_string(),
                t.migrations.to_string(),
                match t.reclaimed_ns {
                    0 => "0".into(),
                    ns => rough(ns),
                },
            ]);
        }
        out += &table::text(&tasks);
    }
    out += &memory(&s.memory, uses);
    let counts: Vec<_> = s
        .counters
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(k, n)| format!("{n} {k}"))
        .collect();
    if !counts.is_empty() {
        out += &format!("\n{}", table::list("so far", &counts));
    }
    out
}

/// Protected domains, and what happened while memory was short. Empty if there is neither.
fn memory(m: &MemoryStatus, uses: &Uses) -> String {
    let mut out = String::new();
    let domains = m.protected.iter().flat_map(|t| &t.domains);
    let mut lines = table(&[
        "protected memory of",
        ">pi",
        ">used",
        ">working set",
        ">private",
        ">protected",
        ">taken",
    ]);
    let mut any = false;
    let mut taken_here = 0;
    for d in domains {
        any = true;
        let taken = uses.get(&d.path).map(|u| u.reclaimed);
        taken_here += taken.unwrap_or(0);
        lines.add_row(vec![
            d.path.clone(),
            format_duration(d.pi_ms * 1_000_000),
            Bytes(d.usage).to_string(),
            or_none(d.working_set),
            or_none(Some(d.private).filter(|b| *b > 0)),
            protection(d.protected),
            or_none(taken),
        ]);
    }
    if any {
        out += &format!("\n{}", table::text(&lines));
        if let Some(all) = uses.get(ROOT) {
            let others = Bytes(all.reclaimed.saturating_sub(taken_here));
            out += &format!(
                "(taken: by the kernel, since the domain was created; from all others since boot: {others})\n"
            );
        }
    }
    if let Some(t) = m.protected.as_ref().filter(|t| t.held > 0) {
        let held = Bytes(t.held);
        out += &format!(
            "\nheld beside that: {held} of file pages that other cgroups are charged for\n"
        );
    }
    out += &counts(&m.counts);
    out
}

/// What happened to each class of tasks. Empty if nothing did.
fn counts(counts: &[MemoryCounts]) -> String {
    let mut lines = table(&[
        "while memory was short",
        ">asked",
        ">parked",
        ">reclaimed",
        ">at a limit",
        ">from swap",
    ]);
    let mut any = false;
    for c in counts {
        any |= c.asked + c.reclaimed + c.reclaimed_limit + c.swapped_in > 0;
        lines.add_row(vec![
            format!("{} tasks", c.class),
            c.asked.to_string(),
            c.parked.to_string(),
            c.reclaimed.to_string(),
            c.reclaimed_limit.to_string(),
            c.swapped_in.to_string(),
        ]);
    }
    if !any {
        return String::new();
    }
    format!(
        "\n{}(how often they asked for pages below the low watermark, were parked for it, reclaimed \
         memory themselves, did so at a limit of their cgroup, waited for a page from swap)\n",
        table::text(&lines)
    )
}

/// A time in seconds as readable text.
fn age(s: u64) -> String {
    match s {
        0..120 => format!("{s} s"),
        120..7200 => format!("{} min", s / 60),
        7200..172_800 => format!("{} h", s / 3600),
        _ => format!("{} days", s / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{MemoryLine, MemoryTable};
    use aplomb_kernel::{Cpu, Part, ServerPolicy, ServerState};
    use serde_json::json;

    fn cpu(cpu: u32, guaranteed_ppm: u64, r_load_ppm: u64) -> Cpu {
        Cpu {
            cpu,
            r_load_ppm,
            s_load_ppm: r_load_ppm + 8000,
            guaranteed_ppm,
        }
    }

    fn task(pid: i32, comm: &str) -> TaskLine {
        TaskLine {
            pid,
            comm: comm.into(),
            spec: comm.into(),
            runtime_ns: 5_000_000,
            period_ns: 30_000_000,
            state: ServerState::Admitted,
            cpu: 0,
            inherited: false,
            revocable: true,
            guaranteed: false,
            parts: vec![],
            window: 0,
            migrations: 0,
            server: ServerPolicy::Fcbs,
            threads: 3,
            use_ppm: 41_000,
            served_ns: 1,
            reclaimed_ns: 0,
            periods: 1,
            exhausted: 0,
            missed: 0,
        }
    }

    /// A player by load, one movie on one CPU, one split over both, one refused.
    fn example() -> Status {
        let movie = |pid, parts: &[(i32, u64)]| TaskLine {
            runtime_ns: 25_000_000,
            period_ns: 41_000_000,
            revocable: false,
            guaranteed: true,
            cpu: parts[0].0,
            parts: parts
                .iter()
                .map(|(cpu, runtime_ns)| Part {
                    cpu: *cpu,
                    runtime_ns: *runtime_ns,
                })
                .collect(),
            ..task(pid, "movie")
        };
        let tasks = vec![
            TaskLine {
                state: ServerState::Rejected,
                cpu: -1,
                server: ServerPolicy::CbsHard,
                ..task(99, "late")
            },
            TaskLine {
                inherited: true,
                ..task(812, "mplayer")
            },
            TaskLine {
                migrations: 1234,
                reclaimed_ns: 61_500_000_000,
                ..movie(1001, &[(0, 13_000_000), (1, 12_000_000)])
            },
            movie(1002, &[(1, 25_000_000)]),
        ];
        Status {
            attached: true,
            scheduler: "aplomb".into(),
            version: "0.1.0".into(),
            kernel: "7.3.4".into(),
            attached_s: 300,
            restarts: 1,
            server: ServerPolicy::Fcbs,
            r_lo_ppm: 600_000,
            r_hi_ppm: 800_000,
            r_max_ppm: 900_000,
            specs: 100,
            matchers: 140,
            spec_errors: vec!["skipped: /etc/x.toml:4:7: field \"io\": 8 is too much".into()],
            cpus: vec![cpu(0, 317_074, 312_000), cpu(1, 902_440, 0)],
            tasks,
            memory: MemoryStatus::default(),
            counters: [("matched".to_owned(), 1), ("missed".to_owned(), 0)].into(),
        }
    }

    #[test]
    fn it_shows_the_state_the_loads_and_the_tasks() {
        let shown = text(&example(), &Uses::new());
        let expected = "\
aplomb 0.1.0 is attached on Linux 7.3.4, for 5 min; 100 specs, 140 matchers, 1 restarts
skipped: /etc/x.toml:4:7: field \"io\": 8 is too much

CPU  guaranteed  R_load  S_load  interactive tasks
0        31.7 %  31.2 %    32 %                  2
1        90.2 %     0 %   0.8 %                  2
(guaranteed and load together: admission below 80 %, revocation above 90 %, reactivation below 60 %; server fcbs)

 PID  command  spec                 C/T                CPU  state         use  threads  exhausted  missed  migrations  reclaimed
  99  late     late                 5ms/30ms cbs-hard    -  rejected    4.1 %        3          0       0           0          0
 812  mplayer  mplayer (inherited)  5ms/30ms             0  admitted    4.1 %        3          0       0           0          0
1001  movie    movie                25ms/41ms          0+1  guaranteed  4.1 %        3          0       0        1234     61.5 s
1002  movie    movie                25ms/41ms            1  guaranteed  4.1 %        3          0       0           0          0

so far: 1 matched
";
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn protected_memory_is_a_table() {
        let line = |path: &str, working_set, protected| MemoryLine {
            path: path.into(),
            pi_ms: 1_800_000,
            usage: 80 << 20,
            private: 0,
            working_set,
            protected,
            limited_by: None,
        };
        let found = MemoryStatus {
            protected: Some(MemoryTable {
                by_age: true,
                held: 0,
                domains: vec![
                    line("aplomb/0/mpv-7", Some(60 << 20), Some(75 << 20)),
                    line("aplomb/0/vi-9", None, None),
                ],
            }),
            counts: vec![MemoryCounts {
                class: "best-effort".into(),
                asked: 70,
                parked: 30,
                reclaimed: 2,
                reclaimed_limit: 0,
                swapped_in: 900,
            }],
        };
        let taken = |mb: u64| MemoryUse {
            reclaimed: mb << 20,
            ..MemoryUse::default()
        };
        let uses = [("aplomb/0/mpv-7", 2), (ROOT, 500)];
        let uses = uses.map(|(path, mb)| (path.to_owned(), taken(mb))).into();
        let shown = memory(&found, &uses);
        let expected = "
protected memory of     pi      used  working set  private  protected    taken
aplomb/0/mpv-7       30min  80.0 MiB     60.0 MiB        -   75.0 MiB  2.0 MiB
aplomb/0/vi-9        30min  80.0 MiB            -        -        all        -
(taken: by the kernel, since the domain was created; from all others since boot: 498.0 MiB)

while memory was short  asked  parked  reclaimed  at a limit  from swap
best-effort tasks          70      30          2           0        900
(how often they asked for pages below the low watermark, were parked for it, reclaimed memory themselves, did so at a limit of their cgroup, waited for a page from swap)
";
        assert_eq!(shown, expected, "\n{shown}");
    }

    #[test]
    fn json_has_all() {
        let json = serde_json::to_value(example()).unwrap();
        assert_eq!(json["server"], "fcbs");
        assert_eq!(json["cpus"][1]["guaranteed_ppm"], 902_440);
        let split = &json["tasks"][2];
        for (key, value) in [
            ("guaranteed", json!(true)),
            ("window", json!(0)),
            ("migrations", json!(1234)),
            ("reclaimed_ns", json!(61_500_000_000u64)),
            ("server", json!("fcbs")),
        ] {
            assert_eq!(split[key], value, "{key}");
        }
        assert_eq!(split["parts"][1]["cpu"], 1);
        assert_eq!(split["parts"][1]["runtime_ns"], 12_000_000);
    }
}
