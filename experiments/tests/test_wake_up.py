"""Wake-ups beside light loops: what runs, and which results miss a mark."""

from __future__ import annotations

import unittest
from typing import Any

from experiments.framework import experiment
from experiments.framework.schedulers import all_schedulers

WAKE_UP = experiment.load_lab("cpus/wake-up")


def steps(wake_us: int, share_percent: float, sound_us: int) -> dict[str, dict[str, Any]]:
    def one(most: int) -> dict[str, Any]:
        wakeup = {"p50": 1, "p99": most, "max": most, "below_us": {"1": 99, "512": 1}}
        return {"periods": 100, "jobs": 100, "misses": 0, "wakeup_us": wakeup}

    share = {"share_percent": share_percent}
    found = {"sound": one(sound_us)}
    for key in ("idle", "nice-19"):
        found |= {f"wake-up-{key}": one(wake_us), f"share-{key}": share}
    return found


class WakeUp(unittest.TestCase):
    def test_the_ordinary_task_has_no_prefix(self) -> None:
        words = {
            step.name: " ".join(step.words)
            for step in WAKE_UP.steps(all_schedulers()["eevdf"], False)
        }
        self.assertEqual(
            words["wake-up-idle"],
            "loaded one 1 -- /job/periodic 1000 10000 2000 -- chrt -i 0 /job/hog 1",
        )
        self.assertIn("loaded sessions 1 nice -n -20 -- /job/periodic 300 2667", words["sound"])

    def test_only_a_reserved_task_has_a_deadline(self) -> None:
        names = [step.name for step in WAKE_UP.steps(all_schedulers()["deadline"], False)]
        self.assertEqual(names, ["sound"])

    def test_marks(self) -> None:
        def marks(**samples: dict[str, dict[str, Any]]) -> list[bool | None]:
            return [mark.ok for mark in WAKE_UP.judge(samples)]

        stock, deadline = steps(500, 99.7, 0), {"sound": steps(0, 0, 40)["sound"]}
        good = marks(aplomb=steps(100, 99.0, 60), eevdf=stock, deadline=deadline)
        self.assertEqual(good, [True] * 4)
        bad = marks(aplomb=steps(501, 98.9, 61), eevdf=stock, deadline=deadline)
        self.assertEqual(bad, [False] * 4)
        self.assertEqual(marks(aplomb=steps(100, 99.0, 60))[2:], [None, None])


if __name__ == "__main__":
    unittest.main()
