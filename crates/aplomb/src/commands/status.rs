//! `aplomb status`.

use std::path::Path;

use anyhow::Result;
use aplomb_spec::format_duration;

use super::table::Table;
use super::{line, print_json, unexpected};
use crate::client::Client;
use crate::config::percent;
use crate::exit::Exit;
use crate::protocol::{Answer, Ask, Status};

pub fn status(socket: &Path, json: bool) -> Result<Exit> {
    let Answer::Status(status) = Client::connect(socket)?.call(Ask::Status {})? else {
        return Err(unexpected());
    };
    if json {
        print_json(&status)?;
    } else {
        line(text(&status).trim_end())?;
    }
    Ok(Exit::Ok)
}

fn text(s: &Status) -> String {
    let mut out = format!(
        "{} {} is {} on Linux {}, for {}; {} specs, {} matchers{}\n\n",
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
    let mut cpus = Table::new(&["CPU", ">R_load", ">S_load", ">interactive tasks"]);
    for c in &s.cpus {
        let here = s.tasks.iter().filter(|t| t.cpu == c.cpu as i32).count();
        cpus.row(vec![
            c.cpu.to_string(),
            percent(c.r_load_ppm),
            percent(c.s_load_ppm),
            here.to_string(),
        ]);
    }
    out += &cpus.text();
    out += &format!(
        "(admission below {}, revocation above {}, reactivation below {})\n\n",
        percent(s.r_hi_ppm),
        percent(s.r_max_ppm),
        percent(s.r_lo_ppm)
    );
    if s.tasks.is_empty() {
        out += "no interactive tasks\n";
    } else {
        let mut tasks = Table::new(&[
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
        ]);
        for t in &s.tasks {
            tasks.row(vec![
                t.pid.to_string(),
                t.comm.clone(),
                if t.inherited {
                    format!("{} (inherited)", t.spec)
                } else {
                    t.spec.clone()
                },
                format!(
                    "{}/{}",
                    format_duration(t.runtime_ns),
                    format_duration(t.period_ns)
                ),
                t.cpu.to_string(),
                t.state.to_string(),
                percent(t.use_ppm),
                t.threads.to_string(),
                t.exhausted.to_string(),
                t.missed.to_string(),
            ]);
        }
        out += &tasks.text();
    }
    let counts: Vec<_> = s
        .counters
        .iter()
        .filter(|(_, n)| **n > 0)
        .map(|(k, n)| format!("{n} {k}"))
        .collect();
    if !counts.is_empty() {
        out += &format!("\nso far: {}\n", counts.join(", "));
    }
    out
}

/// Seconds for people.
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
    use crate::protocol::TaskLine;
    use aplomb_kernel::{Cpu, ServerState};

    #[test]
    fn it_shows_the_state_the_loads_and_the_tasks() {
        let status = Status {
            attached: true,
            scheduler: "aplomb".into(),
            version: "0.1.0".into(),
            kernel: "7.3.4".into(),
            attached_s: 300,
            restarts: 1,
            r_lo_ppm: 600_000,
            r_hi_ppm: 800_000,
            r_max_ppm: 900_000,
            specs: 100,
            matchers: 140,
            cpus: vec![Cpu {
                cpu: 0,
                r_load_ppm: 312_000,
                s_load_ppm: 320_000,
            }],
            tasks: vec![TaskLine {
                pid: 812,
                comm: "mplayer".into(),
                spec: "mplayer".into(),
                runtime_ns: 5_000_000,
                period_ns: 30_000_000,
                state: ServerState::Admitted,
                cpu: 0,
                inherited: true,
                revocable: true,
                threads: 3,
                use_ppm: 41_000,
                served_ns: 1,
                periods: 1,
                exhausted: 0,
                missed: 0,
            }],
            counters: [("matched".to_owned(), 1), ("missed".to_owned(), 0)].into(),
        };
        let text = text(&status);
        for words in [
            "attached on Linux 7.3.4, for 5 min; 100 specs, 140 matchers, 1 restarts",
            "0    31.2 %    32 %                  1",
            "812  mplayer  mplayer (inherited)  5ms/30ms    0  admitted  4.1 %",
            "so far: 1 matched\n",
        ] {
            assert!(text.contains(words), "{words:?} is not in\n{text}");
        }
    }
}
