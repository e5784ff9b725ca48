"""`make install` and `make uninstall` into a DESTDIR, with a PATH that has no Rust (as root's)."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]


class Installed(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.dest = Path(place.name) / "dest"
        # All usual programs but Rust's, wherever those are.
        bare = Path(place.name) / "bin"
        bare.mkdir()
        for folder in ("/usr/bin", "/bin"):
            for program in Path(folder).iterdir():
                rust = program.name.startswith(("rust", "cargo"))
                if not rust and not (bare / program.name).exists():
                    (bare / program.name).symlink_to(program)
        self.environment = {"PATH": str(bare), "HOME": place.name}
        self.assertIsNone(shutil.which("rustc", path=str(bare)))

    def make(self, target: str, prefix: str = "/usr/local") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["make", target, f"DESTDIR={self.dest}", f"PREFIX={prefix}"],
            cwd=REPOSITORY,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )

    def files(self) -> set[str]:
        """All installed files, from the root of the file system on."""
        return {
            "/" + str(file.relative_to(self.dest))
            for file in self.dest.rglob("*")
            if not file.is_dir()
        }

    def install(self, prefix: str = "/usr/local") -> None:
        done = self.make("install", prefix)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_the_prefix_holds(self) -> None:
        self.install()
        outside = [f for f in self.files() if not f.startswith(("/usr/local/", "/etc/aplomb/"))]
        self.assertEqual(outside, [])
        unit = (self.dest / "usr/local/lib/systemd/system/aplomb.service").read_text()
        self.assertIn("ExecStart=/usr/local/bin/aplomb daemon", unit)
        for file in (self.dest / "usr/local/share/man").rglob("*.8"):
            found = re.search(r"/usr/(bin|lib)/aplomb", file.read_text().replace("\\", ""))
            self.assertIsNone(found, file)
        self.assertIn("/usr/local/lib/aplomb/specs.d/players.toml", self.files())

    def test_each_page_that_a_page_refers_to_is_installed(self) -> None:
        self.install()
        manual = self.dest / "usr/local/share/man"
        pages = {file.name: file.read_text() for file in manual.rglob("*.[18]")}
        self.assertIn("aplomb.8", pages)
        self.assertIn("aplomb-domain-create.8", pages)
        for name, text in pages.items():
            self.assertTrue((manual / f"man{name[-1]}" / name).exists(), name)
            for page, section in re.findall(r"(aplomb[a-z-]*)\(([18])\)", text.replace("\\", "")):
                self.assertTrue(f"{page}.{section}" in pages, f"{name} refers to {page}")

    def test_uninstall_removes_what_was_put_and_nothing_else(self) -> None:
        own = self.dest / "usr/local/lib/aplomb/specs.d/of-another-package.toml"
        settings = self.dest / "etc/aplomb/specs.d/mine.toml"
        for file in (own, settings):
            file.parent.mkdir(parents=True)
            file.write_text("# mine\n")
        self.install()
        self.assertGreater(len(self.files()), 30)
        done = self.make("uninstall")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("your settings", done.stdout)
        left = {str(own), str(settings), str(self.dest / "etc/aplomb/aplomb.toml")}
        self.assertEqual({f"{self.dest}{file}" for file in self.files()}, left)
        self.assertEqual(self.make("uninstall").returncode, 2, "there is nothing to uninstall")

    def test_settings_are_not_replaced_and_old_files_go(self) -> None:
        self.install("/usr")
        settings = self.dest / "etc/aplomb/aplomb.toml"
        settings.write_text("# mine\n")
        old = "/usr/lib/aplomb/specs.d/of-an-older-version.toml"
        Path(f"{self.dest}{old}").write_text("")
        with (self.dest / "usr/lib/aplomb/installed").open("a") as file:
            file.write(old + "\n")
        self.install("/usr")
        self.assertEqual(settings.read_text(), "# mine\n")
        self.assertNotIn(old, self.files())


if __name__ == "__main__":
    unittest.main()
