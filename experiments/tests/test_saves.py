"""Saves beside a flood: the workloads, the steps, and what is made of their samples."""

from __future__ import annotations

import json
import subprocess
import tempfile
import unittest
from pathlib import Path

from experiments.framework import experiment, saves
from experiments.framework.schedulers import all_schedulers
from experiments.tests.workloads import WithWorkloads


class Workloads(WithWorkloads):
    def run_json(self, *words: object) -> dict[str, list[float]]:
        done = subprocess.run(
            [str(word) for word in words], capture_output=True, text=True, check=True
        )
        found: dict[str, list[float]] = json.loads(done.stdout)
        return found

    def test_save_saves_once_a_period(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "text"
            took = self.run_json(self.path("save"), file, 30, 200, 1)["save_ms"]
            self.assertEqual(file.stat().st_size, 30 << 10)
        self.assertLessEqual(len(took), 6)
        self.assertTrue(took and all(ms > 0 for ms in took))

    def test_without_sync_it_only_writes(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "log"
            took = self.run_json(self.path("save"), file, 64, 200, 1, "--no-sync")["save_ms"]
        self.assertTrue(took)

    def test_rewrite_writes_each_file_again_and_again(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            files = [Path(folder) / name for name in ("a", "b")]
            for how in ("again", "anew"):
                written = self.run_json(self.path("rewrite"), 1, 1, how, *files)["written_mb"]
                self.assertEqual(len(written), 1)
                self.assertGreater(written[0], 0)
            self.assertTrue(all(file.stat().st_size <= 1 << 20 for file in files))

    def test_wrong_words_are_refused(self) -> None:
        for words in (["save", "x", 30, 100], ["rewrite", 1, 1, "never", "x"], ["rewrite", 1, 1]):
            done = subprocess.run(
                [self.path(str(words[0])), *map(str, words[1:])], capture_output=True, check=False
            )
            self.assertEqual(done.returncode, 2, words)


class Steps(unittest.TestCase):
    def test_each_variant_runs_on_each_disk(self) -> None:
        known = all_schedulers()
        both = ("disk0", "disk1")
        for name, disks in (
            ("redline/vim-fsync", both),
            ("disk/big-flush", both),
            ("redline/vim-fsync-seeks", ("disk0",)),
            ("disk/big-flush-seeks", ("disk0",)),
        ):
            each = experiment.load_lab(name)
            self.assertEqual(len(each.disks), len(disks))
            stock = each.steps(known["eevdf"], True)
            self.assertEqual(
                [step.name for step in stock],
                [
                    f"{disk}-{kind}"
                    for disk in disks
                    for kind in ("none", "mq-deadline", "bfq", "iocost")
                ],
            )
            self.assertTrue(all("-20" in step.words for step in stock))
            self.assertEqual(sum("ionice" in step.words for step in stock), len(disks))
            for step in each.steps(known["aplomb"], True):
                self.assertNotIn("nice", step.words)
                self.assertIn("limit-dirty = true", each.profiles[step.profile].config)

    def test_the_flood_outlives_the_editor(self) -> None:
        (step, *_) = experiment.load_lab("redline/vim-fsync").steps(
            all_schedulers()["eevdf"], False
        )
        words = list(step.words)
        lasts = int(words[words.index("/job/rewrite") + 1])
        self.assertEqual(lasts, saves.SETTLE_S + saves.SECONDS + saves.REST_S)

    def test_the_stick_is_limited_by_hand_in_one_variant_only(self) -> None:
        each = experiment.load_lab("disk/slow-stick")
        steps = {
            step.name: step
            for name in ("eevdf", "aplomb")
            for step in each.steps(all_schedulers()[name], True)
        }
        knobs = {
            name: step.words[list(step.words).index("disk1") + 1] for name, step in steps.items()
        }
        by_hand = {name for name, knob in knobs.items() if knob != "-"}
        self.assertEqual((by_hand, knobs["by-hand"]), ({"by-hand"}, "max_ratio=1"))
        one = {name for name, step in steps.items() if "load=program" in step.words}
        self.assertEqual(one, {"plain-one", "limits-one"})


class Samples(unittest.TestCase):
    def test_percentile(self) -> None:
        hundred = [float(n) for n in range(1, 101)]
        self.assertEqual(saves.percentile(hundred, 0.99), 99)
        self.assertEqual(saves.percentile(hundred[:20], 0.99), 20)
        self.assertEqual(saves.percentile([7.0], 0.5), 7)

    def test_a_step_is_read(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / "stdout").write_text('{"save_ms": [3.5, 80]}\n')
            (folder / "load").write_text('noise\n{"written_mb": [1, 2]}\n')
            # uptime; reads, merges, sectors, ms; writes, merges, sectors, ms
            (folder / "disk-load").write_text("10.00 0 0 0 0 5 0 2048 9 0 0 0\n")
            (folder / "disk-after").write_text("30.00 0 0 0 0 9 0 83968 9 0 0 0\n")
            found = saves.read(folder)
        self.assertEqual(found["save_ms"], [3.5, 80])
        self.assertEqual(found["device_mb_per_s"], 2.0)

    def test_marks_compare_with_the_best_of_stock(self) -> None:
        def sample(ms: float, rate: float) -> dict[str, object]:
            return {"save_ms": [ms] * 100, "device_mb_per_s": rate}

        samples = {
            "eevdf": {"disk0-none": sample(900, 80), "disk0-bfq": sample(70, 60)},
            "aplomb": {"disk0-none": sample(50, 77), "disk0-mq-deadline": sample(999, 1)},
        }
        marks = saves.judge(samples, saves.DEVICES)
        self.assertEqual([mark.value for mark in marks], [50, 50, 50, 77])
        self.assertTrue(all(mark.ok for mark in marks))
