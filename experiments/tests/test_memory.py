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
from experiments.framework.memory import COUNTERS, FAULTS, counted, pages_a_second, parse_counters
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


def film(frames: list[int], gap: float = 41.0, faults: int = 0, pages: int = 1000) -> Any:
    return {
        **movie(frames),
        "longest_gap_ms": gap,
        "bad_seconds": sum(1 for count in frames if count < 24),
        "player_major_faults": faults,
        "under_bombs": under_bombs(),
        "bomb_pages_per_s": pages,
    }


def returned(*ms: float, faults: int = 0, killed: bool = False) -> dict[str, Any]:
    return {
        "ms": list(ms),
        "major_faults": [faults] * len(ms),
        "killed": killed,
        "under_bombs": under_bombs(),
        "bomb_pages_per_s": 1000,
    }


class Counters(unittest.TestCase):
    def folder(self, first: str, last: str) -> Path:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        (Path(place.name) / "memory-load").write_text(first)
        (Path(place.name) / "memory-after").write_text(last)
        return Path(place.name)

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


class Steps(unittest.TestCase):
    def test_each_variant_is_a_step_with_its_knob(self) -> None:
        known = all_schedulers()
        for name, knobs in (
            ("redline/memory-bomb", ["-", "memory.min=60M", "min_ttl_ms=1000"]),
            ("memory/return", ["-", "memory.low=110M", "memory.min=110M", "min_ttl_ms=1000"]),
        ):
            each = experiment.load_lab(name)
            stock, ours = (each.steps(known[s], True) for s in ("eevdf", "aplomb"))
            self.assertEqual([step.words[1] for step in stock], knobs)
            self.assertTrue(all("-20" in step.words for step in stock))
            for step in ours:
                self.assertEqual(step.words[:2], ["pressure", "-"])
                self.assertNotIn("nice", step.words)
                self.assertIn(step.profile, each.profiles)


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
        self.assertEqual([mark.ok for mark in marks], [True] * 7)

    def test_each_mark_of_the_film_can_be_missed(self) -> None:
        marks = self.bombed(
            film([25, 23, 25], 121.0, 1, 899), film([20, 20, 25], faults=1, pages=899)
        )
        self.assertEqual([mark.ok for mark in marks], [False] * 7)

    def test_without_stock_the_throughput_is_not_judged(self) -> None:
        marks = self.judged("redline/memory-bomb", {"aplomb": {"be": film([25] * 3)}})
        self.assertEqual([mark.ok for mark in marks], [True, True, True, None])

    def test_returns(self) -> None:
        for ours, lost in (
            (returned(3, 20), 0),
            (returned(3, 21, faults=1), 2),
            (returned(3, killed=True), 1),
        ):
            marks = self.judged(
                "memory/return", {"eevdf": {"plain": returned(900)}, "aplomb": {"be": ours}}
            )
            self.assertEqual((len(marks), len(missed(marks))), (3, lost))

    def test_a_program_that_never_returned_is_no_success(self) -> None:
        marks = self.judged("memory/return", {"aplomb": {"be": returned(killed=True)}})
        self.assertEqual([mark.ok for mark in marks], [None, None, False])


class Reading(unittest.TestCase):
    def test_a_return(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            place = Path(name)
            (place / "stdout").write_text('{"ms": 3.5, "major_faults": 0}\n' * 2)
            (place / "load").write_text(json.dumps({"pages_each_second": [9] * 6}) + "\n")
            (place / "memory-load").write_text(counters(1, 1))
            (place / "memory-after").write_text(counters(2, 1))
            found = experiment.load_lab("memory/return").read(place)
        self.assertEqual((found["ms"], found["killed"]), ([3.5, 3.5], False))
        self.assertEqual(found["bomb_pages_per_s"], 9)
        self.assertEqual(found["under_bombs"]["pswpin"], 1)


if __name__ == "__main__":
    unittest.main()
