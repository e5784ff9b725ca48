"""Experiments with a program beside a load that wants memory: steps, reading, marks and
pictures."""

from __future__ import annotations

import json
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.framework import experiment
from experiments.framework.beside import merged, peak_mb, reports
from experiments.framework.errors import ExperimentError
from experiments.framework.marks import Mark
from experiments.framework.runner import draw
from experiments.framework.schedulers import all_schedulers
from experiments.tests.test_memory import counters, under_bombs

SCHEDULERS = all_schedulers()


def mapped(missed: int = 0, faults: int = 0, killed: bool = False) -> dict[str, Any]:
    second = {"periods": 25, "missed": 0, "major_faults": 0, "longest_ms": 1.5}
    return {
        "periods": 1500,
        "missed": missed,
        "major_faults": faults,
        "longest_ms": 1.5,
        "seconds": [second] * 60,
        "killed": killed,
        "under_load": under_bombs(),
        "load": {},
        "allocators_pages_per_s": 1000,
        "allocators_killed": 3,
        "reread_mb": 90,
    }


def idle(*pages: int, peak: float = 400.0) -> dict[str, Any]:
    return {
        "job_pages_each_second": list(pages),
        "job_peak_mb": peak,
        "return_ms": 900.0,
        "return_major_faults": 30,
        "killed": False,
        "under_load": under_bombs(),
    }


def woken(p99: float) -> dict[str, Any]:
    return {
        "wake_ups": 1000,
        "misses": None,
        "wake_up_us": {"mean": 20.0, "p99": p99, "max": 2 * p99},
        "under_bombs": under_bombs(),
        "bomb_pages_per_s": 1000,
        "killed": False,
    }


class Files(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)

    def write(self, name: str, text: str) -> Path:
        (self.folder / name).write_text(text)
        return self.folder / name


class Printed(Files):
    def test_a_load_of_two_programs_prints_two_lines(self) -> None:
        path = self.write("load", 'noise\n{"reread_mb": 7}\n{"killed": 2}\n[1]\n')
        self.assertEqual(merged(path), {"reread_mb": 7, "killed": 2})
        self.assertEqual(len(reports(path)), 2)

    def test_a_line_that_was_cut_off_is_left_out(self) -> None:
        self.assertEqual(reports(self.write("stdout", '{"ms": 3}\n{"m')), [{"ms": 3}])

    def test_the_most_memory_of_a_cgroup(self) -> None:
        self.write("peak-load", f"{300 << 20}\n")
        self.assertEqual(peak_mb(self.folder, "load"), 300)
        self.write("peak-load", "max\n")
        with self.assertRaisesRegex(ExperimentError, "peak-load"):
            peak_mb(self.folder, "load")


class Steps(unittest.TestCase):
    def test_each_step_has_its_knob_and_profile(self) -> None:
        for name, ours, knobs in (
            ("memory/mapped-files", 1, ["-", "memory.min=120M", "min_ttl_ms=1000"]),
            ("memory/idle-protected", 3, ["-", "memory.min=300M", "min_ttl_ms=1000"]),
            (
                "memory/wake-up",
                4,
                ["-", "memory.min=16M", "min_ttl_ms=1000", "-", "min_ttl_ms=1000"],
            ),
        ):
            with self.subTest(name):
                each = experiment.load_lab(name)
                stock, own = (each.steps(SCHEDULERS[s], True) for s in ("eevdf", "aplomb"))
                self.assertEqual([step.words[1] for step in stock], knobs)
                self.assertEqual(len(own), ours)
                self.assertTrue(all(step.words[:2] == ["pressure", "-"] for step in own))
                self.assertTrue(all(step.profile in each.profiles for step in own))
                self.assertEqual(len({step.name for step in own}), ours)

    def test_only_the_reserved_task_has_a_nice_value(self) -> None:
        each = experiment.load_lab("memory/wake-up")
        for step in each.steps(SCHEDULERS["eevdf"], True):
            self.assertEqual("nice" in step.words, step.name.startswith("reserved"))

    def test_protection_on_and_off_take_turns_in_one_guest(self) -> None:
        from experiments.framework.guest import divide

        each = experiment.load_lab("memory/cost")
        steps = each.steps(SCHEDULERS["aplomb"], False)
        self.assertEqual(len(divide(SCHEDULERS["aplomb"], steps)), 1)
        phases = [step.profile for step in steps if step.name.startswith("fork-")]
        self.assertFalse(any("--" in step.words for step in steps))
        self.assertEqual(phases, ["without", "with", "with", "without", "without", "with"])


