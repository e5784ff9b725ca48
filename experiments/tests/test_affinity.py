"""Loops that may run on some CPUs only: what each is due, and what is made of the samples."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

from experiments.framework import experiment
from experiments.framework.errors import ExperimentError
from experiments.framework.schedulers import all_schedulers

AFFINITY = experiment.load_lab("cpus/affinity")
STEPS = AFFINITY.steps(all_schedulers()["aplomb"], False)


def sample(ppm: list[int], free_ppm: int) -> dict[str, list[int]]:
    return {"ppm": ppm, "free_ppm": [free_ppm] * 8}


class Affinity(unittest.TestCase):
    def test_words(self) -> None:
        words = {step.name: " ".join(step.words) for step in STEPS}
        self.assertEqual(words["six-on-four"], "masked - - 2-5 6 3")
        self.assertEqual(words["six-on-four-domain"], "masked apps apps 2-5 6 3")
        self.assertEqual(words["container"], "masked free box,weight=50 2-5 6 3")

    def test_due(self) -> None:
        _, rows = AFFINITY.table({"aplomb": {step.name: sample([1], 1) for step in STEPS}})
        due = [row[2] for row in rows]
        self.assertEqual(due, [0.571, 0.667, 0.471, 0.571, 0.667, 0.471, 0.444])

    def test_the_loop_that_is_furthest_off_is_judged(self) -> None:
        def marks(ppm: list[int]) -> list[bool | None]:
            steps = {"six-on-four": sample(ppm, 0)}
            return [m.ok for m in AFFINITY.judge({"aplomb": steps})]

        self.assertEqual(marks([571_000, 599_000]), [True])
        self.assertEqual(marks([571_000, 601_000]), [False])
        self.assertEqual(marks([541_000, 571_000]), [False])

    def test_what_all_had_is_divided_beside_it(self) -> None:
        """All loops have a tenth less than they are due: so none has less than another."""
        _, [row] = AFFINITY.table({"aplomb": {"six-on-four": sample([514_286] * 6, 514_286)}})
        self.assertEqual(row[5:], [10.0, 7.2, 0.0])

    def test_a_file_that_is_no_list_of_numbers_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / "masked"
            file.write_text("570000\nx\n")
            with self.assertRaisesRegex(ExperimentError, str(file)):
                AFFINITY.read(Path(name))
            file.write_text("570000\n" * 8)
            with self.assertRaisesRegex(ExperimentError, "8 loops"):
                AFFINITY.read(Path(name))
            file.write_text("570000\n571000\n" + "580000\n" * 8)
            self.assertEqual(AFFINITY.read(Path(name)), sample([570_000, 571_000], 580_000))


if __name__ == "__main__":
    unittest.main()
