//! The requests to systemd, received by a stand-in on the other end of a socket.

use super::*;
use crate::testing::{create_cgroup_files, tree, InFiles};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use zbus::blocking::connection::Builder;
use zbus::fdo;
use zbus::zvariant::{OwnedObjectPath, OwnedValue};

type Asked = Arc<Mutex<Vec<String>>>;

/// Records the requests, and creates and removes directories as systemd does.
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
            create_cgroup_files(&dir);
        } else if name.ends_with(".slice") {
            std::fs::create_dir(self.root.join(&name)).unwrap();
            create_cgroup_files(&self.root.join(&name));
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

/// Run `test` with a manager whose systemd is a [`Peer`]. Returns the requests that it received.
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
    let manager = Systemd::on(&bus, &tree, 2).unwrap();
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
        // Below a service or a scope there are no slices of ours: names are used as they are.
        ("system.slice/ssh.service/x", "system.slice/ssh.service/x"),
        ("x.scope/a.slice/b-c", "x.scope/a.slice/b-c"),
    ] {
        assert_eq!(place(&path(domain)).unwrap().to_string(), unit, "{domain}");
        let again = place(&path(unit)).unwrap();
        assert_eq!(again.to_string(), unit, "a unit's own path is itself");
    }
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

const APP: &str = "user.slice/user-1000.slice/user@1000.service/app.slice";
const INSIDE: &str = "machine.slice/web.scope/system.slice";

/// The system manager may have an app.slice and a system.slice too. Those must not be changed.
#[test]
fn below_a_service_the_system_manager_is_not_asked() {
    let (app, inside) = (format!("{APP}/x.scope/deep"), format!("{INSIDE}/x.service"));
    let there = [APP, app.as_str(), INSIDE, inside.as_str()];
    let user = "user 1000, not to the system's";
    let asked = with_peer(&there, |manager, root| {
        for (domain, words) in [
            (APP, [user, "set-property app.slice CPUWeight"]),
            (&app, [user, "set-property x.scope CPUWeight"]),
            (INSIDE, ["inside web.scope", "by hand"]),
            (&inside, ["inside web.scope", "by hand"]),
        ] {
            let domain = path(domain);
            let mixed = ["policy=mtr", "cpu=5%", "weight=200"].map(|c| c.parse().unwrap());
            let new = domain.child("new.slice").unwrap();
            for done in [
                manager.set(&domain, &mixed),
                manager.remove(&domain),
                manager.move_pid(&domain, 1),
                manager.enter(&domain, false).map(drop),
            ] {
                let e = done.unwrap_err().to_string();
                assert!(e.contains(&domain.to_string()), "{e}");
                assert!(words.iter().all(|w| e.contains(w)), "{e}");
            }
            for done in [
                manager.create(&new, false).map(drop),
                manager.enter(&new, true).map(drop),
            ] {
                let e = done.unwrap_err().to_string();
                assert!(e.contains(&new.to_string()) && e.contains(words[0]), "{e}");
            }
            let dir = root.join(domain.to_string());
            let there = |name: &str| dir.join(name).exists();
            assert!(!there(".attribute.trusted.aplomb.cpu") && !there("new.slice"));
            assert_eq!(
                std::fs::read_to_string(dir.join("cpu.weight")).unwrap(),
                "100\n"
            );
            assert!(!manager.create(&domain, false).unwrap(), "it is there");
        }
    });
    assert_eq!(asked, [""; 0]);
}

#[test]
fn below_a_service_attributes_can_be_set() {
    let asked = with_peer(&[APP, INSIDE], |manager, root| {
        for domain in [APP, INSIDE] {
            let changes = ["cpu=10ms/100ms", "policy=wrr"].map(|c| c.parse().unwrap());
            manager.set(&path(domain), &changes).unwrap();
            let file = |name: &str| std::fs::read_to_string(root.join(domain).join(name));
            assert_eq!(file(".attribute.trusted.aplomb.cpu").unwrap(), "10ms/100ms");
            assert_eq!(file(".attribute.trusted.aplomb.policy").unwrap(), "wrr");
        }
    });
    assert_eq!(asked, [""; 0]);
}

