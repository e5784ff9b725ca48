"""What tests/lab/test_order.py takes for a difference between the kernel and the simulator."""

from __future__ import annotations

import unittest

from tests.lab.test_order import TICK_US, Piece, differences

# Long enough that one late piece is below the bound for all.
SIMULATED: list[Piece] = [(10_000.0 * n, "ab"[n % 2]) for n in range(100)]


def late(*numbers: int, by: float = TICK_US) -> list[Piece]:
    """The pieces, those of these numbers as much later."""
    return [(at + by * (n in numbers), name) for n, (at, name) in enumerate(SIMULATED)]


class Differences(unittest.TestCase):
    def test_none(self) -> None:
        self.assertEqual(differences(SIMULATED, SIMULATED), [])

    def test_a_late_piece_needs_an_interruption(self) -> None:
        self.assertEqual(len(differences(late(50), SIMULATED)), 1)
        self.assertEqual(len(differences(late(50), SIMULATED, [480_000.0])), 1, "long before")
        self.assertEqual(differences(late(50), SIMULATED, [497_000.0]), [])

    def test_an_interruption_excuses_the_next_piece_and_no_more(self) -> None:
        self.assertEqual(differences(late(50, 51), SIMULATED, [497_000.0]), [])
        self.assertEqual(len(differences(late(50, 51, 52), SIMULATED, [497_000.0])), 1)

    def test_more_than_a_tick_is_not_excused(self) -> None:
        self.assertEqual(len(differences(late(50, by=5_000), SIMULATED, [497_000.0])), 1)

    def test_too_many_are_not_excused(self) -> None:
        numbers = range(10, 90, 10)
        excuses = [SIMULATED[n][0] - 3_000 for n in numbers]
        self.assertEqual(len(differences(late(*numbers), SIMULATED, excuses)), 1)

    def test_another_task_is_a_difference(self) -> None:
        other = [*SIMULATED[:50], (500_000.0, "c"), *SIMULATED[51:]]
        self.assertEqual(len(differences(other, SIMULATED, [497_000.0])), 1)
        self.assertEqual(len(differences(SIMULATED[:-1], SIMULATED)), 1)


if __name__ == "__main__":
    unittest.main()
