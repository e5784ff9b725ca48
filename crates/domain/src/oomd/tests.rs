//! A signal of a stand-in for systemd-oomd, on the other end of a socket.

use super::*;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::channel;
use std::time::Duration;
use zbus::blocking::connection::Builder;
use zbus::fdo;

/// What there is of a bus: no service has this name, as of messages between two ends.
struct Bus;

#[zbus::interface(name = "org.freedesktop.DBus")]
impl Bus {
    fn get_name_owner(&self, name: String) -> fdo::Result<String> {
        Err(fdo::Error::NameHasNoOwner(name))
    }
}

#[test]
fn a_kill_is_passed_on() {
    let (here, there) = UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || {
        Builder::async_io_unix_stream(there)
            .server(zbus::Guid::generate())
            .unwrap()
            .p2p()
            .serve_at("/org/freedesktop/DBus", Bus)
            .unwrap()
            .build()
            .unwrap()
    });
    let bus = Builder::async_io_unix_stream(here).p2p().build().unwrap();
    let server = server.join().unwrap();
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let _ = listen_on(&bus, |cgroup, reason| {
            let _ = sender.send((cgroup.to_owned(), reason.to_owned()));
        });
    });
    let (path, interface) = ("/org/freedesktop/oom1", "org.freedesktop.oom1.Manager");
    let cgroup = "/user.slice/app-x.scope";
    // Signals that come before the listener does are lost: repeat until one arrives.
    for _ in 0..1000 {
        let none = None::<&str>;
        let body = (cgroup, "memory-used");
        server
            .emit_signal(none, path, interface, "Killed", &body)
            .unwrap();
        if let Ok(killed) = receiver.recv_timeout(Duration::from_millis(50)) {
            assert_eq!(killed, (cgroup.to_owned(), "memory-used".to_owned()));
            return;
        }
    }
    panic!("no signal arrived");
}
