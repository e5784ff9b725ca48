"""Domains in experiments: the arithmetic of shares, the words for the guest, windows, and what the
sweeps make of samples."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import Any

from experiments.framework import experiment
from experiments.framework.containers import JUDGED_FROM, is_sleeper, limited, tree, worst_windows
from experiments.framework.domains import (
    Domain,
    asked,
    divide,
    loops,
    points_off,
    read_samples,
    received,
    step_words,
    windows,
)
from experiments.framework.reservation_domains import beside_onoffs, lines
from experiments.framework.schedulers import ROOT
from experiments.tests.workloads import WithWorkloads


class Arithmetic(unittest.TestCase):
    def test_by_weight(self) -> None:
        self.assertEqual(
            divide(1.0, {"a": 100, "b": 300}, {"a": 9, "b": 9}), {"a": 0.25, "b": 0.75}
        )

    def test_what_one_does_not_want_goes_to_the_others_by_weight(self) -> None:
        shares = divide(1.0, {"a": 100, "b": 100, "c": 200}, {"a": 0.1, "b": 9, "c": 9})
        self.assertAlmostEqual(shares["a"], 0.1)
        self.assertAlmostEqual(shares["b"], 0.3)
        self.assertAlmostEqual(shares["c"], 0.6)

    def test_wants_in_a_chain(self) -> None:
        # b only turns out to want less than its share once a has left some of its own.
        shares = divide(1.0, {"a": 100, "b": 100, "c": 100}, {"a": 0.1, "b": 0.4, "c": 9})
        self.assertEqual(
            {k: round(v, 9) for k, v in shares.items()}, {"a": 0.1, "b": 0.4, "c": 0.5}
        )

    def test_nobody_gets_more_than_he_wants(self) -> None:
        self.assertEqual(divide(2.0, {"a": 1, "b": 1}, {"a": 0.5, "b": 0.0}), {"a": 0.5, "b": 0.0})

    def test_one_thread_of_nine_tenths_gets_one_cpu_of_two(self) -> None:
        domains = [loops("one", 100, 2), loops("other", 900, 1)]
        self.assertEqual(asked(domains, 2), {"one": 1.0, "other": 1.0})
        self.assertEqual(asked(domains, 1), {"one": 0.1, "other": 0.9})

    def test_limits_and_sleepers_in_a_tree(self) -> None:
        domains = [
            Domain("a", limit=0.2),
            loops("a/x"),
            loops("a/y", 300),
            loops("b"),
            Domain("c", ("sleeps",)),
        ]
        shares = asked(domains, 1, {"c": 0.1})
        self.assertEqual(
            {k: round(v, 9) for k, v in shares.items()},
            {"a/x": 0.05, "a/y": 0.15, "b": 0.7, "c": 0.1},
        )

    def test_domains_above_are_made_with_the_default_weight(self) -> None:
        self.assertEqual(asked([loops("a/b/c"), loops("d", 300)], 1), {"a/b/c": 0.25, "d": 0.75})

    def test_the_tree_of_containers_asks_for_all_there_is(self) -> None:
        for cpus in (1, 2):
            domains = tree(cpus)
            shares = asked(
                domains, cpus, {d.path: 0.001 for d in domains if d.program and not d.threads}
            )
            self.assertAlmostEqual(sum(shares.values()), cpus)
            for number, limit in enumerate(
                (0.02, 0.04, 0.06, 0.08)
            ):  # the limit counts, not the weight
                self.assertAlmostEqual(shares[f"machine.slice/l{number}/payload"], limit * cpus)
            self.assertGreaterEqual(sum(s >= JUDGED_FROM * cpus for s in shares.values()), 12)
            self.assertEqual(sum(map(is_sleeper, shares)), 34)


class Words(unittest.TestCase):
    def test_a_step(self) -> None:
        words = step_words(
            [
                Domain("a", weight=200, limit=0.25),
                Domain("a/b", ("/job/inf", "1"), keys=("wait=1",)),
            ],
            1.5,
            100,
            20,
        )
        self.assertEqual(
            words,
            [
                "domains",
                "1.5",
                "100",
                "20",
                "-",
                "--",
                "a,weight=200,max=25000/100000",
                "--",
                "a/b,wait=1",
                "/job/inf",
                "1",
            ],
        )
        self.assertEqual(step_words([], 1, 100, 0, disk_us=5000)[:3], ["on_disk", "5000", "1"])

    def test_policies_and_reservations_are_only_named_where_there_are_any(self) -> None:
        plain, mtr = beside_onoffs(["x"], 2, "plain"), beside_onoffs(["x"], 2, "mtr", 15)
        self.assertEqual(
            [d.words()[0] for d in plain],
            ["eclipse", "eclipse/subject,wait=1", "eclipse/o0", "eclipse/o1"],
        )
        self.assertEqual(
            [d.words()[0] for d in mtr][:2],
            ["eclipse,policy=mtr,cpu=95%", "eclipse/subject,wait=1,cpu=15%"],
        )

    def test_limits_are_at_the_depth_that_is_said(self) -> None:
        for depth in (1, 4, 16):
            domain = limited(f"limit-{depth}", 1)[0]
            self.assertEqual(len(domain.path.split("/")), depth)
            self.assertEqual(domain.limit, 0.2)
        above, program, _ = limited("limit-above", 2)
        self.assertEqual(
            (above.path, above.limit, len(program.path.split("/")), program.limit),
            ("d1", 0.4, 16, None),
        )

    def test_the_guests_part_is_a_script(self) -> None:
        for file in (
            "harness.sh",
            "domains.sh",
            "memory.sh",
            "disk.sh",
            "link.sh",
            "masks.sh",
            "reserves.sh",
            "job",
            "enter",
        ):
            subprocess.run(["bash", "-n", ROOT / "experiments" / "guest" / file], check=True)


class Samples(unittest.TestCase):
    def test_windows(self) -> None:
        at = [0.5 * i for i in range(7)]
        self.assertEqual(windows(at, [0, 1, 2, 3, 6, 7, 8], 1.0, 1.0), [2, 4, 2])
        self.assertEqual(windows(at, [0, 1, 2, 3, 6, 7, 8], 1.0, 0.5), [2, 2, 4, 4, 2])

    def test_a_limit_that_holds_in_every_period_is_kept_from_wherever_periods_begin(self) -> None:
        # 20 ms in each 100 ms, the first of each period, sampled every 20 ms from the middle of
        # one.
        cpu, used = [0.0], 0.0
        for i in range(150):
            used += 0.02 if i % 5 == 2 else 0.0
            cpu.append(round(used, 6))
        at = [0.02 * i for i in range(151)]
        self.assertEqual(worst_windows(at, cpu, 0.2, 0.1), {"aligned": 0.0, "any": 0.0})
        late = cpu[:]
        late[100:] = [value + 0.02 for value in late[100:]]  # a period too many
        self.assertAlmostEqual(worst_windows(at, late, 0.2, 0.1)["aligned"], 10.0)

    def test_read_and_received(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            (Path(name) / "samples.json").write_text(
                json.dumps(
                    {
                        "late_us": 3,
                        "at_ns": [10**9, 2 * 10**9],
                        "domains": {
                            "/sys/fs/cgroup/a": {
                                "processes": 1,
                                "cpu_ns": [5, 250_000_005],
                                "turns": [7, 10],
                            },
                            "/sys/fs/cgroup/b/c": {
                                "processes": 1,
                                "cpu_ns": [0, 750_000_000],
                                "turns": [0, 0],
                            },
                        },
                    }
                )
            )
            sample = read_samples(Path(name))
        self.assertEqual(received(sample), {"a": 0.25, "b/c": 0.75})
        self.assertEqual(sample["domains"]["a"]["turns"], [0, 3])
        self.assertAlmostEqual(points_off(0.25, 0.2), 25)

    def test_sweeps_are_in_order_of_number(self) -> None:
        found = lines({"aplomb": {"mtr-8": 8, "mtr-0": 0, "mtr-reserved-20": 20, "mtr-20": 2}})
        self.assertEqual(
            found,
            [("aplomb", "mtr", [(0, 0), (8, 8), (20, 2)]), ("aplomb", "mtr-reserved", [(20, 20)])],
        )

    def test_the_smallest_reservation(self) -> None:
        smallest = experiment.load("eclipse/mpeg-reservation").judge.__globals__["smallest"]
        points = [(p, {"underflows": u}) for p, u in ((0, 9), (5, 0), (10, 2), (15, 0), (20, 0))]
        self.assertEqual(smallest(points), 15)  # 5 was luck
        self.assertIsNone(smallest([(p, {"underflows": 1}) for p in (0, 60)]))

    def test_weights_stand_for_reservations(self) -> None:
        weight_for = experiment.load("eclipse/mpeg-reservation").judge.__globals__["weight_for"]
        self.assertEqual(weight_for(0), 100)
        for percent in (15, 60):
            weight = weight_for(percent)
            self.assertAlmostEqual(
                weight / (weight + 800), percent / 100 + (1 - percent / 100) / 9, places=3
            )


@unittest.skipUnless(shutil.which("gcc") or shutil.which("cc"), "no compiler")
class Programs(WithWorkloads):
    """The sampler needs no cgroup: any folder with cgroup.procs will do."""

    def test_sampler_reads_clocks_and_counters(self) -> None:
        progress = self.path("progress")
        with subprocess.Popen([self.path("inf"), "1", progress]) as process:
            try:
                while not progress.exists() or progress.stat().st_size == 0:
                    pass
                children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
                while not children.read_text():
                    pass
                self.path("d").mkdir()
                (self.path("d") / "cgroup.procs").write_text(
                    f"{process.pid}\n{children.read_text().split()[0]}\n"
                )
                done = subprocess.run(
                    [self.path("sampler"), "50", "10", f"{self.path('d')}={progress}"],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=True,
                )
            finally:
                process.kill()
        data = json.loads(done.stdout)
        found = data["domains"][str(self.path("d"))]
        self.assertEqual(
            (found["processes"], len(data["at_ns"]), len(found["cpu_ns"])), (2, 11, 11)
        )
        for values in (data["at_ns"], found["cpu_ns"], found["turns"]):
            self.assertEqual(values, sorted(values))
            self.assertGreater(values[-1], values[0])
        self.assertLessEqual(
            found["cpu_ns"][-1] - found["cpu_ns"][0],
            data["at_ns"][-1] - data["at_ns"][0] + 20_000_000,
        )

    def output(self, name: str, *words: object) -> Any:
        done = subprocess.run(
            [self.path(name), *map(str, words)],
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
        return json.loads(done.stdout)

    def test_sleeper(self) -> None:
        m = self.output("sleeper", 500, 5000, 1)
        self.assertGreaterEqual(m["sleeps"], 2)
        self.assertLessEqual(m["sleeps"], 182)  # each takes 5.5 ms at least
        self.assertLessEqual(0, m["delay_us"]["mean"])
        self.assertLessEqual(m["delay_us"]["mean"], m["delay_us"]["max"])

    def test_micro(self) -> None:
        for words in (("syscall", 1000), ("fork", 20), ("exec", 20, "/bin/true"), ("udp", 100)):
            with self.subTest(words):
                self.assertGreater(self.output("micro", *words)["ns"], 0)
        m = self.output("micro", "files", 50, self.folder.name)
        self.assertTrue(m["create_ns"] > 0 and m["delete_ns"] > 0)
        self.assertFalse(list(Path(self.folder.name).glob("f[0-9]*")))
        self.assertIn("ns", self.output("micro", "context", 200, 4, 16))

    def test_wrong_arguments_and_failures_are_told(self) -> None:
        for words in (
            ("inf", "0"),
            ("sampler", "1", "1"),
            ("sleeper", "1"),
            ("ioloop", "/dev/null", "1", "1"),
            ("card",),
            ("micro", "context", "10"),
            ("micro", "exec", "10", "/nonexistent"),
            ("sampler", "1", "1", "/nonexistent"),
        ):
            with self.subTest(words):
                done = subprocess.run(
                    [self.path(words[0]), *words[1:]],
                    capture_output=True,
                    text=True,
                    timeout=60,
                    check=False,
                )
                self.assertIn(done.returncode, (1, 2))
                self.assertTrue(done.stderr)


if __name__ == "__main__":
    unittest.main()
