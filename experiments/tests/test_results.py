"""Result files, tables, the report and the pictures, from made-up data."""

from __future__ import annotations

import copy
import json
import tempfile
import unittest
from pathlib import Path

from experiments.framework import experiment, results
from experiments.framework.errors import ExperimentError
from experiments.framework.report import build_page, mark_in_words, write_report
from experiments.framework.runner import choose, draw
from experiments.framework.table import render, render_marks
from experiments.tests.fixture import result


class Json(unittest.TestCase):
    def test_written_and_read_again(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = results.write(result(), Path(name))
            self.assertEqual(results.read(path), result())
            self.assertEqual([p.name for p in path.parent.iterdir()], ["fork-bomb-50.json"])

    def test_each_field_is_needed(self) -> None:
        for field in result():
            data = result()
            del data[field]
            with self.subTest(field), self.assertRaisesRegex(ExperimentError, f"'{field}'"):
                results.validate(data, "here")

    def test_each_field_of_a_mark_is_needed_and_typed(self) -> None:
        for field in ("name", "value", "unit", "limit", "ok"):
            data = copy.deepcopy(result())
            del data["marks"][0][field]
            with (
                self.subTest(field),
                self.assertRaisesRegex(ExperimentError, rf"marks\[0\].*'{field}'"),
            ):
                results.validate(data, "here")
        data = result()
        data["marks"][0]["ok"] = "yes"
        with self.assertRaises(ExperimentError):
            results.validate(data, "here")

    def test_a_broken_file_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            path = Path(name) / "x.json"
            path.write_text("{")
            with self.assertRaisesRegex(ExperimentError, "x.json"):
                results.read(path)


class Tables(unittest.TestCase):
    def test_columns_are_aligned(self) -> None:
        lines = render(["name", "n"], [["a", 1], ["longer", 1234]]).splitlines()
        self.assertEqual(lines, ["name       n", "------  ----", "a          1", "longer  1234"])

    def test_missing_values_and_wrong_rows(self) -> None:
        self.assertIn("-", render(["a"], [[None]]).splitlines()[-1])
        with self.assertRaises(ValueError):
            render(["a", "b"], [[1]])

    def test_no_marks(self) -> None:
        self.assertIn("no marks", render_marks([]))


class Report(unittest.TestCase):
    def test_page_has_everything_and_escapes_it(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            data = result(False)
            results.write(data, folder)
            draw(experiment.load("redline/fork-bomb-50"), data["samples"], folder)
            text = write_report(folder).read_text()
        self.assertIn("<svg", text)
        self.assertNotIn("<?xml", text)
        self.assertIn("A movie &amp; a bomb", text)
        self.assertIn("light &lt;clip&gt;", text)
        self.assertIn("0 marks met, 1 missed", text)
        self.assertNotIn('src="http', text)

    def test_no_results(self) -> None:
        with (
            tempfile.TemporaryDirectory() as name,
            self.assertRaisesRegex(ExperimentError, "no results"),
        ):
            write_report(Path(name))

    def test_words(self) -> None:
        self.assertIn("missed", mark_in_words(result(False)["marks"][0]))
        self.assertIn("met", mark_in_words(result(True)["marks"][0]))
        self.assertIn("not judged", mark_in_words(result(None)["marks"][0]))

    def test_committed_results_are_valid(self) -> None:
        files = [
            file for paper in experiment.PAPERS for file in (results.RESULTS / paper).glob("*.json")
        ]
        build_page([(results.read(file), file.with_suffix(".svg")) for file in files])
        for file in files:
            self.assertTrue(file.with_suffix(".svg").exists(), file)
            self.assertFalse(
                json.loads(file.read_text())["quick"], f"{file}: a quick run is no result"
            )


class Experiments(unittest.TestCase):
    def test_every_experiment_declares_distinct_steps_with_known_profiles(self) -> None:
        from experiments.framework.schedulers import all_schedulers

        self.assertGreaterEqual(len(experiment.names()), 8)
        for name in experiment.names():
            each = experiment.load(name)
            if isinstance(each, experiment.Study):
                continue
            for quick in (True, False):
                for scheduler in each.schedulers:
                    steps = each.steps(all_schedulers()[scheduler], quick)
                    with self.subTest(name, quick=quick, scheduler=scheduler):
                        self.assertTrue(steps)
                        self.assertEqual(len({step.name for step in steps}), len(steps))
                        for step in steps:
                            self.assertIn(step.profile, {"shipped", "off", *each.profiles})
                            self.assertTrue(all(isinstance(word, str) for word in step.words))

    def test_a_scheduler_that_is_not_there(self) -> None:
        with self.assertRaisesRegex(ExperimentError, "no scheduler 'cfs'"):
            choose(experiment.load_lab("redline/fork-bomb-50"), ["cfs"], False)

    def test_two_runs_draw_the_same_bytes(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            each = experiment.load("redline/fork-bomb-50")
            pictures = [
                draw(each, result()["samples"], Path(name) / sub).read_bytes() for sub in "ab"
            ]
        self.assertEqual(*pictures)


if __name__ == "__main__":
    unittest.main()
