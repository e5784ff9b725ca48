//! sd_notify(3): tell the service manager how far the daemon is. One datagram, so no library.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Send `state` ("READY=1") to the manager named in NOTIFY_SOCKET. Does nothing without one.
///
/// # Errors
/// The datagram could not be sent.
pub fn notify(state: &str) -> io::Result<()> {
    match std::env::var_os("NOTIFY_SOCKET") {
        Some(socket) => send(&socket, state),
        None => Ok(()),
    }
}

fn send(socket: &OsStr, state: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        // '@' stands for the NUL of an abstract address
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(state.as_bytes(), &address)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manager_hears_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let manager = UnixDatagram::bind(&path).unwrap();
        send(path.as_os_str(), "READY=1").unwrap();
        let mut heard = [0; 64];
        let n = manager.recv(&mut heard).unwrap();
        assert_eq!(&heard[..n], b"READY=1");
    }

    #[test]
    fn abstract_addresses_work() {
        let name = format!("aplomb-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let manager = UnixDatagram::bind_addr(&address).unwrap();
        send(OsStr::new(&format!("@{name}")), "STOPPING=1").unwrap();
        let mut heard = [0; 64];
        assert_eq!(manager.recv(&mut heard).unwrap(), 10);
    }
}
