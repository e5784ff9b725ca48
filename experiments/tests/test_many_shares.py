"""Shares on many CPUs: what the simulator is asked, and which results miss a mark."""

from __future__ import annotations

import unittest
from typing import Any

from experiments.framework import experiment
from experiments.framework.shares import second_off

SHARES = experiment.load_study("cpus/shares")


def printed(off: float, second_off: float) -> dict[str, Any]:
    return {
        "runs": [
            {
                "kind": kind,
                "cpus": cpus,
                "ratio": ratio,
                "off": off if ratio == 9 else 0.0,
                "second_off": second_off,
                "used_ppm": 1_000_000,
            }
            for kind in ("loops", "sleepers")
            for cpus in (16, 64, 256)
            for ratio in (1, 9)
        ]
    }


class Shares(unittest.TestCase):
    def test_marks(self) -> None:
        marks = SHARES.judge(SHARES.read(printed(-1.0, 3.0)))
        self.assertEqual([mark.ok for mark in marks], [True] * 12)
        marks = SHARES.judge(SHARES.read(printed(-1.01, 3.01)))
        self.assertEqual([mark.ok for mark in marks], [False] * 12)

    def test_what_was_not_run_is_not_judged(self) -> None:
        marks = SHARES.judge(SHARES.read({"runs": []}))
        self.assertEqual([mark.ok for mark in marks], [None] * 12)

    def test_the_whole_study_has_256_cpus(self) -> None:
        words = SHARES.command(False)
        self.assertEqual(words[words.index("--cpus") + 1], "16,64,256")


class Machine(unittest.TestCase):
    def test_the_guest_has_as_many_cpus(self) -> None:
        for cpus in (4, 8):
            found = experiment.load_lab(f"cpus/shares-{cpus}")
            self.assertEqual((found.machine, found.cpus), ("timing-smp", cpus))


class Second(unittest.TestCase):
    def test_the_worst_second_is_found(self) -> None:
        """Even over 2 s, but one domain has all of the first, and of the second nothing."""
        sample = {
            "at_s": [0, 0.5, 1, 1.5, 2],
            "domains": {
                "one": {"cpu_s": [0, 0.5, 1, 1, 1]},
                "other": {"cpu_s": [0, 0, 0, 0.5, 1]},
            },
        }
        self.assertAlmostEqual(second_off(sample, {"one": 0.5, "other": 0.5}), 50)

    def test_an_even_second_is_not_off(self) -> None:
        even = {"cpu_s": [0, 0.25, 0.5]}
        sample = {"at_s": [0, 0.5, 1], "domains": {"one": even, "other": even}}
        self.assertAlmostEqual(second_off(sample, {"one": 0.5, "other": 0.5}), 0)


if __name__ == "__main__":
    unittest.main()
