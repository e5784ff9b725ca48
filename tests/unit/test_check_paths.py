"""scripts/check-paths: a path that does not exist is found, with file and line."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def check(text: str) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.md"
        file.write_text(text)
        return subprocess.run(
            ["scripts/check-paths", file], cwd=ROOT, capture_output=True, text=True, check=False
        )


class Paths(unittest.TestCase):
    def test_paths_that_exist_pass(self) -> None:
        done = check(
            "see `bpf/main.bpf.c`, `tree/tree.bpf.h`, `policy/wmr.h` 4, tests/lab/harness.py.\n"
            "`crates/sim/traces/h264.csv`; `experiments/PAPER/NAME.py` stands for any.\n"
            "The kernel's kernel/sched/core.c and <bpf/bpf_helpers.h> are others'.\n"
        )
        self.assertEqual((done.returncode, done.stdout), (0, "1 files\n"))

    def test_a_missing_path_is_found(self) -> None:
        done = check("good: bpf/main.bpf.c\nbad: `tree/gone.bpf.h` and docs/gone.md\n")
        self.assertEqual(done.returncode, 1)
        found = [line.rpartition("/page.md:")[2] for line in done.stdout.splitlines()]
        self.assertEqual(found, ["2: tree/gone.bpf.h", "2: docs/gone.md"])


if __name__ == "__main__":
    unittest.main()
