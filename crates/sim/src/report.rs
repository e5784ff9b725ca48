//! The result of a scenario: a table, and a picture of which task ran when (SVG).

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::machine::Scheduler;
use crate::{Switch, TaskId};

/// Most runs that a picture shows. If there are more, the picture ends there, and says so.
pub const MAX_PIECES: usize = 20_000;

/// The result of one kind of task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Name of the kind in the scenario.
    pub name: String,
    /// Number of tasks.
    pub tasks: usize,
    /// The scenario gives it a reservation.
    pub reserved: bool,
    /// Number of tasks that have their reservation at the end.
    pub admitted: usize,
    /// CPU time of all tasks together, ppm of one CPU.
    pub share_ppm: u64,
    /// Finished jobs of periodic tasks.
    pub jobs: usize,
    /// Jobs that were completed after their deadline or are overdue at the end, and dropped frames.
    pub missed: u64,
    /// Median response time, ns.
    pub median_ns: u64,
    /// Longest response time, ns.
    pub worst_ns: u64,
    /// Number of migrations.
    pub migrations: u64,
}

/// The result of a scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Report {
    /// The scheduler.
    pub scheduler: Scheduler,
    /// The seed of random numbers.
    pub seed: u64,
    /// CPUs of the machine.
    pub cpus: usize,
    /// Virtual time, ns.
    pub length_ns: u64,
    /// Events that were processed.
    pub events: u64,
    /// By kind of task.
    pub tasks: Vec<Line>,
    /// The kind of each task, by its number.
    #[serde(skip)]
    pub names: Vec<String>,
    /// The context switches, if [`crate::scenario::Options::traced`].
    #[serde(skip)]
    pub trace: Vec<Switch>,
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

impl Report {
    /// A table with aligned columns.
    pub fn table(&self) -> String {
        let head = [
            "task",
            "number",
            "admitted",
            "CPU %",
            "jobs",
            "missed",
            "median ms",
            "worst ms",
            "migrations",
        ];
        let mut rows = vec![head.map(String::from)];
        for t in &self.tasks {
            let of_jobs = |text: String| if t.jobs == 0 { "-".into() } else { text };
            rows.push([
                t.name.clone(),
                t.tasks.to_string(),
                if t.reserved {
                    t.admitted.to_string()
                } else {
                    "-".into()
                },
                format!("{:.2}", t.share_ppm as f64 / 1e4),
                of_jobs(t.jobs.to_string()),
                of_jobs(t.missed.to_string()),
                of_jobs(milliseconds(t.median_ns)),
                of_jobs(milliseconds(t.worst_ns)),
                t.migrations.to_string(),
            ]);
        }
        let widths: Vec<usize> = (0..head.len())
            .map(|i| rows.iter().map(|r| r[i].chars().count()).max().unwrap_or(0))
            .collect();
        let mut text = String::new();
        for row in rows {
            let cells = row
                .iter()
                .zip(&widths)
                .enumerate()
                .map(|(i, (cell, &width))| {
                    if i == 0 {
                        format!("{cell:<width$}")
                    } else {
                        format!("{cell:>width$}")
                    }
                });
            text += cells.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
        text
    }

    /// A timeline as SVG: a row for each CPU, a colour for each kind of task.
    pub fn svg(&self) -> String {
        const LEFT: f64 = 60.0;
        const WIDTH: f64 = 1400.0;
        const ROW: f64 = 26.0;
        let kinds: Vec<&str> = self.tasks.iter().map(|t| t.name.as_str()).collect();
        let pieces = self.pieces();
        let end = if pieces.len() < MAX_PIECES {
            self.length_ns
        } else {
            pieces.iter().map(|p| p.2).max().unwrap_or(self.length_ns)
        };
        let x = |ns: u64| LEFT + ns as f64 / end.max(1) as f64 * WIDTH;
        let colour = |kind: usize| format!("hsl({}, 65%, 50%)", kind * 137 % 360);
        let bottom = 20.0 + self.cpus as f64 * ROW;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
             font-family=\"sans-serif\" font-size=\"11\">\n",
            LEFT + WIDTH + 20.0,
            bottom + 50.0
        );
        for cpu in 0..self.cpus {
            let _ = writeln!(
                svg,
                "<text x=\"4\" y=\"{:.0}\">CPU {cpu}</text>",
                36.0 + cpu as f64 * ROW
            );
        }
        for &(cpu, from, to, task) in &pieces {
            let kind = self
                .names
                .get(task)
                .and_then(|n| kinds.iter().position(|k| k == n))
                .unwrap_or(0);
            let _ = writeln!(
                svg,
                "<rect x=\"{:.2}\" y=\"{:.0}\" width=\"{:.2}\" height=\"{:.0}\" fill=\"{}\"/>",
                x(from),
                20.0 + cpu as f64 * ROW,
                (x(to) - x(from)).max(0.1),
                ROW - 6.0,
                colour(kind)
            );
        }
        for tenth in 0..=10 {
            let at = end / 10 * tenth;
            let _ = writeln!(
                svg,
                "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{} ms</text>",
                x(at),
                bottom + 12.0,
                at / 1_000_000
            );
        }
        for (kind, name) in kinds.iter().enumerate() {
            let at = LEFT + 150.0 * kind as f64;
            let y = bottom + 24.0;
            let _ = writeln!(
                svg,
                "<rect x=\"{at:.0}\" y=\"{y:.0}\" width=\"10\" height=\"10\" fill=\"{}\"/>\
                 <text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
                colour(kind),
                at + 14.0,
                y + 9.0,
                escape(name)
            );
        }
        if end < self.length_ns {
            let _ = writeln!(
                svg,
                "<text x=\"{LEFT:.0}\" y=\"12\">the first {} of {} ms ({MAX_PIECES} runs)</text>",
                end / 1_000_000,
                self.length_ns / 1_000_000
            );
        }
        svg + "</svg>\n"
    }

    /// The runs, in order of their ends: (CPU, from, to, task).
    fn pieces(&self) -> Vec<(usize, u64, u64, TaskId)> {
        let mut open: BTreeMap<usize, (u64, TaskId)> = BTreeMap::new();
        let mut pieces = Vec::new();
        for s in &self.trace {
            if let Some((from, task)) = open.remove(&s.cpu) {
                pieces.push((s.cpu, from, s.at, task));
            }
            if let Some(task) = s.task {
                open.insert(s.cpu, (s.at, task));
            }
            if pieces.len() >= MAX_PIECES {
                return pieces;
            }
        }
        pieces.extend(
            open.into_iter()
                .map(|(cpu, (from, task))| (cpu, from, self.length_ns, task)),
        );
        pieces
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}