/// The unit around these cgroups is the system manager's.
#[test]
fn services_and_a_users_manager_itself_are_units() {
    let users = path(APP).parent().unwrap();
    let asked = with_peer(&[&users.to_string()], |manager, _| {
        manager
            .set(&users, &["weight=200".parse().unwrap()])
            .unwrap();
    });
    assert_eq!(asked, ["set user@1000.service true CPUWeight=uint64 200"]);
}

#[test]
fn a_unit_is_told_of_its_memory_min() {
    let asked = with_peer(&["media.slice", APP], |manager, root| {
        std::fs::write(root.join(APP).join("memory.min"), "0\n").unwrap();
        let media = path("media.slice");
        manager.note_memory(&media).unwrap(); // it has none
        std::fs::write(root.join("media.slice/memory.min"), "4096\n").unwrap();
        manager.give_memory(&media).unwrap(); // it has it already
        manager.note_memory(&media).unwrap();
        std::fs::write(root.join("media.slice/memory.min"), "max\n").unwrap();
        manager.note_memory(&media).unwrap();
        std::fs::write(root.join("media.slice/memory.min"), "much\n").unwrap();
        let e = manager.note_memory(&media).unwrap_err().to_string();
        assert!(e.contains("\"much\" is no number of bytes"), "{e}");
        let e = manager.give_memory(&path(APP)).unwrap_err().to_string();
        assert!(e.contains("user 1000, not to the system's"), "{e}");
    });
    let set = |min: &str| format!("set media.slice true MemoryMin=uint64 {min}");
    assert_eq!(asked, [set("4096"), set("18446744073709551615")]);
}

#[test]
fn a_process_that_has_ended_is_not_waited_for() {
    // Not waited for by its parent: its cgroup can still be read.
    let mut child = std::process::Command::new("true").spawn().unwrap();
    let pid = child.id() as i32;
    while !has_ended(pid) {
        std::thread::sleep(LOOK);
    }
    let begin = Instant::now();
    with_peer(&["media.slice"], |systemd, _| {
        let error = systemd.move_pid(&path("media"), pid).unwrap_err();
        assert!(error.to_string().contains("has ended"), "{error}");
    });
    assert!(begin.elapsed() < PATIENCE / 2, "{:?}", begin.elapsed());
    child.wait().unwrap();
    assert!(has_ended(pid) && !has_ended(std::process::id() as i32));
}

#[test]
fn a_bus_that_does_not_answer_is_given_up() {
    let (here, _there) = UnixStream::pair().unwrap();
    let begin = Instant::now();
    let bus = zbus::connection::Builder::async_io_unix_stream(here).p2p();
    let error = connect_within(bus, Duration::from_millis(200)).unwrap_err();
    assert!(error.to_string().contains("did not let"), "{error}");
    assert!(begin.elapsed() < Duration::from_secs(2));
}

#[test]
fn a_systemd_that_does_not_answer_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let tree = tree(dir.path(), &[], InFiles::default());
    let (here, there) = UnixStream::pair().unwrap();
    // A peer that lets clients in and never reads a call.
    let server = std::thread::spawn(move || {
        let guid = zbus::Guid::generate();
        let server = Builder::async_io_unix_stream(there).server(guid).unwrap();
        server.p2p().build().unwrap()
    });
    let bus = zbus::connection::Builder::async_io_unix_stream(here).p2p();
    let bus = connect_within(bus, Duration::from_millis(300)).unwrap();
    let _server = server.join().unwrap();
    let systemd = Systemd::on(&bus, &tree, 2).unwrap();
    let begin = Instant::now();
    assert!(systemd.create(&path("media"), false).is_err());
    assert!(begin.elapsed() < Duration::from_secs(2));
}
