"""The scheduler of the stages: order, limits, failures; with real processes where it matters."""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from unittest import mock

from tests.lab.harness import COMPLAINT
from tests.suite import scheduler, stage, stages
from tests.suite.scheduler import Machine, choose
from tests.suite.stage import Stage

TWO = Machine(2, 8000)


def make(name: str, seconds: int = 1, **more: object) -> Stage:
    return Stage(name, name, ("true",), seconds, **more)  # type: ignore[arg-type]


class Choice(unittest.TestCase):
    def test_the_longest_chain_comes_first(self) -> None:
        chain = [make("a", 5), make("b", 20, needs=("a",)), make("c", 15)]
        self.assertEqual(scheduler.path_lengths(chain), {"a": 25, "b": 20, "c": 15})

    def test_no_more_than_there_are_cores(self) -> None:
        self.assertIsNone(choose([make("c")], [make("a"), make("b")], [], TWO))

    def test_needs_come_first(self) -> None:
        waiting = [make("b", needs=("a",)), make("c")]
        chosen = choose(waiting, [], [], TWO)
        self.assertEqual(chosen and chosen.name, "c")
        chosen = choose(waiting, [], ["a"], TWO)
        self.assertEqual(chosen and chosen.name, "b")

    def test_memory_is_not_exceeded_but_a_stage_alone_may_try(self) -> None:
        big = make("big", memory_mb=9000)
        self.assertIsNone(choose([big], [make("a")], [], TWO))
        self.assertEqual(choose([big], [], [], TWO), big)

    def test_real_time_waits_until_nothing_else_is_left(self) -> None:
        alone = make("alone", alone=True)
        other = make("other")
        self.assertEqual(choose([alone, other], [], [], TWO), other)
        self.assertIsNone(choose([alone], [other], [], TWO))
        self.assertIsNone(choose([alone, make("later", needs=("other",))], [other], [], TWO))
        self.assertEqual(choose([alone], [], [], TWO), alone)
        self.assertIsNone(choose([other], [alone], [], TWO))


