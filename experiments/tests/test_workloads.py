"""The workloads on this machine: they run, say what they measured as JSON, and refuse wrong
arguments."""

from __future__ import annotations

import itertools
import json
import os
import signal
import struct
import subprocess
import time
import unittest
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from experiments.tests.workloads import WithWorkloads


def children(pid: int) -> list[int]:
    return [
        int(word)
        for path in Path(f"/proc/{pid}/task").glob("*/children")
        for word in path.read_text().split()
    ]


def sessions_of(pids: Iterable[int]) -> set[str]:
    return {Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[3] for pid in pids}


class Workloads(WithWorkloads):
    def output(self, name: str, *words: object) -> Any:
        done = subprocess.run(
            [self.path(name), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return json.loads(done.stdout)

    def test_periodic_counts_every_period(self) -> None:
        m = self.output("periodic", 100, 5000, 40)
        self.assertEqual(m["jobs"] + m["skipped"], m["periods"])
        self.assertEqual(sum(m["wakeup_us"]["below_us"].values()), m["jobs"])
        self.assertLessEqual(m["wakeup_us"]["p50"], m["wakeup_us"]["max"])
        self.assertGreaterEqual(m["response_us"]["max"], 100)

    def test_periodic_that_cannot_keep_up_misses(self) -> None:
        # Two tasks of 100 % on one CPU: each can finish at most about half of its jobs.
        words = ["taskset", "-c", "0", str(self.path("periodic")), "10000", "10000", "30"]
        with subprocess.Popen(words, stdout=subprocess.DEVNULL):
            done = subprocess.run(words, capture_output=True, text=True, check=True)
        m = json.loads(done.stdout)
        self.assertGreaterEqual(m["misses"], 10)
        self.assertEqual(m["misses"], m["late"] + m["skipped"])

    def test_over_tells_its_share(self) -> None:
        m = self.output("periodic", 100, 10000, 30, "over")
        self.assertAlmostEqual(m["wall_s"], 0.3, delta=0.2)
        self.assertTrue(0 < m["share_percent"] <= 100.5)

    def test_pingpong_and_ring(self) -> None:
        self.assertGreater(self.output("pingpong", 2000)["ns_per_switch"], 0)
        m = self.output("ctxring", 5, 1000, 1)
        self.assertEqual(m["switches"], 1000)
        self.assertAlmostEqual(m["ns_per_hop"] - m["overhead_ns"], m["ns_per_switch"], delta=0.2)

    def test_busyloops(self) -> None:
        self.assertEqual(self.output("busyloops", 4, 1000000)["loops"], 1000000)

    def trace(self, *costs: int) -> Path:
        path = self.path("trace.csv")
        path.write_text(
            "# a comment " + "long " * 500 + "\n" + "".join(f"{cost}\n" for cost in costs)
        )
        return path

    def test_player_shows_every_frame_or_says_which_it_lost(self) -> None:
        m = self.output("player", self.trace(1_000_000, 3_000_000), 100, 41667, 1, 2)
        self.assertEqual(m["shown"] + m["lost"], m["due"])
        self.assertEqual(m["due"], 47)
        self.assertEqual(len(m["frames_per_second"]), 2)
        self.assertAlmostEqual(m["cpu_s"], m["shown"] * 0.002, delta=0.03)

    def test_player_that_cannot_keep_up_drops_frames(self) -> None:
        m = self.output("player", self.trace(30_000_000), 300, 41667, 0, 2)
        self.assertGreater(m["lost"], 5)  # 90 ms a frame: every second one at most is shown
        self.assertLessEqual(m["shown"], m["due"] * 0.6)
        self.assertEqual(m["shown"] + m["lost"], m["due"])
        self.assertGreater(m["longest_gap_ms"], 80)

    def test_record_takes_the_time_of_each_frame(self) -> None:
        # A frame of some 20 ms, one of next to nothing, and lines that are no frames.
        script = (
            "echo Playing; t=0; while [ $t -lt 20000 ]; do t=$((t + 1)); done; "
            "printf 'V: 1\\rV: 2\\n'; echo other; printf 'V: 3\\r'"
        )
        file = self.path("frames")
        done = subprocess.run(
            ["taskset", "-c", "0", self.path("record"), file, "sh", "-c", script],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if "sched_setscheduler" in done.stderr:
            self.skipTest("no right to real-time priority here")
        self.assertEqual(done.returncode, 0, done.stderr)
        stamps = [tuple(map(int, line.split())) for line in file.read_text().splitlines()]
        self.assertEqual(len(stamps), 3)
        self.assertEqual(stamps, sorted(stamps))
        self.assertGreater(stamps[0][1], 3_000_000)
        self.assertLess(stamps[2][1] - stamps[0][1], stamps[0][1])

    def test_soak_counts_turns_at_a_known_rate(self) -> None:
        file = self.path("soaked")
        with subprocess.Popen([self.path("soak"), file]) as process:
            try:  # soak runs at the lowest priority: on a busy machine this takes long
                deadline = time.monotonic() + 60
                while (
                    not file.exists()
                    or len(file.read_bytes()) < 16
                    or struct.unpack_from("q", file.read_bytes(), 8)[0] < 2
                ) and time.monotonic() < deadline:
                    time.sleep(0.2)
            finally:
                process.kill()
        data = file.read_bytes()
        million, count = struct.unpack_from("qq", data)
        stamps = [struct.unpack_from("qq", data, 16 * (i + 1)) for i in range(count)]
        self.assertGreater(million, 100_000)
        self.assertGreaterEqual(count, 2)
        for (t0, n0), (t1, n1) in itertools.pairwise(stamps):
            self.assertGreaterEqual(t1 - t0, 1e9)
            self.assertGreaterEqual(n1, n0)
            self.assertLess(
                (n1 - n0) * million / 1e6, 2 * (t1 - t0)
            )  # no more than time has passed, roughly

    def test_bomb_ends_itself(self) -> None:
        m = self.output("bomb", 3, 1)
        self.assertEqual(m["tasks"], 3)
        self.assertGreaterEqual(m["gone_after_s"], 1)

    def test_membomb_counts_the_pages_of_each_second(self) -> None:
        m = self.output("membomb", 2, 4, 2)
        self.assertEqual((m["bombs"], m["mb"], len(m["pages_each_second"])), (2, 4, 2))
        self.assertGreater(m["pages"], 2 * 1024)  # each bomb's pages at least once
        self.assertLessEqual(sum(m["pages_each_second"]), m["pages"])
        self.assertGreaterEqual(m["gone_after_s"], 2)
        # Both bombs have 4 MB, and the pages that their code needs.
        self.assertTrue(all(8 <= mb < 16 for mb in m["resident_mb"]), m)

    def test_membomb_ends_at_a_signal_and_still_says_what_it_did(self) -> None:
        words = [str(self.path("membomb")), "2", "4", "1000"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + 10
            while len(children(process.pid)) < 2 and time.monotonic() < deadline:
                time.sleep(0.02)
            process.terminate()
            printed, _ = process.communicate(timeout=60)
        self.assertLess(json.loads(printed)["gone_after_s"], 100)

    def test_editor_tells_each_return_and_its_parts(self) -> None:
        document, library = self.path("document"), self.path("library")
        document.write_bytes(bytes(1 << 20))
        library.write_bytes(bytes(1 << 20))
        library.chmod(0o755)
        words = ["4", "0", "3", f"document={document}", f"library={library}"]
        done = subprocess.run(
            [self.path("editor"), *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        returns = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(len(returns), 3)
        for each in returns:
            self.assertEqual(list(each["parts_ms"]), ["program", "memory", "document", "library"])
            self.assertGreaterEqual(each["ms"], sum(each["parts_ms"].values()) - 0.01)
            self.assertLessEqual(sum(each["faults_of"].values()), each["major_faults"])

    def received(self, receiver: list[str], sender: list[str]) -> Any:
        """What a receiver says, that ends by itself, of a sender that begins after it."""
        with (
            subprocess.Popen(
                [self.path(receiver[0]), *receiver[1:]], stdout=subprocess.PIPE, text=True
            ) as receives,
            # A sender ends with an error until there is a receiver.
            subprocess.Popen(
                ["sh", "-c", 'until "$@" 2> /dev/null; do sleep 0.1; done', "-"]
                + [str(self.path(sender[0])), *sender[1:]],
                start_new_session=True,
            ) as sends,
        ):
            printed, _ = receives.communicate(timeout=60)
            os.killpg(sends.pid, signal.SIGKILL)
        return json.loads(printed)

    def test_a_web_servers_answers_are_counted_whole(self) -> None:
        m = self.received(
            ["requests", "receive", "18431", "1500", "200"],
            ["requests", "send", "127.0.0.1", "18431", "4000", "200"],
        )
        # 300 on average; the bytes of those that are cut off at both ends are counted, too.
        self.assertTrue(100 <= m["answers"] <= 500, m)
        self.assertGreater(m["bytes"], 16 * m["answers"])
        self.assertTrue(0 <= m["median_us"] <= m["p95_us"] <= m["most_us"], m)

    def test_a_film_is_sent_in_whole_rounds(self) -> None:
        film = self.path("film")
        film.write_bytes(bytes(512 << 10))  # two rounds, then from the beginning
        m = self.received(
            ["datagrams", "receive", "18432", "3000", "0"],
            ["stream", str(film), "127.0.0.1", "18432"],
        )
        self.assertEqual((m["packets"] % 128, m["lost"]), (0, 0), m)
        self.assertEqual(m["bytes"], 1472 * m["packets"])
        self.assertGreater(m["packets"], 0)

    def test_loads_end_with_their_parent_and_may_have_sessions(self) -> None:
        for words in (["hog", "3"], ["onoff", "1000", "1000", "3"]):
            for flag, sessions in (([], 1), (["--sessions"], 3)):
                process = subprocess.Popen([self.path(words[0]), *words[1:], *flag])
                try:
                    deadline = time.monotonic() + 10
                    while len(children(process.pid)) < 3 and time.monotonic() < deadline:
                        time.sleep(0.02)
                    pids = children(process.pid)
                    self.assertEqual(len(pids), 3)
                    while (
                        len(found := sessions_of(pids)) != sessions and time.monotonic() < deadline
                    ):
                        time.sleep(0.02)
                    self.assertEqual(len(found), sessions)
                finally:
                    process.kill()
                    process.wait()
                deadline = time.monotonic() + 10
                alive = pids
                while alive and time.monotonic() < deadline:
                    alive = [
                        pid
                        for pid in pids
                        if Path(f"/proc/{pid}").exists()
                        and Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
                        not in "ZX"
                    ]
                    time.sleep(0.02)
                self.assertEqual(alive, [])

    def test_wrong_arguments(self) -> None:
        for words in (
            ["hog"],
            ["hog", "0"],
            ["hog", "x"],
            ["onoff", "1", "2"],
            ["bomb", "-1", "1"],
            ["pingpong"],
            ["ctxring", "1", "10"],
            ["periodic", "20", "10", "1"],
            ["busyloops", "5", "1"],
            ["membomb", "1", "1"],
            ["membomb", "1", "0", "1"],
            ["requests", "send", "127.0.0.1", "1", "9838"],
            ["requests", "send", "127.0.0.1", "1", "9838", "0"],
            ["requests", "receive", "0", "1", "0"],
            ["stream", "/dev/zero", "127.0.0.1"],
            ["editor", "1", "0"],
            ["editor", "1", "0", "1", "/dev/null"],
        ):
            done = subprocess.run(
                [self.path(words[0]), *words[1:]],
                capture_output=True,
                text=True,
                timeout=10,
                check=False,
            )
            self.assertEqual(done.returncode, 2, words)
            self.assertTrue(done.stderr, words)


if __name__ == "__main__":
    unittest.main()
