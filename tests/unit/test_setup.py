"""scripts/setup where there is no apt: it names the distribution's packages, or goes on."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
# What the script itself uses.
USUAL = ("bash", "cat", "cksum", "cut", "dirname", "head", "id", "mkdir", "sed", "sort", "touch")
# Tools and what they print when asked for their version.
TOOLS = {
    "cc": "",
    "c++": "",
    "make": "",
    "pkg-config": "",
    "git": "",
    "clang": "clang version 20.1.2",
    "python3": "Python 3.13.1",
    "rustc": "rustc 1.90.0 (made up)",
    "cargo": "",
    "cargo-fmt": "",
    "cargo-clippy": "",
    "clang-format": "",
    "shellcheck": "",
}
RELEASES = {
    "fedora": ("ID=fedora\nVERSION_ID=43\n", "dnf install", "elfutils-libelf-devel"),
    "arch": ("ID=arch\n", "pacman -S", "libelf"),
    "manjaro": ("ID=manjaro\nID_LIKE=arch\n", "pacman -S", "libelf"),
    "nixos": ("ID=nixos\n", "nix-shell -p", "elfutils"),
    "other": ("ID=other\n", "what Debian calls", "libelf-dev"),
}


class Elsewhere(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.tree = Path(place.name)
        self.bin = self.tree / "bin"
        for folder in ("bin", "scripts", "experiments", ".venv/bin", "lab"):
            (self.tree / folder).mkdir(parents=True)
        for name in ("scripts/setup", "scripts/requirements.txt", "experiments/requirements.txt"):
            (self.tree / name).write_bytes((REPOSITORY / name).read_bytes())
        (self.tree / "scripts/setup").chmod(0o755)
        for name in USUAL:
            path = next(
                p for d in os.defpath.split(":") if (p := Path(d or "/bin") / name).exists()
            )
            (self.bin / name).symlink_to(path)
        for name, version in TOOLS.items():
            self.tool(self.bin / name, f"echo '{version}'")
        self.tool(self.tree / ".venv/bin/python", f'echo "$*" >> {self.tree}/pip')

    @staticmethod
    def tool(path: Path, text: str) -> None:
        path.write_text(f"#!/bin/bash\n{text}\n")
        path.chmod(0o755)

    def setup_on(self, release: str, purpose: str = "test") -> subprocess.CompletedProcess[str]:
        file = self.tree / "os-release"
        file.write_text(RELEASES[release][0])
        return subprocess.run(
            [self.tree / "scripts/setup", purpose],
            env={"PATH": str(self.bin), "APLOMB_OS_RELEASE": str(file)},
            capture_output=True,
            text=True,
            check=False,
        )

    def test_it_names_what_is_missing_and_the_packages(self) -> None:
        (self.bin / "clang").unlink()
        self.tool(self.bin / "rustc", "echo 'rustc 1.63.0 (old)'")
        for release, (_, command, package) in RELEASES.items():
            with self.subTest(release):
                done = self.setup_on(release)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("missing here: clang 17, rustc and cargo 1.85", done.stderr)
                self.assertRegex(done.stderr, rf"{command}.* {package}\b")
                self.assertFalse(list(self.tree.glob("target/.setup*")))

    def test_it_goes_on_where_the_tools_are(self) -> None:
        for release in RELEASES:
            with self.subTest(release):
                done = self.setup_on(release)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("the lab needs apt-get", done.stderr)
                for stamp in self.tree.glob("target/.setup*"):
                    stamp.unlink()
        self.assertIn("scripts/requirements.txt", (self.tree / "pip").read_text())

    def test_a_header_that_is_missing(self) -> None:
        self.tool(self.bin / "cc", "! grep -q libelf")
        (self.bin / "grep").symlink_to("/bin/grep")
        done = self.setup_on("fedora")
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing here: libelf.h\n", done.stderr)

    def test_running_needs_no_linters(self) -> None:
        for name in ("shellcheck", "clang-format", "cargo-fmt"):
            (self.bin / name).unlink()
        self.assertEqual(self.setup_on("arch", "run").returncode, 0)
        done = self.setup_on("arch")
        self.assertIn("cargo-fmt, cargo-clippy, clang-format, shellcheck", done.stderr)

    def test_nothing_is_said_the_second_time(self) -> None:
        self.setup_on("arch")
        again = self.setup_on("arch")
        self.assertEqual((again.returncode, again.stdout, again.stderr), (0, "", ""))


if __name__ == "__main__":
    unittest.main()
