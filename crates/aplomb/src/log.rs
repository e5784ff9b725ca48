//! Messages of the daemon and the commands (tracing). They go to the journal if systemd has
//! connected standard error to it. Otherwise they go to standard error, as "error: …", "warning: …"
//! or the bare text.

use std::fmt;

use tracing::{Event, Level, Metadata, Subscriber};
use tracing_journald::{Priority, PriorityMappings};
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;

/// Set up the output of this process's messages. A second call changes nothing.
pub fn init() {
    let journal = is_journal().then(journal).flatten();
    let terminal = journal.is_none().then(|| {
        tracing_subscriber::fmt::layer()
            .event_format(Plain)
            .with_writer(std::io::stderr)
            // If standard error is closed, it would report that to standard error, and panic.
            .log_internal_errors(false)
    });
    let ours = filter_fn(is_ours);
    let all = terminal.with_filter(ours.clone());
    let registry = tracing_subscriber::registry();
    let _ = registry
        .with(all)
        .with(journal.with_filter(ours))
        .try_init();
}

/// True for messages of aplomb's own crates. Those of libraries (zbus) are for their developers.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.target().starts_with("aplomb") && *metadata.level() <= Level::INFO
}

/// The output to the journal. None if the journal's socket does not answer.
fn journal() -> Option<tracing_journald::Layer> {
    let priorities = PriorityMappings {
        info: Priority::Informational,
        ..PriorityMappings::new()
    };
    let layer = tracing_journald::layer().ok()?;
    Some(
        layer
            .with_syslog_identifier("aplomb".into())
            .with_priority_mappings(priorities),
    )
}

/// systemd sets JOURNAL_STREAM to "DEVICE:INODE" of the stream that the journal reads. A child
/// whose standard error was redirected inherits the variable too, so both numbers are compared.
fn is_journal() -> bool {
    let Ok(stream) = std::env::var("JOURNAL_STREAM") else {
        return false;
    };
    let stderr = rustix::fs::fstat(std::io::stderr());
    stderr.is_ok_and(|s| stream == format!("{}:{}", s.st_dev, s.st_ino))
}

/// The format of a message on a terminal.
struct Plain;

fn prefix(level: Level) -> &'static str {
    match level {
        Level::ERROR => "error: ",
        Level::WARN => "warning: ",
        _ => "",
    }
}

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        writer.write_str(prefix(*event.metadata().level()))?;
        context
            .field_format()
            .format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Buffer(Arc<Mutex<Vec<u8>>>);

    impl Write for Buffer {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_terminal_gets_the_level_and_the_text() {
        let buffer = Buffer::default();
        let writer = buffer.clone();
        let layer = tracing_subscriber::fmt::layer()
            .event_format(Plain)
            .with_writer(move || writer.clone())
            .with_filter(filter_fn(is_ours));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || {
            tracing::info!("3 specs");
            tracing::warn!("a\nb {}", 1);
            tracing::error!("\"quoted\"");
            tracing::debug!("not shown");
            tracing::error!(target: "zbus", "not shown");
        });
        let text = String::from_utf8(buffer.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, "3 specs\nwarning: a\nb 1\nerror: \"quoted\"\n");
    }
}
