"""The demonstration of `make run`, whole: two guests, the table, the picture, the exit status.

It runs what `make run` runs on a machine without sched_ext, with a shorter movie. Takes
two boots of the lab.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

REPOSITORY = Path(__file__).resolve().parents[1]
TITLES = {"eevdf": "EEVDF", "aplomb": "aplomb"}
FEWEST = 24  # frames in every second, of 25


class Demonstration(unittest.TestCase):
    output: str
    status: int
    folder: Path

    @classmethod
    def setUpClass(cls) -> None:
        place = tempfile.TemporaryDirectory(prefix="aplomb-demonstration-")
        cls.addClassCleanup(place.cleanup)
        cls.folder = Path(place.name)
        done = subprocess.run(
            ["scripts/run", "--demo", "--short", "--out", place.name],
            cwd=REPOSITORY,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        cls.output, cls.status = done.stdout, done.returncode
        print(cls.output)

    def row(self, title: str) -> tuple[int, float, float]:
        """Fewest frames a second, mean during the bomb, longest gap, as the table says."""
        found = re.search(
            rf"^{title}\b.*?  +(\d+)  +([\d.]+)  +([\d.]+)$", self.output, re.MULTILINE
        )
        self.assertIsNotNone(found, f"no row for {title}:\n{self.output}")
        assert found
        return int(found[1]), float(found[2]), float(found[3])

    def test_it_succeeds(self) -> None:
        self.assertEqual(self.status, 0, self.output)

    def test_the_table_has_both_schedulers_and_aplomb_plays_smoothly(self) -> None:
        stock, ours = self.row(TITLES["eevdf"]), self.row(TITLES["aplomb"])
        self.assertGreaterEqual(ours[0], FEWEST)
        self.assertLess(
            stock[1], FEWEST, "the stock scheduler is not disturbed: the bomb did not run"
        )
        self.assertGreater(stock[2], ours[2])

    def test_the_lines_show_frame_rates_and_the_bomb(self) -> None:
        lines = [line for line in self.output.splitlines() if re.search(r"\|.*\|( +\d+)+$", line)]
        self.assertEqual(len(lines), 2, self.output)
        for line in lines:
            bar, counts = line.split("|")[1:]
            self.assertEqual(len(bar), len(counts.split()))
        self.assertRegex(self.output, r"\^+  the bomb")

    def test_the_picture_is_drawn(self) -> None:
        named = re.search(r"^The picture: (.*)$", self.output, re.MULTILINE)
        self.assertIsNotNone(named, self.output)
        assert named
        picture = Path(named[1])
        self.assertTrue(picture.resolve().is_relative_to(self.folder.resolve()), picture)
        self.assertTrue(ElementTree.parse(picture).getroot().tag.endswith("svg"))
        self.assertGreater(picture.stat().st_size, 5000, "an empty picture")


if __name__ == "__main__":
    unittest.main()
