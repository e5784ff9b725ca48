//! Signals, as bytes in a socket.

use std::io::Read;
use std::os::unix::net::UnixStream;

/// Signals, as bytes that can be waited for.
pub struct Signals {
    /// SIGTERM and SIGINT.
    pub stop: UnixStream,
    /// SIGHUP.
    pub reload: UnixStream,
}

impl Signals {
    /// # Errors
    /// No socket pair, or a handler cannot be set.
    pub fn new() -> std::io::Result<Self> {
        use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
        let pipe = |signals: &[i32]| {
            let (read, write) = UnixStream::pair()?;
            read.set_nonblocking(true)?;
            for signal in signals {
                signal_hook::low_level::pipe::register(*signal, write.try_clone()?)?;
            }
            Ok::<_, std::io::Error>(read)
        };
        Ok(Self {
            stop: pipe(&[SIGTERM, SIGINT])?,
            reload: pipe(&[SIGHUP])?,
        })
    }
}

/// Take all bytes of signals that have come.
pub fn drain(stream: &mut UnixStream) {
    let mut bytes = [0; 64];
    while matches!(stream.read(&mut bytes), Ok(n) if n > 0) {}
}
