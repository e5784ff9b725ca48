"""Base of the tests that run the workloads on this machine: they are built once for each class."""

from __future__ import annotations

import subprocess
import tempfile
import unittest
from pathlib import Path

from experiments.framework.schedulers import ROOT


class WithWorkloads(unittest.TestCase):
    folder: tempfile.TemporaryDirectory[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run(
            ["make", "-s", "-C", ROOT / "experiments" / "workloads", f"OUT={cls.folder.name}"],
            check=True,
        )

    @classmethod
    def tearDownClass(cls) -> None:
        cls.folder.cleanup()

    def path(self, name: str) -> Path:
        return Path(self.folder.name) / name
