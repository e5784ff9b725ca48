//! What systemd is asked, by a peer that stands for it on the other end of a socket.

use super::*;
use crate::testing::{furnish, tree, InFiles};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use zbus::blocking::connection::Builder;
use zbus::fdo;
use zbus::zvariant::{OwnedObjectPath, OwnedValue};

type Asked = Arc<Mutex<Vec<String>>>;

/// Notes what is asked, and makes and removes directories as systemd does.
struct Peer {
    asked: Asked,
    root: PathBuf,
}

type Given = Vec<(String, OwnedValue)>;

fn written(properties: &Given) -> String {
    let one = |(name, value): &(String, OwnedValue)| format!("{name}={}", **value);
    properties.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn job() -> fdo::Result<OwnedObjectPath> {
    OwnedObjectPath::try_from("/org/freedesktop/systemd1/job/1")
        .map_err(|e| fdo::Error::Failed(e.to_string()))
}

#[zbus::interface(name = "org.freedesktop.systemd1.Manager")]
impl Peer {
    fn start_transient_unit(
        &self,
        name: String,
        mode: String,
        properties: Given,
        _others: Vec<(String, Given)>,
    ) -> fdo::Result<OwnedObjectPath> {
        if name.starts_with("refused") {
            return Err(fdo::Error::AccessDenied(
                "Interactive authentication required.".into(),
            ));
        }
        let text = format!("start {name} {mode} {}", written(&properties));
        self.asked.lock().unwrap().push(text);
        if let Some((above, _)) = name.rsplit_once('-').filter(|_| name.ends_with(".slice")) {
            let dir = self.root.join(format!("{above}.slice")).join(&name);
            std::fs::create_dir_all(&dir).unwrap();
            furnish(&dir);
        } else if name.ends_with(".slice") {
            std::fs::create_dir(self.root.join(&name)).unwrap();
            furnish(&self.root.join(&name));
        }
        job()
    }

    fn stop_unit(&self, name: String, mode: String) -> fdo::Result<OwnedObjectPath> {
        self.asked
            .lock()
            .unwrap()
            .push(format!("stop {name} {mode}"));
        std::fs::remove_dir_all(self.root.join(&name)).unwrap();
        job()
    }

    fn set_unit_properties(&self, name: String, runtime: bool, properties: Given) {
        let text = format!("set {name} {runtime} {}", written(&properties));
        self.asked.lock().unwrap().push(text);
    }

    fn attach_processes_to_unit(&self, name: String, below: String, pids: Vec<u32>) {
        let text = format!("attach {name} {below:?} {pids:?}");
        self.asked.lock().unwrap().push(text);
    }
}

/// Run `test` with a manager whose systemd is a [`Peer`]; returns what that was asked.
fn with_peer(domains: &[&str], test: impl FnOnce(&Systemd<'_>, &Path)) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), domains, InFiles::default());
    let (here, there) = UnixStream::pair().unwrap();
    let asked = Asked::default();
    let peer = Peer {
        asked: asked.clone(),
        root: dir.path().into(),
    };
    let server = std::thread::spawn(move || {
        Builder::async_io_unix_stream(there)
            .server(zbus::Guid::generate())
            .unwrap()
            .p2p()
            .serve_at("/org/freedesktop/systemd1", peer)
            .unwrap()
            .build()
            .unwrap()
    });
    let bus = Builder::async_io_unix_stream(here).p2p().build().unwrap();
    let server = server.join().unwrap();
    let manager = Systemd {
        tree: &tree,
        cpus: 2,
        bus,
    };
    test(&manager, dir.path());
    drop(server);
    let asked = asked.lock().unwrap();
    asked.clone()
}

fn path(text: &str) -> DomainPath {
    text.parse().unwrap()
}

#[test]
fn domains_are_slices() {
    for (domain, unit) in [
        ("/", "/"),
        ("media", "media.slice"),
        ("media/video", "media.slice/media-video.slice"),
        ("user.slice/media", "user.slice/user-media.slice"),
        ("a-b/c d", "a\\x2db.slice/a\\x2db-c\\x20d.slice"),
        (".x", "\\x2ex.slice"),
        ("system.slice/ssh.service", "system.slice/ssh.service"),
    ] {
        assert_eq!(place(&path(domain)).unwrap().to_string(), unit, "{domain}");
        let again = place(&path(unit)).unwrap();
        assert_eq!(again.to_string(), unit, "a unit's own path is itself");
    }
    assert!(place(&path("system.slice/ssh.service/x")).is_err());
    assert!(place(&path(&"-".repeat(100))).is_err(), "400 bytes");
}

#[test]
fn a_process_stays_in_its_slice() {
    for (now, slice) in [
        (
            "user.slice/user-1000.slice/session-3.scope",
            "user.slice/user-1000.slice",
        ),
        (
            "user.slice/user-1000.slice/user@1000.service/app.slice/x.scope",
            "user.slice/user-1000.slice",
        ),
        ("system.slice/cron.service", "system.slice"),
        ("init.scope", "/"),
    ] {
        assert_eq!(slice_of(&path(now)), path(slice), "{now}");
    }
}

#[test]
fn slices_are_started_and_stopped() {
    let asked = with_peer(&[], |manager, root| {
        assert!(manager.create(&path("media"), true).unwrap());
        assert!(!manager.create(&path("media"), false).unwrap());
        let marks = manager
            .tree
            .marks(&manager.tree.open(&path("media.slice")).unwrap());
        assert!(marks.0.ephemeral);
        assert!(manager.create(&path("media/video"), false).unwrap());
        let e = manager.remove(&path("media")).unwrap_err().to_string();
        assert!(
            e.contains("domains below"),
            "stopping it would end them: {e}"
        );
        std::fs::remove_dir_all(root.join("media.slice/media-video.slice")).unwrap();
        manager.remove(&path("media")).unwrap();
        assert!(!root.join("media.slice").exists());
        let e = manager.create(&path("refused"), false).unwrap_err();
        let words = "systemd: Interactive authentication required.";
        assert_eq!(e.to_string(), words);
    });
    let start = |unit| {
        format!("start {unit} fail Description=\"a domain made by aplomb\" CPUWeight=uint64 100")
    };
    assert_eq!(
        asked,
        [
            start("media.slice"),
            start("media-video.slice"),
            "stop media.slice fail".into()
        ]
    );
}

#[test]
fn weights_and_limits_are_properties_and_the_rest_attributes() {
    let asked = with_peer(&["media.slice"], |manager, root| {
        let changes = ["weight=200", "max=50%", "cpu=25%", "policy=mtr"];
        let changes: Vec<Change> = changes.iter().map(|c| c.parse().unwrap()).collect();
        manager.set(&path("media"), &changes).unwrap();
        let file = |name: &str| std::fs::read_to_string(root.join("media.slice").join(name));
        assert_eq!(file(".attribute.trusted.aplomb.cpu").unwrap(), "25%");
        assert_eq!(file("cpu.weight").unwrap(), "100\n", "systemd's to write");
        let max = file("cpu.max").unwrap();
        assert_eq!(max, "max 100000\n", "systemd's to write");
        manager
            .set(&path("media"), &["max=none".parse().unwrap()])
            .unwrap();
        manager
            .set(&path("media"), &["policy=sfq".parse().unwrap()])
            .unwrap();
        manager
            .set(&path("media"), &["idle=1".parse().unwrap()])
            .unwrap();
    });
    assert_eq!(
        asked,
        [
            "set media.slice true CPUQuotaPerSecUSec=uint64 1000000 CPUQuotaPeriodUSec=uint64 100000 CPUWeight=uint64 200",
            "set media.slice true CPUQuotaPerSecUSec=uint64 18446744073709551615",
            "set media.slice true CPUWeight=uint64 0",
        ]
    );
}

#[test]
fn processes_go_into_units() {
    let asked = with_peer(&["system.slice/x.service"], |manager, _| {
        let service = path("system.slice/x.service");
        manager.move_pid(&service, 812).unwrap();
        let missing = manager.move_pid(&path("media"), 812).unwrap_err();
        assert!(matches!(missing, DomainError::Missing(_)));
        assert!(manager.create(&path("x.scope"), false).is_err());
    });
    assert_eq!(asked, ["attach x.service \"\" [812]"]);
}
