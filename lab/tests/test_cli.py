"""The command line: errors are one line on standard error with status 125, never a traceback."""

import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from aplomb_lab.cli import _split_input
from aplomb_lab.errors import LabError
from aplomb_lab.report import find_program

LAB = Path(__file__).resolve().parent.parent / "lab"


class CommandLineTest(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def fails(self, *words: str | Path, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [sys.executable, LAB, *words],
            capture_output=True,
            text=True,
            env={**os.environ, "APLOMB_LAB_CACHE": str(self.folder / "cache"), **(env or {})},
        )
        self.assertEqual(done.returncode, 125, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertRegex(done.stderr, r"^lab: [^\n]*\n$")
        return done.stderr

    def test_no_action(self) -> None:
        self.assertIn("ACTION", self.fails())

    def test_unknown_action(self) -> None:
        self.assertIn("fly", self.fails("fly"))

    def test_unknown_machine(self) -> None:
        self.assertIn("huge", self.fails("run", "--machine", "huge", "--out", "x", "--", "true"))

    def test_no_out(self) -> None:
        self.assertIn("--out", self.fails("run", "--", "true"))

    def test_no_command(self) -> None:
        self.assertIn("no command", self.fails("run", "--out", str(self.folder / "out")))

    def test_missing_input_is_named(self) -> None:
        said = self.fails(
            "run",
            "--in",
            str(self.folder / "absent"),
            "--out",
            str(self.folder / "out"),
            "--",
            "true",
        )
        self.assertIn(str(self.folder / "absent"), said)

    def test_input_may_not_leave_the_job(self) -> None:
        for name in ("../x", "/x", "out"):
            self.assertIn(
                "/job",
                self.fails(
                    "run", "--in", f"{LAB}:{name}", "--out", str(self.folder / "out"), "--", "true"
                ),
            )

    def test_bad_environment(self) -> None:
        self.assertIn(
            "NAME=VALUE",
            self.fails("run", "--env", "X", "--out", str(self.folder / "o"), "--", "true"),
        )
        self.assertIn(
            "a b",
            self.fails("run", "--env", "a b=1", "--out", str(self.folder / "o"), "--", "true"),
        )

    def test_out_that_is_a_file(self) -> None:
        (self.folder / "file").write_text("")
        self.assertIn(
            str(self.folder / "file"),
            self.fails("run", "--out", str(self.folder / "file"), "--", "true"),
        )

    def test_too_little_memory(self) -> None:
        self.assertIn(
            "256", self.fails("run", "--memory", "9", "--out", str(self.folder / "o"), "--", "true")
        )

    def test_cache_that_cannot_be_written(self) -> None:
        (self.folder / "file").write_text("")
        self.assertIn(
            "APLOMB_LAB_CACHE",
            self.fails("qemu", env={"APLOMB_LAB_CACHE": str(self.folder / "file/x")}),
        )

    def test_missing_program_names_its_package(self) -> None:
        with self.assertRaisesRegex(LabError, "apt-get install some-package"):
            find_program("no-such-program", "some-package")

    def test_input_with_colon(self) -> None:
        path = self.folder / "a:b"
        path.write_text("")
        self.assertEqual(_split_input(str(path)), str(path))
        self.assertEqual(_split_input(f"{path}:c"), (str(path), "c"))
        self.assertEqual(_split_input("plain"), "plain")


if __name__ == "__main__":
    unittest.main()