class Runs(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.folder = Path(place.name)
        for module in (stage, scheduler):
            patch = mock.patch.object(module, "LOGS", self.folder)
            patch.start()
            self.addCleanup(patch.stop)

    def script(self, name: str, text: str, **more: object) -> Stage:
        return Stage(name, name, ("bash", "-c", text), 1, **more)  # type: ignore[arg-type]

    def run_all(self, *all_of_them: Stage) -> dict[str, scheduler.Outcome]:
        outcomes = scheduler.run(all_of_them, TWO, lambda _: None)
        return {outcome.stage.name: outcome for outcome in outcomes}

    def test_two_run_at_once_and_their_output_is_kept(self) -> None:
        began = time.monotonic()
        # Each waits for the other's file: run one after the other, they would not end.
        meet = "echo here; touch {0}; until [ -e {1} ]; do sleep 0.05; done"
        a, b = self.folder / "one", self.folder / "two"
        ended = self.run_all(
            self.script("a", meet.format(a, b), limit_s=20),
            self.script("b", meet.format(b, a), limit_s=20),
        )
        self.assertEqual([outcome.why for outcome in ended.values()], ["", ""])
        self.assertEqual((self.folder / "a.log").read_text(), "here\n")
        self.assertLess(time.monotonic() - began, 20)

    def test_what_needs_a_failed_stage_is_not_run_and_counts_as_failed(self) -> None:
        ended = self.run_all(
            self.script("bad", "exit 3"),
            self.script("child", "true", needs=("bad",)),
            self.script("grandchild", "true", needs=("child",)),
            self.script("good", "true"),
        )
        self.assertEqual(ended["bad"].why, "exit status 3")
        self.assertEqual(ended["child"].why, "not run: it needs bad")
        self.assertEqual(ended["grandchild"].why, "not run: it needs child")
        self.assertEqual(ended["good"].why, "")

    def test_a_stage_without_end_is_ended_with_its_children(self) -> None:
        mark = self.folder / "child"
        ended = self.run_all(self.script("long", f"sleep 600 & echo $! > {mark}; wait", limit_s=1))
        self.assertEqual(ended["long"].why, "not finished after 1 s")
        state = Path(f"/proc/{mark.read_text().strip()}/stat")
        until = time.monotonic() + 10
        while state.exists() and time.monotonic() < until:
            if state.read_text().rsplit(") ", 1)[1][0] == "Z":
                return  # ended; its new parent has not looked yet
            time.sleep(0.05)
        self.assertFalse(state.exists())

    def test_processor_time_of_children_is_counted(self) -> None:
        busy = "import time\nwhile time.process_time() < 0.5: pass"
        ended = self.run_all(self.script("busy", f"{sys.executable} -c '{busy}'; true"))
        self.assertGreaterEqual(ended["busy"].cpu_s, 0.45)


class Counts(unittest.TestCase):
    def test_counts_of_checks(self) -> None:
        self.assertEqual(
            stage.cargo_checks("test result: ok. 7 passed; 0 failed; 0 ignored\n" * 2), 14
        )
        self.assertEqual(stage.unittest_checks("Ran 4 tests in 1.2s\nRan 1 test in 0s\n"), 5)
        self.assertEqual(stage.lab_checks("lab checks: 30\nRan 2 tests in 60s\n"), 32)
        verbose = (
            "test_checks (tests.lab.test_park.Park.test_checks) ... lab checks: 30\n"
            "ok\n"
            "test_kernel_does_not_complain (tests.lab.test_park.Park) ... ok\n\n"
            "Ran 2 tests in 60.123s\n"
        )
        self.assertEqual(stage.lab_checks(verbose), 32)


class Complaints(unittest.TestCase):
    def test_stalls_are_complaints_in_either_case(self) -> None:
        for line in (
            "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:",
            "rcu: INFO: rcu_sched self-detected stall on CPU",
            "INFO: RCU detected expedited stalls",
        ):
            self.assertRegex(line, COMPLAINT)
        self.assertRegex("sched_ext: aplomb: RCU CPU stall on CPUs (1)", COMPLAINT)
        for line in (
            "rcu: Preemptible hierarchical RCU implementation.",
            "RCU CPU stall warnings timeout set to 60 (rcu_cpu_stall_timeout).",
        ):
            self.assertNotRegex(line, COMPLAINT)


class Stages(unittest.TestCase):
    def test_each_has_a_name_of_its_own_and_needs_what_exists(self) -> None:
        known = stages.all_stages()
        names = [each.name for each in known]
        self.assertEqual(len(names), len(set(names)))
        self.assertEqual([n for each in known for n in each.needs if n not in names], [])

    def test_the_full_suite_contains_the_short_one(self) -> None:
        short = {each.name for each in stages.find([], full=False)}
        self.assertLess(short, {each.name for each in stages.find([], full=True)})

    def test_what_a_short_stage_needs_is_no_long_one(self) -> None:
        short = stages.find([], full=False)
        names = {each.name for each in short}
        self.assertEqual([n for each in short for n in each.needs if n not in names], [])

    def test_every_job_of_the_lab_is_a_stage(self) -> None:
        jobs = {file.stem for file in (stage.REPOSITORY / "tests/lab/guest").glob("*.sh")}
        # Sourced by other jobs.
        jobs -= {"lib", "disk_lib", "memory_lib", "net_lib", "net_queues", "tree", "units"} | {
            job for job in jobs if job.startswith("domain_")
        }
        jobs -= {"jobs"}  # runs several
        text = "".join(f.read_text() for f in (stage.REPOSITORY / "tests/lab").glob("test_*.py"))
        named = " ".join(re.findall(r'job = "([\w ]+)"', text)).split()
        self.assertEqual(sorted(jobs.difference(named)), [])

    def test_a_job_that_varies_another_is_a_stage(self) -> None:
        names = {each.name for each in stages.find([], full=True)}
        self.assertLessEqual({"Limits", "LimitsOfMemory"}, names)

    def test_the_command_knows_its_stages(self) -> None:
        words = [sys.executable, str(stage.REPOSITORY / "scripts/test")]
        said = subprocess.run([*words, "--list"], capture_output=True, text=True, check=True)
        self.assertIn("the static binary", said.stdout)
        wrong = subprocess.run([*words, "absent"], capture_output=True, text=True, check=False)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("there is no stage 'absent'", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
