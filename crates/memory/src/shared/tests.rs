//! Which pages are locked, of which files, and how many.

use super::*;
use proptest::prelude::*;

#[test]
fn runs_are_what_is_present_and_not_locked() {
    let (t, f) = (true, false);
    let locked = [f, f, f, t, f, f];
    assert_eq!(runs(1, &[t, t, t, t, f, t], &locked), [1..3, 4..5]);
    assert_eq!(runs(9, &[t, t], &locked), []);
}

proptest! {
    #[test]
    fn each_present_page_is_locked_once(
        first in 0usize..9,
        present: [bool; 20],
        locked: [bool; 20],
    ) {
        let mut now = locked.to_vec();
        for run in runs(first, &present, &locked) {
            prop_assert!(now[run.clone()].iter().all(|l| !l), "locked twice");
            now[run].fill(true);
        }
        for (page, was) in locked.iter().enumerate() {
            let wanted = page.checked_sub(first).is_some_and(|i| present[i]);
            prop_assert_eq!(now[page], *was || wanted);
        }
    }
}

fn meta(mount: u64, uid: u32, mode: u16, size: u64) -> Statx {
    let path = rustix::fs::open("/", OFlags::PATH, Mode::empty()).unwrap();
    let mut meta = statx(path, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).unwrap();
    meta.stx_mnt_id = mount;
    (meta.stx_uid, meta.stx_mode, meta.stx_size) = (uid, mode, size);
    meta
}

#[test]
fn only_roots_own_files_on_a_disk_are_held() {
    let mounts = BTreeSet::from([21]);
    for (mount, uid, mode, size, held) in [
        (21, 0, 0o100_755, 9, true),
        (22, 0, 0o100_755, 9, false),    // another file system
        (21, 1000, 0o100_755, 9, false), // a user's
        (21, 0, 0o100_757, 9, false),    // others may write to it
        (21, 0, 0o100_775, 9, false),    // a group may
        (21, 0, 0o040_755, 9, false),    // a directory
        (21, 0, 0o100_755, 0, false),    // empty
        (21, 0, 0o100_755, MAX_FILE + 1, false),
    ] {
        assert_eq!(
            may_be_held(&meta(mount, uid, mode, size), &mounts),
            held,
            "{mode:o}"
        );
    }
}

#[test]
fn a_mapping_far_beyond_its_file_costs_nothing() {
    let process = Process::myself().unwrap();
    let mut map = process.maps().unwrap().into_iter().next().unwrap();
    let page = page_size().0;
    (map.address, map.offset) = ((16 * page, u64::MAX), 2 * page);
    assert_eq!(pages_to_look_at(&map, 5), 16..19);
    assert!(pages_to_look_at(&map, 2).is_empty());
    map.address.1 = 17 * page;
    assert_eq!(pages_to_look_at(&map, 5), 16..17);
}

#[test]
fn this_process_can_be_looked_at() {
    assert!(local_mounts().is_some());
    let mut shared = Shared::default();
    let most = Most {
        all: Bytes(0),
        user: Bytes(0),
    };
    let complaints = shared.hold(&[(std::process::id() as i32, 0)], most);
    assert!(complaints.is_empty(), "{complaints:?}");
    assert_eq!(shared.bytes(), Bytes(0), "there is no room");
}

#[test]
fn what_is_held_is_counted_until_it_is_released() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("library");
    std::fs::write(&path, vec![1; 3 * page_size().0 as usize]).unwrap();
    let mapping = Mapping::new(&File::open(&path).unwrap(), 3 * page_size().0 as usize);
    let held = Held {
        mapping: mapping.unwrap(),
        locked: vec![true, true, false],
        pages: 2,
        runs: 1,
        holders: [7, 8].into(),
        uid: 1000,
    };
    let mut shared = Shared::default();
    let dev = (8, 1);
    shared.files.insert(FileId { dev, ino: 2 }, held);
    let page = page_size().0;
    let most = Most {
        all: Bytes(9 * page),
        user: Bytes(3 * page),
    };
    assert_eq!(shared.bytes(), Bytes(2 * page));
    assert!(shared.lock_again().is_empty());
    let room = |uid| shared.room(uid, most);
    assert_eq!((room(1000).pages, room(1000).runs), (1, MAX_USER_RUNS - 1));
    assert_eq!((room(1001).pages, room(1001).runs), (3, MAX_USER_RUNS));
    assert_eq!((room(0).pages, room(0).runs), (7, MAX_RUNS - 1));
    shared.release(7);
    assert_eq!(shared.holders(), [8].into());
    shared.release(8);
    assert_eq!(shared.bytes(), Bytes(0));
}
