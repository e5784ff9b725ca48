"""Marks: limits are inclusive where they say so, nothing measured is not met, a missed one fails
the command."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from experiments.framework import cli
from experiments.framework.marks import at_least, at_most, below, between, missed
from experiments.tests.fixture import result


class Marks(unittest.TestCase):
    def test_limits(self) -> None:
        self.assertIs(at_least("x", 24, 24, "").ok, True)
        self.assertIs(at_least("x", 23.9, 24, "").ok, False)
        self.assertIs(at_most("x", 80, 80, "").ok, True)
        self.assertIs(at_most("x", 80.1, 80, "").ok, False)
        self.assertIs(below("x", 5, 5, "").ok, False)
        self.assertIs(between("x", 20.5, 20.0, 20.5, "").ok, True)
        self.assertIs(between("x", 20.51, 20.0, 20.5, "").ok, False)
        self.assertIs(between("x", 19.99, 20.0, 20.5, "").ok, False)

    def test_without_a_value_or_limit_it_is_not_judged(self) -> None:
        self.assertIsNone(at_least("x", None, 24, "").ok)
        self.assertIsNone(at_most("x", 5, None, "").ok)
        self.assertEqual(at_most("x", 5, None, "").verdict, "not judged")

    def test_missed(self) -> None:
        marks = [at_least("a", 1, 2, ""), at_least("b", 2, 2, ""), at_least("c", None, 2, "")]
        self.assertEqual([mark.name for mark in missed(marks)], ["a"])


class ExitStatus(unittest.TestCase):
    def run_with(self, ok: bool | None) -> tuple[int, str]:
        data = result(ok)
        with (
            tempfile.TemporaryDirectory() as folder,
            mock.patch("experiments.framework.runner.run", return_value=data),
            contextlib.redirect_stdout(io.StringIO()) as said,
        ):
            status = cli.main(["run", "redline/fork-bomb-50", "--out", str(Path(folder))])
        return status, said.getvalue()

    def test_met(self) -> None:
        status, said = self.run_with(True)
        self.assertEqual(status, 0)
        self.assertIn("ok", said)

    def test_missed(self) -> None:
        status, said = self.run_with(False)
        self.assertEqual(status, cli.MISSED)
        self.assertIn("MISSED", said)

    def test_not_judged_does_not_fail(self) -> None:
        self.assertEqual(self.run_with(None)[0], 0)

    def test_no_such_experiment(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(cli.main(["run", "redline/nothing"]), cli.FAILED)
        self.assertIn("redline/fork-bomb-50", said.getvalue())
        self.assertNotIn("Traceback", said.getvalue())


if __name__ == "__main__":
    unittest.main()
