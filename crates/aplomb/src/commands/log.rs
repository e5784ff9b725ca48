//! `aplomb log`.

use std::io::Write;
use std::path::Path;

use anyhow::Result;
use jiff::tz::TimeZone;
use jiff::Timestamp;

use super::line;
use crate::cli::LogArgs;
use crate::client::Client;
use crate::exit::Exit;
use crate::explain::{short, to_json, Story};
use crate::protocol::{Answer, Ask, LogEvent};
use tracing::warn;

pub fn log(socket: &Path, args: &LogArgs) -> Result<Exit> {
    let mut client = Client::connect(socket)?;
    client.ask(Ask::Log {
        follow: args.follow,
        pid: args.why.or(args.pid),
        since_ns: args.since,
    })?;
    let zone = TimeZone::system();
    let mut story = Story::default();
    let (mut any, mut done) = (false, false);
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    while let Some(answer) = client.next()? {
        match answer {
            Answer::Event(e) => {
                any = true;
                let at = time(&e, &zone);
                if args.why.is_some() {
                    writeln!(out, "{}", story.sentence(&at, &e))?;
                } else if args.json {
                    writeln!(out, "{}", to_json(&e))?;
                } else {
                    writeln!(out, "{at} {:>7} {:<15} {}", e.pid, e.comm, short(&e))?;
                }
                if args.follow {
                    out.flush()?;
                }
            }
            Answer::Notice(text) => warn!("{text}"),
            _ => {
                done = true;
                break;
            }
        }
    }
    out.flush()?;
    drop(out);
    if let (Some(pid), false) = (args.why, any) {
        line(format!("nothing was decided about process {pid}: it matches no spec, or its events are no longer kept"))?;
    }
    if args.follow && !done {
        warn!("the daemon has ended");
        return Ok(Exit::Failure);
    }
    Ok(Exit::Ok)
}

/// Local time of an event, with the date if it is not of today.
fn time(e: &LogEvent, zone: &TimeZone) -> String {
    let at = i128::from(e.time_ns);
    let Ok(at) = Timestamp::from_nanosecond(at) else {
        return "?".into();
    };
    let (at, today) = (
        at.to_zoned(zone.clone()),
        Timestamp::now().to_zoned(zone.clone()).date(),
    );
    let format = if at.date() == today {
        "%H:%M:%S%.3f"
    } else {
        "%Y-%m-%d %H:%M:%S%.3f"
    };
    at.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aplomb_kernel::EventKind;

    #[test]
    fn events_of_other_days_have_a_date() {
        let e = LogEvent {
            time_ns: 1_000_000_000_123_456_789,
            event: EventKind::Lost,
            cpu: 0,
            pid: 0,
            comm: String::new(),
            spec: String::new(),
            numbers: [0; 3],
        };
        assert_eq!(time(&e, &TimeZone::UTC), "2001-09-09 01:46:40.123");
    }
}
