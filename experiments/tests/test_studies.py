"""Studies in the simulator: reading what it prints, marks, half points; and a small run of the real
one."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

from experiments.framework import experiment, schedulability, simulated_movies, simulator
from experiments.framework.errors import ExperimentError
from experiments.framework.marks import Mark, missed


def tally(met: int, misses: int = 0, sets: int = 10) -> dict[str, Any]:
    return {"met": met, "refused": sets - met - misses, "missed": list(range(misses)), "events": 1}


def printed_sets(ours: Sequence[int], others: Sequence[int], misses: int = 0) -> dict[str, Any]:
    """ours, others: sets of 10 that succeed at 50, 60, 70 %."""
    columns = ["aplomb-fcbs", "global-edf-soft", "partitioned-ff", "partitioned-wf", "test-ff"]
    points = [
        {
            "range_percent": [50, 100],
            "workload_percent": 50 + 10 * i,
            "tallies": [tally(a, misses), *[tally(b)] * 4],
        }
        for i, (a, b) in enumerate(zip(ours, others))
    ]
    return {"columns": columns, "sets": 10, "points": points}


def printed_movies(worst: int) -> dict[str, Any]:
    show = {
        "admitted": 5,
        "mean": [24.0] * 3,
        "deviation": [0.5] * 3,
        "late": 1,
        "dropped": 0,
        "migrations": 9,
    }
    return {
        "shows": [
            {**show, "scheduler": policy, "count": count, "worst": [24, worst, 24]}
            for policy in ("aplomb-fcbs", "global-edf-soft", "wrr")
            for count in (4, 5, 6)
        ]
    }


class Schedulability(unittest.TestCase):
    def marks(
        self, ours: Sequence[int], others: Sequence[int], misses: int = 0, far: bool = True
    ) -> Sequence[Mark]:
        return schedulability.judge(schedulability.read(printed_sets(ours, others, misses)), far)

    def test_all_marks_met(self) -> None:
        marks = self.marks([10, 10, 4], [10, 4, 0])
        self.assertEqual([mark.ok for mark in marks], [True] * 5)
        assert marks[-1].value is not None
        self.assertAlmostEqual(marks[-1].value, 68.333 - 58.333, places=2)

    def test_each_mark_can_be_missed(self) -> None:
        self.assertEqual(
            len(missed(self.marks([9, 9, 4], [9, 4, 0], 1))), 1
        )  # an accepted set missed a deadline
        self.assertEqual(
            len(missed(self.marks([9, 9, 4], [10, 4, 0], far=False))), 3
        )  # below the others at one point
        self.assertEqual(len(missed(self.marks([10, 5, 0], [10, 4, 0]))), 1)  # not far enough right

    def test_half_point_needs_a_fall(self) -> None:
        points = schedulability.read(printed_sets([10, 10, 10], [0, 0, 0]))
        self.assertIsNone(schedulability.half_point(points["aplomb"]))
        self.assertIsNone(schedulability.half_point(points["global-edf-soft"]))

    def test_another_form_is_an_error(self) -> None:
        with (
            tempfile.TemporaryDirectory() as name,
            mock.patch.object(simulator, "ask", return_value={"points": [{}]}),
            self.assertRaisesRegex(ExperimentError, "another form"),
        ):
            simulator.run(
                experiment.load_study("kato/schedulability-50-100"), True, Path(name), "c"
            )


class Movies(unittest.TestCase):
    def judge(self, worst: int) -> list[bool | None]:
        limits = [simulated_movies.Limit(5, 23), simulated_movies.Limit(6, 20)]
        return [
            mark.ok
            for mark in simulated_movies.judge(simulated_movies.read(printed_movies(worst)), limits)
        ]

    def test_marks(self) -> None:
        self.assertEqual(self.judge(23), [True, True])
        self.assertEqual(self.judge(21), [False, True])
        self.assertEqual(self.judge(19), [False, False])

    def test_unknown_policies_are_left_out(self) -> None:
        self.assertEqual(
            set(simulated_movies.read(printed_movies(23))), {"aplomb-fcbs", "global-edf-soft"}
        )

    def test_a_whole_result_is_written_and_drawn(self) -> None:
        for name, printed in (
            ("kato/movies-h264", printed_movies(23)),
            ("kato/schedulability-10-50", printed_sets([10, 9, 1], [9, 8, 0])),
        ):
            with (
                tempfile.TemporaryDirectory() as folder,
                mock.patch.object(simulator, "ask", return_value=printed),
            ):
                data = simulator.run(experiment.load_study(name), True, Path(folder), "a command")
                self.assertTrue((Path(folder) / f"{name}.svg").exists())
            self.assertEqual(missed_of(data), [])
            self.assertEqual(data["conditions"]["machine"], "simulator")


def missed_of(data: Mapping[str, Any]) -> list[str]:
    return [mark["name"] for mark in data["marks"] if mark["ok"] is False]


class Real(unittest.TestCase):
    def test_a_small_run(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            data = simulator.run(
                experiment.load_study("kato/schedulability-10-50"), True, Path(folder), "a command"
            )
        points = data["samples"]["aplomb"]
        self.assertEqual({point["sets"] for point in points.values()}, {10})
        self.assertGreater(points["50"]["succeeded"], 0)
        self.assertEqual(sum(point["accepted_missed"] for point in points.values()), 0, points)


if __name__ == "__main__":
    unittest.main()
