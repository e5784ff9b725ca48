"""The workloads of the experiments of memory, on this machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import unittest
from pathlib import Path
from typing import Any

from experiments.tests.test_workloads import children
from experiments.tests.workloads import WithWorkloads

MB = 1 << 20


class MemoryWorkloads(WithWorkloads):
    def file(self, megabytes: int) -> Path:
        path = self.path("data")
        path.write_bytes(bytes(megabytes * MB))
        return path

    def lines(self, name: str, *words: object) -> list[Any]:
        done = subprocess.run(
            [self.path(name), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_mapped_accounts_for_each_period(self) -> None:
        seconds = self.lines("mapped", self.file(3), 1, 20, 0, 60)
        self.assertEqual(sum(each["periods"] for each in seconds), 60)
        for each in seconds:
            self.assertLessEqual(each["missed"], each["periods"])
            self.assertGreaterEqual(each["major_faults"], 0)

    def test_mapped_does_not_count_its_first_seconds(self) -> None:
        began = time.monotonic()
        seconds = self.lines("mapped", self.file(1), 1, 20, 1, 10)
        self.assertGreaterEqual(time.monotonic() - began, 1)
        self.assertEqual(sum(each["periods"] for each in seconds), 10)

    def test_mapped_that_stands_still_misses_periods(self) -> None:
        words: list[str | Path] = [self.path("mapped"), self.file(1), "1", "20", "0", "40"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            time.sleep(0.2)
            process.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            process.send_signal(signal.SIGCONT)
            printed, _ = process.communicate(timeout=60)
        seconds = [json.loads(line) for line in printed.splitlines()]
        self.assertEqual(sum(each["periods"] for each in seconds), 40)
        # It was stopped in its sleep, or (rarely) before it had begun.
        self.assertGreater(sum(each["missed"] for each in seconds), 10)

    def test_reread_says_how_much_when_it_is_ended(self) -> None:
        words = [self.path("reread"), self.file(2)]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            time.sleep(0.5)
            process.terminate()
            printed, _ = process.communicate(timeout=60)
        self.assertGreaterEqual(json.loads(printed)["reread_mb"], 2)

    def test_membomb_starts_a_child_anew_that_was_killed(self) -> None:
        words = [str(self.path("membomb")), "2", "1", "1000", "--again"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            first = self.two_children(process.pid, [])
            os.kill(first[0], signal.SIGKILL)
            second = self.two_children(process.pid, first[:1])
            process.terminate()
            printed, _ = process.communicate(timeout=60)
        self.assertIn(first[1], second)
        self.assertEqual(json.loads(printed)["killed"], 1)

    def two_children(self, pid: int, without: list[int]) -> list[int]:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            found = children(pid)
            if len(found) == 2 and not set(without) & set(found):
                return found
            time.sleep(0.02)
        self.fail("there are no two children")

    def test_micro_faults(self) -> None:
        for words in (("fault", 100, self.file(1)), ("touch", 1000, 1)):
            with self.subTest(words):
                (found,) = self.lines("micro", *words)
                self.assertGreater(found["ns"], 0)

    def test_wrong_arguments(self) -> None:
        for words, status in (
            (["mapped", "/dev/null", "1"], 2),
            (["mapped", "/dev/null", "1", "20", "0", "1"], 1),  # it has less than 1 MB
            (["mapped", "/nonexistent", "1", "20", "0", "1"], 1),
            (["reread"], 2),
            (["reread", "/nonexistent"], 1),
            (["micro", "fault", "10", "/dev/null"], 1),
            (["micro", "touch", "10", "0"], 2),
        ):
            with self.subTest(words):
                done = subprocess.run(
                    [self.path(words[0]), *words[1:]],
                    capture_output=True,
                    timeout=10,
                    check=False,
                )
                self.assertEqual(done.returncode, status)


if __name__ == "__main__":
    unittest.main()
