//! Resolving in a fake root directory.

use aplomb_spec::{tab, toml_format, Key, Resolved, Resolver, Spec, StatDevice};
use std::fs;
use std::os::unix::fs::{symlink, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

mod files;
mod rows;

struct Root(TempDir);

impl Root {
    fn new() -> Root {
        Root(tempfile::tempdir().unwrap())
    }

    fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path.trim_start_matches('/'))
    }

    fn program(&self, path: &str, text: &str) -> u64 {
        let file = self.path(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        fs::metadata(&file).unwrap().ino()
    }

    fn link(&self, target: &str, path: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        symlink(target, path).unwrap();
    }

    fn resolver(&self) -> Resolver<StatDevice> {
        Resolver::with(self.0.path(), StatDevice).unwrap()
    }

    fn device(&self) -> u64 {
        let dev = fs::metadata(self.0.path()).unwrap().dev();
        u64::from(rustix::fs::major(dev)) << 20 | u64::from(rustix::fs::minor(dev))
    }

    fn one(&self, line: &str) -> Resolved {
        self.resolver()
            .spec(&parse(&format!("{line}:iact:1:10:-")))
            .remove(0)
    }
}

fn parse(line: &str) -> Spec {
    let (mut specs, diags) = tab::parse(Path::new("t"), line.as_bytes());
    assert_eq!(diags, []);
    specs.remove(0)
}

fn parse_toml(text: &str) -> Vec<Spec> {
    let (specs, diags) = toml_format::parse(Path::new("t"), text.as_bytes());
    assert_eq!(diags, []);
    specs
}

fn keys(r: &Resolved) -> Vec<Key> {
    r.rows.iter().map(|row| row.key).collect()
}

const ELF: &str = "\x7fELF";
