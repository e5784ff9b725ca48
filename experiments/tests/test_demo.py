"""The demonstration's picture on the terminal."""

from __future__ import annotations

import unittest

from experiments import demo
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


if __name__ == "__main__":
    unittest.main()
