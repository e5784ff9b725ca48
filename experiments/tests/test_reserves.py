"""Experiments with memory that is reserved by amount: what their steps leave, and their marks."""

from __future__ import annotations

import json
import tempfile
import unittest
from pathlib import Path
from typing import Any

from experiments.framework import experiment, films
from experiments.framework.marks import missed
from experiments.framework.memory import COUNTERS, FAULTS
from experiments.framework.runner import draw
from experiments.framework.schedulers import all_schedulers

KATO = ("kato/memory-h264", "kato/memory-raw", "kato/memory-overhead")


def vmstat() -> str:
    names = [name for name in COUNTERS if name != "allocstall"]
    return "".join(f"{name} 5\n" for name in [*names, "allocstall_normal", FAULTS])


class Folder(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)
        for phase in ("load", "after"):
            (self.folder / f"memory-{phase}").write_text(vmstat())
        (self.folder / "load").write_text('{"pages_each_second": [9, 9, 9, 9, 7, 7]}\n')


class Films(Folder):
    def test_each_player_is_read(self) -> None:
        frames = [f"{10 + i / 24:.6f} frame" for i in range(24 * 6)]
        phases = ["10.0 before", "12.0 load", "14.0 after", "16.0 end"]
        for n in (1, 2):
            (self.folder / f"frames-{n}").write_text("\n".join(frames + phases) + "\n")
        for phase, line in (
            ("before", "1 1 10"),
            ("load", "10 4 11"),
            ("after", "106 28 12"),
            ("end", "200 50 13"),
        ):
            (self.folder / f"times-{phase}").write_text(f"{line}\n{line}\n")
        (self.folder / "times-end").write_text("200 50 13\nended\n")
        sample = films.read(self.folder)
        first, second = sample["movies"]
        self.assertEqual((first["user_ms"], first["system_ms"]), (20.0, 5.0))
        self.assertEqual((first["major_faults"], second["major_faults"]), (3, None))
        self.assertEqual((films.worst(sample), films.average(sample)), (24, 24.0))
        self.assertEqual(sample["bomb_pages_per_s"], 7)
        self.assertEqual(films.mean(sample, "user_ms"), 20.0)

    def test_marks_compare_with_firewalling(self) -> None:
        def sample(*fewest: int) -> dict[str, Any]:
            movies = [
                {"fewest": n, "mean_under_load": float(n), "longest_gap_ms": 1.0} for n in fewest
            ]
            return {"movies": movies}

        kind = films.H264
        good = {
            "eevdf": {"firewall-8000": sample(20, 15)},
            "aplomb": {"psap-8000": sample(24, 24), "psap-6000": sample(23, 24)},
        }
        self.assertEqual([m.name for m in missed(films.judge(kind, good))], [])
        bad = {**good, "aplomb": {"psap-8000": sample(24, 14)}}
        self.assertEqual(len(missed(films.judge(kind, bad))), 2)


class Steps(unittest.TestCase):
    def test_each_paging_is_a_step_of_its_scheduler(self) -> None:
        for name in KATO:
            found = experiment.load_lab(name)
            for scheduler in ("eevdf", "aplomb"):
                steps = found.steps(all_schedulers()[scheduler], True)
                self.assertTrue(steps, name)
                for step in steps:
                    self.assertIn(step.profile, found.profiles)
                    self.assertEqual(step.words[0], "films")
                    self.assertEqual(step.words.count("--"), 2, step.words)


class Eclipse(Folder):
    def sample(self, least: int, faults: int) -> Any:
        found = experiment.load_lab("eclipse/memory")
        for domain, lost in (("reserved", faults), ("unreserved", 40)):
            turns = [json.dumps({"ms": 3.0 + lost, "major_faults": lost}) for _ in range(4)]
            (self.folder / f"{domain}.out").write_text("\n".join(turns) + "\n")
            kept = [70, 65, least, 70, 3, 0]
            (self.folder / f"{domain}.bytes").write_text("\n".join(str(n << 20) for n in kept))
        return found, {"aplomb": {"memory": dict(found.read(self.folder))}}

    def test_a_reservation_that_holds(self) -> None:
        found, samples = self.sample(61, 0)
        self.assertEqual(samples["aplomb"]["memory"]["reserved"]["least_mb"], 61.0)
        self.assertEqual(samples["aplomb"]["memory"]["unreserved"]["major_faults"], 160)
        self.assertEqual([m.name for m in missed(found.judge(samples))], [])
        self.assertEqual(len(found.table(samples)[1]), 2)
        draw(found, samples, self.folder / "x.svg")

    def test_one_that_does_not(self) -> None:
        found, samples = self.sample(50, 2)
        self.assertEqual(len(missed(found.judge(samples))), 2)


if __name__ == "__main__":
    unittest.main()
