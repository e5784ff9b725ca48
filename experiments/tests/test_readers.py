"""Programs that read beside others: the workload, the steps, and what is made of their samples."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from experiments.framework import experiment, readers
from experiments.framework.schedulers import all_schedulers
from experiments.tests.workloads import WithWorkloads

NAMES = (
    "qlinux/disk-shares",
    "qlinux/disk-isolation",
    "eclipse/mpeg-io",
    "redline/mass-read",
    "disk/readahead",
)


class Workloads(WithWorkloads):
    def reads(self, *words: object) -> dict[str, Any]:
        with tempfile.TemporaryDirectory(dir=Path(__file__).parent) as folder:
            file = Path(folder) / "disk"
            file.write_bytes(bytes(1 << 20))
            done = subprocess.run(
                [str(word) for word in (self.path("reads"), file, *words)],
                capture_output=True,
                text=True,
                check=True,
            )
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    def test_readers_read_without_end(self) -> None:
        found = self.reads(3, 4, 2)
        self.assertGreater(found["reads"], 2)
        self.assertGreaterEqual(found["sum_us"], found["longest_us"])
        self.assertNotIn("each_second", found)

    def test_a_stream_reads_as_often_as_it_should(self) -> None:
        found = self.reads(2, 4, 1, "every", 100, "behind", 3)
        self.assertEqual(len(found["each_second"]), 2)
        self.assertLessEqual(found["reads"], 21)
        self.assertEqual(found["worst_second"], min(found["each_second"]))

    def test_a_stream_may_go_through_the_page_cache(self) -> None:
        for how in (["cached"], ["cached", "no-ahead"]):
            self.assertGreater(self.reads(1, 64, 1, "every", 100, *how)["reads"], 2, how)

    def test_wrong_words_are_refused(self) -> None:
        for words in (["x"], ["x", 1, 3, 1], ["x", 1, 4, 0], ["x", 0, 4, 1]):
            done = subprocess.run(
                [self.path("reads"), *map(str, words)], capture_output=True, check=False
            )
            self.assertEqual(done.returncode, 2, words)


class Steps(unittest.TestCase):
    def test_each_has_the_same_program_under_all(self) -> None:
        known = all_schedulers()
        for name in NAMES:
            each = experiment.load_lab(name)
            for quick in (True, False):
                ours, stock = each.steps(known["aplomb"], quick), each.steps(known["eevdf"], quick)
                self.assertTrue(ours and stock, name)
                for step in (*ours, *stock):
                    self.assertEqual(step.words[0], "on_raw_disk", name)
                self.assertEqual(len({s.name for s in ours}), len(ours), name)
                self.assertTrue(all(s.profile in each.profiles for s in ours), name)

    def test_what_the_disk_did_is_counted(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "stdout").write_text('{"reads": 30, "late": 0}\n')
            (folder / "load").write_text('{"reads": 90, "late": 0}\n')
            (folder / "disk-load").write_text("10.0 5 0 40 0 0 0 0 0 0 0 0\n")
            (folder / "disk-after").write_text("14.0 105 0 840 0 0 0 0 0 0 0 0\n")
            found = readers.read(folder)
        self.assertEqual((found["read"], found["read_mb"], found["seconds"]), (100, 0.39, 4.0))


class Judging(unittest.TestCase):
    def test_a_share_must_be_within_two_points(self) -> None:
        each = experiment.load_lab("qlinux/disk-shares")

        def sample(first: int) -> dict[str, Any]:
            return {"program": {"reads": first}, "read": 1000, "seconds": 5}

        for first, ok in ((750, True), (775, False)):
            samples = {"aplomb": {"disk1-60-20-none": sample(first)}, "eevdf": {}}
            self.assertEqual([mark.ok for mark in each.judge(samples)], [ok])
            self.assertEqual(each.table(samples)[1][0][4], first / 10)


if __name__ == "__main__":
    unittest.main()
