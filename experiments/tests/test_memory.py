"""Experiments with short memory: the kernel's counters, the bombs' throughput, marks and
pictures."""

from __future__ import annotations

import json
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from experiments.framework import experiment
from experiments.framework.errors import ExperimentError
from experiments.framework.marks import Mark, missed
from experiments.framework.memory import (
    CLASSES,
    COUNTERS,
    FAULTS,
    TASK_COUNTERS,
    counted,
    pages_a_second,
    parse_counters,
    protecting,
    reserve_mb,
    shortage,
    tasks_counted,
)
from experiments.framework.runner import draw
from experiments.framework.schedulers import all_schedulers
from experiments.tests.fixture import movie

VMSTAT = [name for name in COUNTERS if name != "allocstall"]


def counters(value: int, faults: int | None) -> str:
    lines = [f"{name} {value}" for name in VMSTAT]
    lines += [f"allocstall_{zone} {value}" for zone in ("dma32", "normal")] + ["nr_free_pages 9"]
    lines += [] if faults is None else [f"{FAULTS} {faults}"]
    return "\n".join(lines) + "\n"


def under_bombs() -> dict[str, int]:
    return dict.fromkeys((*COUNTERS, FAULTS), 7)


def shortage_of(pages: int = 1000, reclaims: int = 0) -> dict[str, Any]:
    return {
        "under_bombs": under_bombs(),
        "bomb_pages_per_s": pages,
        "tasks": {kind: dict.fromkeys(TASK_COUNTERS, reclaims) for kind in CLASSES},
        "reserve_mb": 8.0,
    }


def film(
    frames: list[int], gap: float = 41.0, faults: int = 0, pages: int = 1000, reclaims: int = 0
) -> Any:
    return {
        **movie(frames),
        "longest_gap_ms": gap,
        "bad_seconds": sum(1 for count in frames if count < 24),
        "player_major_faults": faults,
        **shortage_of(pages, reclaims),
    }


def returned(*ms: float, faults: int = 0, killed: bool = False, reclaims: int = 0) -> Any:
    return {
        "ms": list(ms),
        "major_faults": [faults] * len(ms),
        "parts_ms": {"program": list(ms)},
        "faults_of": [{"shared-library": faults} if faults else {} for _ in ms],
        "killed": killed,
        **shortage_of(reclaims=reclaims),
    }


def resident(*mb: float, reclaims: int = 0) -> Any:
    return {
        "first_resident_mb": [300.0] * (len(mb) + 5),
        "resident_mb": list(mb),
        "started_after_s": 5.0,
        "pages_per_s": [9] * len(mb),
        **shortage_of(reclaims=reclaims),
    }


def start(seconds: float | None, reclaims: int = 0) -> Any:
    return {
        "seconds": seconds,
        "killed": seconds is None,
        "major_faults": 3,
        **shortage_of(reclaims=reclaims),
    }


def status(value: int) -> str:
    counts = [{"class": kind, **dict.fromkeys(TASK_COUNTERS, value)} for kind in CLASSES]
    return json.dumps({"memory": {"protected": None, "counts": counts}})


ZONES = """Node 0, zone   Normal
  pages free     1000
        min      1000
        low      3048
        high     5096
      nr_free_pages 1000
"""


def folder_of(test: unittest.TestCase, **files: str) -> Path:
    """A step's folder. In the names "_" stands for "-", and "__" for a dot."""
    place = tempfile.TemporaryDirectory()
    test.addCleanup(place.cleanup)
    for name, text in files.items():
        (Path(place.name) / name.replace("__", ".").replace("_", "-")).write_text(text)
    return Path(place.name)


