"""Frame times: parsing, frames in every second, the longest gap."""

from __future__ import annotations

import unittest
from collections.abc import Sequence

from experiments.framework.errors import ExperimentError
from experiments.framework.frames import parse_frames


def text(
    frames: Sequence[float],
    phases: Sequence[tuple[float, str]] = (
        (10.0, "before"),
        (12.0, "load"),
        (14.0, "after"),
        (16.0, "end"),
    ),
) -> str:
    lines = [(time, "frame") for time in frames] + list(phases)
    return "\n".join(f"{time:.6f} {word}" for time, word in sorted(lines))


def steady(start: float, end: float) -> list[float]:
    return [start + i * 0.04 for i in range(round((end - start) / 0.04))]


class Frames(unittest.TestCase):
    def test_steady_movie_shows_25_in_every_second(self) -> None:
        movie = parse_frames(text(steady(8.0, 16.0)))
        self.assertEqual(movie.fewest, 25)
        self.assertLess(movie.longest_gap_ms, 41)
        self.assertAlmostEqual(movie.mean_under_load, 25, delta=0.6)

    def test_frames_a_little_early_or_late_stay_in_their_second(self) -> None:
        times = [t + (0.009 if i % 2 else -0.009) for i, t in enumerate(steady(9.0, 16.0))]
        self.assertEqual(parse_frames(text(times)).fewest, 25)

    def test_frames_before_the_measurement_do_not_count(self) -> None:
        movie = parse_frames(text(steady(5.0, 16.0)))
        self.assertGreaterEqual(movie.times[0], 0)
        self.assertEqual(max(movie.per_second), 25)

    def test_a_gap_is_seen_in_both_numbers(self) -> None:
        times = [t for t in steady(10.0, 16.0) if not 12.5 < t < 13.1]
        movie = parse_frames(text(times))
        self.assertLess(movie.fewest, 24)
        self.assertGreater(movie.longest_gap_ms, 600)

    def test_a_player_that_stops_has_a_gap_to_the_end(self) -> None:
        movie = parse_frames(text(steady(10.0, 13.0)))
        self.assertAlmostEqual(movie.longest_gap_ms, 3040, delta=50)
        self.assertEqual(movie.fewest, 0)

    def test_no_frames_at_all(self) -> None:
        movie = parse_frames(text([]))
        self.assertEqual(movie.fewest, 0)
        self.assertEqual(len(movie.per_second), 6)
        self.assertAlmostEqual(movie.longest_gap_ms, 6000, delta=1)

    def test_bad_lines_are_named(self) -> None:
        for bad in ("x frame", "1.0", "1.0 nonsense"):
            with self.subTest(bad), self.assertRaisesRegex(ExperimentError, "place, line 1"):
                parse_frames(bad + "\n", "place")

    def test_a_missing_phase_is_an_error(self) -> None:
        with self.assertRaisesRegex(ExperimentError, "'after' is missing"):
            parse_frames(text([11.0], ((10.0, "before"), (12.0, "load"), (16.0, "end"))))


if __name__ == "__main__":
    unittest.main()
