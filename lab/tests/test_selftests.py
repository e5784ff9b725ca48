"""The kernel's selftests: their output is read, and results that differ are judged."""

import unittest

from aplomb_lab.selftests import parse_results, problems, steady, table, usual

OUTPUT = """TAP version 13
1..5
ok 1 test_one
not ok 2 test_two
ok 3 # SKIP test_three
# a line of the test's own
ok 4 # XFAIL test_four
# Totals: pass:1 fail:1 xfail:1 xpass:0 skip:1 error:0
"""


class SelftestsTest(unittest.TestCase):
    def test_output_is_read(self) -> None:
        self.assertEqual(
            parse_results("t", OUTPUT),
            {
                ("t", "test_one"): "pass",
                ("t", "test_two"): "fail",
                ("t", "test_three"): "skip",
                ("t", "test_four"): "xfail",
            },
        )

    def test_what_passes_under_stock_must_pass(self) -> None:
        stock = {("t", "a"): "pass", ("t", "b"): "fail", ("t", "c"): "pass", ("t", "d"): "pass"}
        ours = {("t", "a"): "pass", ("t", "b"): "fail", ("t", "c"): "fail"}
        self.assertEqual(
            problems(stock, ours, ()),
            [
                "t/c: pass under stock, fail under aplomb",
                "t/d: pass under stock, none under aplomb",
            ],
        )

    def test_a_test_that_must_pass(self) -> None:
        stock, ours = {("t", "b"): "fail", ("t", "s"): "skip"}, {("t", "b"): "fail"}
        self.assertEqual(
            problems(stock, ours, ("t",)), ["t/b: fail under aplomb (under stock: fail)"]
        )
        self.assertEqual(problems(stock, {("t", "b"): "pass", ("t", "s"): "skip"}, ("t",)), [])

    def test_the_verdict_of_most_rounds_counts(self) -> None:
        first = {("t", "a"): "fail", ("t", "b"): "fail", ("u", "c"): "pass"}
        again = [{("t", "a"): "pass", ("t", "b"): "fail"}, {("t", "a"): "pass", ("t", "b"): "pass"}]
        self.assertEqual(
            usual([first, *again]),
            {("t", "a"): "pass", ("t", "b"): "fail", ("u", "c"): "pass"},
        )
        self.assertEqual(usual([first]), first)

    def test_a_case_that_failed_under_stock_does_not_pass_there(self) -> None:
        first = {("t", "a"): "pass", ("t", "b"): "pass"}
        again = {("t", "a"): "pass", ("t", "b"): "fail"}
        stock = steady([first, again])
        self.assertEqual(stock, {("t", "a"): "pass", ("t", "b"): "mixed"})
        ours = {("t", "a"): "fail", ("t", "b"): "fail"}
        self.assertEqual(problems(stock, ours, ()), ["t/a: pass under stock, fail under aplomb"])

    def test_table(self) -> None:
        text = table(2, {("t", "a"): "pass"}, {("t", "a"): "fail"})
        self.assertIn("t     a     pass   fail", text)
        self.assertIn("stock: 1 pass, 0 fail, 0 skip", text)


if __name__ == "__main__":
    unittest.main()