class Counters(unittest.TestCase):
    def folder(self, first: str, last: str) -> Path:
        return folder_of(self, memory_load=first, memory_after=last)

    def test_zones_are_summed_and_others_left_out(self) -> None:
        found = parse_counters(counters(3, 5))
        self.assertEqual((found["allocstall"], found["pswpin"], found[FAULTS]), (6, 3, 5))
        self.assertNotIn("nr_free_pages", found)

    def test_growth(self) -> None:
        grown = counted(self.folder(counters(3, 5), counters(10, 6)), "load", "after")
        self.assertEqual((grown["allocstall"], grown["pswpout"], grown[FAULTS]), (14, 7, 1))

    def test_a_program_that_was_killed_has_no_faults(self) -> None:
        grown = counted(self.folder(counters(3, 5), counters(10, None)), "load", "after")
        self.assertIsNone(grown[FAULTS])

    def test_a_counter_that_the_kernel_lacks_is_named(self) -> None:
        with self.assertRaisesRegex(ExperimentError, "no pswpin"):
            counted(self.folder(FAULTS + " 1\n", counters(1, 1)), "load", "after")

    def test_throughput_leaves_the_beginning_out(self) -> None:
        self.assertEqual(pages_a_second({"pages_each_second": [90000, 10, 20]}, 1), 15)
        self.assertIsNone(pages_a_second({"pages_each_second": [90000]}, 1))
        self.assertIsNone(pages_a_second(None, 1))

    def test_the_reserve_is_summed_over_zones(self) -> None:
        self.assertEqual(reserve_mb(folder_of(self, zoneinfo=ZONES * 2)), 16)

    def test_tasks_are_counted_from_the_beginning_of_the_step(self) -> None:
        self.assertIsNone(tasks_counted(folder_of(self)))
        found = tasks_counted(
            folder_of(self, aplomb_before__json=status(3), aplomb__json=status(5))
        )
        assert found is not None
        self.assertEqual(found["best-effort"]["parked"], 2)

    def test_a_step_of_stock_has_no_classes(self) -> None:
        found = shortage(
            folder_of(
                self, memory_load=counters(1, 1), memory_after=counters(2, 1), zoneinfo=ZONES
            ),
            None,
            1,
        )
        self.assertEqual((found["tasks"], found["reserve_mb"]), (None, 8))

    def test_a_profile_protects(self) -> None:
        profile = protecting("line", reserve="0")
        self.assertEqual(profile.lines, ("line",))
        self.assertEqual(profile.config, ("[memory]", "protect = true", 'reserve = "0"'))


class Steps(unittest.TestCase):
    def test_each_variant_is_a_step_with_its_knob(self) -> None:
        known = all_schedulers()
        for name, knobs in (
            ("redline/memory-bomb", ["-", "memory.min=60M", "min_ttl_ms=1000"]),
            ("redline/no-reserve", ["-", "memory.min=60M", "min_ttl_ms=1000"]),
            ("redline/resident-sets", ["-", "memory.min=384M", "min_ttl_ms=1000", "-"]),
            ("redline/browser-start", ["-", "-", "memory.min=250M", "min_ttl_ms=1000"]),
            ("memory/return", ["-", "memory.low=130M", "memory.min=130M", "min_ttl_ms=1000"]),
        ):
            each = experiment.load_lab(name)
            stock, ours = (each.steps(known[s], True) for s in ("eevdf", "aplomb"))
            found = [step.words[list(step.words).index("pressure") + 1] for step in stock]
            self.assertEqual(found, knobs)
            self.assertTrue(all("-20" in step.words for step in stock if step.name != "idle"))
            for step in ours:
                self.assertIn("pressure -", " ".join(step.words))
                self.assertNotIn("nice", step.words)
                self.assertIn("protect = true", each.profiles[step.profile].config)

    def test_only_a_moved_program_starts_in_the_root_cgroup(self) -> None:
        each = experiment.load_lab("memory/return")
        places = {
            step.name: next(word for word in step.words if word.startswith("program="))
            for step in each.steps(all_schedulers()["aplomb"], True)
        }
        self.assertEqual(places, {"be": "program=program", "moved": "program="})


