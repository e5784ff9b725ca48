"""What scripts/run (`make run`) leaves behind: nothing, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]

# A daemon that says which specs it was given, and ends as the real one does.
DAEMON = """#!/bin/bash
trap 'trap "" TERM INT; echo ended; exit 0' TERM INT
trap : HUP
ls "$4" > "$RAN"
[ "${5:-}" != --fail ] || exit 3
while :; do sleep 0.05; done
"""


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

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.tree / "scripts/run", *arguments],
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self, run: subprocess.Popen[str], status: int) -> str:
        out, _ = run.communicate(timeout=20)
        self.assertEqual(run.returncode, status, out)
        self.assertEqual(self.ran.read_text(), "one.toml\n", "the daemon has the specs")
        self.assertEqual(list(self.runtime.iterdir()), [], "and they are gone")
        return out

    def test_a_daemon_that_fails_leaves_nothing(self) -> None:
        self.end(self.start("--fail"), 3)

    def test_a_signal_ends_the_daemon_and_leaves_nothing(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for group in (False, True):  # from the terminal it comes to all of the group
                with self.subTest(number=number, group=group):
                    self.ran.unlink(missing_ok=True)
                    run = self.start()
                    while not self.ran.exists() or not self.ran.read_text():
                        time.sleep(0.02)
                    send = os.killpg if group else os.kill
                    send(run.pid, number)
                    self.assertIn("ended", self.end(run, 0))
