"""Machines of many CPUs: what the simulator is asked, and which results miss a mark."""

from __future__ import annotations

import unittest
from typing import Any

from experiments.framework import experiment

SCALING = experiment.load_study("cpus/scaling")


def printed(locks: float, times: float, waiting_ppm: int, slower: float) -> dict[str, Any]:
    """slower: how many cycles there are without domains for each with them."""
    return {
        "runs": [
            {
                "place": place,
                "cpus": cpus,
                "cycles_per_s": (1.0 if cpus == 1 else times) * (slower if place == "plain" else 1),
                "tree_locks_per_cycle": locks,
                "waiting_ppm": waiting_ppm,
                "working_ppm": 10_000,
            }
            for place in ("plain", "services", "deep")
            for cpus in (1, 64, 256)
        ]
    }


def verdicts(*found: float) -> list[bool | None]:
    samples = SCALING.read(printed(found[0], found[1], int(found[2]), found[3]))
    return [mark.ok for mark in SCALING.judge(samples)]


class Scaling(unittest.TestCase):
    def test_marks(self) -> None:
        self.assertEqual(verdicts(0, 48, 30_000, 1.03), [True] * 8)
        self.assertEqual(verdicts(0.1, 47.9, 30_001, 1.04), [False] * 3 + [True] + [False] * 4)
        self.assertEqual(verdicts(0, 48, 80_001, 1)[2:4], [False, False])

    def test_what_was_not_run_is_not_judged(self) -> None:
        runs = [run for run in printed(0, 48, 0, 1)["runs"] if run["cpus"] == 1]
        marks = SCALING.judge(SCALING.read({"runs": runs}))
        self.assertEqual([mark.ok for mark in marks], [None] * 8)

    def test_the_whole_study_has_256_cpus(self) -> None:
        words = SCALING.command(False)
        self.assertEqual(words[words.index("--cpus") + 1], "1,2,4,8,16,32,64,128,256")


if __name__ == "__main__":
    unittest.main()