class MarksAndPictures(unittest.TestCase):
    def judged(self, name: str, samples: Mapping[str, Any]) -> list[Mark]:
        """The marks; the table and the picture are made as well."""
        each = experiment.load_lab(name)
        headers, rows = each.table(samples)
        self.assertEqual(len(rows), sum(map(len, samples.values())))
        self.assertTrue(all(len(row) == len(headers) for row in rows))
        with tempfile.TemporaryDirectory() as place:
            self.assertIn(b"<svg", draw(each, samples, Path(place)).read_bytes())
        return list(each.judge(samples))

    def bombed(self, best: Any, interactive: Any) -> list[Mark]:
        stock = {"plain": film([25, 3, 25], 900.0, 400), "min": film([25] * 3)}
        return self.judged(
            "redline/memory-bomb", {"eevdf": stock, "aplomb": {"be": best, "iact": interactive}}
        )

    def test_a_film_without_loss(self) -> None:
        marks = self.bombed(film([25] * 3, pages=900), film([25, 20, 25], 300.0, pages=950))
        self.assertEqual([mark.ok for mark in marks], [True] * 8)

    def test_each_mark_of_the_film_can_be_missed(self) -> None:
        marks = self.bombed(
            film([25, 23, 25], 121.0, 1, 899, 1), film([20, 20, 25], faults=1, pages=899)
        )
        self.assertEqual([mark.ok for mark in marks], [False] * 8)

    def test_without_stock_the_throughput_is_not_judged(self) -> None:
        marks = self.judged("redline/memory-bomb", {"aplomb": {"be": film([25] * 3)}})
        self.assertEqual([mark.ok for mark in marks], [True] * 4 + [None])

    def unreserved(self, **ours: Any) -> list[bool | None]:
        stock = {"plain": film([25, 3, 25], 900.0, 400)}
        marks = self.judged("redline/no-reserve", {"eevdf": stock, "aplomb": ours})
        return [mark.ok for mark in marks]

    def test_what_the_reserve_is_worth(self) -> None:
        best, worse, worst = film([25, 20]), film([3, 20], faults=1), film([3, 3, 3])
        self.assertEqual(self.unreserved(reserve=best, none=worst), [True] * 3)
        self.assertEqual(self.unreserved(reserve=worse, none=best), [False] * 3)
        self.assertEqual(self.unreserved(reserve=best), [True, None, True])

    def sets(self, ours: Any, **idle: float) -> list[Mark]:
        stock: dict[str, Any] = {"plain": resident(10, 20, 30)}
        if idle:
            stock["idle"] = idle
        return self.judged("redline/resident-sets", {"eevdf": stock, "aplomb": {"iact": ours}})

    def test_resident_sets(self) -> None:
        for ours, verdicts in (
            (resident(200, 384), [True, True]),
            (resident(200, 300, 384, reclaims=1), [False, False]),  # too late
            (resident(200, 383.9), [False, True]),  # never
        ):
            marks = self.sets(ours, write_s=0.5, read_s=0.5)
            self.assertEqual([mark.ok for mark in marks], verdicts)

    def test_resident_sets_that_are_never_complete_are_told(self) -> None:
        (mark, _) = self.sets(resident(200, 311), write_s=1, read_s=1)
        self.assertEqual((mark.value, mark.note), (None, "never; at most 311 of 384 MB"))

    def test_without_an_idle_machine_resident_sets_are_not_judged(self) -> None:
        self.assertIsNone(self.sets(resident(384))[0].ok)

    def started(self, *ours: Any, alone: bool = True) -> list[Mark]:
        runs = {f"be-{i}": run for i, run in enumerate(ours, 1)}
        if alone:
            runs |= {f"alone-{i}": start(seconds) for i, seconds in enumerate((9, 10, 30), 1)}
        stock = {"plain-1": start(None), "plain-2": start(250)}
        return self.judged("redline/browser-start", {"eevdf": stock, "aplomb": runs})

    def test_starts_are_compared_with_the_median_of_those_alone(self) -> None:
        for ours, verdicts in (
            ((start(14), start(15)), [True, True]),
            ((start(14), start(15.1, 1)), [False, False]),
            ((start(14), start(None)), [False, True]),
        ):
            self.assertEqual([mark.ok for mark in self.started(*ours)], verdicts)

    def test_without_a_start_alone_nothing_is_compared(self) -> None:
        self.assertEqual([mark.ok for mark in self.started(start(5), alone=False)], [None, True])

    def test_returns(self) -> None:
        for ours, lost in (
            (returned(3, 20), 0),
            (returned(3, 21, faults=1), 2),
            (returned(3, killed=True, reclaims=1), 2),
        ):
            marks = self.judged(
                "memory/return", {"eevdf": {"plain": returned(900)}, "aplomb": {"be": ours}}
            )
            self.assertEqual((len(marks), len(missed(marks))), (4, lost))

    def test_the_part_that_faults_is_named(self) -> None:
        marks = self.judged("memory/return", {"aplomb": {"be": returned(3, 30, faults=4)}})
        self.assertEqual([mark.note for mark in missed(marks)], ["", "shared-library 8"])

    def test_a_program_that_never_returned_is_no_success(self) -> None:
        marks = self.judged("memory/return", {"aplomb": {"be": returned(killed=True)}})
        self.assertEqual([mark.ok for mark in marks], [None, None, False, True])


