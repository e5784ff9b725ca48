"""The demonstration: its picture on the terminal, and its whole course with made-up guests."""

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from experiments import demo
from experiments.framework import guest
from experiments.framework.schedulers import all_schedulers
from experiments.tests.fixture import movie


class Picture(unittest.TestCase):
    def test_sparkline(self) -> None:
        self.assertEqual(demo.sparkline([0, 25, 12, 60]), " █▄█")

    def test_lines_are_as_long_as_the_movie_and_the_bomb_is_marked_where_it_ran(self) -> None:
        text = demo.picture(
            {"eevdf": {"x": movie([25, 25, 1, 0, 25, 25])}, "aplomb": {"x": movie([25] * 6)}}
        )
        stock, ours, bomb = text.splitlines()
        self.assertIn("|██  ██|", stock.replace("▁", " "))
        self.assertIn("|██████|", ours)
        self.assertEqual(bomb.index("^"), ours.index("|") + 1 + 2)
        self.assertEqual(bomb.count("^"), 2)


class Course(unittest.TestCase):
    """Everything but the guests is real: tests.test_demonstration boots them."""

    def played(self, frames: list[int]) -> tuple[int, str, bool]:
        """Exit status, output, is the picture there? frames: of each second, under aplomb."""

        def run_boot(_: object, boot: guest.Boot, *_more: object) -> guest.Outcome:
            counts = frames if boot.scheduler.name == "aplomb" else [25, 25, 1, 0, 25, 25]
            return guest.Outcome(
                {step.name: movie(counts) for step in boot.steps}, {"kernel": "7.3"}
            )

        with (
            tempfile.TemporaryDirectory() as place,
            mock.patch.object(guest, "run_boot", run_boot),
            mock.patch.object(guest, "build_workloads"),
            mock.patch.object(demo, "choose", self.choose),
            contextlib.redirect_stdout(io.StringIO()) as said,
            contextlib.redirect_stderr(io.StringIO()),
        ):
            status = demo.main(["--out", place])
            return status, said.getvalue(), (Path(place) / "redline" / "fork-bomb-50.svg").is_file()

    @staticmethod
    def choose(*_: object) -> tuple[list[object], dict[str, str]]:
        known = all_schedulers()
        return [known["eevdf"], known["aplomb"]], {}

    def test_a_smooth_movie(self) -> None:
        status, said, drawn = self.played([25] * 6)
        self.assertEqual(status, 0)
        self.assertIn("|██████|", said)
        self.assertRegex(said, r"(?m)^aplomb +25 ")
        self.assertTrue(drawn)

    def test_a_movie_that_stalls_is_a_failure(self) -> None:
        self.assertEqual(self.played([25, 25, 3, 25, 25, 25])[0], 1)


if __name__ == "__main__":
    unittest.main()
