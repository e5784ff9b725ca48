"""Ordinary programs: where they run, and which rates miss the mark."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from experiments.framework import experiment
from experiments.framework.errors import ExperimentError
from experiments.framework.programs import DEEP, PROGRAMS, read_seconds
from experiments.framework.schedulers import all_schedulers

THROUGHPUT = experiment.load_lab("cpus/throughput")


def samples(seconds: float, slow: str = "", by: float = 1.0) -> dict[str, dict[str, float]]:
    return {
        f"{place}-{key}-0": {"seconds": seconds * (by if key == slow else 1.0)}
        for place in ("plain", "deep")
        for key in PROGRAMS
    }


class Programs(unittest.TestCase):
    def test_each_runs_without_domains_and_deep(self) -> None:
        steps = {
            step.name: step.words for step in THROUGHPUT.steps(all_schedulers()["aplomb"], False)
        }
        self.assertEqual(len(steps), 3 * 2 * 7)
        self.assertEqual(list(steps["plain-fork-0"][:3]), ["timed_in", "-", "stress-ng"])
        self.assertEqual(list(steps["deep-fork-1"][:3]), ["timed_in", DEEP, "stress-ng"])
        self.assertEqual(DEEP.count("/") + 1, 4)

    def test_marks(self) -> None:
        stock = samples(2.0)
        good = THROUGHPUT.judge({"eevdf": stock, "aplomb": samples(2.0 / 0.98)})
        self.assertEqual([mark.ok for mark in good], [True] * 14)
        bad = THROUGHPUT.judge({"eevdf": stock, "aplomb": samples(2.0, "futex", 1.04)})
        self.assertEqual(
            [mark.name for mark in bad if not mark.ok],
            ["stress-ng futex, 2, plain: rate", "stress-ng futex, 2, deep: rate"],
        )
        alone = THROUGHPUT.judge({"aplomb": stock})
        self.assertEqual({mark.ok for mark in alone}, {None})

    def test_the_guests_differ_in_cpus_only(self) -> None:
        found = [experiment.load_lab(f"cpus/throughput{more}") for more in ("-1", "", "-4")]
        self.assertEqual([each.cpus for each in found], [None, 2, 4])
        self.assertEqual([each.machine for each in found], ["timing"] + ["timing-smp"] * 2)

    def test_a_step_without_seconds_fails(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            with self.assertRaisesRegex(ExperimentError, "seconds"):
                read_seconds(Path(name))


if __name__ == "__main__":
    unittest.main()
