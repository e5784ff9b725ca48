"""What scripts/run (`make run`) leaves behind: nothing, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# A daemon that writes down its process and the specs that it was given, and ends as the real one
# does: by SIGINT too if its parent ignored that, since it installs a handler of its own. (bash
# cannot: its traps have no effect on a signal that was ignored when it started.)
DAEMON = """#!/usr/bin/env python3
import os, signal, sys, time
for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda *_: sys.exit(0))
specs = sys.argv[4]
with open(os.environ["RAN"] + ".new", "w") as file:
    print(os.getpid(), *os.listdir(specs), file=file)
os.rename(os.environ["RAN"] + ".new", os.environ["RAN"])
if "--fail" in sys.argv:
    sys.exit(3)
while True:
    time.sleep(1)
"""


def until(what: Callable[[], bool], seconds: float = 20) -> bool:
    """Waits until `what` holds; false if it does not for so long."""
    end = time.monotonic() + seconds
    while not what():
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


class Run(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.tree = Path(place.name) / "tree"
        self.runtime = Path(place.name) / "run"
        self.ran = Path(place.name) / "ran"
        bare = Path(place.name) / "bin"
        for folder in ("scripts", "specs", "target"):
            (self.tree / folder).mkdir(parents=True)
        self.runtime.mkdir()
        bare.mkdir()
        (self.tree / "specs/one.toml").write_text("# a spec\n")
        text = (REPOSITORY / "scripts/run").read_text()
        for path, here in (
            ("/sys/kernel/sched_ext", place.name),
            ("/run/aplomb-specs", f"{self.runtime}/aplomb-specs"),
        ):
            self.assertIn(path, text)
            text = text.replace(path, here)
        for file, content in (
            (self.tree / "scripts/run", text),
            (self.tree / "target/aplomb", DAEMON),
            (bare / "id", "#!/bin/sh\necho 0\n"),
        ):
            file.write_text(content)
            file.chmod(0o755)
        self.environment = {
            "PATH": f"{bare}:{os.environ['PATH']}",
            "RAN": str(self.ran),
        }

    def start(self, *command: str | Path) -> subprocess.Popen[str]:
        self.ran.unlink(missing_ok=True)
        return subprocess.Popen(
            command, env=self.environment, stdout=subprocess.PIPE, text=True, start_new_session=True
        )

    def daemon(self) -> int:
        """The daemon's process, when it has read its specs."""
        self.assertTrue(until(self.ran.exists), "the daemon runs")
        pid, *specs = self.ran.read_text().split()
        self.assertEqual(specs, ["one.toml"], "the daemon has the specs")
        return int(pid)

    def nothing_is_left(self) -> None:
        self.assertTrue(until(lambda: not any(self.runtime.iterdir())), "the specs are gone")

    def test_a_daemon_that_fails_leaves_nothing(self) -> None:
        run = self.start(self.tree / "scripts/run", "--fail")
        out, _ = run.communicate(timeout=20)
        self.assertEqual(run.returncode, 3, out)
        self.daemon()
        self.nothing_is_left()

    def test_a_signal_ends_the_daemon_and_leaves_nothing(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            for group in (False, True):  # from the terminal it comes to all of the group
                with self.subTest(number=number, group=group):
                    run = self.start(self.tree / "scripts/run")
                    self.assertEqual(self.daemon(), run.pid, "the process becomes the daemon")
                    self.assertTrue(any(self.runtime.iterdir()), "the specs stay while it runs")
                    send = os.killpg if group else os.kill
                    send(run.pid, number)
                    run.communicate(timeout=20)
                    self.assertEqual(run.returncode, -9 if number == signal.SIGKILL else 0)
                    self.nothing_is_left()

    def test_so_it_does_in_the_background(self) -> None:
        # A shell without job control starts what is in the background with SIGINT ignored.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(number=number):
                script = f"{self.tree}/scripts/run & wait $!"
                shell = self.start("bash", "-c", script)
                pid = self.daemon()
                self.assertTrue(any(self.runtime.iterdir()), "the specs stay while it runs")
                os.kill(pid, number)
                shell.communicate(timeout=20)
                self.nothing_is_left()

    def test_what_fails_before_the_daemon_leaves_nothing(self) -> None:
        (self.tree / "target/aplomb").unlink()
        run = self.start(self.tree / "scripts/run")
        run.communicate(timeout=20)
        self.assertNotEqual(run.returncode, 0)
        self.nothing_is_left()