class Reading(Files):
    def test_periods_of_a_mapped_file(self) -> None:
        line = {"periods": 25, "missed": 2, "major_faults": 3, "longest_ms": 81.5}
        self.write("stdout", (json.dumps(line) + "\n") * 4)
        self.write("load", '{"reread_mb": 7}\n{"killed": 2, "pages_each_second": [8, 10]}\n')
        self.write("memory-load", counters(1, 1))
        self.write("memory-after", counters(2, 1))
        found = experiment.load_lab("memory/mapped-files").read(self.folder)
        self.assertEqual(
            (found["periods"], found["missed"], found["major_faults"], found["longest_ms"]),
            (100, 8, 12, 81.5),
        )
        self.assertEqual((found["allocators_killed"], found["reread_mb"]), (2, 7))
        self.assertEqual(found["allocators_pages_per_s"], 9)

    def test_a_job_beside_an_idle_program(self) -> None:
        self.write("stdout", '{"ms": 812.5, "major_faults": 9}\n')
        self.write("load", '{"pages_each_second": [8, 10]}\n')
        self.write("peak-load", f"{300 << 20}\n")
        self.write("memory-load", counters(1, 1))
        self.write("memory-after", counters(2, 1))
        found = experiment.load_lab("memory/idle-protected").read(self.folder)
        self.assertEqual((found["job_pages_each_second"], found["return_ms"]), ([8, 10], 812.5))

    def test_wake_ups_of_both_tasks(self) -> None:
        late = {"mean": 1.0, "p99": 5.0, "max": 9.0}
        self.write("load", '{"pages_each_second": [8, 10]}\n')
        self.write("memory-load", counters(1, 1))
        self.write("memory-after", counters(2, 1))
        read = experiment.load_lab("memory/wake-up").read
        for printed in (
            {"jobs": 50, "misses": 1, "wakeup_us": {**late, "p50": 1, "below_us": {}}},
            {"sleeps": 50, "delay_us": late},
        ):
            self.write("stdout", json.dumps(printed))
            found = read(self.folder)
            self.assertEqual((found["wake_ups"], found["wake_up_us"]), (50, late))

    def test_costs_in_microseconds(self) -> None:
        read = experiment.load_lab("memory/cost").read
        self.write("stdout", '{"ns": 2500.0}\n')
        self.assertEqual(read(self.folder), {"us": 2.5})
        self.write("seconds", "1.5\n")
        self.assertEqual(read(self.folder), {"us": 1.5e6})


class MarksAndPictures(unittest.TestCase):
    def judged(self, name: str, samples: Mapping[str, Any]) -> list[bool | None]:
        """The verdicts; the table and the picture are made as well."""
        each = experiment.load_lab(name)
        headers, rows = each.table(samples)
        self.assertTrue(rows)
        self.assertTrue(all(len(row) == len(headers) for row in rows))
        with tempfile.TemporaryDirectory() as place:
            self.assertIn(b"<svg", draw(each, samples, Path(place)).read_bytes())
        marks: list[Mark] = list(each.judge(samples))
        return [mark.ok for mark in marks]

    def test_mapped_files(self) -> None:
        for ours, verdicts in (
            (mapped(15, 150), [True, True, True]),
            (mapped(16, 151), [True, False, False]),
            (mapped(killed=True), [False, None, None]),
        ):
            samples = {"eevdf": {"plain": mapped(900, 9000)}, "aplomb": {"be": ours}}
            self.assertEqual(self.judged("memory/mapped-files", samples), verdicts)

    def test_an_idle_program_gives_back(self) -> None:
        without = idle(1000, 1000)
        for ours, verdicts in (
            (idle(950, 950, peak=380), [True, True, True]),
            (idle(900, 950, peak=379), [False, False, True]),
        ):
            samples = {"aplomb": {"unprotected": without, "protected": ours}}
            self.assertEqual(self.judged("memory/idle-protected", samples), verdicts)
        alone = self.judged("memory/idle-protected", {"aplomb": {"protected": without}})
        self.assertEqual(alone, [None, None, True])

    def test_when_a_job_has_its_full_speed(self) -> None:
        each = experiment.load_lab("memory/idle-protected")
        for pages, expected in (((10, 20, 500, 1000), 2), ((), None)):
            headers, rows = each.table({"aplomb": {"protected": idle(*pages)}})
            self.assertEqual(rows[0][list(headers).index("s to half of best")], expected)

    def test_wake_ups(self) -> None:
        stock = {"reserved-plain": woken(9000), "other-plain": woken(4000)}
        for reserved, other, verdicts in (
            (1000, 2000, [True, True]),
            (1001, 2001, [False, False]),
        ):
            ours = {"reserved-be": woken(reserved), "other-be": woken(other)}
            samples = {"eevdf": stock, "aplomb": ours}
            self.assertEqual(self.judged("memory/wake-up", samples), verdicts)
        self.assertEqual(self.judged("memory/wake-up", {"aplomb": ours}), [False, None])

    def test_costs_are_of_medians(self) -> None:
        def steps(*on: float) -> dict[str, Any]:
            found = {f"fork-with-{k}": {"us": us} for k, us in enumerate(on)}
            return {**found, **{f"fork-without-{k}": {"us": 100.0} for k in range(len(on))}}

        for on, verdict in (((100, 101, 500), True), ((90, 102, 103), False)):
            self.assertEqual(self.judged("memory/cost", {"aplomb": steps(*on)}), [verdict])


if __name__ == "__main__":
    unittest.main()