class Reading(unittest.TestCase):
    def test_a_return(self) -> None:
        each = experiment.load_lab("memory/return")
        parts = ("program", "memory", "document", "library", "shared-library")
        line = json.dumps(
            {
                "ms": 3.5,
                "major_faults": 2,
                "parts_ms": dict.fromkeys(parts, 0.5),
                "faults_of": {"editor": 2},
            }
        )
        found = each.read(
            folder_of(
                self,
                stdout=f"{line}\n" * 2,
                load=json.dumps({"pages_each_second": [9] * 6}) + "\n",
                memory_load=counters(1, 1),
                memory_after=counters(2, 1),
                zoneinfo=ZONES,
            )
        )
        self.assertEqual((found["ms"], found["killed"]), ([3.5, 3.5], False))
        self.assertEqual(found["parts_ms"]["library"], [0.5, 0.5])
        self.assertEqual(found["faults_of"], [{"editor": 2}] * 2)
        self.assertEqual(found["bomb_pages_per_s"], 9)
        self.assertEqual(found["under_bombs"]["pswpin"], 1)

    def test_resident_sets(self) -> None:
        each = experiment.load_lab("redline/resident-sets")
        bomb = {"start_s": 10.0, "resident_mb": [5.5], "pages_each_second": [9] * 6}
        files = {
            "load": json.dumps(bomb),
            "stdout": json.dumps({**bomb, "start_s": 15.25}),
            "memory_load": counters(1, 1),
            "memory_after": counters(2, 1),
            "zoneinfo": ZONES,
        }
        found = each.read(folder_of(self, **files))
        self.assertEqual((found["started_after_s"], found["resident_mb"]), (5.25, [5.5]))
        with self.assertRaisesRegex(ValueError, "said nothing"):
            each.read(folder_of(self, **{**files, "stdout": ""}))

    def test_an_idle_machine(self) -> None:
        each = experiment.load_lab("redline/resident-sets")
        found = each.read(
            folder_of(
                self,
                seconds="9.5\n",
                stdout=json.dumps({"ms": 30500, "major_faults": 12}) + "\n",
                left=f"{1 << 20}\n{383 << 20}\n",
            )
        )
        self.assertEqual((found["write_s"], found["read_s"]), (9.5, 30.5))
        self.assertEqual((found["not_written_mb"], found["in_swap_mb"]), (1, 383))

    def test_a_start(self) -> None:
        each = experiment.load_lab("redline/browser-start")
        files = {
            "stdout": "convert /job/letter.fodt as a Writer document -> letter.pdf\n",
            "stderr": "",
            "seconds": "12.3456\n",
            "stat_program": "anon 5\npgmajfault 812\n",
            "memory_load": counters(1, 1),
            "memory_after": counters(2, 1),
            "zoneinfo": ZONES,
        }
        found = each.read(folder_of(self, **files))
        self.assertEqual((found["seconds"], found["major_faults"]), (12.346, 812))
        self.assertIsNone(found["bomb_pages_per_s"])
        killed = each.read(folder_of(self, **{**files, "stdout": "", "killed": "137\n"}))
        self.assertEqual((killed["seconds"], killed["killed"]), (None, True))
        with self.assertRaisesRegex(ExperimentError, "did not do its work"):
            each.read(folder_of(self, **{**files, "stdout": ""}))


if __name__ == "__main__":
    unittest.main()
