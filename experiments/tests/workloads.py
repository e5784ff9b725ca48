"""Base of the tests that run the workloads on this machine: they are built once for each class."""
import subprocess
import tempfile
import unittest
from pathlib import Path

from experiments.framework.schedulers import ROOT


class WithWorkloads(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run(["make", "-s", "-C", ROOT / "experiments" / "workloads", f"OUT={cls.folder.name}"], check=True)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def path(self, name):
        return Path(self.folder.name) / name
